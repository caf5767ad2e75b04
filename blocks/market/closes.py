"""A quote where all that is known is the close."""

import datetime as dt
from decimal import Decimal

from blocks.errors import MarketError
from blocks.market.quotes import Quote

_CENT_FROM = Decimal(5)


def quote_from_closes(
    symbol: str,
    session: dt.date,
    close: Decimal,
    previous_close: Decimal | None,
    closed_at: dt.datetime,
    currency: str | None,
) -> Quote:
    """Return a quote that bids and asks the close of a session, at the moment it closed. Raises MarketError."""
    if not (close.is_finite() and close > 0):
        raise MarketError(f"{symbol}: the close of {session} is {close}: should be a finite price above zero")
    return Quote(
        symbol=symbol,
        bid=close,
        ask=close,
        last=close,
        at=closed_at,
        currency=currency,
        previous_close=previous_close,
        tick=tick_of(close),
    )


def tick_of(close: Decimal) -> Decimal:
    """Return the price increment: a cent from 5 upwards, else a hundredth of one (old prices, adjusted, are small)."""
    return Decimal("0.01") if close >= _CENT_FROM else Decimal("0.0001")
