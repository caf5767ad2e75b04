"""A table of bars, and how it is made of a sheet: every cell judged, the first bad one named."""

import datetime as dt
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import islice, pairwise
from typing import Any

from blocks.market.cells import CellError, Judge, judge_of, symbol_of
from blocks.market.sheet import BATCH, LONG, Cells, Sheet, check_header
from blocks.values import plain

Progress = Callable[[int], None]
"""Is told how many rows are done."""

_Columns = dict[str, list[Any]]


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


def table_of(sheet: Sheet, today: dt.date, progress: Progress | None = None) -> BarTable:
    """Judge a sheet and return its bars. Raises UnusableInput where anything in it is bad."""
    sheet = replace(sheet, header=tuple(name.strip() for name in sheet.header))
    check_header(sheet)
    take = _long if "symbol" in map(str.lower, sheet.header) else _wide
    numbers, columns = take(sheet, today, progress)
    if not numbers:
        raise sheet.bad("no rows below the header")
    return _in_order(sheet, numbers, columns)


def _batches(
    sheet: Sheet, judges: list[Judge], progress: Progress | None
) -> Iterator[tuple[list[int], list[list[Any]]]]:
    """Yield some rows at a time: their numbers, and their values by column."""
    rows, done = iter(sheet.rows), 0
    while batch := list(islice(rows, BATCH)):
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


def _judged(sheet: Sheet, numbers: list[int], texts: list[Cells], judges: list[Judge]) -> list[list[Any]]:
    values: list[list[Any]] = []
    bad: list[tuple[int, int, str]] = []
    for at, judge in enumerate(judges):
        try:
            values.append(judge.column(texts[at]))
        except CellError as error:
            bad.append((error.index, at, str(error)))
    if bad:
        index, at, allowed = min(bad)
        raise sheet.bad_cell(numbers[index], sheet.header[at], texts[at][index], allowed)
    return values


def _long(sheet: Sheet, today: dt.date, progress: Progress | None) -> tuple[list[int], _Columns]:
    names = [column.lower() for column in sheet.header]
    judges = [judge_of(name, today, at in sheet.binary) for at, name in enumerate(names)]
    numbers: list[int] = []
    columns: _Columns = {name: [] for name in LONG}
    for some, values in _batches(sheet, judges, progress):
        batch = {name: [None] * len(some) for name in LONG} | dict(zip(names, values, strict=True))
        _check_ranges(sheet, some, batch)
        numbers += some
        for name in LONG:
            columns[name] += batch[name]
    return numbers, columns


def _check_ranges(sheet: Sheet, numbers: list[int], batch: _Columns) -> None:
    for number, high, low, close in zip(numbers, batch["high"], batch["low"], batch["close"], strict=True):
        if low is not None and high is not None and high < low:
            raise sheet.bad_cell(number, "high", plain(high), f"should be at least the low, {plain(low)}")
        if low is not None and close < low:
            raise sheet.bad_cell(number, "close", plain(close), f"should be at least the low, {plain(low)}")
        if high is not None and close > high:
            raise sheet.bad_cell(number, "close", plain(close), f"should be at most the high, {plain(high)}")


def _wide(sheet: Sheet, today: dt.date, progress: Progress | None) -> tuple[list[int], _Columns]:
    of_date = [column.lower() for column in sheet.header].index("date")
    symbols = _symbols_of(sheet, of_date)
    judges = [
        judge_of("date" if at == of_date else "price", today, at in sheet.binary) for at in range(len(sheet.header))
    ]
    numbers: list[int] = []
    columns: _Columns = {name: [] for name in LONG}
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
            symbols.append(symbol_of(column))
        except ValueError as error:
            raise sheet.bad_column(column, str(error)) from None
    return symbols


def _in_order(sheet: Sheet, numbers: list[int], columns: _Columns) -> BarTable:
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
