"""The paper broker's book: an account as its entries in the ledger tell it.

Its entries are the broker's own, apart from what our side records of intents, orders and fills: `paper.account` (the
opening cash), `paper.order` (as placed, with the refusal if there was one), `paper.fill` and `paper.cancel`. Cash,
positions and the state of every order are the fold of those.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from functools import cached_property

from blocks.brokers.port import Fill, Order, OrderReport, OrderState, Word
from blocks.ledger import Reading
from blocks.values import Moment

_NONE = Decimal(0)


class Placed(Word):
    """An order as the broker took it, or as it refused it."""

    order_ref: str
    order: Order
    at: Moment
    refusal: str = ""


@dataclass(frozen=True)
class Book:
    """The account as its entries tell it; orders and fills by order reference, each reference once."""

    opening_cash: Decimal = _NONE
    orders: Mapping[str, Placed] = field(default_factory=dict)
    fills: Mapping[str, Fill] = field(default_factory=dict)
    cancelled: frozenset[str] = frozenset()

    @cached_property
    def cash(self) -> Decimal:
        """Return the cash after all fills and their commissions."""
        return self.opening_cash + sum((_cash_flow(fill) for fill in self.fills.values()), _NONE)

    @cached_property
    def held(self) -> dict[str, Decimal]:
        """Return symbol -> shares, in the order of symbols."""
        held: dict[str, Decimal] = {}
        for fill in self.fills.values():
            held[fill.symbol] = held.get(fill.symbol, _NONE) + (fill.quantity if fill.side == "buy" else -fill.quantity)
        return {symbol: quantity for symbol, quantity in sorted(held.items()) if quantity}

    def state(self, order_ref: str, now: datetime) -> tuple[OrderState, str]:
        """Return an order's state, and the reason if it is dead."""
        placed = self.orders[order_ref]
        if placed.refusal:
            return "dead", placed.refusal
        if order_ref in self.fills:
            return "filled", ""
        if order_ref in self.cancelled:
            return "dead", "cancelled"
        return ("dead", "expired") if now.astimezone(UTC).date() > placed.at.date() else ("working", "")

    def working(self, now: datetime) -> list[Placed]:
        """Return the orders that still work, oldest first."""
        return [placed for ref, placed in self.orders.items() if self.state(ref, now)[0] == "working"]


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
        fills={fill.order_ref: fill for fill in fills},
        cancelled=frozenset(entry.body["order_ref"] for entry in entries.all("paper.cancel", account)),
    )


def newest_change(entries: Reading, account: str) -> int:
    """Return the number of the account's newest change. A fill is booked with its order, ahead of it."""
    changes = (entries.latest(kind, account) for kind in ("paper.order", "paper.cancel"))
    return max((entry.seq for entry in changes if entry), default=0)


def report_of(book: Book, order_ref: str, now: datetime) -> OrderReport:
    """Return what became of an order that is in the book."""
    order, fill = book.orders[order_ref].order, book.fills.get(order_ref)
    state, reason = book.state(order_ref, now)
    return OrderReport(
        order_ref=order_ref,
        symbol=order.symbol,
        side=order.side,
        quantity=_reportable(order.quantity),
        filled=fill.quantity if fill else _NONE,
        limit=_reportable(order.limit),
        state=state,
        reason=reason,
    )


def _reportable(figure: Decimal) -> Decimal:
    """Return 0 for what a report cannot hold (NaN, below zero): such an order was refused, and its reason tells."""
    return figure if figure.is_finite() and figure > 0 else _NONE
