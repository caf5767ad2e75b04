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

    assert "set()\n" == subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout


def test_a_missing_sample_is_told_in_one_line() -> None:
    script = (
        "import sys; sys.path[:] = [p for p in sys.path if 'site-packages' not in p or not "
        "__import__('os').path.isdir(p + '/skfolio')]\n"
        "import blocks.errors, importlib.util\n"
        "print(importlib.util.find_spec('skfolio'))"
    )
    del script
    with pytest.raises(MarketError) as error:
        bars_of(Path("nowhere.csv.gz"))

    expected = "the sample prices cannot be read: [Errno 2] No such file or directory: 'nowhere.csv.gz'"
    assert expected == str(error.value)
