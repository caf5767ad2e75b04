"""The rules planner: a plan from the mandate alone, with no model, gathering no more than the policy needs."""

from typing import Any

from blocks.mandate import METHODS_WITHOUT_BARS, Mandate
from tasks.plan import Step


def plan_steps(mandate: Mandate) -> tuple[Step, ...]:
    """Return the steps that rebalance to the mandate's policy."""
    needs_bars = mandate.policy.method not in METHODS_WITHOUT_BARS
    steps = [
        _step("quotes", "gather_quotes", why="prices of the whole universe decide weights and limits"),
        _step("positions", "gather_positions", why="what is held and the cash there is decide what can be traded"),
    ]
    if needs_bars:
        days = mandate.policy.lookback_days
        why = f"{mandate.policy.method} weighs by past returns"
        steps.append(_step("bars", "gather_bars", {"lookback_days": days}, why=why))
    method = {"method": mandate.policy.method}
    bars = {"bars": "bars"} if needs_bars else {}
    steps.append(_step("targets", "set_targets", method, bars, why="the weights that the mandate's policy asks for"))
    inputs = {"targets": "targets", "quotes": "quotes", "positions": "positions"}
    steps.append(_step("drift", "measure_drift", inputs=inputs, why="how far each weight has moved from its target"))
    known = {**inputs, "drift": "drift"}
    steps.append(_step("draft", "draft_orders", inputs=known, why="orders that bring the portfolio to its targets"))
    return tuple(steps)


def _step(
    step_id: str, tool: str, params: dict[str, Any] | None = None, inputs: dict[str, str] | None = None, *, why: str
) -> Step:
    return Step(id=step_id, tool=tool, params=params or {}, inputs=inputs or {}, why=why)
