"""Rules for one quote: only one that keeps them all may price anything."""

from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import TypeGuard

from blocks.market.quotes import Quote
from blocks.values import iso, short
from tasks.situation import Situation
from tasks.verification.findings import BASIS_POINT, Finding, found, ratio, shown

FINEST_TICK = Decimal("0.00000001")
_HALF = Decimal("0.5")


@dataclass(frozen=True, slots=True)
class Market:
    """A quote whose bid and ask are prices."""

    quote: Quote
    bid: Decimal
    ask: Decimal

    @property
    def symbol(self) -> str:
        """Return the quote's symbol."""
        return self.quote.symbol

    @property
    def middle(self) -> Decimal:
        """Return the middle of bid and ask."""
        return (self.bid + self.ask) * _HALF


def is_positive(value: Decimal | None) -> TypeGuard[Decimal]:
    """Tell whether a figure is there, finite and above zero."""
    return value is not None and value.is_finite() and value > 0


def market_of(quote: Quote) -> Market | None:
    """Return the quote with its prices, or None where bid or ask is no price."""
    if is_positive(quote.bid) and is_positive(quote.ask):
        return Market(quote, quote.bid, quote.ask)
    return None


def last_close(quote: Quote | None, base_currency: str) -> Decimal | None:
    """Return the previous close in the base currency, by which a frozen symbol is valued."""
    if quote is None or quote.currency not in {None, base_currency}:
        return None
    return quote.previous_close if is_positive(quote.previous_close) else None


def bid_and_ask_are_prices(quote: Quote, _: Situation) -> Finding:
    """Require bid and ask to be finite and above zero."""
    figure = f"{shown(quote.bid)} / {shown(quote.ask)}"
    return found(market_of(quote) is not None, figure, "above 0", f"bid / ask is {figure}: both should be above 0")


def quote_is_fresh(quote: Quote, situation: Situation) -> Finding:
    """Require a quote that says when it was made: not after now, and no longer ago than freshness.quotes."""
    most = situation.mandate.freshness.quotes
    if quote.at is None:
        return Finding("undated", short(most), "the quote does not say when it was made")
    age = situation.now - quote.at
    what = "is from after now," if age < timedelta(0) else f"is older than {short(most)} at"
    return found(
        timedelta(0) <= age <= most,
        short(age),
        short(most),
        f"the quote of {iso(quote.at)} {what} {iso(situation.now)}",
        Decimal(age.days * 86400 + age.seconds),
    )


def quote_is_not_delayed(quote: Quote, situation: Situation) -> Finding:
    """Require a live quote, unless allow_delayed says that a delayed one will do."""
    allowed = situation.mandate.allow_delayed
    figure, limit = ("delayed" if quote.delayed else "live"), ("delayed allowed" if allowed else "live")
    return found(allowed or not quote.delayed, figure, limit, "the quote is delayed, and allow_delayed is false")


def quote_is_in_the_base_currency(quote: Quote, situation: Situation) -> Finding:
    """Require a quote in the mandate's base currency; one that names none is taken to be."""
    base = situation.mandate.base_currency
    currency = quote.currency or base
    return found(currency == base, currency, base, f"the quote is in {currency}, the base currency is {base}")


def tick_is_a_price_step(quote: Quote, _: Situation) -> Finding:
    """Require a tick that is finite and at least 0.00000001."""
    held = is_positive(quote.tick) and quote.tick >= FINEST_TICK
    limit = shown(FINEST_TICK)
    return found(held, shown(quote.tick), limit, f"the tick is {shown(quote.tick)}: should be at least {limit}")


def quote_is_not_crossed(market: Market, _: Situation) -> Finding:
    """Refuse a bid above the ask."""
    bid, ask = shown(market.bid), shown(market.ask)
    return found(market.bid <= market.ask, bid, ask, f"bid {bid} is above ask {ask}")


def spread_is_within_max_spread(market: Market, situation: Situation) -> Finding:
    """Require ask less bid to be at most max_spread_bps of their middle."""
    most, spread, middle = situation.mandate.limits.max_spread_bps, market.ask - market.bid, market.middle
    bps = ratio(spread, middle * BASIS_POINT)
    figure, limit = f"{shown(bps)} bps", f"{shown(most)} bps"
    reason = f"the spread of {shown(spread)} is {figure} of the middle, more than {limit}"
    return found(spread <= most * BASIS_POINT * middle, figure, limit, reason, bps)


def middle_is_near_the_previous_close(market: Market, situation: Situation) -> Finding:
    """Require a known previous close, and the middle within max_price_jump of it."""
    most, close, middle = situation.mandate.limits.max_price_jump, market.quote.previous_close, market.middle
    if not is_positive(close):
        return Finding(shown(close), shown(most), f"the previous close is {shown(close)}: should be a price")
    jump = abs(middle - close)
    moved = ratio(jump, close)
    reason = (
        f"the middle {shown(middle)} is {shown(moved)} away from the close of {shown(close)}, more than {shown(most)}"
    )
    return found(jump <= most * close, shown(moved), shown(most), reason, moved)


QUOTE_RULES = (
    bid_and_ask_are_prices,
    quote_is_fresh,
    quote_is_not_delayed,
    quote_is_in_the_base_currency,
    tick_is_a_price_step,
)
MARKET_RULES = (quote_is_not_crossed, spread_is_within_max_spread, middle_is_near_the_previous_close)
