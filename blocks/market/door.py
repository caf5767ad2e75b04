"""The market as the store knows it: closes, and quotes made of closes, recorded before anybody decides by them."""

import asyncio
import datetime as dt
import hashlib
from collections.abc import Collection, Iterable

from blocks.errors import MarketError, UnusableInput
from blocks.market.calendar import TradingCalendar
from blocks.market.closes import quote_from_closes
from blocks.market.port import RecordedBars, RecordedQuotes
from blocks.market.quotes import Bar, Quote
from blocks.market.sample import sample_bars, sample_file
from blocks.market.snapshots import SAMPLE
from blocks.market.store import MarketStore
from blocks.reading import nearest


class StoreMarket:
    """The market as the store knows it up to a ledger sequence number: closes, and quotes made of closes."""

    def __init__(
        self,
        store: MarketStore,
        calendar: TradingCalendar,
        currency: str | None,
        until: int | None,
        frozen: Collection[str] = (),
    ) -> None:
        """Open the door; a `frozen` symbol counts at its last stored close, given by its quote as the previous one."""
        self._store = store
        self._calendar = calendar
        self._currency = currency
        self._until = until
        self._frozen = frozenset(frozen)

    async def quotes(self, symbols: tuple[str, ...], now: dt.datetime) -> RecordedQuotes:
        """Return each symbol's last close by `now`, as a quote of that close's moment; the rules judge its age."""
        return await asyncio.to_thread(self._quotes, symbols, now)

    async def bars(self, symbols: tuple[str, ...], sessions: int, now: dt.datetime) -> RecordedBars:
        """Return the closes of the last sessions that have closed by `now`, fewer where the store begins later."""
        return await asyncio.to_thread(self._bars, symbols, sessions, now)

    def revision(self) -> str:
        """Return the ledger sequence number of the newest bars."""
        newest = self._store.newest("bars", self._until)
        return str(newest.seq if newest else 0)

    def _quotes(self, symbols: tuple[str, ...], now: dt.datetime) -> RecordedQuotes:
        quotes = self.seen(symbols, now)
        # The newest, not the oldest: one that no longer trades must not age the others, and each is judged by its own.
        as_of = max((quote.at for quote in quotes if quote.at is not None), default=now)
        return RecordedQuotes(self._store.put_quotes("closes", as_of, quotes), as_of, quotes)

    def seen(self, symbols: tuple[str, ...], now: dt.datetime) -> tuple[Quote, ...]:
        """Return what the market quotes without recording it: for the paper exchange, which decides nothing of ours."""
        bars = self._store.latest_bars(symbols, self._calendar.last_session_at(now), self._until)
        self._all_known(symbols, set(bars))
        return tuple(self._quote(symbol, bars.get(symbol)) for symbol in sorted(symbols))

    def _quote(self, symbol: str, bars: tuple[Bar, Bar | None] | None) -> Quote:
        if bars is None:  # not listed yet
            return Quote(symbol=symbol, currency=self._currency)
        bar, before = bars
        previous_close = bar.close if symbol in self._frozen else before.close if before else None
        return quote_from_closes(
            symbol, bar.session, bar.close, previous_close, self._closed_at(bar.session), self._currency
        )

    def _bars(self, symbols: tuple[str, ...], sessions: int, now: dt.datetime) -> RecordedBars:
        last = self._calendar.last_session_at(now)
        found, closes = self._store.closes(symbols, sessions, last, self._until)
        self._all_known(symbols, {symbol for symbol in symbols if any(closes[symbol])})
        if not found:
            raise MarketError(f"no bars of {', '.join(symbols)} by {last}")
        as_of = self._closed_at(found[-1])
        return RecordedBars(self._store.put_closes("bars", as_of, found, closes), as_of, found, closes)

    def _all_known(self, symbols: Iterable[str], found: set[str]) -> None:
        if found.issuperset(symbols):
            return
        known = self._store.symbols(self._until)
        for symbol in symbols:
            if symbol not in known:
                what = f"{symbol}: no prices in the store{nearest(symbol, known)}"
                raise MarketError(f"{what}; bring some in with `tradewright ingest FILE`")

    def _closed_at(self, session: dt.date) -> dt.datetime:
        """Return when a session closed; of a day that this calendar lacks, the first moment: never too late a one."""
        try:
            return self._calendar.close_of(session)
        except UnusableInput:
            return dt.datetime.combine(session, dt.time.min, dt.UTC)


def seed_sample(store: MarketStore) -> str:
    """Put the sample prices into a store unless they are there; return the snapshot's id. Raises MarketError."""
    meta = {"file_sha256": hashlib.sha256(sample_file().read_bytes()).hexdigest()}
    for snapshot in store.snapshots("bars"):
        if snapshot.source == SAMPLE and snapshot.meta == meta and store.whole(snapshot):
            return snapshot.id
    return store.put_bars(SAMPLE, sample_bars(), meta)
