"""Rows on their way into a file: typed, sorted, and known by what they say."""

import datetime as dt
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from blocks.canonical import canonical_json
from blocks.errors import MarketError
from blocks.market.connection import cursor
from blocks.market.shapes import DECIMALS, Kind, Shape
from blocks.values import plain

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Column = Sequence[Any]
_BLOCK = 64 * 4096  # rows of which the texts are in memory at once: some 25 MB


@dataclass(frozen=True)
class Table:
    """Values to be stored, by column."""

    shape: Shape
    columns: Mapping[str, Column]

    def __len__(self) -> int:
        return len(self.columns[self.shape.key[0]])


@dataclass(frozen=True)
class Selected:
    """Values to be stored that this thread's cursor has already, typed and judged, as a temporary table."""

    shape: Shape
    name: str
    rows: int

    def __len__(self) -> int:
        return self.rows


@contextmanager
def staged(table: Table | Selected) -> Iterator["DuckDBPyConnection"]:
    """Hold the rows, sorted, as the cursor's temporary table `staged`. Raises MarketError for what does not fit."""
    import duckdb  # noqa: PLC0415

    duck = cursor()
    try:
        if isinstance(table, Selected):
            ordered = f"select {table.shape.names} from {table.name} order by {table.shape.order}"  # noqa: S608
            duck.execute(f"create or replace temp table staged as {ordered}")
        else:
            _load(duck, table)
        _check_once(duck, table.shape)
        yield duck
    except duckdb.DataError as error:
        raise MarketError(f"a figure cannot be stored: {str(error).partition(chr(10))[0]}") from None
    except duckdb.Error as error:
        raise MarketError(f"the rows cannot be stored: {str(error).partition(chr(10))[0]}") from None
    finally:
        duck.execute("drop table if exists staged")


def _load(duck: "DuckDBPyConnection", table: Table) -> None:
    import numpy as np  # noqa: PLC0415

    # As text, since a million texts are taken over in 0.2 s, and a million of Decimal, or a bound list, in 1 to 7 s.
    shape = table.shape
    texts = {name: np.array(_texts(kind, table.columns[name]), dtype=object) for name, kind in shape.columns.items()}
    duck.register("given", texts)
    try:
        for name, kind in shape.columns.items():
            if kind in DECIMALS:
                _check_digits(duck, name, DECIMALS[kind])
        duck.execute(f"create or replace temp table staged as select {shape.casts} from given order by {shape.order}")  # noqa: S608
    finally:
        duck.unregister("given")


def _check_digits(duck: "DuckDBPyConnection", name: str, decimals: int) -> None:
    """Refuse what a cast would round without a word."""
    digits = f"strlen(rtrim(split_part({name}::varchar, '.', 2), '0'))"
    too_fine = f"select {name} from given where {digits} > $decimals limit 1"  # noqa: S608
    for (value,) in duck.execute(too_fine, {"decimals": decimals}).fetchall():
        raise MarketError(f"{name} {value} cannot be stored: should have at most {decimals} decimals")


def _check_once(duck: "DuckDBPyConnection", shape: Shape) -> None:
    if not shape.once:
        return
    key = ", ".join(shape.key)
    twice = f"select {key} from staged group by {key} having count(*) > 1 limit 1"  # noqa: S608
    for row in duck.execute(twice).fetchall():
        raise MarketError(f"{' '.join(map(str, row))}: should stand once, and stands twice")


def content_id(duck: "DuckDBPyConnection", shape: Shape, table: str = "staged") -> str:
    """Return the SHA-256 of what a table's rows say, in their order.

    It covers the columns' names and kinds and every value's canonical text, so that it is the same whatever file they
    are written to: in rows of any order at first, by any version of DuckDB, in any compression.
    """
    sha = hashlib.sha256(canonical_json([[name, kind] for name, kind in shape.columns.items()]).encode())
    text = f"string_agg({shape.line}, '' order by rowid)"
    some = f"select {text} from {table} where rowid between $first and $last group by rowid // 4096 order by min(rowid)"  # noqa: S608
    for first in range(0, _rows(duck, table), _BLOCK):
        for (line,) in duck.execute(some, {"first": first, "last": first + _BLOCK - 1}).fetchall():
            sha.update(line.encode())
    return sha.hexdigest()


def _rows(duck: "DuckDBPyConnection", table: str) -> int:
    return int(duck.execute(f"select count(*) from {table}").fetchall()[0][0])  # noqa: S608


def _texts(kind: Kind, values: Column) -> list[str | None]:
    if kind == "text":
        return list(values)
    if kind in DECIMALS:
        return [None if value is None else _plain(value, str(value)) for value in values]
    if kind == "date":
        known: dict[dt.date, str] = {date: date.isoformat() for date in set(values)}  # far fewer than rows
        return [known[date] for date in values]
    return [None if value is None else str(value) for value in values]


def _plain(value: Decimal, text: str) -> str:
    return plain(value) if "E" in text else text
