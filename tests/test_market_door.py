"""The market door: what is known by a moment, made into quotes and closes, and recorded before it is answered."""

import asyncio
import datetime as dt
from decimal import Decimal
from pathlib import Path

import pytest

from blocks.errors import MarketError
from blocks.ledger import Ledger
from blocks.market.bar_table import BarTable
from blocks.market.calendar import TradingCalendar
from blocks.market.door import StoreMarket, seed_sample
from blocks.market.port import RecordedBars, RecordedQuotes
from blocks.market.quotes import Quote
from blocks.market.store import MarketStore

WEDNESDAY, FRIDAY, MONDAY = dt.date(2022, 11, 23), dt.date(2022, 11, 25), dt.date(2022, 11, 28)
"""Thursday the 24th was a holiday, and Friday's session closed at 18:00 UTC, three hours early."""

FRIDAYS_CLOSE = dt.datetime(2022, 11, 25, 18, tzinfo=dt.UTC)
CALENDAR = TradingCalendar("XNYS")


@pytest.fixture
def store(tmp_path: Path) -> MarketStore:
    return MarketStore(tmp_path, Ledger(tmp_path / "ledger.db", lambda: dt.datetime.now(dt.UTC)))


def bars(*rows: tuple[str, dt.date, str]) -> BarTable:
    symbols, sessions, closes = zip(*sorted(rows, key=lambda row: (row[1], row[0])), strict=True)
    none = (None,) * len(rows)
    return BarTable(symbols, sessions, none, none, none, tuple(map(Decimal, closes)), none)


def market(store: MarketStore, until: int | None = None) -> StoreMarket:
    return StoreMarket(store, CALENDAR, "USD", until)


def quoted(store: MarketStore, now: dt.datetime, *symbols: str, until: int | None = None) -> RecordedQuotes:
    return asyncio.run(market(store, until).quotes(symbols, now))


def closed(store: MarketStore, now: dt.datetime, sessions: int, *symbols: str) -> RecordedBars:
    return asyncio.run(market(store).bars(symbols, sessions, now))


WEEK = bars(("SPY", WEDNESDAY, "400"), ("SPY", FRIDAY, "402.5"), ("SPY", MONDAY, "396"), ("OLD", WEDNESDAY, "7"))


def test_a_quote_is_the_last_close_at_the_moment_it_was_made(store: MarketStore) -> None:
    store.put_bars("csv", WEEK)
    close = Decimal("402.5")

    expected = Quote(
        symbol="SPY", bid=close, ask=close, last=close, at=FRIDAYS_CLOSE, currency="USD", previous_close=Decimal(400)
    )

    assert (expected,) == quoted(store, FRIDAYS_CLOSE, "SPY").quotes


def test_a_session_that_has_not_closed_is_not_known(store: MarketStore) -> None:
    store.put_bars("csv", WEEK)
    before = FRIDAYS_CLOSE - dt.timedelta(microseconds=1)

    assert [Decimal(400)] == [quote.last for quote in quoted(store, before, "SPY").quotes]
    assert (WEDNESDAY,) == closed(store, before, 9, "SPY").sessions


def test_a_symbol_without_a_bar_of_the_last_session_keeps_its_old_quote(store: MarketStore) -> None:
    store.put_bars("csv", WEEK)
    answer = quoted(store, FRIDAYS_CLOSE, "SPY", "OLD")
    old, spy = answer.quotes

    assert (Decimal(7), CALENDAR.close_of(WEDNESDAY), None) == (old.last, old.at, old.previous_close)
    assert FRIDAYS_CLOSE == spy.at
    assert FRIDAYS_CLOSE == answer.as_of  # one that no longer trades does not age the others


def test_a_symbol_that_was_not_yet_listed_has_an_empty_quote(store: MarketStore) -> None:
    store.put_bars("csv", bars(("NEW", MONDAY, "1"), ("SPY", FRIDAY, "402.5")))

    assert (Quote(symbol="NEW", currency="USD"),) == quoted(store, FRIDAYS_CLOSE, "NEW").quotes
    assert FRIDAYS_CLOSE == quoted(store, FRIDAYS_CLOSE, "NEW").as_of


@pytest.mark.parametrize("session", [dt.date(2022, 11, 24), dt.date(1989, 12, 29)])
def test_a_bar_of_a_day_the_calendar_lacks_is_dated_before_it_was_made(store: MarketStore, session: dt.date) -> None:
    store.put_bars("csv", bars(("SPY", session, "402.5")))

    assert [dt.datetime.combine(session, dt.time(), dt.UTC)] == [
        quote.at for quote in quoted(store, FRIDAYS_CLOSE, "SPY").quotes
    ]


def test_an_unknown_symbol_is_named_with_what_to_do(store: MarketStore) -> None:
    store.put_bars("csv", WEEK)

    for ask in (
        lambda: quoted(store, FRIDAYS_CLOSE, "SPY", "SPX"),
        lambda: closed(store, FRIDAYS_CLOSE, 9, "SPY", "SPX"),
    ):
        with pytest.raises(
            MarketError, match=r"SPX: no prices in the store \(did you mean 'SPY'\?\); .*tradewright ingest"
        ):
            ask()


def test_bars_are_the_last_sessions_and_no_more_than_there_are(store: MarketStore) -> None:
    store.put_bars("csv", WEEK)
    one, all_there_are = (closed(store, FRIDAYS_CLOSE, sessions, "SPY", "OLD") for sessions in (1, 252))

    assert ((FRIDAY,), {"SPY": (Decimal("402.5"),), "OLD": (None,)}) == (one.sessions, one.closes)
    assert (WEDNESDAY, FRIDAY) == all_there_are.sessions
    assert {"SPY": (Decimal(400), Decimal("402.5")), "OLD": (Decimal(7), None)} == all_there_are.closes
    assert FRIDAYS_CLOSE == all_there_are.as_of


def test_bars_of_symbols_that_were_not_yet_listed_are_refused(store: MarketStore) -> None:
    store.put_bars("csv", WEEK)

    with pytest.raises(MarketError, match="no bars of SPY by 2022-11-22"):
        closed(store, CALENDAR.close_of(dt.date(2022, 11, 22)), 9, "SPY")


def test_what_was_answered_is_in_the_store(store: MarketStore) -> None:
    store.put_bars("csv", WEEK)
    quotes, window = quoted(store, FRIDAYS_CLOSE, "SPY", "OLD"), closed(store, FRIDAYS_CLOSE, 9, "SPY", "OLD")

    assert quotes.quotes == store.quotes(quotes.snapshot)
    assert (window.sessions, window.closes) == store.closes_in(window.snapshot)
    assert ["quotes", "closes"] == [snapshot.kind for snapshot in store.snapshots()][1:]


def test_the_same_question_is_recorded_once(store: MarketStore) -> None:
    store.put_bars("csv", WEEK)

    assert quoted(store, FRIDAYS_CLOSE, "SPY", "OLD") == quoted(store, FRIDAYS_CLOSE, "OLD", "SPY")
    assert 2 == len(store.snapshots())


def test_only_new_bars_change_the_revision(store: MarketStore) -> None:
    marks = [market(store).revision()]
    store.put_bars("csv", WEEK)
    marks.append(market(store).revision())
    pin = store.snapshots()[-1].seq
    quoted(store, FRIDAYS_CLOSE, "SPY")
    marks.append(market(store).revision())
    store.put_bars("ib", bars(("SPY", FRIDAY, "403")))
    marks.append(market(store).revision())

    assert ["0", "1", "1", "3"] == marks
    assert "1" == market(store, pin).revision()
    assert Decimal("402.5") == quoted(store, FRIDAYS_CLOSE, "SPY", until=pin).quotes[0].last
    assert Decimal(403) == quoted(store, FRIDAYS_CLOSE, "SPY").quotes[0].last


def test_the_sample_is_put_once_and_gives_way_to_prices_of_ones_own(store: MarketStore) -> None:
    first = seed_sample(store)
    now = CALENDAR.close_of(dt.date(2022, 12, 28))
    symbols = store.symbols(None)

    assert first == seed_sample(store)
    assert (1, 20) == (len(store.snapshots()), len(symbols))
    assert [now] * 20 == [quote.at for quote in quoted(store, now, *symbols).quotes]
    assert 253 == len(closed(store, now, 253, *symbols).sessions)

    store.put_bars("csv", bars(("AAPL", FRIDAY, "148.11")))
    store.put_bars("sample", bars(("AAPL", MONDAY, "1")))

    assert [Decimal("148.11")] == [quote.last for quote in quoted(store, now, "AAPL").quotes]


def test_a_sample_whose_files_are_gone_is_put_again(store: MarketStore) -> None:
    first = seed_sample(store)
    for path in (store.home / "blobs").glob("??/*.parquet"):
        path.unlink()

    assert first == seed_sample(store)
    assert [] == store.faults()
