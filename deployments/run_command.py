"""`tradewright run`: check what was asked, start the server if none is configured, run, and show the outcome."""

import datetime as dt
import json
import os
import sys
from pathlib import Path

from blocks.errors import UnusableInput
from blocks.mandate import Mandate, read_mandate, sample_path
from blocks.places import home
from deployments import server
from tasks.outcome import GOOD, Outcome


def run(mandate: Path | None, as_of: str | None, *, broker: str, planner: str, dry_run: bool, as_json: bool) -> int:
    """Carry out one rebalance. Raises UnusableInput before anything is started."""
    path = mandate or sample_path()
    wanted, moment = _usable(path, as_of, broker, planner)
    say = _say if as_json or not sys.stderr.isatty() else _say_dimly
    place = server.ensure(home(), say)
    silent = {"PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL"}
    os.environ.update(
        server.environment(home(), place) | silent
    )  # before Prefect is imported: it reads its settings then
    say("loading Prefect")
    from deployments.run import run_rebalance, show_progress  # noqa: PLC0415

    show_progress(say)
    outcome, worker = run_rebalance(path, wanted, home(), as_of=moment, broker=broker, planner=planner, dry_run=dry_run)
    url = f"{place.ui_url}/runs/flow-run/{outcome.run}"
    if as_json:
        print(json.dumps(outcome.for_machines(url)))
    else:
        _show(outcome, url, worker=worker, ours=place.process is not None)
    return 0 if outcome.state in GOOD else 1


def _usable(path: Path, as_of: str | None, broker: str, planner: str) -> tuple[Mandate, dt.datetime]:
    """Return the mandate and the moment to run at, checked: a fault should not cost the start of a server."""
    asked = moment(as_of)
    wanted = read_mandate(path)
    from flows.job import Asked, check_mandate, refuse_what_is_not_there  # noqa: PLC0415
    from flows.world import moment_of, open_world  # noqa: PLC0415

    refuse_what_is_not_there(Asked(str(path), None, broker, planner, dry_run=False))
    check_mandate(wanted)
    return wanted, moment_of(open_world(home()), wanted, asked)


def moment(text: str | None) -> dt.date | dt.datetime | None:
    """Read what --as-of says: a date, or a moment with its offset from UTC. Raises UnusableInput."""
    if text is None:
        return None
    try:
        if len(text) == len("2020-03-16"):
            return dt.date.fromisoformat(text)
        read = dt.datetime.fromisoformat(text)
    except ValueError:
        raise UnusableInput(
            f"--as-of {text!r}: should be a session such as 2020-03-16, or a moment such as 2020-03-16T20:01:00Z"
        ) from None
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
    if outcome.state not in GOOD and not worker:
        print("no worker is up: a Retry from the UI waits until `tradewright up`")
    if ours:
        print("the server stays up for the next run; `tradewright down` ends it")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _say_dimly(text: str) -> None:
    print(f"\033[2m{text}\033[0m", file=sys.stderr, flush=True)
