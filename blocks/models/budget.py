"""The budget of an objective: every call is reserved at its worst before it leaves, and settled at its cost after.

One budget is for all that is spent on one plan, whoever spends it: its revisions, retries and replans too. What became
of a call that nobody saw answered is not known, so it stays reserved at its worst.
"""

import uuid
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from blocks.errors import BudgetSpent
from blocks.ledger import Ledger, Reading
from blocks.values import plain

_NONE = Decimal(0)


def reserve(ledger: Ledger, scope: str, limit: Decimal, worst: Decimal, call: Mapping[str, Any]) -> str:
    """Record a call that is about to leave and return its id. Raises BudgetSpent where it might not fit."""
    with ledger.writing() as book:
        so_far = spent(book, scope)
        if so_far + worst > limit:
            raise BudgetSpent(
                f"the call to {call['model']} may cost up to {_usd(worst)} USD, and of the budget of {_usd(limit)}"
                f" (models.budget_usd) {_usd(max(limit - so_far, _NONE))} is left: it was not sent"
            )
        name = uuid.uuid4().hex
        book.append("model.call", {**call, "worst_usd": worst}, key=name, subject=scope)
    return name


def spent(book: Ledger | Reading, scope: str) -> Decimal:
    """Return what an objective has cost so far, in USD; what is not settled counts at its worst."""
    return sum((cost_of(book, entry.key, entry.body) for entry in book.all("model.call", scope)), _NONE)


def cost_of(book: Ledger | Reading, name: str, call: Mapping[str, Any]) -> Decimal:
    """Return what one call cost, in USD: its worst until that is known."""
    settled = book.get("model.answer", name) or book.get("model.failure", name)
    return Decimal(settled.body["usd"] if settled else call["worst_usd"])


def _usd(amount: Decimal) -> str:
    return plain(amount.quantize(Decimal("0.000001")))
