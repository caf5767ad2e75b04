"""How a run begins: a plan for what was asked, or the next revision of a plan, recorded with the run."""

import uuid
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from blocks.clock import wall
from blocks.errors import NothingToReplan, PlanError, UnusableInput
from blocks.mandate import Mandate, read_mandate
from blocks.values import iso
from flows.world import World, moment_of, refuse_to_trade_the_past
from tasks.catalog import Catalog, load_catalog
from tasks.plan import Plan
from tasks.plan_check import check
from tasks.planners.rules import plan_steps
from tasks.revisions import Revision, begin, check_claimable, recorded_mandate


@dataclass(frozen=True)
class Asked:
    """What a run was asked for, as its flow parameters say it."""

    mandate: str
    as_of: datetime | None
    broker: str
    planner: str
    dry_run: bool


def refuse_what_is_not_there(asked: Asked) -> None:
    """Refuse what this version does not carry out. Raises UnusableInput."""
    if asked.broker != "paper":
        raise UnusableInput(f"--broker {asked.broker}: this version carries out 'paper' only")
    if asked.planner != "rules":
        raise UnusableInput(f"--planner {asked.planner}: this version carries out 'rules' only")


def begin_rebalance(world: World, run: str, asked: Asked) -> None:
    """Make a plan for what was asked, and record it and the run. Raises UnusableInput, PlanError."""
    refuse_what_is_not_there(asked)
    mandate = read_mandate(Path(asked.mandate))
    start = moment_of(world, mandate, asked.as_of, wall())
    if asked.as_of and not asked.dry_run:
        refuse_to_trade_the_past(world, mandate, asked.broker, start)
    plan = made(mandate, load_catalog(), start)
    body = {
        "broker": asked.broker, "planner": asked.planner, "mandate": Path(asked.mandate).stem, "as_of": iso(start),
        "asked_as_of": asked.as_of and iso(asked.as_of), "dry_run": asked.dry_run, "cause": "", "instead_of": "",
    }  # fmt: skip
    with world.ledger.writing() as book:
        begin(book, run, plan, mandate, body)


def begin_replan(world: World, run: str, plan: str, revision: int, cause: str) -> None:
    """Claim the revision after this one: of all who try, one does.

    Raises NothingToReplan, and PlanError where the plan has been revised often enough.
    """
    old = check_claimable(world.ledger, plan, revision, wall())
    mandate = recorded_mandate(world.ledger, old.plan.mandate_hash)
    asked_as_of = old.asked["asked_as_of"]
    start = moment_of(world, mandate, asked_as_of and datetime.fromisoformat(asked_as_of), wall())
    fresh = made(mandate, load_catalog(), start)
    new = fresh.model_copy(update={"id": plan, "revision": revision + 1, "parent": old.plan.hash})
    _refuse_another_round(old, new, mandate.freshness.max_revisions, cause)
    body = dict(old.asked) | {"as_of": iso(start), "cause": cause, "instead_of": old.run}
    with world.ledger.writing() as book:
        check_claimable(book, plan, revision, wall())
        begin(book, run, new, mandate, body)


def _refuse_another_round(old: Revision, new: Plan, max_revisions: int, cause: str) -> None:
    if new.revision > 1 + max_revisions:
        times = f"{max_revisions} times (freshness.max_revisions)"
        raise PlanError(f"plan {new.id} has been revised {times} and its results went stale again: {cause}")
    if old.state == "rejected" and new.hash == old.plan.hash:
        said = f"plan {new.id} revision {old.plan.revision} was rejected"
        raise NothingToReplan(f"{said}, and the planner makes the same plan again: {old.outcome['message']}")


def made(mandate: Mandate, catalog: Catalog, now: datetime) -> Plan:
    """Make a plan by rules, and check it like any other. Raises PlanError."""
    steps = plan_steps(mandate)
    problems = check([step.model_dump() for step in steps], mandate, catalog)
    if problems:
        raise PlanError("; ".join(f"{problem.code}: {problem.message}" for problem in problems))
    plan_id = f"p{uuid.uuid4().hex[:12]}"
    return Plan(id=plan_id, objective=mandate.objective, mandate_hash=mandate.hash, steps=steps, created_at=now)
