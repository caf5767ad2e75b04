"""The sample prices, and quotes made from closes."""

import datetime as dt
import gzip
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest

from blocks.errors import MarketError
from blocks.market.calendar import TradingCalendar
from blocks.market.closes import quote_from_closes, tick_of
from blocks.market.quotes import Quote
from blocks.market.sample import bars_of, sample_bars, sample_file

CLOSED_AT = dt.datetime(2022, 12, 28, 21, tzinfo=dt.UTC)


def test_the_sample_holds_20_stocks_and_33_years() -> None:
    bars = sample_bars()

    assert 8_313 * 20 == len(bars)
    assert 20 == len(set(bars.symbol))
    assert dt.date(1990, 1, 2) == bars.session[0]
    assert dt.date(2022, 12, 28) == bars.session[-1]


def test_every_close_is_the_exact_text_of_the_file() -> None:
    bars = sample_bars()
    with gzip.open(sample_file(), mode="rt") as file:
        header, *rows = [line.rstrip("\n").split(",") for line in file]

    assert [text for row in rows for text in row[1:]] == [str(close) for close in bars.close]
    assert header[1:] == list(bars.symbol[:20])


def test_every_date_of_the_sample_is_a_session_and_no_session_is_missing() -> None:
    bars = sample_bars()
    sessions = TradingCalendar("XNYS").sessions_between(bars.session[0], bars.session[-1])

    assert sessions == tuple(dict.fromkeys(bars.session))


def test_the_sample_is_sorted_by_session_and_symbol() -> None:
    bars = sample_bars()
    keys = list(zip(bars.session, bars.symbol, strict=True))

    assert sorted(set(keys)) == keys


def test_the_sample_has_closes_and_nothing_else() -> None:
    bars = sample_bars()

    assert {None} == {*bars.open, *bars.high, *bars.low, *bars.volume}


def test_the_sample_is_read_without_skfolio_or_pandas() -> None:
    script = (
        "import sys; from blocks.market.sample import sample_bars; sample_bars();"
        "print({'pandas', 'numpy', 'skfolio', 'duckdb'} & set(sys.modules))"
    )

    assert (
        "set()\n" == subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    )


@pytest.mark.parametrize("package", ["no_such_package", "pytest", "this"])
def test_a_missing_sample_is_told_in_one_line(package: str) -> None:
    with pytest.raises(MarketError) as error:
        sample_file(package)

    expected = f"the sample prices are missing: the package {package!r} has no datasets/data/sp500_dataset.csv.gz"
    assert expected == str(error.value)


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"rubbish", "Not a gzipped file (b'ru')"),
        (
            gzip.compress(b"date,A\n2020-01-02,1\n")[:-9],
            "Compressed file ended before the end-of-stream marker was reached",
        ),
        (gzip.compress(b"date,A\n2020-01-02,-1\n"), "{path}: line 2: A: '-1': should be a price above zero"),
        (gzip.compress(b"\xff\xfe"), "'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"),
    ],
)
def test_a_broken_sample_is_told_in_one_line(tmp_path: Path, content: bytes, fault: str) -> None:
    path = tmp_path / "closes.csv.gz"
    path.write_bytes(content)
    with pytest.raises(MarketError) as error:
        bars_of(path)

    assert f"the sample prices cannot be read: {fault.format(path=path)}" == str(error.value)


def test_a_close_makes_a_quote_that_bids_and_asks_it() -> None:
    quote = quote_from_closes("AAPL", dt.date(2022, 12, 28), Decimal("125.674"), Decimal("129.652"), CLOSED_AT, "USD")

    expected = Quote(
        symbol="AAPL",
        bid=Decimal("125.674"),
        ask=Decimal("125.674"),
        last=Decimal("125.674"),
        at=CLOSED_AT,
        currency="USD",
        previous_close=Decimal("129.652"),
        tick=Decimal("0.01"),
        adv=None,
        delayed=False,
    )
    assert expected == quote


def test_what_is_not_known_of_a_first_close_stays_unknown() -> None:
    quote = quote_from_closes("AAPL", dt.date(1990, 1, 2), Decimal("0.264"), None, CLOSED_AT, None)

    assert quote.previous_close is None
    assert quote.currency is None


@pytest.mark.parametrize(("close", "tick"), [("5", "0.01"), ("500", "0.01"), ("4.9999", "0.0001"), ("0.264", "0.0001")])
def test_the_tick_is_a_cent_from_5_upwards(close: str, tick: str) -> None:
    assert Decimal(tick) == tick_of(Decimal(close))


@pytest.mark.parametrize("close", ["0", "-1", "NaN", "Infinity"])
def test_a_close_that_is_no_price_makes_no_quote(close: str) -> None:
    with pytest.raises(MarketError) as error:
        quote_from_closes("AAPL", dt.date(2022, 12, 28), Decimal(close), None, CLOSED_AT, "USD")

    assert f"AAPL: the close of 2022-12-28 is {close}: should be a finite price above zero" == str(error.value)
