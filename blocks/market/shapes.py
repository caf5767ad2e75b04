"""The shapes in which values are stored: the columns of a part, their types, and the order of its rows."""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["text", "integer", "date", "flag", "decimal12", "decimal20"]

_TYPES: dict[Kind, str] = {
    "text": "varchar",
    "integer": "bigint",
    "date": "date",
    "flag": "boolean",
    "decimal12": "decimal(38, 12)",
    "decimal20": "decimal(38, 20)",
}
DECIMALS: dict[Kind, int] = {"decimal12": 12, "decimal20": 20}


@dataclass(frozen=True)
class Shape:
    """A part's columns. All that is put into SQL from here is written in this file, none of it comes from outside."""

    columns: dict[str, Kind]
    key: tuple[str, ...]
    once: bool = False  # no two rows of one key

    @property
    def casts(self) -> str:
        """Return the columns as SQL that gives text its types."""
        return ", ".join(f"{name}::{_TYPES[kind]} as {name}" for name, kind in self.columns.items())

    @property
    def names(self) -> str:
        """Return the columns as SQL."""
        return ", ".join(self.columns)

    @property
    def nothing(self) -> str:
        """Return SQL that has the columns, the name of a file, and no rows."""
        columns = ", ".join(f"null::{_TYPES[kind]} as {name}" for name, kind in self.columns.items())
        return f"select {columns}, null::varchar as file where false"

    @property
    def order(self) -> str:
        """Return the order of the rows: by key, then by all the rest, so that one content has one order."""
        rest = (name for name in self.columns if name not in self.key)
        return ", ".join(f"{name} nulls first" for name in (*self.key, *rest))

    @property
    def spelled(self) -> str:
        """Return the columns as SQL in which each decimal is its plain text, as `plain` writes it."""
        return ", ".join(f"{_spelled(name, kind)} as {name}" for name, kind in self.columns.items())

    @property
    def line(self) -> str:
        """Return the SQL of a row's canonical text: each value behind its length in bytes, a hyphen for none.

        A decimal has all of its decimals: to trim them would take three times as long.
        """
        texts = (f"{name}::varchar" for name in self.columns)
        return " || ".join(f"coalesce(strlen({text}) || ':' || {text}, '-')" for text in texts)


def _spelled(name: str, kind: Kind) -> str:
    return f"rtrim(rtrim({name}::varchar, '0'), '.')" if kind in DECIMALS else name


# Prices have 12 decimals: files are read to 8, and 12 still leave room to multiply two columns in SQL (a product of two
# columns of 20 is more than a DECIMAL can be). What an account holds has 20: every figure that `Number` lets through.
BARS = Shape(
    {
        "session": "date",
        "symbol": "text",
        "open": "decimal12",
        "high": "decimal12",
        "low": "decimal12",
        "close": "decimal12",
        "volume": "decimal12",
    },
    key=("session", "symbol"),
    once=True,
)

SYMBOLS = Shape({"symbol": "text", "first_session": "date", "last_session": "date", "bars": "integer"}, key=("symbol",))

WINDOW = Shape({"session": "date", "symbol": "text", "close": "decimal12"}, key=("session", "symbol"), once=True)

# A quote may be NaN or infinite, which no DECIMAL can hold and a DOUBLE only beside rounded prices. Text is exact for
# all of them, and `bid::double` reads each of them in a notebook.
QUOTES = Shape(
    {
        "symbol": "text",
        "bid": "text",
        "ask": "text",
        "last": "text",
        "at_us": "integer",
        "currency": "text",
        "previous_close": "text",
        "tick": "text",
        "adv": "text",
        "delayed": "flag",
    },
    key=("symbol",),
)

POSITIONS = Shape({"symbol": "text", "quantity": "decimal20"}, key=("symbol",))

CASH = Shape({"currency": "text", "total": "decimal20", "settled": "decimal20"}, key=("currency",))

ORDERS = Shape(
    {
        "order_ref": "text",
        "symbol": "text",
        "side": "text",
        "quantity": "decimal20",
        "filled": "decimal20",
        "limit_price": "decimal20",
    },
    key=("order_ref", "symbol"),
)
