"""`tradewright doctor`: look at every part, say what is wrong and what to do about it."""

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Literal

from blocks.clock import wall
from blocks.errors import TradewrightError
from blocks.ledger import Ledger
from blocks.mandate import Mandate, read_mandate, sample_path
from blocks.market.calendar import TradingCalendar
from blocks.market.store import MarketStore
from blocks.models.prices import Prices
from blocks.places import home
from blocks.values import plain
from deployments import server
from flows.world import World, moment_of
from tasks.halt import halted
from tasks.intents import progress, unresolved_everywhere

_SOON = timedelta(days=60)


@dataclass(frozen=True)
class Finding:
    """What was looked at, how it is, and what to do if it is not well."""

    part: str
    state: Literal["ok", "note", "wrong"]
    said: str


def doctor(mandate: Path | None, *, as_json: bool) -> int:
    """Print what was found; exit 1 if anything is wrong. Raises UnusableInput for a mandate that cannot be read."""
    if mandate:
        read_mandate(mandate)  # a file that was named by mistake is no finding
    found = list(_findings(mandate or sample_path()))
    if as_json:
        print(json.dumps({"ok": all(f.state != "wrong" for f in found), "findings": [asdict(f) for f in found]}))
    else:
        print("\n".join(f"{finding.state:<5}  {finding.part:<9} {finding.said}" for finding in found))
    return int(any(finding.state == "wrong" for finding in found))


def _findings(path: Path) -> Iterator[Finding]:
    """Look at part after part; one that cannot be looked at is a finding too."""
    try:
        ledger = Ledger(home() / "ledger.db", wall)
    except TradewrightError as error:
        yield Finding("ledger", "wrong", str(error))
        return
    yield from _each("ledger", lambda: _ledger(ledger))
    yield from _each("store", lambda: _store(MarketStore(home(), ledger)))
    yield from _each("prefect", _prefect)
    yield from _each("mandate", lambda: _mandate(path, ledger))
    yield from _each("orders", lambda: _orders(ledger))
    yield from _each("models", lambda: _models(path, ledger))


def _each(part: str, look: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    try:
        yield from look()
    except TradewrightError as error:
        yield Finding(part, "wrong", str(error))


def _ledger(ledger: Ledger) -> Iterator[Finding]:
    faults = ledger.faults()
    for fault in faults:
        yield Finding(
            "ledger",
            "wrong",
            f"{fault}: restore {ledger.path} from a backup; nothing after that entry can be relied on",
        )
    if not faults:
        yield Finding("ledger", "ok", f"{ledger.pin()} entries, the chain of hashes is whole")
    reason = halted(ledger)
    if reason is not None:
        yield Finding("ledger", "note", f"halted ({reason}): `tradewright resume` lifts it")


def _store(store: MarketStore) -> Iterator[Finding]:
    faults = store.faults()
    for fault in faults:
        yield Finding("store", "wrong", f"{fault}: bring the prices in again with `tradewright ingest FILE`")
    if not faults:
        snapshots = store.snapshots()
        yield Finding("store", "ok", f"{len(snapshots)} snapshots, every part of the content its hash says")


def _prefect() -> Iterator[Finding]:
    place = server.configured() or server.recorded(home())
    if place is None:
        yield Finding("prefect", "note", "no server is running; `tradewright run` or `tradewright up` starts one")
    elif server.answers(place):
        yield Finding("prefect", "ok", f"the server at {place.ui_url} answers")
    elif place.process:
        yield Finding(
            "prefect",
            "wrong",
            f"the local server does not answer: see {home() / 'server.log'}, then `tradewright down`",
        )
    else:
        yield Finding(
            "prefect", "wrong", f"the configured server at {place.api_url} does not answer: check PREFECT_API_URL"
        )


def _mandate(path: Path, ledger: Ledger) -> Iterator[Finding]:
    mandate = read_mandate(path)
    yield Finding("mandate", "ok", f"{path.name}: account {mandate.account}, {len(mandate.universe)} symbols")
    yield from _each("calendar", lambda: _calendar(mandate))
    yield from _each("prices", lambda: _prices(mandate, MarketStore(home(), ledger), ledger))


def _calendar(mandate: Mandate) -> Iterator[Finding]:
    calendar = TradingCalendar(mandate.schedule.calendar)
    left = calendar.last_known - wall().date()
    text = f"{mandate.schedule.calendar} is known until {calendar.last_known}"
    if left < _SOON:
        yield Finding("calendar", "note", f"{text}, {left.days} days: install a newer exchange_calendars")
    else:
        yield Finding("calendar", "ok", text)


def _prices(mandate: Mandate, store: MarketStore, ledger: Ledger) -> Iterator[Finding]:
    last = store.last_session(mandate.universe, ledger.pin())
    missing = [symbol for symbol in mandate.universe if symbol not in last]
    if missing:
        yield Finding(
            "prices", "wrong", f"none stored for {', '.join(missing)}: bring some in with `tradewright ingest FILE`"
        )
    if last:
        newest = max(last.values())
        behind = [symbol for symbol, session in last.items() if session < newest]
        yield Finding("prices", "ok", f"{len(last)} symbols, the newest of {newest}")
        moment_of(World(ledger, store), mandate, None, wall())  # raises where a run would be refused for them
        if behind:
            yield Finding("prices", "note", f"older than that: {', '.join(behind)}; a run now would find them stale")


def _orders(ledger: Ledger) -> Iterator[Finding]:
    open_ones = unresolved_everywhere(ledger)
    for intent in open_ones:
        state = progress(ledger, intent).state
        yield Finding(
            "orders",
            "note",
            f"{intent.order_ref} ({intent.side} {intent.symbol}) is {state}; the next run asks the broker first",
        )
    if not open_ones:
        yield Finding("orders", "ok", "none is open")


def _models(path: Path, ledger: Ledger) -> Iterator[Finding]:
    models = read_mandate(path).models
    prices = Prices(ledger.path.parent)
    for name in sorted({models.planner.model, models.executor.model, models.reviewer.model}):
        prices.bands(name, wall().date())  # raises for a model without a price, saying how to add it
    who = f"{models.planner.model} for at most {plain(models.budget_usd)} USD a plan (`run --planner model`)"
    if os.environ.get("ANTHROPIC_API_KEY"):
        where = os.environ.get("ANTHROPIC_BASE_URL") or "the service's own address"
        yield Finding("models", "ok", f"a key is set, for {where}: it can plan by {who}")
    else:
        yield Finding(
            "models",
            "ok",
            f"no key is set, and planning by rules needs none; set ANTHROPIC_API_KEY, or save a Prefect Block of the"
            f" type 'Tradewright model access', to plan by {who}",
        )
