"""Approval: which orders a person is asked about, and whether what was approved is still what would be sent."""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Literal

from pydantic import Field

from blocks.brokers.port import Order
from blocks.ledger import Ledger
from blocks.mandate import Mandate
from blocks.values import Moment, plain
from tasks.plan import Plan
from tasks.situation import Proposal, Value


class Request(Value):
    """What a person is asked, and what they have answered so far."""

    state: Literal["asked", "approved", "refused"] = "asked"
    proposal_hash: str
    orders: tuple[Order, ...]
    expires_at: Moment = Field(description="by the wall clock: a person's time is real time")
    note: str = ""


def is_needed(mandate: Mandate, proposal: Proposal) -> bool:
    """Tell whether a person is to be asked: always, or above the threshold in notional, as the mandate says."""
    if mandate.approval.mode == "auto":
        return False
    return mandate.approval.mode == "always" or total(proposal.orders) > mandate.approval.threshold


def total(orders: Sequence[Order]) -> Decimal:
    """Return the sum of the orders' notionals."""
    return sum((order.notional for order in orders), Decimal(0))


def requested(ledger: Ledger, plan: Plan) -> Request | None:
    """Return what was asked about this revision, with the answer if there is one."""
    entry = ledger.latest("approval", f"{plan.id}/{plan.revision}")
    return Request.model_validate(entry.body) if entry else None


def ask(ledger: Ledger, plan: Plan, proposal: Proposal, mandate: Mandate, wall: datetime) -> Request:
    """Record that a person is asked about these orders, until the request expires."""
    until = wall.replace(microsecond=0) + mandate.approval.expires
    request = Request(proposal_hash=proposal.hash, orders=proposal.orders, expires_at=until)
    return _record(ledger, plan, request)


def answer(ledger: Ledger, plan: Plan, request: Request, *, approved: bool, note: str) -> Request:
    """Record what was answered."""
    state = "approved" if approved else "refused"
    return _record(ledger, plan, request.model_copy(update={"state": state, "note": note}))


def _record(ledger: Ledger, plan: Plan, request: Request) -> Request:
    ledger.append("approval", request.model_dump(mode="json"), subject=f"{plan.id}/{plan.revision}")
    return request


def why_it_no_longer_holds(request: Request, orders: Sequence[Order], reprice_bps: Decimal) -> str:
    """Return how the orders to be sent differ from those approved, a limit's step within `reprice_bps` apart."""
    was = {(order.symbol, order.side): order for order in request.orders}
    will = {(order.symbol, order.side): order for order in orders}
    if was.keys() != will.keys():
        changed = sorted(was.keys() ^ will.keys())
        return f"{changed[0][1]} {changed[0][0]} is {'no longer' if changed[0] in was else 'newly'} among the orders"
    for key, order in will.items():
        before = was[key]
        if order.quantity != before.quantity:
            counts = f"{plain(before.quantity)} approved, {plain(order.quantity)} now"
            return f"{order.side} {order.symbol}: {counts}"
        moved = abs(order.limit - before.limit) / before.limit * 10_000
        if moved > reprice_bps:
            limits = f"its limit went from {plain(before.limit)} to {plain(order.limit)}"
            return f"{order.side} {order.symbol}: {limits}, {moved:.0f} bps; at most {plain(reprice_bps)} are allowed"
    return ""
