"""What became of a run, complete enough to show it, print it and read it again years later."""

from decimal import Decimal
from typing import Any, Literal

from pydantic import Field

from blocks.brokers.port import Side
from blocks.values import Amount, Moment, Number, money, plain
from tasks.plan import Plan
from tasks.situation import Reason, Skipped, Value
from tasks.verification.verdict import Verdict

RunState = Literal["completed", "held", "waiting", "partial", "rejected", "stale", "failed"]
StepState = Literal["done", "reused", "failed", "not run"]
OrderLineState = Literal["proposed", "intended", "sent", "working", "filled", "partly_filled", "dead", "unknown"]

GOOD: frozenset[str] = frozenset({"completed", "held", "waiting"})
"""The states with which `tradewright run` exits 0."""


class StepLine(Value):
    """How one step of the plan went."""

    step: str
    tool: str
    state: StepState
    message: str = Field(description="what it found, or why it failed, in one line")
    as_of: Moment | None = None
    expires_at: Moment | None = None


class OrderLine(Value):
    """One order, from proposal to fill."""

    order_ref: str
    symbol: str
    side: Side
    quantity: Amount
    limit: Amount
    state: OrderLineState
    filled: Amount = Decimal(0)
    price: Amount | None = Field(None, description="average price of the fills")
    commission: Amount = Decimal(0)
    message: str = ""


class WeightLine(Value):
    """A symbol's share of managed equity; after: by what filled, at the same prices."""

    symbol: str
    before: Number
    target: Number
    after: Number


def is_forecast(state: RunState, *, dry_run: bool) -> bool:
    """Tell whether a run's figures of afterwards are what would be, if every order filled at its limit."""
    return state == "waiting" or (dry_run and state == "completed")


class Outcome(Value):
    """The whole of a run."""

    run: str = Field(description="flow run id")
    state: RunState
    message: str = Field(description="why it ended so, in one line")
    mandate: str = Field(description="the mandate's name")
    account: str
    broker: str
    currency: str
    dry_run: bool
    as_of: Moment = Field(description="the run's own clock at its start")
    ended_at: Moment = Field(description="the run's own clock at its end")
    plan: Plan | None
    cause: str = Field("", description="why this revision replaced the one before; empty for a first one")
    steps: tuple[StepLine, ...] = ()
    equity: Number | None = Field(None, description="managed equity before, base currency")
    cash_before: Number | None = None
    cash_after: Number | None = Field(None, description="by what filled; a forecast where nothing was sent yet")
    weights: tuple[WeightLine, ...] = ()
    orders: tuple[OrderLine, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    verdict: Verdict | None = None
    reasons: tuple[Reason, ...] = Field(
        (), description="why there are no orders, where the draft was refused or the plan went stale"
    )
    notes: tuple[str, ...] = Field(
        (), description="what a person should know: frozen symbols, holdings outside the mandate"
    )
    snapshots: tuple[str, ...] = ()
    usd: Amount = Field(Decimal(0), description="spent on language models")

    def for_machines(self, ui_url: str | None) -> dict[str, Any]:
        """Return what `tradewright run --json` prints: every price, quantity and sum a string."""
        plan, verdict = self.plan, self.verdict
        reasons = (*(verdict.reasons if verdict else ()), *self.reasons)
        return {
            "state": self.state,
            "message": self.message,
            "plan": plan and _plan(plan) | {"cause": self.cause},
            "verdict": {
                "approved": bool(verdict and verdict.approved),
                "reasons": [reason.model_dump() for reason in reasons],
                "checks": [check.model_dump() for check in verdict.checks] if verdict else [],
            },
            "orders": [_order(line) for line in self.orders],
            "skipped": [skip.model_dump() for skip in self.skipped],
            "steps": [step.model_dump(mode="json") for step in self.steps],
            "notes": list(self.notes),
            "equity": None if self.equity is None else money(self.equity),
            "cash_after": None if self.cash_after is None else money(self.cash_after),
            "as_of": self.model_dump(mode="json")["as_of"],
            "snapshots": list(self.snapshots),
            "usd": plain(self.usd),
            "flow_run_id": self.run,
            "ui_url": ui_url,
        }


def _plan(plan: Plan) -> dict[str, Any]:
    steps = [step.model_dump() for step in plan.steps]
    return {"id": plan.id, "revision": plan.revision, "hash": plan.hash, "steps": steps}


def _order(line: OrderLine) -> dict[str, Any]:
    price = None if line.price is None else money(line.price)
    return line.model_dump(mode="json") | {"limit": money(line.limit), "price": price}
