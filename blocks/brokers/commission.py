"""What a broker takes for a trade."""

from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal

Commission = Callable[[Decimal, Decimal], Decimal]
"""Quantity and price -> what the broker takes for the trade."""


def fixed_commission(quantity: Decimal, price: Decimal) -> Decimal:
    """Return what IBKR's fixed plan takes: 0.005 a share, at least 1.00, yet never over 1 % of the trade's value."""
    due = min(max(quantity * Decimal("0.005"), Decimal(1)), quantity * price / 100)
    return due.quantize(Decimal("0.01"), ROUND_HALF_UP)
