"""When a result stops being true: its age, prices that moved, an account that changed other than by our own fills."""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from pydantic import Field

from blocks.brokers.port import AccountState, Fill
from blocks.mandate import Freshness
from blocks.market.quotes import Quote
from blocks.values import Moment, iso, plain
from tasks.situation import Reason, Value

_NONE = Decimal(0)


class Result(Value):
    """What a step found: small; the data stays in the store under `snapshot`."""

    id: str
    kind: str = Field(description="name of the result type")
    value: dict[str, Any] | None = Field(None, description="the result itself, where it is not in the store")
    snapshot: str | None = None
    as_of: Moment = Field(description="the age of the data, not of the call")
    expires_at: Moment
    provenance: dict[str, str] = Field(description="input name -> id of the result it was made from")


def expiry(freshness: Freshness, freshness_class: str, as_of: datetime, inputs: Iterable[Result] = ()) -> datetime:
    """Return as_of + the class's age, or the earliest expiry of the inputs if that is sooner."""
    age: timedelta = getattr(freshness, freshness_class)
    return min([as_of + age, *(source.expires_at for source in inputs)])


def is_fresh(result: Result, now: datetime) -> bool:
    """Tell whether a result is true at `now`; one from after `now` is not, exactly its age old it still is."""
    return result.as_of <= now <= result.expires_at


def expired(what: str, result: Result, now: datetime) -> Iterator[Reason]:
    """Say if a result, which expires no later than anything it was made from, has expired at `now`."""
    if now > result.expires_at:
        text = f"{what} expired at {iso(result.expires_at)}; it is {iso(now)}"
        check = "proposal_is_fresh" if result.kind == "Proposal" else "step_result_is_fresh"
        yield Reason(check=check, reason=text)


def moves(used: Iterable[Quote], seen: Iterable[Quote], max_move_bps: Decimal) -> Iterator[Reason]:
    """Say which symbols' middles have left the price that was used by more than `max_move_bps` of it.

    A symbol that has no price on either side is passed over: an unusable quote is for the gate's rules to name.
    """
    there = {quote.symbol: quote for quote in seen}
    for before in used:
        was, is_now = _middle(before), _middle(there.get(before.symbol))
        if was is None or is_now is None:
            continue
        moved = abs(is_now - was) / was * 10_000
        if moved > max_move_bps:
            figures = f"from {plain(was)} to {plain(is_now)}; at most {plain(max_move_bps)} bps is allowed"
            text = f"moved {moved:.0f} bps, {figures}"
            yield Reason(check="prices_have_not_moved", symbol=before.symbol, reason=text)


def _middle(quote: Quote | None) -> Decimal | None:
    if quote is None or quote.bid is None or quote.ask is None or not (quote.bid.is_finite() and quote.ask.is_finite()):
        return None
    middle = (quote.bid + quote.ask) / 2
    return middle if middle > 0 else None


def account_changes(
    before: AccountState, after: AccountState, fills: Iterable[Fill], currency: str
) -> Iterator[Reason]:
    """Say what has changed in positions and cash that our own fills since then (paid in `currency`) do not explain."""
    held, cash, ours = before.held(), dict(before.cash), tuple(fills)
    for fill in ours:
        sign = 1 if fill.side == "buy" else -1
        held[fill.symbol] = held.get(fill.symbol, _NONE) + sign * fill.quantity
        cash[currency] = cash.get(currency, _NONE) - sign * fill.quantity * fill.price - fill.commission
    known = ", our own fills counted" if ours else ""
    holds = after.held()
    for symbol in sorted(held.keys() | holds.keys()):
        was, is_now = held.get(symbol, _NONE), holds.get(symbol, _NONE)
        if was != is_now:
            text = f"{plain(was)} held when the orders were drafted{known}, {plain(is_now)} now"
            yield Reason(check="positions_have_not_changed", symbol=symbol, reason=text)
    for name in sorted(cash.keys() | after.cash.keys()):
        was, is_now = cash.get(name, _NONE), after.cash.get(name, _NONE)
        if was != is_now:
            text = f"{plain(was)} {name} in cash when the orders were drafted{known}, {plain(is_now)} now"
            yield Reason(check="cash_has_not_changed", reason=text)
