"""How a run begins: a plan for what was asked, or the next revision of a plan, recorded with the run."""

import json
from datetime import datetime
from pathlib import Path

from blocks.canonical import digest
from blocks.clock import wall
from blocks.errors import NothingToReplan, PlanError
from blocks.ledger import Ledger
from blocks.mandate import read_mandate
from blocks.values import iso
from flows.asked import Asked, refuse_what_is_not_there
from flows.planning import Planner
from flows.world import World, moment_of, refuse_to_trade_the_past
from tasks.plan import Plan
from tasks.revisions import Revision, begin, check_claimable, recorded_mandate


def plan_id(run: str) -> str:
    """Return the id of the plan that a run makes: the same however often it begins anew, so that its budget is one."""
    return f"p{digest(run)[:12]}"


def begin_rebalance(world: World, run: str, asked: Asked) -> None:
    """Make a plan for what was asked, and record it and the run. Raises UnusableInput, PlanError."""
    mandate = read_mandate(Path(asked.mandate))
    refuse_what_is_not_there(asked, mandate, world.ledger, wall())
    start = moment_of(world, mandate, asked.as_of, wall())
    if asked.as_of and not asked.dry_run:
        refuse_to_trade_the_past(world, mandate, asked.broker, start)
    plan, maker = Planner(world, run, asked.planner, plan_id(run), asked.replay).made(mandate, start)
    body = {
        "broker": asked.broker, "planner": asked.planner, "replay": asked.replay, "made_by": maker,
        "mandate": Path(asked.mandate).stem, "as_of": iso(start), "asked_as_of": asked.as_of and iso(asked.as_of),
        "dry_run": asked.dry_run, "cause": "", "instead_of": "",
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
    _refuse_too_many(old, mandate.freshness.max_revisions, cause)
    planner = Planner(world, run, old.asked["planner"], plan, old.asked.get("replay"))
    fresh, maker = planner.made(mandate, start, _what_changed(old, cause))
    new = fresh.model_copy(update={"revision": revision + 1, "parent": old.plan.hash})
    _refuse_the_same(world.ledger, run, old, new)
    body = dict(old.asked) | {"made_by": maker, "as_of": iso(start), "cause": cause, "instead_of": old.run}
    with world.ledger.writing() as book:
        check_claimable(book, plan, revision, wall())
        begin(book, run, new, mandate, body)


def _refuse_too_many(old: Revision, max_revisions: int, cause: str) -> None:
    if old.plan.revision > max_revisions:
        times = f"{max_revisions} times (freshness.max_revisions)"
        raise PlanError(f"plan {old.plan.id} has been revised {times} and its results went stale again: {cause}")


def _refuse_the_same(ledger: Ledger, run: str, old: Revision, new: Plan) -> None:
    if old.state == "rejected" and new.hash == old.plan.hash:
        ledger.append("plan.refused", {"revision": new.revision, "run": run, "hash": new.hash}, subject=new.id)
        said = f"plan {new.id} revision {old.plan.revision} was rejected"
        raise NothingToReplan(f"{said}, and the planner makes the same plan again: {old.outcome['message']}")


def _what_changed(old: Revision, cause: str) -> str:
    """Say what ended a revision and how it went about it: in our own words and figures, and those of the owner."""
    steps = [step.model_dump(include={"id", "tool", "params", "inputs"}) for step in old.plan.steps]
    ended = {"state": old.state or "not ended", "cause": cause, "steps": steps}
    if old.state == "rejected":
        ended["reason"] = old.outcome["message"]
    return json.dumps(ended)
