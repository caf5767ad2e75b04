"""Approval: who is asked, about what, and whether what was approved is still what would be sent."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from blocks.brokers.port import Order
from blocks.ledger import Ledger
from blocks.mandate import Mandate
from tasks.approval import answer, ask, is_needed, requested, why_it_no_longer_holds
from tasks.plan import Plan
from tasks.situation import Proposal

NOW = datetime(2026, 3, 2, 15, 5, 7, 123456, tzinfo=UTC)
PLAN = Plan(id="p1", objective="", mandate_hash="m", steps=(), created_at=NOW)


def order(symbol: str = "SPY", side: str = "buy", quantity: str = "10", limit: str = "100") -> Order:
    return Order.model_validate({"symbol": symbol, "side": side, "quantity": quantity, "limit": limit})


def mandate(**approval: Any) -> Mandate:
    base = {"account": "A", "base_currency": "USD", "policy": {"weights": {"SPY": "0.5"}}}
    return Mandate.model_validate(base | {"approval": approval})


@pytest.mark.parametrize(
    ("approval", "needed"),
    [
        ({"mode": "auto", "threshold": "0"}, False),
        ({"mode": "always"}, True),
        ({"mode": "threshold", "threshold": "1999.99"}, True),
        ({"mode": "threshold", "threshold": "2000"}, False),
    ],
)
def test_a_person_is_asked_always_or_above_the_threshold(approval: dict[str, str], *, needed: bool) -> None:
    proposal = Proposal(orders=(order(), order("AGG", "sell")))

    assert needed == is_needed(mandate(**approval), proposal)


def test_a_request_is_on_record_with_its_expiry_and_then_with_its_answer(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.db", lambda: datetime.now(UTC))
    proposal = Proposal(orders=(order(),))

    assert requested(ledger, PLAN) is None
    request = ask(ledger, PLAN, proposal, mandate(mode="always", expires="10m"), NOW)
    assert request == requested(ledger, PLAN)
    assert ("asked", proposal.hash) == (request.state, request.proposal_hash)
    assert NOW.replace(microsecond=0) + timedelta(minutes=10) == request.expires_at

    answer(ledger, PLAN, request, approved=False, note="not before the election")
    assert request.model_copy(update={"state": "refused", "note": "not before the election"}) == requested(ledger, PLAN)
    assert requested(ledger, PLAN.model_copy(update={"revision": 2})) is None


@pytest.mark.parametrize(
    ("orders", "why"),
    [
        ([order()], ""),
        ([order(limit="100.30")], ""),
        ([order(limit="99.70")], ""),
        ([order(limit="100.31")], "buy SPY: its limit went from 100 to 100.31, 31 bps; at most 30 are allowed"),
        ([order(quantity="11")], "buy SPY: 10 approved, 11 now"),
        ([order(side="sell")], "buy SPY is no longer among the orders"),
        ([order(), order("AGG")], "buy AGG is newly among the orders"),
        ([], "buy SPY is no longer among the orders"),
    ],
)
def test_what_was_approved_holds_while_the_orders_are_the_same_and_their_limits_near(
    tmp_path: Path, orders: list[Order], why: str
) -> None:
    ledger = Ledger(tmp_path / "ledger.db", lambda: datetime.now(UTC))
    request = ask(ledger, PLAN, Proposal(orders=(order(),)), mandate(mode="always"), NOW)

    assert why == why_it_no_longer_holds(request, orders, Decimal(30))
