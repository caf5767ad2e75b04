"""Quotes and bars: prices as a market source reports them."""

import datetime as dt
from decimal import Decimal
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from blocks.values import AnyNumber, Currency, Moment, Name


class Quote(BaseModel):
    """Bid, ask and what is needed to judge them; a figure that is unknown is None, never a guess."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    symbol: Name
    bid: AnyNumber | None = Field(None, description="price of one share")
    ask: AnyNumber | None = Field(None, description="price of one share")
    last: AnyNumber | None = Field(None, description="price of one share")
    at: Moment | None = Field(None, description="when the quote was made")
    currency: Currency | None = Field(None, description="none: the base currency")
    previous_close: AnyNumber | None = Field(None, description="the session before")
    tick: AnyNumber = Field(Decimal("0.01"), description="price increment")
    adv: AnyNumber | None = Field(None, description="average daily volume, in shares")
    delayed: bool = False


class Bar(NamedTuple):
    """One session of one symbol, judged when it was put in. A source with closes only leaves the rest None."""

    session: dt.date
    symbol: str
    open: Decimal | None
    high: Decimal | None
    low: Decimal | None
    close: Decimal
    volume: Decimal | None  # shares
