"""`tradewright run` and `replan`: check what was asked, start the server if need be, run, and show the outcome."""

import datetime as dt
import json
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from blocks.clock import wall
from blocks.errors import PlanError, TradewrightError, UnusableInput
from blocks.ledger import Ledger
from blocks.mandate import Mandate, read_mandate
from blocks.places import home
from deployments import server
from deployments.server import Server
from flows.asked import Asked, refuse_what_is_not_there
from tasks.outcome import GOOD, Outcome
from tasks.revisions import check_claimable, newest_revision

if TYPE_CHECKING:
    from deployments.run import Ran


_DATE = re.compile(r"\d{4}-\d\d-\d\d(?P<time>[T ].+)?", re.ASCII)


def run(asked: Asked, as_of: str | None, *, as_json: bool) -> int:
    """Carry out one rebalance, as of a moment that is still to be read. Raises UnusableInput before anything starts."""
    path = Path(asked.mandate)
    wanted, moment = _usable(path, as_of, asked)
    place = _ready(as_json=as_json)
    from deployments.run import run_rebalance  # noqa: PLC0415

    parameters = asdict(replace(asked, mandate=str(path.absolute()), as_of=moment))
    return _shown(run_rebalance(path, wanted, home(), parameters), place, as_json=as_json)


def replan(plan: str, cause: str, *, as_json: bool) -> int:
    """Replace a plan's newest revision, whose results no longer hold, by the next. Exit 1 where there is no need."""
    ledger = Ledger(home() / "ledger.db", wall)
    try:
        revision = newest_revision(ledger, plan)
        check_claimable(ledger, plan, revision, wall())
    except PlanError as error:
        raise UnusableInput(str(error)) from error
    place = _ready(as_json=as_json)
    from deployments.run import run_replan  # noqa: PLC0415

    return _shown(run_replan(home(), plan, revision, cause), place, as_json=as_json)


def _ready(*, as_json: bool) -> Server:
    """Start the server if none is configured, load Prefect quietly, and show our own progress."""
    say = _say if as_json or not sys.stderr.isatty() else _say_dimly
    place = server.ensure(home(), say)
    silent = {"PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL"}
    os.environ.update(
        server.environment(home(), place) | silent
    )  # before Prefect is imported: it reads its settings then
    say("loading Prefect")
    from deployments.run import show_progress  # noqa: PLC0415

    show_progress(say)
    return place


def _shown(ran: "Ran", place: Server, *, as_json: bool) -> int:
    if ran.outcome is None:
        raise TradewrightError(f"the run left no outcome: {ran.said}; `tradewright status` says what the ledger knows")
    url = f"{place.ui_url}/runs/flow-run/{ran.outcome.run}"
    if as_json:
        print(json.dumps(ran.outcome.for_machines(url)))
    else:
        _show(ran.outcome, url, worker=ran.worker, ours=place.process is not None)
    return 0 if ran.outcome.state in GOOD else 1


def _usable(path: Path, as_of: str | None, asked: Asked) -> tuple[Mandate, dt.datetime | None]:
    """Return the mandate and the moment asked for, checked: a fault should not cost the start of a server."""
    past = moment(as_of)
    wanted = read_mandate(path)
    from flows.world import moment_of, open_world, refuse_to_trade_the_past  # noqa: PLC0415

    world = open_world(home())
    refuse_what_is_not_there(asked, wanted, world.ledger, wall())
    start = moment_of(world, wanted, past, wall())
    if past and not asked.dry_run:
        refuse_to_trade_the_past(world, wanted, asked.broker, start)
    return wanted, None if past is None else start


def moment(text: str | None) -> dt.date | dt.datetime | None:
    """Read what --as-of says: a date, or a moment with its offset from UTC. Raises UnusableInput."""
    if text is None:
        return None
    wrong = UnusableInput(
        f"--as-of {text!r}: should be a session such as 2020-03-16, or a moment such as 2020-03-16T20:01:00Z"
    )
    written = _DATE.fullmatch(text)
    if written is None:
        raise wrong
    try:
        if not written["time"]:
            return dt.date.fromisoformat(text)
        read = dt.datetime.fromisoformat(text)
    except ValueError:
        raise wrong from None
    if read.tzinfo is None:
        raise UnusableInput(f"--as-of {text!r}: should name its offset from UTC, such as {text}Z")
    try:
        return read.astimezone(dt.UTC)
    except OverflowError:
        raise UnusableInput(f"--as-of {text!r}: should lie in the years 1 to 9999") from None


def _show(outcome: Outcome, url: str, *, worker: bool, ours: bool) -> None:
    from rich.console import Console  # noqa: PLC0415

    from tasks.terminal import summary  # noqa: PLC0415

    console = Console()
    summary(outcome, console)
    print(f"\nin the Prefect UI: {url}")
    print("\n".join(_what_next(outcome, worker=worker, ours=ours)))


def _what_next(outcome: Outcome, *, worker: bool, ours: bool) -> Iterator[str]:
    if outcome.state == "waiting":
        yield f"approve or refuse there, or with `tradewright approve {outcome.run}` (or `refuse`)"
    if outcome.state == "stale" and outcome.plan:
        yield f"`tradewright replan {outcome.plan.id}` makes a fresh revision{'' if worker else ' here and now'}"
    if outcome.state not in {"completed", "held"} and not worker:
        yield "no worker is up: what is asked for in the UI (Retry, Resume) waits until `tradewright up`"
    if any(order.state != "proposed" for order in outcome.orders):
        yield "why an order exists: `tradewright explain SYMBOL`"
    if ours:
        yield "the server stays up for the next run; `tradewright down` ends it"


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _say_dimly(text: str) -> None:
    print(f"\033[2m{text}\033[0m", file=sys.stderr, flush=True)
