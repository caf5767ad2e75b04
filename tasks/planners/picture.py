"""The picture a planner is given: the account in figures, and what ended the plan before; no text of third parties."""

from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from blocks.mandate import Mandate
from blocks.values import money, plain
from tasks.executors.analyse import measure_drift
from tasks.situation import Account, Quotes, Targets

_A_TENTH_OF_A_PERCENT = Decimal("0.001")


@dataclass(frozen=True)
class Picture:
    """What a planner sees. It names no account, run or plan, so that the same state makes the same prompt."""

    on: date
    account: dict[str, Any]
    changed: str = ""


def picture_of(mandate: Mandate, account: Account, quotes: Quotes, now: datetime, changed: str = "") -> Picture:
    """Draw the picture of an account at the prices of a moment."""
    drift = measure_drift(Targets(method="none", weights={}), quotes, account, mandate)
    held = account.state.held()
    figures = {
        "currency": mandate.base_currency,
        "managed_equity": money(drift.equity),
        "cash": money(account.state.cash.get(mandate.base_currency, Decimal(0))),
        "holdings": {
            symbol: {"shares": plain(held[symbol]), "weight": _rounded(drift.weights.get(symbol))}
            for symbol in mandate.universe
            if symbol in held
        },
        "working_orders": len(account.open_orders),
        "without_a_price": [symbol for symbol in mandate.universe if symbol not in drift.weights],
    }
    return Picture(now.date(), figures, changed)


def _rounded(weight: Decimal | None) -> str:
    return "unknown" if weight is None else plain(weight.quantize(_A_TENTH_OF_A_PERCENT))
