"""Read price files, CSV and Parquet, in long form (a row a date and symbol) or wide form (a column a symbol)."""

import csv
import datetime as dt
from collections.abc import Iterable, Iterator
from pathlib import Path

from blocks.errors import UnusableInput
from blocks.market.bar_table import BarTable, Progress, table_of
from blocks.market.connection import cursor, pattern
from blocks.market.sheet import BATCH, Cells, Sheet

_PARQUET_TYPES = "describe select * from read_parquet(?, hive_partitioning = false)"
_PARQUET_AS_TEXT = "select coalesce(cast(columns(*) as varchar), '') from read_parquet(?, hive_partitioning = false)"


def read_prices(path: Path, today: dt.date, progress: Progress | None = None) -> BarTable:
    """Read a price file whole, or not at all. Raises UnusableInput that names row, column, value and what is allowed.

    Figures are exact: below 1e13 and of at most 8 decimals; only Parquet's FLOAT and DOUBLE are rounded, to 8 decimals.
    """
    try:
        return _read(path, today, progress)
    except FileNotFoundError:
        raise UnusableInput(f"{path}: no such file") from None
    except UnicodeDecodeError:
        raise UnusableInput(f"{path}: not a text file (UTF-8 is needed)") from None
    except (OSError, ValueError) as error:
        raise UnusableInput(f"{path}: cannot be read: {error}") from None


def _read(path: Path, today: dt.date, progress: Progress | None) -> BarTable:
    size = path.stat().st_size
    if not path.is_file():
        raise UnusableInput(f"{path}: {'a folder' if path.is_dir() else 'a device'}, not a file")
    if path.suffix.lower() not in {".csv", ".parquet"}:
        raise UnusableInput(f"{path}: price files are CSV or Parquet, their names end in .csv or .parquet")
    if not size:
        raise UnusableInput(f"{path}: the file is empty")
    if path.suffix.lower() == ".parquet":
        return table_of(_parquet_sheet(path), today, progress)
    with path.open(encoding="utf-8-sig", newline="") as file:
        return table_of(csv_sheet(str(path), file), today, progress)


def csv_sheet(name: str, lines: Iterable[str]) -> Sheet:
    """Return the sheet that lines of CSV hold; its rows are read as they are asked for. Raises UnusableInput."""
    rows = _csv_rows(name, lines)
    _, header = next(rows, (0, ()))
    if not header:
        raise UnusableInput(f"{name}: the file is empty")
    return Sheet(name, "line", tuple(header), rows)


def _csv_rows(name: str, lines: Iterable[str]) -> Iterator[tuple[int, Cells]]:
    reader = csv.reader(lines, strict=True)
    number = 1
    try:
        for cells in reader:
            if cells:
                yield number, cells
            number = reader.line_num + 1
    except csv.Error as error:
        raise UnusableInput(f"{name}: line {number}: not CSV that can be used: {error}") from None


def _parquet_sheet(path: Path) -> Sheet:
    import duckdb  # noqa: PLC0415

    file = [pattern(path.absolute())]
    try:
        names = [name for (name,) in cursor().execute("select name from parquet_schema(?)", file).fetchall()][1:]
        types = [kind for _, kind, *_ in cursor().execute(_PARQUET_TYPES, file).fetchall()]
    except duckdb.Error as error:
        raise _not_parquet(path, error) from None
    if len(names) != len(types):
        raise UnusableInput(f"{path}: holds lists, structs or maps: only plain columns are allowed")
    binary = frozenset(at for at, kind in enumerate(types) if kind in {"FLOAT", "DOUBLE"})
    return Sheet(str(path), "row", tuple(names), _parquet_rows(path), binary)


def _parquet_rows(path: Path) -> Iterator[tuple[int, Cells]]:
    """Yield rows as text: of a float it is the shortest that reads back as the same float."""
    import duckdb  # noqa: PLC0415

    done = 0
    try:
        with cursor().cursor() as own:  # the thread's may be asked for other things while this one streams
            own.execute(_PARQUET_AS_TEXT, [pattern(path.absolute())])
            while rows := own.fetchmany(BATCH):
                yield from enumerate(rows, start=done + 1)
                done += len(rows)
    except duckdb.Error as error:
        raise _not_parquet(path, error) from None


def _not_parquet(path: Path, error: Exception) -> UnusableInput:
    return UnusableInput(f"{path}: not a Parquet file that can be read: {str(error).partition(chr(10))[0]}")
