"""What a terminal shows of a plan and of a run: text that is complete without colour, in 80 columns."""

import json
import textwrap
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

from tasks.outcome import OrderLine, Outcome, StepLine, WeightLine
from tasks.pictures import age, most_changed, readable
from tasks.plan import Plan, Step, critical_path
from tasks.report import (
    FEW,
    average_of,
    gate,
    moment,
    orders_in_short,
    per_cent,
    price_of,
    quantity_of,
    rule_lines,
    skipped_kinds,
    statement,
    step_lines,
    sum_of,
)

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

COLUMNS = 80
MOST_ORDERS = 30
MOST_WEIGHTS = 40

_STYLES = {
    **dict.fromkeys(("completed", "held", "done", "filled"), "green"),
    **dict.fromkeys(("waiting", "partial", "stale", "partly filled"), "yellow"),
    **dict.fromkeys(("rejected", "failed", "dead", "unknown"), "bold red"),
    "reused": "blue",
    "not run": "dim",
}
_PLAINER = str.maketrans({"●": "o", "│": "|", "├": "+", "┼": "+", "┴": "+", "╰": "`", "─": "-", "→": ">", "·": "-", "…": "~"})


def draw_plan(plan: Plan) -> str:
    """Draw the plan's graph in lanes, a step a row with what it takes and why, and name its critical path."""
    lines = []
    for step, (row, below) in zip(plan.in_order, _graph(plan), strict=True):
        lines.append(f"{row} {step.id}  {step.tool}{_params(step)}")
        ...
    path = critical_path(plan.steps)
    lines.append(f"critical path: {' → '.join(path)} ({len(path)} of {len(plan.steps)} steps)")
    return "\n".join(lines)
