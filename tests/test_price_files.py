"""Price files: what is read from them, and which line says what is wrong with one."""

import datetime as dt
import os
import random
import tempfile
import time
from collections.abc import Callable
from decimal import Decimal
from functools import cache
from pathlib import Path

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blocks.errors import UnusableInput
from blocks.market.bar_table import BarTable
from blocks.market.files import read_prices
from tests.examples import examples

TODAY = dt.date(2026, 3, 31)
LONG = "date,symbol,open,high,low,close,volume"
SHAPES = "long form: date,symbol,close and, if known, open,high,low,volume; wide form: date and a column a symbol"
SYMBOL = "should be a symbol: a letter or digit, then letters, digits, space and . _ / -, at most 32 in all"
ABOVE_ZERO = "should be a price above zero"
FINITE = "should be a finite number such as 101.25"

Grid = list[list[str]]
Writer = Callable[[Path, Grid], Path]


def grid_of(*lines: str) -> Grid:
    return [line.split(",") for line in lines]


def write_csv(folder: Path, grid: Grid) -> Path:
    path = folder / "prices.csv"
    path.write_text("".join(",".join(row) + "\n" for row in grid))
    return path


def write_parquet(folder: Path, grid: Grid, types: dict[str, str] | None = None) -> Path:
    """Write every column as text, empty ones as null, or with the type given."""
    header, *rows = grid
    path = folder / "prices.parquet"
    columns = ", ".join(f'"{name}" {(types or {}).get(name, "varchar")}' for name in header)
    duck = connection()
    duck.execute(f"create or replace table prices ({columns})")
    if rows:
        marks = ", ".join(["(" + ", ".join("?" for _ in header) + ")"] * len(rows))
        duck.execute(f"insert into prices values {marks}", [cell or None for row in rows for cell in row])  # noqa: S608
    duck.table("prices").write_parquet(str(path))
    return path


@cache
def connection() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()


FORMATS = pytest.mark.parametrize(
    ("write", "unit", "offset"), [(write_csv, "line", 1), (write_parquet, "row", 0)], ids=["csv", "parquet"]
)


def refusal(path: Path) -> str:
    with pytest.raises(UnusableInput) as error:
        read_prices(path, TODAY)
    text = str(error.value)
    assert "\n" not in text
    return text


def closes(*bars: tuple[str, str, str]) -> BarTable:
    none = (None,) * len(bars)
    return BarTable(
        symbol=tuple(symbol for _, symbol, _ in bars),
        session=tuple(dt.date.fromisoformat(date) for date, _, _ in bars),
        open=none,
        high=none,
        low=none,
        close=tuple(Decimal(close) for _, _, close in bars),
        volume=none,
    )


# What is read


@FORMATS
def test_long_form_is_read_in_full_and_sorted(tmp_path: Path, write: Writer, unit: str, offset: int) -> None:
    grid = grid_of(
        "Volume,CLOSE,low,High,Open,Symbol,Date",
        "1000,101.25,99,102,100,SPY,2026-03-03",
        ",50,,,,BRK.B,2026-03-03",
        "0,100,100,100,100,SPY,2026-03-02",
    )

    expected = BarTable(
        symbol=("SPY", "BRK.B", "SPY"),
        session=(dt.date(2026, 3, 2), dt.date(2026, 3, 3), dt.date(2026, 3, 3)),
        open=(Decimal(100), None, Decimal(100)),
        high=(Decimal(100), None, Decimal(102)),
        low=(Decimal(100), None, Decimal(99)),
        close=(Decimal(100), Decimal(50), Decimal("101.25")),
        volume=(Decimal(0), None, Decimal(1000)),
    )
    assert expected == read_prices(write(tmp_path, grid), TODAY)


@FORMATS
def test_optional_columns_may_be_left_out(tmp_path: Path, write: Writer, unit: str, offset: int) -> None:
    grid = grid_of("symbol,close,date", "SPY,1,2026-03-02")

    assert closes(("2026-03-02", "SPY", "1")) == read_prices(write(tmp_path, grid), TODAY)


@FORMATS
def test_an_empty_cell_in_wide_form_is_no_price(tmp_path: Path, write: Writer, unit: str, offset: int) -> None:
    grid = grid_of("AAA,Date,BBB", ",2026-03-02,20", "10,2026-03-03,21")

    expected = closes(("2026-03-02", "BBB", "20"), ("2026-03-03", "AAA", "10"), ("2026-03-03", "BBB", "21"))
    assert expected == read_prices(write(tmp_path, grid), TODAY)


@FORMATS
def test_symbols_named_like_columns_or_like_nothing_are_symbols(
    tmp_path: Path, write: Writer, unit: str, offset: int
) -> None:
    wide = grid_of("date,LOW,OPEN,NA,NULL,TRUE", "2026-03-02,1,2,3,4,5")
    long = grid_of("date,symbol,close", "2026-03-02,NaN,1", "2026-03-02,null,2")

    assert ("LOW", "NA", "NULL", "OPEN", "TRUE") == read_prices(write(tmp_path, wide), TODAY).symbol
    assert ("NaN", "null") == read_prices(write(tmp_path, long), TODAY).symbol


@pytest.mark.parametrize(
    ("text", "close"),
    [
        ("101.25", "101.25"),
        (" 101.250 ", "101.25"),
        ("+5", "5"),
        (".5", "0.5"),
        ("1e3", "1000"),
        ("1.2300000000000", "1.23"),
        ("0.00000001", "0.00000001"),
        ("9999999999999.99999999", "9999999999999.99999999"),
    ],
)
@FORMATS
def test_a_figure_is_exact(tmp_path: Path, write: Writer, unit: str, offset: int, text: str, close: str) -> None:
    grid = grid_of("date,symbol,close", f"2026-03-02,SPY,{text}")

    assert (Decimal(close),) == read_prices(write(tmp_path, grid), TODAY).close


@pytest.mark.parametrize(
    ("kind", "text", "close"),
    [
        ("double", "101.1", "101.1"),
        ("double", "1e-7", "0.0000001"),
        ("double", "33.333333333333336", "33.33333333"),
        ("float", "101.1", "101.1"),
        ("decimal(28, 8)", "101.12345678", "101.12345678"),
        ("integer", "101", "101"),
    ],
)
def test_each_type_of_figure_in_parquet_is_taken(tmp_path: Path, kind: str, text: str, close: str) -> None:
    long = write_parquet(tmp_path, grid_of("date,symbol,close", f"2026-03-02,SPY,{text}"), {"close": kind})

    assert closes(("2026-03-02", "SPY", close)) == read_prices(long, TODAY)

    wide = write_parquet(tmp_path, grid_of("date,SPY", f"2026-03-02,{text}"), {"SPY": kind})

    assert closes(("2026-03-02", "SPY", close)) == read_prices(wide, TODAY)


@pytest.mark.parametrize("kind", ["date", "timestamp", "timestamp_ns", "timestamp_s", "varchar"])
def test_each_type_of_date_in_parquet_is_taken(tmp_path: Path, kind: str) -> None:
    path = write_parquet(tmp_path, grid_of("date,SPY", "2026-03-02,1"), {"date": kind})

    assert closes(("2026-03-02", "SPY", "1")) == read_prices(path, TODAY)


def test_symbols_that_differ_in_case_alone_stay_apart_in_parquet(tmp_path: Path) -> None:
    path = write_parquet(tmp_path, grid_of("date,ABC,abX", "2026-03-02,1,2"))
    path.write_bytes(path.read_bytes().replace(b"abX", b"abc"))

    assert ("ABC", "abc") == read_prices(path, TODAY).symbol


def test_line_ends_blank_lines_and_a_byte_order_mark_do_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "PRICES.CSV"
    path.write_bytes(b'\xef\xbb\xbf\r\ndate, "SPY"\r\n\r\n2026-03-02,1\r\n\r\n'.replace(b' "SPY"', b" SPY"))

    assert closes(("2026-03-02", "SPY", "1")) == read_prices(path, TODAY)


def test_a_file_may_be_called_like_a_pattern(tmp_path: Path) -> None:
    folder = tmp_path / "year=2026" / "[a]*?"
    folder.mkdir(parents=True)
    path = write_parquet(folder, grid_of("date,SPY", "2026-03-02,1"))
    (folder.parent / "ab").mkdir()
    write_parquet(folder.parent / "ab", grid_of("date,QQQ", "2026-03-02,2"))

    assert closes(("2026-03-02", "SPY", "1")) == read_prices(path, TODAY)


def test_progress_is_told_up_to_the_last_row(tmp_path: Path) -> None:
    rows = [f"2026-03-02,S{number},1" for number in range(1_000)]
    told: list[int] = []
    read_prices(write_csv(tmp_path, grid_of("date,symbol,close", *rows)), TODAY, told.append)

    assert sorted(set(told)) == told
    assert 1_000 == told[-1]


# What is refused


BAD_CELLS = [
    ("date", "2026-02-30", "should be a date such as 2026-03-02"),
    ("date", "20260302", "should be a date such as 2026-03-02"),
    ("date", "03/02/2026", "should be a date such as 2026-03-02"),
    ("date", "2026-03-02 16:00:00", "should be a date such as 2026-03-02"),
    ("date", "", "should be a date such as 2026-03-02"),
    ("date", "infinity", "should be a date such as 2026-03-02"),
    ("date", "2026-04-01", "should be no later than today, 2026-03-31"),
    ("date", "1899-12-31", "should be no earlier than 1900-01-01"),
    ("date", "0202-12-31", "should be no earlier than 1900-01-01"),
    ("symbol", "", SYMBOL),
    ("symbol", "S$Y", SYMBOL),
    ("symbol", "-SPY", SYMBOL),
    ("symbol", "S" * 33, SYMBOL),
    ("close", "", ABOVE_ZERO),
    ("close", "0", ABOVE_ZERO),
    ("close", "0.00", ABOVE_ZERO),
    ("close", "-101", ABOVE_ZERO),
    ("close", "nan", FINITE),
    ("close", "NaN", FINITE),
    ("close", "inf", FINITE),
    ("close", "-Infinity", FINITE),
    ("close", "abc", FINITE),
    ("close", "1_000", FINITE),
    ("close", "\u0661\u0660\u0661", FINITE),
    ("close", "101.123456789", "should have at most 8 decimals"),
    ("close", "1e-9", "should have at most 8 decimals"),
    ("close", "10000000000000", "should be below 10000000000000"),
    ("close", "1e999", "should be below 10000000000000"),
    ("close", "98.5", "should be at least the low, 99"),
    ("close", "102.5", "should be at most the high, 102"),
    ("open", "0", ABOVE_ZERO),
    ("open", "nan", FINITE),
    ("high", "-1", ABOVE_ZERO),
    ("high", "98", "should be at least the low, 99"),
    ("low", "0", ABOVE_ZERO),
    ("low", "x", FINITE),
    ("volume", "-1", "should be zero or more"),
    ("volume", "nan", FINITE),
    ("volume", "inf", FINITE),
    ("volume", "1e13", "should be below 10000000000000"),
    ("volume", "0.123456789", "should have at most 8 decimals"),
]


@pytest.mark.parametrize(("column", "value", "allowed"), BAD_CELLS)
@FORMATS
def test_a_bad_cell_in_long_form_stops_the_file(
    tmp_path: Path, write: Writer, unit: str, offset: int, column: str, value: str, allowed: str
) -> None:
    good = ["2026-03-03", "SPY", "100", "102", "99", "101", "1000"]
    bad = [value if name == column else cell for name, cell in zip(LONG.split(","), good, strict=True)]
    path = write(tmp_path, [LONG.split(","), *grid_of("2026-03-02,SPY,100,102,99,101,1000"), bad, bad])

    assert f"{path}: {unit} {2 + offset}: {column}: {value!r}: {allowed}" == refusal(path)


@pytest.mark.parametrize(
    ("value", "allowed"),
    [(value, allowed) for column, value, allowed in BAD_CELLS if column == "close" and value and "the " not in allowed],
)
@FORMATS
def test_a_bad_price_in_wide_form_stops_the_file(
    tmp_path: Path, write: Writer, unit: str, offset: int, value: str, allowed: str
) -> None:
    path = write(tmp_path, [*grid_of("AAA,date,BBB", "1,2026-03-02,2"), ["1", "2026-03-03", value]])

    assert f"{path}: {unit} {2 + offset}: BBB: {value!r}: {allowed}" == refusal(path)


@pytest.mark.parametrize(("value", "allowed"), [bad[1:] for bad in BAD_CELLS if bad[0] == "date"])
@FORMATS
def test_a_bad_date_in_wide_form_stops_the_file(
    tmp_path: Path, write: Writer, unit: str, offset: int, value: str, allowed: str
) -> None:
    path = write(tmp_path, [*grid_of("AAA,date,BBB", "1,2026-03-02,2"), ["1", value, "2"]])

    assert f"{path}: {unit} {2 + offset}: date: {value!r}: {allowed}" == refusal(path)


@FORMATS
def test_a_row_without_any_price_stops_the_file(tmp_path: Path, write: Writer, unit: str, offset: int) -> None:
    path = write(tmp_path, grid_of("date,AAA,BBB", "2026-03-02,1,2", "2026-03-03,,"))

    fault = f"{unit} {2 + offset}: date: '2026-03-03': should have a price of at least one symbol"
    assert f"{path}: {fault}" == refusal(path)


@FORMATS
def test_a_date_and_symbol_that_stand_twice_stop_the_file(
    tmp_path: Path, write: Writer, unit: str, offset: int
) -> None:
    long = write(tmp_path, grid_of("date,symbol,close", "2026-03-03,SPY,1", "2026-03-02,SPY,1", "2026-03-03,SPY,1"))
    once = f"SPY has this date on {unit} {1 + offset} already: should have it once"
    fault = f"{unit} {3 + offset}: date: '2026-03-03': {once}"

    assert f"{long}: {fault}" == refusal(long)

    wide = write(tmp_path, grid_of("date,AAA,SPY", "2026-03-03,,1", "2026-03-02,1,1", "2026-03-03,2,1"))

    assert f"{wide}: {fault}" == refusal(wide)


@pytest.mark.parametrize(("row", "count"), [("2026-03-03,SPY", 2), ("2026-03-03,SPY,1,", 4), ("2026-03-03", 1)])
def test_a_row_of_another_width_stops_the_file(tmp_path: Path, row: str, count: int) -> None:
    path = write_csv(tmp_path, grid_of("date,symbol,close", "2026-03-02,SPY,1", row))

    assert f"{path}: line 3: {count} columns: should be 3, as in the header" == refusal(path)


def test_the_first_bad_row_is_named_and_in_it_the_first_bad_cell(tmp_path: Path) -> None:
    rows = [f"2026-03-02,S{number},1" for number in range(2_000)]
    rows[1_500] = "2026-03-02,S$,-1"
    rows[1_501] = "never,S,1"
    path = write_csv(tmp_path, grid_of("date,symbol,close", *rows))

    assert f"{path}: line 1502: symbol: 'S$': {SYMBOL}" == refusal(path)


def test_lines_are_counted_as_an_editor_counts_them(tmp_path: Path) -> None:
    path = tmp_path / "prices.csv"
    path.write_text('date,symbol,close\n\n2026-03-02,"SPY\n",1\n\n2026-03-03,SPY,0\n')

    assert f"{path}: line 6: close: '0': {ABOVE_ZERO}" == refusal(path)


def test_a_figure_broken_over_two_lines_is_no_figure(tmp_path: Path) -> None:
    path = tmp_path / "prices.csv"
    path.write_text('date,symbol,close\n2026-03-02,SPY,"1\n2"\n')

    assert f"{path}: line 2: close: '1\\n2': {FINITE}" == refusal(path)


def test_a_long_value_is_shown_in_part(tmp_path: Path) -> None:
    path = write_csv(tmp_path, grid_of("date,symbol,close", f"2026-03-02,SPY,{'9' * 200}"))

    assert f"{path}: line 2: close: '{'9' * 76}...: should be below 10000000000000" == refusal(path)


@pytest.mark.parametrize(("kind", "text"), [("double", "nan"), ("double", "inf"), ("float", "nan")])
@pytest.mark.parametrize(("header", "before"), [("date,symbol,close", "SPY,"), ("date,SPY", "")])
def test_a_float_that_is_not_finite_stops_the_file(
    tmp_path: Path, kind: str, text: str, header: str, before: str
) -> None:
    column = header.rpartition(",")[2]
    path = write_parquet(tmp_path, grid_of(header, f"2026-03-02,{before}{text}"), {column: kind})

    assert f"{path}: row 1: {column}: {text!r}: {FINITE}" == refusal(path)


def test_a_float_that_rounds_to_nothing_stops_the_file(tmp_path: Path) -> None:
    path = write_parquet(tmp_path, grid_of("date,SPY", "2026-03-02,1e-12"), {"SPY": "double"})

    assert f"{path}: row 1: SPY: '1e-12': {ABOVE_ZERO}" == refusal(path)


@pytest.mark.parametrize(
    ("header", "fault"),
    [
        ("day,symbol,close", "column 'day': unknown; allowed: date, symbol, open, high, low, close, volume"),
        (
            "date,symbol,closs",
            "column 'closs': unknown (did you mean 'close'?); allowed: date, symbol, open, high, low, close, volume",
        ),
        ("symbol,close", f"no column 'date' in the header 'symbol,close'; {SHAPES}"),
        ("date,symbol,open", f"no column 'close' in the header 'date,symbol,open'; {SHAPES}"),
        ("Date,Close", f"no column 'symbol' in the header 'Date,Close'; {SHAPES}"),
        ("Date,Open,High,Low", f"no column 'symbol' in the header 'Date,Open,High,Low'; {SHAPES}"),
        ("date;SPY", f"no column 'date' in the header 'date;SPY'; {SHAPES}"),
        ("AAA,BBB", f"no column 'date' in the header 'AAA,BBB'; {SHAPES}"),
        ("date", f"no column beside 'date'; {SHAPES}"),
        ("date,S$Y", f"column 'S$Y': {SYMBOL}"),
        (
            "date,symbol,close,Adj Close",
            f"column 'Adj Close': adjusted prices are refused, they change with every dividend; {SHAPES}",
        ),
        (
            "date,symbol,adjusted_close",
            f"column 'adjusted_close': adjusted prices are refused, they change with every dividend; {SHAPES}",
        ),
        (
            "Date,Adj Close,Close",
            f"column 'Adj Close': adjusted prices are refused, they change with every dividend; {SHAPES}",
        ),
    ],
)
@FORMATS
def test_a_header_that_is_neither_long_nor_wide_is_refused(
    tmp_path: Path, write: Writer, unit: str, offset: int, header: str, fault: str
) -> None:
    path = write(tmp_path, grid_of(header, ",".join("1" for _ in header.split(","))))

    assert f"{path}: {fault}" == refusal(path)


@pytest.mark.parametrize(
    ("header", "twice"), [("date,symbol,close,Close", "close"), ("date,SPY,SPY", "SPY"), ("date,SPY,Date", "date")]
)
def test_a_column_that_stands_twice_is_refused(tmp_path: Path, header: str, twice: str) -> None:
    path = write_csv(tmp_path, grid_of(header, ",".join("1" for _ in header.split(","))))

    assert f"{path}: column {twice!r}: stands more than once in the header" == refusal(path)


def test_a_column_that_stands_twice_in_parquet_is_refused(tmp_path: Path) -> None:
    path = write_parquet(tmp_path, grid_of("date,SPX,SPY", "2026-03-02,1,2"))
    path.write_bytes(path.read_bytes().replace(b"SPX", b"SPY"))

    assert f"{path}: column 'SPY': stands more than once in the header" == refusal(path)


def test_nested_columns_are_refused(tmp_path: Path) -> None:
    path = write_parquet(tmp_path, grid_of("date,SPY", "2026-03-02,[1]"), {"SPY": "integer[]"})

    assert f"{path}: holds lists, structs or maps: only plain columns are allowed" == refusal(path)


@FORMATS
def test_a_header_alone_is_refused(tmp_path: Path, write: Writer, unit: str, offset: int) -> None:
    long, wide = write(tmp_path, grid_of(LONG)), "date,SPY"

    assert f"{long}: no rows below the header" == refusal(long)

    path = write(tmp_path, grid_of(wide))

    assert f"{path}: no rows below the header" == refusal(path)


@pytest.mark.parametrize(
    ("name", "content", "fault"),
    [
        ("prices.csv", b"", "the file is empty"),
        ("prices.csv", b"\n\r\n", "the file is empty"),
        ("prices.parquet", b"", "the file is empty"),
        ("prices.csv", b"PAR1\xff\xfe\x00\x01", "not a text file (UTF-8 is needed)"),
        ("prices.csv", b"date,SPY\n2026-03-02,\xff\n", "not a text file (UTF-8 is needed)"),
        ("prices.csv", b"\x00\x01\x02", f"no column 'date' in the header '\\x00\\x01\\x02'; {SHAPES}"),
        (
            "prices.csv",
            b'date,SPY\n2026-03-02,"1\n2026-03-03,2\n',
            "line 2: not CSV that can be used: unexpected end of data",
        ),
        (
            "prices.parquet",
            b"date,SPY\n2026-03-02,1\n",
            "not a Parquet file that can be read: Invalid Input Error: No magic bytes found at end of file '{path}'",
        ),
        ("prices.xlsx", b"PK", "price files are CSV or Parquet, their names end in .csv or .parquet"),
        ("prices", b"date,SPY", "price files are CSV or Parquet, their names end in .csv or .parquet"),
    ],
)
def test_a_file_that_holds_no_prices_is_refused_in_one_line(
    tmp_path: Path, name: str, content: bytes, fault: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)

    assert f"{path}: {fault.format(path=path)}" == refusal(path)


@pytest.mark.parametrize("name", ["prices.csv", "prices.parquet", "prices.txt"])
def test_a_missing_file_and_a_folder_are_told_apart(tmp_path: Path, name: str) -> None:
    path = tmp_path / name

    assert f"{path}: no such file" == refusal(path)

    path.mkdir()

    assert f"{path}: a folder, not a file" == refusal(path)


def test_a_device_is_not_a_file() -> None:
    assert f"{os.devnull}: a device, not a file" == refusal(Path(os.devnull))


def test_a_path_that_cannot_be_one_is_refused() -> None:
    assert "a\0b.csv: cannot be read: embedded null byte" == refusal(Path("a\0b.csv"))


def test_damaged_parquet_is_refused_and_harms_nothing_else(tmp_path: Path) -> None:
    rows = [f"2026-03-02,S{number},{number + 1}" for number in range(100)]
    good = write_parquet(tmp_path, grid_of("date,symbol,close", *rows))
    whole = good.read_bytes()
    damaged = tmp_path / "damaged.parquet"
    chance = random.Random(1)  # noqa: S311  (the same damage each time)
    for _ in range(60):
        content = bytearray(whole)
        content[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
        damaged.write_bytes(content)
        try:
            read_prices(damaged, TODAY)
        except UnusableInput as error:
            assert "\n" not in str(error)  # noqa: PT017

    assert 100 == len(read_prices(good, TODAY))


# Every way to write the same prices


SYMBOLS = st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9 ._/\-]{0,10}[A-Za-z0-9])?", fullmatch=True).filter(
    lambda symbol: not symbol.lower().startswith(("date", "symbol", "open", "high", "low", "close", "volume", "adj"))
)
PRICES = st.integers(1, 10**13 - 1).flatmap(
    lambda units: st.integers(0, 8).map(lambda fine: Decimal(units).scaleb(-fine))
)
EXACT_IN_BINARY = st.integers(1, 10**14).map(lambda units: Decimal(units).scaleb(-8))  # 15 digits survive a double
DATES = st.dates(dt.date(1990, 1, 1), TODAY)


@st.composite
def tables(draw: st.DrawFn, prices: st.SearchStrategy[Decimal]) -> dict[tuple[str, str], Decimal]:
    symbols = draw(st.lists(SYMBOLS, min_size=1, max_size=5, unique_by=str.lower))
    dates = draw(st.lists(DATES.map(str), min_size=1, max_size=8, unique=True))
    keys = st.tuples(st.sampled_from(dates), st.sampled_from(symbols))
    return draw(st.dictionaries(keys, prices, min_size=1))


def long_grid(table: dict[tuple[str, str], Decimal]) -> Grid:
    return [["date", "symbol", "close"], *([*key, f"{close:f}"] for key, close in table.items())]


def wide_grid(table: dict[tuple[str, str], Decimal]) -> Grid:
    symbols = list(dict.fromkeys(symbol for _, symbol in table))
    dates = dict.fromkeys(date for date, _ in table)
    cells = {key: f"{close:f}" for key, close in table.items()}
    return [["date", *symbols], *([date, *(cells.get((date, symbol), "") for symbol in symbols)] for date in dates)]


def as_table(table: dict[tuple[str, str], Decimal]) -> BarTable:
    return closes(*((date, symbol, str(close)) for (date, symbol), close in sorted(table.items())))


@examples(40)
@given(tables(PRICES))
def test_a_table_comes_back_the_same_from_every_format_and_shape(table: dict[tuple[str, str], Decimal]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for grid in (long_grid(table), wide_grid(table)):
            types = dict.fromkeys(grid[0][2:] if "symbol" in grid[0] else grid[0][1:], "decimal(38, 8)")

            assert as_table(table) == read_prices(write_csv(Path(folder), grid), TODAY)
            assert as_table(table) == read_prices(write_parquet(Path(folder), grid), TODAY)
            assert as_table(table) == read_prices(write_parquet(Path(folder), grid, types), TODAY)


@examples(30)
@given(tables(EXACT_IN_BINARY))
def test_a_double_of_up_to_8_decimals_comes_back_as_it_was_written(table: dict[tuple[str, str], Decimal]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        long = write_parquet(Path(folder), long_grid(table), {"close": "double"})

        assert as_table(table) == read_prices(long, TODAY)


@examples(40)
@given(
    st.lists(st.tuples(*[st.decimals("0.01", "1000", places=4)] * 4, st.integers(0, 10**12)), min_size=1, max_size=8)
)
def test_whole_bars_come_back_the_same_from_both_formats(bars: list[tuple[Decimal, ...]]) -> None:
    rows = []
    for number, (*prices, volume) in enumerate(bars):
        low, first, second, high = sorted(prices)
        rows.append([f"2026-03-{number + 1:02}", "SPY", *map(str, (first, high, low, second, volume))])
    grid = [LONG.split(","), *rows]
    with tempfile.TemporaryDirectory() as folder:
        table = read_prices(write_csv(Path(folder), grid), TODAY)

        assert [tuple(row[2:]) for row in rows] == [
            tuple(map(str, bar))
            for bar in zip(table.open, table.high, table.low, table.close, table.volume, strict=True)
        ]
        assert table == read_prices(write_parquet(Path(folder), grid), TODAY)


@pytest.mark.slow
def test_a_million_rows_take_seconds(tmp_path: Path) -> None:
    dates = [str(dt.date(2020, 1, 1) + dt.timedelta(day)) for day in range(2_000)]
    rows = (
        [date, f"S{symbol}", "100.01", f"{symbol}.{day:04}", "0.5", f"{symbol}.{day:04}", f"{symbol}{day}"]
        for symbol in range(1, 501)
        for day, date in enumerate(dates)
    )
    path = write_csv(tmp_path, [LONG.split(","), *rows])
    begun = time.process_time()
    table = read_prices(path, TODAY)

    assert 1_000_000 == len(table)
    assert time.process_time() - begun < 20
