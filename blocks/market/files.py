"""Read price files, CSV and Parquet, in long form (a row a date and symbol) or wide form (a column a symbol)."""

import csv
import datetime as dt
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from blocks.errors import UnusableInput
from blocks.market.connection import cursor, pattern
from blocks.reading import nearest
from blocks.values import Symbol, plain

Progress = Callable[[int], None]
Cells = Sequence[str]
Columns = dict[str, list[Any]]

_LONG = ("date", "symbol", "open", "high", "low", "close", "volume")
_SHAPES = "long form: date,symbol,close and, if known, open,high,low,volume; wide form: date and a column a symbol"
_ADJUSTED = re.compile(r"adj(usted)?[ ._-]*(open|high|low|close|volume|price)")
_DATE = re.compile(r"(\d{4}-\d\d-\d\d)([ T]00:00:00(\.0+)?)?", re.ASCII)  # pandas writes a date as a midnight
_USUAL = re.compile(r"(?:\d{1,12}+(?:\.\d{1,8}+)?+\n)++", re.ASCII)  # a whole column of plain figures
_USUAL_BINARY = re.compile(r"(?:\d{1,12}+(?:\.\d++)?+\n)++", re.ASCII)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)
_FINEST = Decimal("1e-8")
_LARGEST = Decimal("1e13")  # as in blocks.values; DECIMAL(21,8) holds every figure
_PARQUET_TYPES = "describe select * from read_parquet(?, hive_partitioning = false)"
_PARQUET_AS_TEXT = "select coalesce(cast(columns(*) as varchar), '') from read_parquet(?, hive_partitioning = false)"
_REMEMBERED = 100_000
_BATCH = 300  # rows; so few that the garbage collector does not look at each: it takes half the time
_SYMBOL = "a letter or digit, then letters, digits, space and . _ / -, at most 32 in all"
_symbol_rule: TypeAdapter[str] = TypeAdapter(Symbol)


@dataclass(frozen=True, slots=True)
class BarTable:
    """Bars by column, sorted by session and symbol; no symbol has two bars of one session."""

    symbol: tuple[str, ...]
    session: tuple[dt.date, ...]
    open: tuple[Decimal | None, ...]
    high: tuple[Decimal | None, ...]
    low: tuple[Decimal | None, ...]
    close: tuple[Decimal, ...]
    volume: tuple[Decimal | None, ...]

    def __len__(self) -> int:
        return len(self.symbol)


@dataclass(frozen=True)
class Sheet:
    """A file's header and its rows as text, each with the number by which a person finds it."""

    name: str
    unit: str
    header: tuple[str, ...]
    rows: Iterable[tuple[int, Cells]]
    binary: frozenset[int] = frozenset()  # columns of binary floats: these alone are rounded

    def bad(self, what: str) -> UnusableInput:
        """Return the error that says what is wrong with the file."""
        return UnusableInput(f"{self.name}: {what}")

    def bad_column(self, column: str, allowed: str) -> UnusableInput:
        """Return the error that names a column and what is allowed of it."""
        return self.bad(f"column {_shown(column)}: {allowed}")

    def bad_cell(self, number: int, column: str, value: str, allowed: str) -> UnusableInput:
        """Return the error that names a cell and what is allowed there."""
        return self.bad(f"{self.unit} {number}: {column}: {_shown(value)}: {allowed}")


def _shown(value: str) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


# Opening a file


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
            while rows := own.fetchmany(_BATCH):
                yield from enumerate(rows, start=done + 1)
                done += len(rows)
    except duckdb.Error as error:
        raise _not_parquet(path, error) from None


def _not_parquet(path: Path, error: Exception) -> UnusableInput:
    return UnusableInput(f"{path}: not a Parquet file that can be read: {str(error).partition(chr(10))[0]}")


# Judging a cell


class _CellError(ValueError):
    """A text of a column is not allowed; the message says what is."""

    def __init__(self, index: int, allowed: str) -> None:
        super().__init__(allowed)
        self.index = index


class _Judge(dict[str, Any]):
    """Values by their text: files repeat themselves, and each text need be judged only once."""

    def __init__(self, value_of: Callable[[str], Any]) -> None:
        super().__init__()
        self.value_of = value_of

    def __missing__(self, text: str) -> Any:
        value = self.value_of(text.strip())
        if len(self) < _REMEMBERED:
            self[text] = value
        return value

    def column(self, texts: Sequence[str]) -> list[Any]:
        """Return a column's values. Raises _CellError at the first text that is not allowed."""
        values: list[Any] = []
        try:
            values.extend(map(self.__getitem__, texts))  # keeps what came before an error
        except ValueError as error:
            raise _CellError(len(values), str(error)) from None
        return values


class _JudgeOfFigures(_Judge):
    """As above; a column of nothing but plain figures above zero, the usual case, is judged at one go."""

    def __init__(self, value_of: Callable[[bool, str], Any], binary: bool) -> None:
        super().__init__(partial(value_of, binary))
        self.binary = binary

    def column(self, texts: Sequence[str]) -> list[Any]:
        """Return a column's values. Raises _CellError at the first text that is not allowed."""
        joined = "\n".join((*texts, ""))
        usual = _USUAL_BINARY if self.binary else _USUAL
        if joined.count("\n") == len(texts) and usual.fullmatch(joined):
            values = [Decimal(text).quantize(_FINEST) for text in texts] if self.binary else list(map(Decimal, texts))
            if min(values) > 0:
                return values
        return super().column(texts)


def _date(today: dt.date, text: str) -> dt.date:
    match = _DATE.fullmatch(text)
    try:
        date = dt.date.fromisoformat(match[1] if match else "")
    except ValueError:
        raise ValueError("should be a date such as 2026-03-02") from None
    if date > today:
        raise ValueError(f"should be no later than today, {today}")
    return date


def _symbol(text: str) -> str:
    try:
        return _symbol_rule.validate_python(text)
    except ValidationError:
        raise ValueError(f"should be a symbol: {_SYMBOL}") from None


def _figure(binary: bool, text: str) -> Decimal:
    if not _NUMBER.fullmatch(text):
        raise ValueError("should be a finite number such as 101.25")
    value = Decimal(text)
    if abs(value) >= _LARGEST:
        raise ValueError(f"should be below {_LARGEST:f}")
    kept = value.quantize(_FINEST)
    if kept != value and not binary:
        raise ValueError("should have at most 8 decimals")
    return kept if binary else value


def _price(binary: bool, text: str) -> Decimal:
    price = _figure(binary, text) if text else None
    if price is None or price <= 0:
        raise ValueError("should be a price above zero")
    return price


def _price_or_none(binary: bool, text: str) -> Decimal | None:
    return _price(binary, text) if text else None


def _volume_or_none(binary: bool, text: str) -> Decimal | None:
    volume = _figure(binary, text) if text else None
    if volume is not None and volume < 0:
        raise ValueError("should be zero or more")
    return volume


def _judge_of(name: str, today: dt.date, binary: bool = False) -> _Judge:
    if name == "date":
        return _Judge(partial(_date, today))
    if name == "symbol":
        return _Judge(_symbol)
    return _JudgeOfFigures({"close": _price, "volume": _volume_or_none}.get(name, _price_or_none), binary)


# Judging a sheet


def table_of(sheet: Sheet, today: dt.date, progress: Progress | None = None) -> BarTable:
    """Judge a sheet and return its bars. Raises UnusableInput where anything in it is bad."""
    sheet = replace(sheet, header=tuple(name.strip() for name in sheet.header))
    _check_header(sheet)
    take = _long if "symbol" in map(str.lower, sheet.header) else _wide
    numbers, columns = take(sheet, today, progress)
    if not numbers:
        raise sheet.bad("no rows below the header")
    return _in_order(sheet, numbers, columns)


def _check_header(sheet: Sheet) -> None:
    names = [name.lower() for name in sheet.header]
    is_long = "symbol" in names
    _check_each_column(sheet, is_long)
    needed = {"date", "close"} if is_long else {"date"}
    if not is_long and ({"close", "volume"} & set(names) or {"open", "high", "low"} <= set(names)):
        needed.add("symbol")  # else Open, High and Low would be taken for symbols
    for name in sorted(needed - set(names)):
        raise sheet.bad(f"no column {name!r} in the header {_shown(','.join(sheet.header))}; {_SHAPES}")
    if len(names) == 1:
        raise sheet.bad(f"no column beside 'date'; {_SHAPES}")


def _check_each_column(sheet: Sheet, is_long: bool) -> None:
    # Two symbols may differ in case alone, two of our own columns may not.
    keys = [column.lower() if is_long or column.lower() == "date" else column for column in sheet.header]
    times = Counter(keys)
    for column, key in zip(sheet.header, keys, strict=True):
        if _ADJUSTED.fullmatch(column.lower()):
            raise sheet.bad_column(column, f"adjusted prices are refused, they change with every dividend; {_SHAPES}")
        if times[key] > 1:
            raise sheet.bad_column(column, "stands more than once in the header")
        if is_long and key not in _LONG:
            raise sheet.bad_column(column, f"unknown{nearest(key, _LONG)}; allowed: {', '.join(_LONG)}")


def _batches(
    sheet: Sheet, judges: list[_Judge], progress: Progress | None
) -> Iterator[tuple[list[int], list[list[Any]]]]:
    """Yield some rows at a time: their numbers, and their values by column."""
    rows, done = iter(sheet.rows), 0
    while batch := list(islice(rows, _BATCH)):
        for number, cells in batch:
            if len(cells) != len(judges):
                raise sheet.bad(
                    f"{sheet.unit} {number}: {len(cells)} columns: should be {len(judges)}, as in the header"
                )
        numbers = [number for number, _ in batch]
        yield numbers, _judged(sheet, numbers, list(zip(*(cells for _, cells in batch), strict=True)), judges)
        done += len(batch)
        if progress:
            progress(done)


def _judged(sheet: Sheet, numbers: list[int], texts: list[Cells], judges: list[_Judge]) -> list[list[Any]]:
    values: list[list[Any]] = []
    bad: list[tuple[int, int, str]] = []
    for at, judge in enumerate(judges):
        try:
            values.append(judge.column(texts[at]))
        except _CellError as error:
            bad.append((error.index, at, str(error)))
    if bad:
        index, at, allowed = min(bad)
        raise sheet.bad_cell(numbers[index], sheet.header[at], texts[at][index], allowed)
    return values


def _long(sheet: Sheet, today: dt.date, progress: Progress | None) -> tuple[list[int], Columns]:
    names = [column.lower() for column in sheet.header]
    judges = [_judge_of(name, today, at in sheet.binary) for at, name in enumerate(names)]
    numbers: list[int] = []
    columns: Columns = {name: [] for name in _LONG}
    for some, values in _batches(sheet, judges, progress):
        batch = {name: [None] * len(some) for name in _LONG} | dict(zip(names, values, strict=True))
        _check_ranges(sheet, some, batch)
        numbers += some
        for name in _LONG:
            columns[name] += batch[name]
    return numbers, columns


def _check_ranges(sheet: Sheet, numbers: list[int], batch: Columns) -> None:
    for number, high, low, close in zip(numbers, batch["high"], batch["low"], batch["close"], strict=True):
        if low is not None and high is not None and high < low:
            raise sheet.bad_cell(number, "high", plain(high), f"should be at least the low, {plain(low)}")
        if low is not None and close < low:
            raise sheet.bad_cell(number, "close", plain(close), f"should be at least the low, {plain(low)}")
        if high is not None and close > high:
            raise sheet.bad_cell(number, "close", plain(close), f"should be at most the high, {plain(high)}")


def _wide(sheet: Sheet, today: dt.date, progress: Progress | None) -> tuple[list[int], Columns]:
    of_date = [column.lower() for column in sheet.header].index("date")
    symbols = _symbols_of(sheet, of_date)
    judges = [
        _judge_of("date" if at == of_date else "price", today, at in sheet.binary) for at in range(len(sheet.header))
    ]
    numbers: list[int] = []
    columns: Columns = {name: [] for name in _LONG}
    for some, values in _batches(sheet, judges, progress):
        dates = values.pop(of_date)
        for number, date, prices in zip(some, dates, zip(*values, strict=True), strict=True):
            # An empty cell says: no price that day; the symbol may have been listed later.
            there = [at for at, price in enumerate(prices) if price is not None]
            if not there:
                raise sheet.bad_cell(number, "date", str(date), "should have a price of at least one symbol")
            numbers += [number] * len(there)
            columns["date"] += [date] * len(there)
            columns["symbol"] += [symbols[at] for at in there]
            columns["close"] += [prices[at] for at in there]
    return numbers, columns | dict.fromkeys(("open", "high", "low", "volume"), [None] * len(numbers))


def _symbols_of(sheet: Sheet, of_date: int) -> list[str]:
    symbols = []
    for column in sheet.header[:of_date] + sheet.header[of_date + 1 :]:
        try:
            symbols.append(_symbol(column))
        except ValueError as error:
            raise sheet.bad_column(column, str(error)) from None
    return symbols


def _in_order(sheet: Sheet, numbers: list[int], columns: Columns) -> BarTable:
    """Sort the bars by session and symbol, and refuse two of the same."""
    keys = list(zip(columns["date"], columns["symbol"], strict=True))
    order = sorted(range(len(keys)), key=keys.__getitem__)
    for earlier, later in pairwise(order):
        if keys[earlier] == keys[later]:
            session, symbol = keys[later]
            allowed = f"{symbol} has this date on {sheet.unit} {numbers[earlier]} already: should have it once"
            raise sheet.bad_cell(numbers[later], "date", str(session), allowed)
    return BarTable(
        session=tuple(map(columns.pop("date").__getitem__, order)),
        **{name: tuple(map(column.__getitem__, order)) for name, column in columns.items()},
    )
