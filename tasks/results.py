"""Results: kept in the ledger (their data in the store), found again while fresh, brought back to life for a step."""

from datetime import datetime
from typing import Any

from pydantic import BaseModel

from blocks.canonical import digest
from blocks.ledger import Entry, Ledger
from blocks.market.store import MarketStore
from tasks.freshness import Result, is_fresh
from tasks.situation import Account, Bars, Quotes
from tasks.tool import RESULTS, Tool

_KINDS: dict[str, type[BaseModel]] = {kind.__name__: kind for kind in RESULTS}


def keep(
    ledger: Ledger,
    value: BaseModel,
    *,
    tool: Tool,
    key: str,
    expires_at: datetime,
    as_of: datetime,
    sources: dict[str, str],
) -> Result:
    """Record a result under its reuse key; what the store holds is kept by snapshot id only."""
    snapshot = getattr(value, "snapshot", None)
    body: dict[str, Any] = {
        "kind": type(value).__name__,
        "value": None if snapshot else value.model_dump(mode="json"),
        "snapshot": snapshot,
        "as_of": as_of,
        "expires_at": expires_at,
        "provenance": sources,
    }
    result = Result(id=digest([key, body])[:24], **body)
    ledger.append("result", result.model_dump() | {"tool": tool.name}, key=result.id, subject=key)
    return result


def fresh_result(ledger: Ledger, store: MarketStore, key: str, now: datetime) -> Result | None:
    """Return the newest result under a reuse key if it is still true at `now`, and its data is still there."""
    entry = ledger.latest("result", key)
    if entry is None:
        return None
    result = _result(entry)
    there = result.snapshot is None or store.holds(result.snapshot)
    return result if there and is_fresh(result, now) else None


def results_of(ledger: Ledger, run: str) -> dict[str, Result]:
    """Return step id -> the newest result that a run has come by."""
    found = {}
    for entry in ledger.all("step", run):
        kept = ledger.get("result", entry.body["result"]) if entry.body["result"] else None
        if kept:
            found[entry.body["step"]] = _result(kept)
    return found


def _result(entry: Entry) -> Result:
    return Result.model_validate({name: entry.body[name] for name in Result.model_fields})


def alive(store: MarketStore, result: Result) -> BaseModel:
    """Return the value of a result, its data read from the store by snapshot id."""
    if result.snapshot is None:
        return _KINDS[result.kind].model_validate(result.value)
    if result.kind == Quotes.__name__:
        return Quotes(snapshot=result.snapshot, as_of=result.as_of, quotes=store.quotes(result.snapshot))
    if result.kind == Account.__name__:
        state, open_orders = store.account(result.snapshot)
        return Account(snapshot=result.snapshot, as_of=result.as_of, state=state, open_orders=open_orders)
    return bars_of(store, result.snapshot, result.as_of)


def bars_of(store: MarketStore, snapshot: str, as_of: datetime) -> Bars:
    """Return the closes that a bars snapshot holds."""
    sessions, closes = store.closes_in(snapshot)
    return Bars(snapshot=snapshot, as_of=as_of, sessions=sessions, closes=closes)
