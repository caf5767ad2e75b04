"""Plain price files: DuckDB takes what it is sure of, and what it takes is what the careful reader would have taken."""

import datetime as dt
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blocks.errors import UnusableInput
from blocks.ledger import Ledger
from blocks.market.bulk import plain_bars
from blocks.market.files import read_prices
from blocks.market.records import bar_tables
from blocks.market.staging import content_id, staged
from blocks.market.store import MarketStore
from tests.examples import examples

TODAY = dt.date(2026, 3, 2)
PLAIN = "date,symbol,open,high,low,close,volume\n2026-02-27,SPY,1,3,0.5,2.50,\n2026-02-27,AGG,,,,98.12345678,0\n"


def taken(path: Path) -> dict[str, str] | None:
    """Return the ids of what is taken in bulk; none where it is left to the careful reader."""
    with plain_bars(path, TODAY) as plain:
        return plain and {name: _id(table) for name, table in plain.tables.items()}


def read(path: Path) -> dict[str, str] | str:
    """Return the ids of what the careful reader takes, or what it says."""
    try:
        return {name: _id(table) for name, table in bar_tables(read_prices(path, TODAY)).items()}
    except UnusableInput as error:
        return str(error)


def _id(table: object) -> str:
    with staged(table) as duck:  # type: ignore[arg-type]
        return content_id(duck, table.shape)  # type: ignore[attr-defined]


def file_of(folder: Path, text: str) -> Path:
    path = folder / "prices.csv"
    path.write_bytes(text.encode())
    return path


@pytest.mark.parametrize(
    "text",
    [
        PLAIN,
        PLAIN.replace("\n", "\r\n"),
        PLAIN.rstrip("\n"),
        PLAIN + "\n\n",
        "symbol,close,date\nSPY,1,2026-03-02\nSPY,2,2026-03-01\nBRK.B,3,1900-01-01\n",
        "date,symbol,close\n" + "".join(f"2026-03-02,S{number},{number + 1}.5\n" for number in range(5000)),
    ],
)
def test_a_plain_file_is_taken_in_bulk_and_says_what_the_careful_reader_says(tmp_path: Path, text: str) -> None:
    path = file_of(tmp_path, text)

    assert taken(path)
    assert read(path) == taken(path)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "date,symbol,close\n",
        PLAIN + "2026-02-27,SPY,1,3,0.5,2.50,\n",  # twice
        PLAIN.replace("2.50", "2.500000001"),
        PLAIN.replace("2.50", "0"),
        PLAIN.replace("2.50", "4"),  # above the high
        PLAIN.replace("2.50", "-2"),
        PLAIN.replace("2.50", "nan"),
        PLAIN.replace("2.50", ""),
        PLAIN.replace("2.50", "25e-1"),
        PLAIN.replace("2.50", '"2.50"'),
        PLAIN.replace("2.50", " 2.50"),
        PLAIN.replace("2.50", "2,50"),
        PLAIN.replace("2.50", "1234567890123"),
        PLAIN.replace("SPY", "S PY"),
        PLAIN.replace("SPY", "€"),
        PLAIN.replace("2026-02-27,AGG", "2026-02-30,AGG"),
        PLAIN.replace("2026-02-27,AGG", "2026-03-03,AGG"),  # tomorrow
        PLAIN.replace("2026-02-27,AGG", "0000-02-27,AGG"),
        PLAIN.replace("close", "Close"),
        PLAIN.replace("volume", "shares"),
        PLAIN.replace("volume", "close"),
        PLAIN.replace(",volume", ""),
        "\ufeff" + PLAIN,
        "date,SPY,AGG\n2026-02-27,1,2\n",
    ],
)
def test_what_is_not_plain_is_left_to_the_careful_reader(tmp_path: Path, text: str) -> None:
    assert taken(file_of(tmp_path, text)) is None


@pytest.mark.parametrize("spoil", [Path.unlink, lambda path: path.write_bytes(PLAIN.encode() + b"\xff\0")])
def test_what_cannot_be_read_is_left_to_the_careful_reader(tmp_path: Path, spoil: Callable[[Path], object]) -> None:
    path = file_of(tmp_path, PLAIN)
    spoil(path)

    assert taken(path) is None


cells = {
    "date": st.sampled_from(["2026-02-27", "2026-02-26", "2026-02-28", "2026-2-27", "2026-02-27 00:00:00", ""]),
    "symbol": st.sampled_from(["SPY", "AGG", "spy", "BRK.B", " SPY", "-", "é", '"A"', ""]),
    "figure": st.sampled_from(
        ["1", "2.5", "01", "1.", ".5", "0", "0.00000001", "1e2", "+1", "1_0", "٣", "9" * 12, "", '"1"', "'1'", "1\r"]
    ),
}
plain_cells = {
    "date": st.dates(dt.date(2020, 1, 1), TODAY).map(str),
    "symbol": st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._/\-]{0,31}", fullmatch=True),
    "figure": st.from_regex(r"[1-9][0-9]{0,5}(\.[0-9]{1,8})?", fullmatch=True),
}


@st.composite
def files(draw: st.DrawFn) -> str:
    """Write a file of plain rows, with some rows that may be anything."""
    more = draw(st.sampled_from([[], ["volume"], ["open", "low"]]))
    columns = draw(st.permutations(["date", "symbol", "close", *more]))
    kinds = [column if column in cells else "figure" for column in columns]
    rows = []
    for _ in range(draw(st.integers(1, 5))):
        source = cells if draw(st.integers(0, 4)) == 0 else plain_cells
        row = [draw(source[kind]) for kind in kinds]
        rows.append(",".join(draw(st.sampled_from([*[row] * 9, [*row, ""], [*row, "1"], row[:-1], []]))))
    end = draw(st.sampled_from(["\n", "\n", "\r\n"]))
    return end.join([",".join(columns), *rows, draw(st.sampled_from(["", "", end, " "]))])


@examples(60)
@given(text=files())
def test_whatever_is_taken_in_bulk_is_what_the_careful_reader_takes(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    path = file_of(tmp_path_factory.mktemp("prices"), text)
    ids = taken(path)

    assert ids in (None, read(path))


def test_both_ways_in_make_one_snapshot(tmp_path: Path) -> None:
    path = file_of(tmp_path, PLAIN)
    store = MarketStore(tmp_path, Ledger(tmp_path / "ledger.db", lambda: dt.datetime.now(dt.UTC)))
    with plain_bars(path, TODAY) as plain:
        assert plain
        first = store.put_plain_bars("file", plain)
        said = (plain.rows, plain.symbols, plain.first, plain.last)

    assert first == store.put_bars("file", read_prices(path, TODAY))
    assert (2, 2, dt.date(2026, 2, 27), dt.date(2026, 2, 27)) == said
    assert 1 == len(store.snapshots())
