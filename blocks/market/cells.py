"""The cells of a sheet of prices: which texts are allowed in a column, and what they mean."""

import datetime as dt
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import partial
from typing import Any

from pydantic import TypeAdapter, ValidationError

from blocks.values import Symbol

_DATE = re.compile(r"(\d{4}-\d\d-\d\d)([ T]00:00:00(\.0+)?)?", re.ASCII)  # pandas writes a date as a midnight
_USUAL = re.compile(r"(?:\d{1,12}+(?:\.\d{1,8}+)?+\n)++", re.ASCII)  # a whole column of plain figures
_USUAL_BINARY = re.compile(r"(?:\d{1,12}+(?:\.\d++)?+\n)++", re.ASCII)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)
_FINEST = Decimal("1e-8")
_LARGEST = Decimal("1e13")  # as in blocks.values; DECIMAL(21,8) holds every figure
OLDEST = dt.date(1900, 1, 1)
"""Before it there are no daily prices; a year 1 or 202 is a slip."""
_REMEMBERED = 100_000
_SYMBOL = "a letter or digit, then letters, digits, space and . _ / -, at most 32 in all"
_symbol_rule: TypeAdapter[str] = TypeAdapter(Symbol)


class CellError(ValueError):
    """A text of a column is not allowed; the message says what is."""

    def __init__(self, index: int, allowed: str) -> None:
        super().__init__(allowed)
        self.index = index


class Judge(dict[str, Any]):
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
        """Return a column's values. Raises CellError at the first text that is not allowed."""
        values: list[Any] = []
        try:
            values.extend(map(self.__getitem__, texts))  # keeps what came before an error
        except ValueError as error:
            raise CellError(len(values), str(error)) from None
        return values


class _JudgeOfFigures(Judge):
    """As above; a column of nothing but plain figures above zero, the usual case, is judged at one go."""

    def __init__(self, value_of: Callable[[bool, str], Any], binary: bool) -> None:
        super().__init__(partial(value_of, binary))
        self.binary = binary

    def column(self, texts: Sequence[str]) -> list[Any]:
        """Return a column's values. Raises CellError at the first text that is not allowed."""
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
    if date < OLDEST:
        raise ValueError(f"should be no earlier than {OLDEST}")
    return date


def symbol_of(text: str) -> str:
    """Return the symbol that a text is. Raises ValueError that says what is allowed."""
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


def judge_of(name: str, today: dt.date, binary: bool = False) -> Judge:
    """Return the judge of a column by its name: date, symbol, close and volume; any other is a price or empty."""
    if name == "date":
        return Judge(partial(_date, today))
    if name == "symbol":
        return Judge(symbol_of)
    return _JudgeOfFigures({"close": _price, "volume": _volume_or_none}.get(name, _price_or_none), binary)
