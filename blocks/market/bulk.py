"""Plain price files in bulk: judged and laid out by DuckDB at one go, in a small part of the time and memory.

Plain is a CSV file in long form with our own column names and, in every cell, nothing but the usual characters. What is
not, or has anything wrong with it, is left to `read_prices`, which takes more kinds of files and names what is wrong.
"""

import datetime as dt
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from blocks.market.cells import OLDEST
from blocks.market.connection import cursor, pattern
from blocks.market.shapes import BARS, SYMBOLS
from blocks.market.sheet import LONG
from blocks.market.staging import Selected

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

# No quotes: one would stand in a cell, which is then not plain. So a row is what is between line ends and commas.
_READ = """
read_csv($path, auto_detect = false, header = true, all_varchar = true, delim = ',', quote = '', escape = '',
    new_line = '{line_end}', compression = 'none', hive_partitioning = false, columns = {{{columns}}})
"""

_FIGURE = r"regexp_full_match({0}, '[0-9]{{1,12}}(\.[0-9]{{1,8}})?')"
_PRICE = f"{_FIGURE} and try_cast({{0}} as decimal(21, 8)) > 0"
_PLAIN = {
    "date": "regexp_full_match(date, '[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}')"
    f" and try_cast(date as date) between '{OLDEST}' and $today",
    "symbol": "regexp_full_match(symbol, '[A-Za-z0-9][A-Za-z0-9._/-]{{0,31}}')",
    **dict.fromkeys(("open", "high", "low"), f"coalesce({_PRICE}, {{0}} is null)"),
    "close": _PRICE,
    "volume": f"coalesce({_FIGURE}, {{0}} is null)",
}

_BARS = """
create or replace temp table plain as
select try_cast(date as date) as session, symbol, {figures}, coalesce({plain}, false) as plain from {rows}
"""

_ALL_WELL = """
select coalesce(bool_and(plain and coalesce(low <= high, true) and coalesce(low <= close, true)
    and coalesce(close <= high, true)), false) from plain
"""

_TWICE = "select count(*) from (select 1 from plain group by session, symbol having count(*) > 1 limit 1)"

_HELD = """
create or replace temp table plain_symbols as
select symbol, min(session) as first_session, max(session) as last_session, count(*) as bars from plain group by symbol
"""

_SUMMARY = "select count(*), sum(bars)::bigint, min(first_session), max(last_session) from plain_symbols"


@dataclass(frozen=True)
class PlainBars:
    """A plain file's bars as tables to be stored, and what there is to say of them."""

    tables: dict[str, Selected]
    rows: int
    symbols: int
    first: dt.date
    last: dt.date


@contextmanager
def plain_bars(path: Path, today: dt.date) -> Iterator[PlainBars | None]:
    """Hold a plain file's bars for as long as it takes to store them; None where the file is not plain."""
    import duckdb  # noqa: PLC0415

    duck = cursor()
    try:
        held = _held(duck, path, today)
    except (OSError, UnicodeError, duckdb.Error):
        held = None
    try:
        yield held
    finally:
        duck.execute("drop table if exists plain")
        duck.execute("drop table if exists plain_symbols")


def _held(duck: "DuckDBPyConnection", path: Path, today: dt.date) -> PlainBars | None:
    with path.open("rb") as file:
        first_line = file.readline(200)
    line_end = r"\r\n" if first_line.endswith(b"\r\n") else r"\n"
    names = first_line.decode().strip().split(",")
    if path.suffix.lower() != ".csv" or not _is_plain_header(names):
        return None
    duck.execute(_question(names, line_end), {"path": pattern(path.absolute()), "today": today})
    if not _one(duck, _ALL_WELL)[0] or _one(duck, _TWICE)[0]:
        return None
    duck.execute(_HELD)
    symbols, rows, first, last = _one(duck, _SUMMARY)
    # DuckDB refuses a row of too few columns, but not one with a comma too many at its end.
    if _commas(path) != (rows + 1) * (len(names) - 1):
        return None
    tables = {"bars": Selected(BARS, "plain", rows), "symbols": Selected(SYMBOLS, "plain_symbols", symbols)}
    return PlainBars(tables, rows, symbols, first, last)


def _is_plain_header(names: list[str]) -> bool:
    return len(set(names)) == len(names) and {"date", "symbol", "close"} <= set(names) <= set(LONG)


def _commas(path: Path) -> int:
    with path.open("rb") as file:
        return sum(block.count(b",") for block in iter(partial(file.read, 1 << 20), b""))


def _question(names: list[str], line_end: str) -> str:
    """Return the SQL that reads the file; of the file only names that are ours are in it."""
    columns = ", ".join(f"'{name}': 'varchar'" for name in names)
    figures = (
        f"try_cast({name if name in names else 'null'} as decimal(38, 12)) as {name}"
        for name in BARS.columns
        if name in LONG and name != "symbol"
    )
    plain = " and ".join(f"({_PLAIN[name].format(name)})" for name in names)
    rows = _READ.format(line_end=line_end, columns=columns)
    return _BARS.format(figures=", ".join(figures), plain=plain, rows=rows)


def _one(duck: "DuckDBPyConnection", question: str) -> tuple[Any, ...]:
    row: tuple[Any, ...] = duck.execute(question).fetchall()[0]
    return row
