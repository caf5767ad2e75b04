"""The paper broker's book: an account as its entries in the ledger tell it.

Its entries are the broker's own, apart from what our side records of intents, orders and fills: `paper.account` (the
opening cash), `paper.order` (as placed, with the refusal if there was one and the executions to come), `paper.fill`,
`paper.cancel` and `paper.transfer`. Cash, positions and the state of every order are the fold of those: what is
still to come is in none.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from functools import cached_property
from typing import Any

from pydantic import Field

from blocks.brokers.port import Fill, Order, OrderReport, OrderState, Word
from blocks.ledger import Reading
from blocks.values import Moment, Number, Symbol

_NONE = Decimal(0)


class Placed(Word):
    """An order as the broker took it, or as it refused it."""

    order_ref: str
    order: Order
    at: Moment
    refusal: str = ""
    to_come: tuple[Fill, ...] = Field((), description="executions decided on, each to be booked once it is due")

    def body(self) -> dict[str, Any]:
        """Return what is written down of it; without executions to come it reads as before there were any."""
        return self.model_dump(exclude=None if self.to_come else {"to_come"})


class Transfer(Word):
    """Cash in the account's currency and shares by symbol that came in, or left where they are below zero."""

    cash: Number
    shares: dict[Symbol, Number]
    at: Moment
    note: str = ""


@dataclass(frozen=True)
class Book:
    """The account as its entries tell it; orders by reference, fills by execution id, each once and oldest first."""

    opening_cash: Decimal = _NONE
    orders: Mapping[str, Placed] = field(default_factory=dict)
    fills: Mapping[str, Fill] = field(default_factory=dict)
    cancelled: frozenset[str] = frozenset()
    transfers: tuple[Transfer, ...] = ()

    @cached_property
    def cash(self) -> Decimal:
        """Return the cash after all transfers, fills and their commissions."""
        transferred = sum((each.cash for each in self.transfers), _NONE)
        return self.opening_cash + transferred + sum((_cash_flow(fill) for fill in self.fills.values()), _NONE)

    @cached_property
    def held(self) -> dict[str, Decimal]:
        """Return symbol -> shares, in the order of symbols."""
        held: dict[str, Decimal] = {}
        for symbol, quantity in (pair for each in self.transfers for pair in each.shares.items()):
            held[symbol] = held.get(symbol, _NONE) + quantity
        for fill in self.fills.values():
            held[fill.symbol] = held.get(fill.symbol, _NONE) + (fill.quantity if fill.side == "buy" else -fill.quantity)
        return {symbol: quantity for symbol, quantity in sorted(held.items()) if quantity}

    @cached_property
    def _filled(self) -> dict[str, Decimal]:
        filled: dict[str, Decimal] = {}
        for fill in self.fills.values():
            filled[fill.order_ref] = filled.get(fill.order_ref, _NONE) + fill.quantity
        return filled

    def filled(self, order_ref: str) -> Decimal:
        """Return the shares of an order that have filled."""
        return self._filled.get(order_ref, _NONE)

    def paid(self, order_ref: str) -> Decimal:
        """Return the commission that an order has paid."""
        return sum((fill.commission for fill in self.fills.values() if fill.order_ref == order_ref), _NONE)

    def state(self, order_ref: str, now: datetime) -> tuple[OrderState, str]:
        """Return an order's state, and what ended it before it was filled whole."""
        placed, filled = self.orders[order_ref], self.filled(order_ref)
        if placed.refusal:
            return "dead", placed.refusal
        if filled == placed.order.quantity:
            return "filled", ""
        if order_ref not in self.cancelled and not _expired(placed, now):
            return "working", ""
        return "partly_filled" if filled else "dead", "cancelled" if order_ref in self.cancelled else "expired"

    def working(self, now: datetime) -> list[Placed]:
        """Return the orders that still work, oldest first."""
        return [placed for placed in self._unended if not _expired(placed, now)]

    def due(self, now: datetime) -> list[Fill]:
        """Return the executions that have come due by now and are not booked, the earliest first."""
        to_come = (fill for placed in self._unended for fill in placed.to_come if fill.exec_id not in self.fills)
        return sorted((fill for fill in to_come if fill.at <= now), key=lambda fill: fill.at)

    @cached_property
    def _unended(self) -> list[Placed]:
        """Return the orders that nothing has ended but, perhaps, the end of their day."""
        taken = (placed for placed in self.orders.values() if not placed.refusal)
        alive = (placed for placed in taken if placed.order_ref not in self.cancelled)
        return [placed for placed in alive if self.filled(placed.order_ref) != placed.order.quantity]


def _expired(placed: Placed, now: datetime) -> bool:
    return now.astimezone(UTC).date() > placed.at.date()


def _cash_flow(fill: Fill) -> Decimal:
    value = fill.quantity * fill.price
    return (value if fill.side == "sell" else -value) - fill.commission


def folded(entries: Reading, account: str) -> Book:
    """Return the account's book as of this reading."""
    opened = entries.get("paper.account", account)
    orders = [Placed.model_validate(entry.body) for entry in entries.all("paper.order", account)]
    fills = [Fill.model_validate(entry.body) for entry in entries.all("paper.fill", account)]
    return Book(
        opening_cash=Decimal(opened.body["cash"]) if opened else _NONE,
        orders={order.order_ref: order for order in orders},
        fills={fill.exec_id: fill for fill in fills},
        cancelled=frozenset(entry.body["order_ref"] for entry in entries.all("paper.cancel", account)),
        transfers=tuple(Transfer.model_validate(entry.body) for entry in entries.all("paper.transfer", account)),
    )


_CHANGES = ("paper.order", "paper.cancel", "paper.fill", "paper.transfer")


def newest_change(entries: Reading, account: str) -> int:
    """Return the number of the account's newest change."""
    changes = (entries.latest(kind, account) for kind in _CHANGES)
    return max((entry.seq for entry in changes if entry), default=0)


def report_of(book: Book, order_ref: str, now: datetime) -> OrderReport:
    """Return what became of an order that is in the book."""
    order = book.orders[order_ref].order
    state, reason = book.state(order_ref, now)
    return OrderReport(
        order_ref=order_ref,
        symbol=order.symbol,
        side=order.side,
        quantity=_reportable(order.quantity),
        filled=book.filled(order_ref),
        limit=_reportable(order.limit),
        state=state,
        reason=reason,
    )


def _reportable(figure: Decimal) -> Decimal:
    """Return 0 for what a report cannot hold (NaN, below zero): such an order was refused, and its reason tells."""
    return figure if figure.is_finite() and figure > 0 else _NONE
