"""Commands that work on files alone: plans, drafts and verdicts, with no server, store or ledger."""

import json
import sys
import uuid
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from blocks.clock import wall
from blocks.errors import UnusableInput
from blocks.mandate import Mandate, read_mandate, sample_path
from blocks.reading import checked, read_json
from blocks.values import Moment, Name, money, plain
from tasks.catalog import load_catalog
from tasks.plan import Plan, Step
from tasks.plan_check import Problem, check
from tasks.planners.rules import plan_steps
from tasks.situation import Value, read_situation

Answer = tuple[int, dict[str, Any], str]
"""Exit status, what a machine reads, and what a person reads."""


def _said(text: str) -> str:
    if not text.strip():
        raise ValueError("should say what is wanted")
    return text


class PlanFile(Value):
    """A plan as a file holds it: the check judges its steps; all but those and the objective may be left out."""

    objective: Annotated[str, AfterValidator(_said)]
    steps: list[Any]
    id: Name | None = None
    revision: int | None = Field(None, ge=1)
    parent: str | None = None
    mandate_hash: str | None = None
    created_at: Moment | None = None
    hash: str | None = None


def make_plan(mandate: Path | None, *, as_json: bool) -> int:
    """Print the rules planner's plan for a mandate."""
    wanted = mandate_of(mandate)
    plan = Plan(
        id=f"p{uuid.uuid4().hex[:12]}", objective=wanted.objective, mandate_hash=wanted.hash,
        steps=plan_steps(wanted), created_at=wall(),
    )  # fmt: skip
    content = plan.model_dump(mode="json") | {"hash": plan.hash}
    print(json.dumps(content, indent=None if as_json else 2))
    return 0


def mandate_of(path: Path | None) -> Mandate:
    """Read a mandate; none named means the sample."""
    return read_mandate(path or sample_path())


def check_plans(files: Sequence[Path], mandate: Path | None, *, as_json: bool) -> int:
    """Check plan files."""
    wanted = mandate_of(mandate)

    def answer(path: Path) -> Answer:
        problems = _problems(read_plan(path), wanted)
        said = {"ok": not problems, "problems": [problem.model_dump() for problem in problems]}
        return int(bool(problems)), said, _told(problems) or "the plan can be carried out"

    return _each(files, answer, as_json=as_json)


def show_plans(files: Sequence[Path], mandate: Path | None) -> int:
    """Draw plan files."""
    from tasks.plan_drawing import draw_plan  # noqa: PLC0415

    wanted = mandate_of(mandate)

    def answer(path: Path) -> Answer:
        file = read_plan(path)
        problems = _problems(file, wanted)
        if problems:
            return 1, {}, _told(problems)
        steps = tuple(Step.model_validate(step) for step in file.steps)
        plan = Plan(
            id=file.id or "plan", objective=file.objective, mandate_hash=wanted.hash, steps=steps, created_at=wall()
        )
        return 0, {}, draw_plan(plan)

    return _each(files, answer, as_json=False)


def read_plan(path: Path) -> PlanFile:
    """Read a plan file as it was written, amounts kept as text. Raises UnusableInput where nothing can be checked."""
    return checked(PlanFile, read_json(path, real=str, whole=int), str(path))


def _problems(file: PlanFile, mandate: Mandate) -> tuple[Problem, ...]:
    return check(file.steps, mandate, load_catalog())


def _told(problems: Sequence[Problem]) -> str:
    return "\n".join(
        f"{problem.code}{f' in {problem.step}' if problem.step else ''}: {problem.message}" for problem in problems
    )


def draft_orders(files: Sequence[Path], *, as_json: bool) -> int:
    """Draft orders for situation files."""
    from tasks.executors.draft import draft  # noqa: PLC0415

    def answer(path: Path) -> Answer:
        content = read_json(path)
        content.pop("orders", None)
        proposal = draft(read_situation(content, str(path)))
        orders = [_order(order.symbol, order.side, order.quantity, order.limit) for order in proposal.orders]
        said: dict[str, Any] = {"orders": orders, "skipped": [skip.model_dump() for skip in proposal.skipped]}
        if proposal.refused:
            said["reasons"] = [reason.model_dump() for reason in proposal.reasons]
        said["cash_after"] = money(proposal.cash_after)
        lines = [f"{o['side']} {o['quantity']} {o['symbol']} at {o['limit']}" for o in orders]
        lines += [f"skipped {skip.symbol}: {skip.reason}" for skip in proposal.skipped]
        lines += [f"refused: {reason.symbol} {reason.reason}" for reason in proposal.reasons]
        return int(proposal.refused), said, "\n".join([*lines, f"cash after: {said['cash_after']}"])

    return _each(files, answer, as_json=as_json)


def _order(symbol: str, side: str, quantity: Decimal, limit: Decimal) -> dict[str, str]:
    return {"symbol": symbol, "side": side, "quantity": plain(quantity), "limit": money(limit)}


def verify_orders(files: Sequence[Path], *, as_json: bool) -> int:
    """Judge the orders of situation files."""
    from tasks.verification.verdict import verify  # noqa: PLC0415

    def answer(path: Path) -> Answer:
        situation = read_situation(read_json(path), str(path))
        if situation.orders is None:
            raise UnusableInput(f"{path}: orders: missing; verify judges them")
        verdict = verify(situation, situation.orders)
        said = verdict.model_dump(mode="json")
        said = {
            "approved": verdict.approved,
            "reasons": [r.model_dump() for r in verdict.reasons],
            "checks": said.pop("checks"),
            **said,
        }
        lines = [f"{reason.check} {reason.symbol}".rstrip() + f": {reason.reason}" for reason in verdict.reasons]
        held, failed = len(verdict.checks) - len(lines), f"{len(lines)} of {len(verdict.checks)} checks failed"
        head = f"approved: {held} checks held" if verdict.approved else f"refused: {failed}"
        return int(not verdict.approved), said, "\n".join([head, *lines])

    return _each(files, answer, as_json=as_json)


def _each(files: Sequence[Path], answer: Callable[[Path], Answer], *, as_json: bool) -> int:
    """Answer file by file, a JSON line each for machines; one that cannot be used does not keep the others from it."""
    worst = 0
    for path in files:
        try:
            status, said, text = answer(path)
        except UnusableInput as error:
            status, said, text = 2, {"error": str(error)}, ""
            print(f"tradewright: {' '.join(str(error).split())}", file=sys.stderr)
        worst = max(worst, status)
        if as_json:
            print(json.dumps(said))
        elif text:
            print(f"{path}:\n{text}" if len(files) > 1 else text)
    return worst
