"""A sheet of prices: the header and the rows of a file, and which headers can be used."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from blocks.errors import UnusableInput
from blocks.reading import nearest

BATCH = 300  # rows; so few that the garbage collector does not look at each: it takes half the time
LONG = ("date", "symbol", "open", "high", "low", "close", "volume")

_SHAPES = "long form: date,symbol,close and, if known, open,high,low,volume; wide form: date and a column a symbol"
_ADJUSTED = re.compile(r"adj(usted)?[ ._-]*(open|high|low|close|volume|price)")

Cells = Sequence[str]


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


def check_header(sheet: Sheet) -> None:
    """Raise UnusableInput where the header is neither of the long form nor of the wide."""
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
        if is_long and key not in LONG:
            raise sheet.bad_column(column, f"unknown{nearest(key, LONG)}; allowed: {', '.join(LONG)}")
