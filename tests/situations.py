"""Situations that more than one test module looks at."""

from decimal import Decimal
from typing import Any

from tasks.situation import Situation

NOW = "2026-03-02T15:05:00Z"


def all_in_cash(count: int, *, unsettled: int = 0, fractional: bool = False, **limits: Any) -> Situation:
    """Return an account all in cash whose weights take all of it, though some of it may not be spent yet."""
    symbols = [f"S{number:03}" for number in range(count)]
    prices = [Decimal(20 + 7 * number % 313) + Decimal(number % 100) / 100 for number in range(count)]
    quotes = [
        {"symbol": symbol, "bid": str(price), "ask": str(price), "previous_close": str(price), "at": NOW}
        for symbol, price in zip(symbols, prices, strict=True)
    ]
    wide = {"max_orders": 10_000, "max_order_notional": "1e9", "max_turnover": 9}
    return Situation.model_validate(
        {
            "now": NOW,
            "mandate": {
                "account": "PAPER", "base_currency": "USD", "min_trade": 100, "fractional": fractional,
                "policy": {"weights": dict.fromkeys(symbols, str(Decimal(1) / count)[:12]), "cash_buffer": 0},
                "bands": {"absolute": 0, "relative": 0}, "limits": {**wide, "cash_basis": "settled", **limits},
            },
            "account": {
                "cash": {"USD": str(2000 * count)}, "settled_cash": {"USD": str(2000 * count - unsettled)},
            },
            "quotes": quotes,
        }
    )  # fmt: skip
