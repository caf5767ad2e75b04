"""How an order fills on paper: whole when it is placed, or later and in two parts. Decided when it is placed."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from decimal import ROUND_CEILING, Decimal

from blocks.brokers.commission import Commission
from blocks.brokers.paper_book import Placed
from blocks.brokers.port import Fill
from blocks.canonical import digest
from blocks.errors import UnusableInput

SMALLEST_LOT = Decimal("0.0001")
_NONE = Decimal(0)


@dataclass(frozen=True)
class Pace:
    """How fast orders fill: `first_fill` of each after the latency, the rest after as long again."""

    latency: timedelta = timedelta(0)
    first_fill: Decimal = Decimal(1)

    def __post_init__(self) -> None:
        """Refuse what makes no sense. Raises UnusableInput."""
        if self.latency < timedelta(0):
            raise UnusableInput(f"latency: {self.latency}: should be nothing or more")
        if not (self.first_fill.is_finite() and 0 < self.first_fill <= 1):
            raise UnusableInput(f"first_fill: {self.first_fill}: should be above 0 and at most 1")


def executions(account: str, placed: Placed, price: Decimal, pace: Pace, commission: Commission) -> tuple[Fill, ...]:
    """Return the executions of an order that its limit lets trade at this price; its day ends before a later one.

    Parts pay what the order would whole, so that no minimum is taken twice.
    """
    return tuple(_executions(account, placed, price, pace, commission))


def _executions(account: str, placed: Placed, price: Decimal, pace: Pace, commission: Commission) -> Iterator[Fill]:
    done = paid = _NONE
    for number, part in enumerate(_parts(placed.order.quantity, pace.first_fill)):
        due = placed.at + (number + 1) * pace.latency
        if due.date() > placed.at.date():
            return
        fee = max(commission(done + part, price) - paid, _NONE)
        yield Fill(
            exec_id=f"paper-{digest([account, placed.order_ref, *([number] if number else [])])[:20]}",
            order_ref=placed.order_ref,
            symbol=placed.order.symbol,
            side=placed.order.side,
            quantity=part,
            price=price,
            commission=fee,
            at=due,
        )
        done, paid = done + part, paid + fee


def _parts(quantity: Decimal, first_fill: Decimal) -> tuple[Decimal, ...]:
    """Return what is executed at a time: whole shares, unless the order itself is of a fraction."""
    lot = SMALLEST_LOT if quantity % 1 else Decimal(1)
    first = min((quantity * first_fill / lot).to_integral_value(ROUND_CEILING) * lot, quantity)
    return (first, quantity - first) if first < quantity else (quantity,)
