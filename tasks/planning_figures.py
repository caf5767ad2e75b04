"""What planning costs against what it plans: figures that show a planner which plans too much, or calls too often."""

from decimal import Decimal
from typing import Any

from blocks.ledger import Ledger, Reading
from blocks.models.account import calls_of
from blocks.models.budget import spent
from blocks.values import plain
from tasks.plan import critical_path
from tasks.revisions import plan_of

_ROLES = ("planner", "executor", "reviewer")
_TOKENS = ("input", "cache_read", "cache_write", "output")
_THREE = Decimal("0.001")


def planning_figures(book: Ledger | Reading, plan: str) -> dict[str, Any]:
    """Return the figures of one plan, over all its revisions; the steps are those of the newest.

    `planner_share` is the planner's part of all tokens (none where no model was asked), `longest_chain_share` the steps
    of the longest chain ÷ all steps: at 1 nothing runs side by side. A call nobody saw answered costs its worst.
    """
    entries = book.all("plan", plan)
    newest = plan_of(entries[-1])
    chain, steps = len(critical_path(newest.steps)), len(newest.steps)
    calls = list(calls_of(book, plan))
    tokens = {role: sum(call[kind] for call in calls if call["role"] == role for kind in _TOKENS) for role in _ROLES}
    whole = sum(tokens.values())
    executed = sum(call["role"] == "executor" for call in calls)
    run = book.get("run", entries[-1].body["run"])
    return {
        "plan": plan,
        "made_by": run.body.get("made_by", "rules") if run else "",
        "revisions": len(entries),
        "equal_revisions_refused": len(book.all("plan.refused", plan)),
        "steps": steps,
        "longest_chain": chain,
        "longest_chain_share": _share(chain, steps),
        "calls": len(calls),
        "tokens": whole,
        "planner_share": _share(tokens["planner"], whole) if whole else None,
        "executor_calls_per_step": _share(executed, steps),
        "usd": plain(spent(book, plan)),
    }


def _share(part: int, whole: int) -> str:
    return plain((Decimal(part) / whole).quantize(_THREE))
