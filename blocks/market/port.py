"""The market door: what a step may ask of a market, and the recorded answers it gets."""

import datetime as dt
from dataclasses import dataclass
from decimal import Decimal
from typing import Protocol

from blocks.market.quotes import Quote


@dataclass(frozen=True)
class Recorded:
    """What was answered is in the store: as which snapshot, and of which moment."""

    snapshot: str
    as_of: dt.datetime


@dataclass(frozen=True)
class RecordedQuotes(Recorded):
    """A quote for each symbol, by symbol as the store gives them back; `as_of` is the newest one's moment."""

    quotes: tuple[Quote, ...]


@dataclass(frozen=True)
class RecordedBars(Recorded):
    """Sessions, ascending, and each symbol's closes in them; `as_of` is the close of the last session."""

    sessions: tuple[dt.date, ...]
    closes: dict[str, tuple[Decimal | None, ...]]


class MarketDoor(Protocol):
    """Read the market. A step that holds this door can do nothing else with it."""

    async def quotes(self, symbols: tuple[str, ...], now: dt.datetime) -> RecordedQuotes:
        """Return a quote for each symbol, whatever it is worth: the rules judge it. Raises MarketError."""
        ...

    async def bars(self, symbols: tuple[str, ...], sessions: int, now: dt.datetime) -> RecordedBars:
        """Return the closes of at most so many sessions that have closed by `now`. Raises MarketError."""
        ...

    def revision(self) -> str:
        """Return a mark, cheap to ask for, that is another one once the door would answer otherwise."""
        ...
