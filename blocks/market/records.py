"""How quotes, accounts and bars are laid out in columns, and put together again."""

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from blocks.brokers.port import AccountState, Position, WorkingOrder
from blocks.market.bar_table import BarTable
from blocks.market.quotes import Bar, Quote
from blocks.market.shapes import BARS, CASH, ORDERS, POSITIONS, QUOTES, SYMBOLS, WINDOW, Shape
from blocks.market.staging import Table
from blocks.values import plain

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)

Row = tuple[Any, ...]
Window = tuple[tuple[dt.date, ...], dict[str, tuple[Decimal | None, ...]]]
"""Sessions, ascending, and each symbol's closes in them."""


def _table(shape: Shape, rows: Iterable[Row]) -> Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(shape.columns)
    return Table(shape, dict(zip(shape.columns, columns, strict=True)))


def _figure(value: Decimal | None) -> str | None:
    """Write a number as text, alike for all that are alike: no payload or sign of NaN, no -0."""
    if value is None or not value.is_finite():
        return None if value is None else "NaN" if value.is_nan() else str(value)
    return plain(value) if value else "0"


def quote_table(quotes: Iterable[Quote]) -> Table:
    """Lay out quotes."""
    return _table(QUOTES, (_quote_row(quote) for quote in quotes))


def _quote_row(quote: Quote) -> Row:
    at_us = None if quote.at is None else (quote.at - _EPOCH) // _MICROSECOND
    before = (quote.symbol, _figure(quote.bid), _figure(quote.ask), _figure(quote.last), at_us, quote.currency)
    return (*before, _figure(quote.previous_close), _figure(quote.tick), _figure(quote.adv), quote.delayed)


def quotes_of(rows: Iterable[Row]) -> tuple[Quote, ...]:
    """Put quotes together again."""
    return tuple(_quote(dict(zip(QUOTES.columns, row, strict=True))) for row in rows)


def _quote(cells: dict[str, Any]) -> Quote:
    at_us = cells.pop("at_us")
    return Quote(at=None if at_us is None else _EPOCH + at_us * _MICROSECOND, **cells)


def account_tables(state: AccountState, open_orders: Iterable[WorkingOrder]) -> dict[str, Table]:
    """Lay out an account and its working orders."""
    currencies = sorted({*state.cash, *state.settled_cash})
    return {
        "positions": _table(POSITIONS, ((held.symbol, held.quantity) for held in state.positions)),
        "cash": _table(CASH, ((code, state.cash.get(code), state.settled_cash.get(code)) for code in currencies)),
        "orders": _table(
            ORDERS,
            (
                (order.order_ref, order.symbol, order.side, order.quantity, order.filled, order.limit)
                for order in open_orders
            ),
        ),
    }


def account_of(
    name: str, as_of: str, rows: Mapping[str, Sequence[Row]]
) -> tuple[AccountState, tuple[WorkingOrder, ...]]:
    """Put an account and its working orders together again."""
    state = AccountState(
        id=name,
        as_of=dt.datetime.fromisoformat(as_of),
        cash={code: total for code, total, _ in rows["cash"] if total is not None},
        settled_cash={code: settled for code, _, settled in rows["cash"] if settled is not None},
        positions=tuple(Position(symbol=symbol, quantity=quantity) for symbol, quantity in rows["positions"]),
    )
    return state, tuple(_order(row) for row in rows["orders"])


def _order(row: Row) -> WorkingOrder:
    order_ref, symbol, side, quantity, filled, limit = row
    return WorkingOrder(order_ref=order_ref, symbol=symbol, side=side, quantity=quantity, filled=filled, limit=limit)


def bar_tables(bars: BarTable) -> dict[str, Table]:
    """Lay out bars, and beside them which symbols they are of, so that this need not be searched for."""
    sessions: dict[str, list[dt.date]] = {}
    for symbol, session in zip(bars.symbol, bars.session, strict=True):
        sessions.setdefault(symbol, []).append(session)
    return {
        "bars": Table(BARS, {name: getattr(bars, name) for name in BARS.columns}),
        "symbols": _table(SYMBOLS, ((symbol, min(its), max(its), len(its)) for symbol, its in sessions.items())),
    }


def bars_of(rows: Iterable[Row]) -> BarTable:
    """Put a table of bars together again."""
    columns = _table(BARS, rows).columns
    return BarTable(
        symbol=tuple(columns["symbol"]),
        session=tuple(columns["session"]),
        close=tuple(map(Decimal, columns["close"])),
        **{name: tuple(map(_decimal, columns[name])) for name in ("open", "high", "low", "volume")},
    )


def each_bar(rows: Iterable[Row]) -> list[Bar]:
    """Put bars together again, by column: a thousand of them are wanted at once."""
    keys_and_figures = list(zip(*rows, strict=True))
    figures = ([None if text is None else Decimal(text) for text in column] for column in keys_and_figures[2:])
    return [Bar._make(cells) for cells in zip(*keys_and_figures[:2], *figures, strict=True)]


def _decimal(text: str | None) -> Decimal | None:
    return None if text is None else Decimal(text)


def window_table(sessions: Sequence[dt.date], closes: Mapping[str, Sequence[Decimal | None]]) -> Table:
    """Lay out closes, sessions x symbols; what is missing takes a row too, so that all comes back."""
    return _table(
        WINDOW, ((session, symbol, closes[symbol][at]) for at, session in enumerate(sessions) for symbol in closes)
    )


def window_of(rows: Iterable[Row]) -> Window:
    """Put closes together again; the rows come by session."""
    sessions: dict[dt.date, None] = {}
    closes: dict[str, list[Decimal | None]] = {}
    for session, symbol, close in rows:
        sessions[session] = None
        closes.setdefault(symbol, []).append(_decimal(close))
    return tuple(sessions), {symbol: tuple(column) for symbol, column in closes.items()}
