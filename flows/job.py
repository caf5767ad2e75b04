"""A job: one flow run's mandate, plan, clock and doors; the same again when the run is retried."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from blocks.brokers.doors import read_only
from blocks.brokers.port import Broker
from blocks.clock import Clock, wall
from blocks.errors import PlanError, UnusableInput
from blocks.ledger import Ledger
from blocks.mandate import Mandate, read_mandate
from blocks.values import iso
from flows.world import World, moment_of
from tasks.catalog import Catalog, load_catalog
from tasks.desk import Desk
from tasks.lease import give_back, take
from tasks.plan import Plan
from tasks.plan_check import check
from tasks.planners.rules import plan_steps


@dataclass(frozen=True)
class Asked:
    """What a run was asked for, as its flow parameters say it."""

    mandate: str
    as_of: datetime | None
    broker: str
    planner: str
    dry_run: bool


@dataclass(frozen=True)
class Job:
    """Everything a run needs; the broker is for submission alone."""

    world: World
    name: str
    desk: Desk
    plan: Plan
    broker: Broker
    started: datetime
    dry_run: bool

    def looking_again(self) -> Desk:
        """Return the desk with the market as it is stored by now: the gate is not to see what the steps saw."""
        return replace(self.desk, market=self.world.market(self.desk.mandate))


@contextmanager
def opened(world: World, run: str, asked: Asked) -> Iterator[Job]:
    """Open a run's job and hold its account's lease. Raises UnusableInput, PlanError, LeaseTaken."""
    refuse_what_is_not_there(asked)
    catalog = load_catalog()
    if world.ledger.get("run", run) is None:
        _begin(world, run, asked, catalog)
    account = _recorded(world.ledger, run)[0].account
    take(world.ledger, account, run, wall())
    try:
        # Read only now: until the lease is ours another process may be at work on this very run.
        yield _job(world, run, asked, catalog, *_recorded(world.ledger, run))
    finally:
        give_back(world.ledger, account, run)


def refuse_what_is_not_there(asked: Asked) -> None:
    """Refuse what this version does not carry out. Raises UnusableInput."""
    if asked.broker != "paper":
        raise UnusableInput(f"--broker {asked.broker}: this version carries out 'paper' only")
    if asked.planner != "rules":
        raise UnusableInput(f"--planner {asked.planner}: this version carries out 'rules' only")


def check_mandate(mandate: Mandate) -> None:
    """Refuse a mandate that asks for what this version does not carry out. Raises UnusableInput."""
    if mandate.approval.mode != "auto":
        raise UnusableInput(
            f"approval.mode: {mandate.approval.mode!r}: this version carries out 'auto' only; nothing was started"
        )


def _job(world: World, run: str, asked: Asked, catalog: Catalog, mandate: Mandate, plan: Plan, start: datetime) -> Job:
    market, clock = world.market(mandate), Clock(start)
    broker = world.paper(mandate, world.market(mandate, pinned=False))  # an exchange trades at the prices there are
    desk = Desk(run, mandate, asked.broker, catalog, world.ledger, world.store, market, read_only(broker), clock.now)
    return Job(world, Path(asked.mandate).stem, desk, plan, broker, clock.start, asked.dry_run)


def _recorded(ledger: Ledger, run: str) -> tuple[Mandate, Plan, datetime]:
    """Return what this run began with: a changed mandate file must not change a run half done."""
    with ledger.reading() as book:
        entry = book.get("run", run)
        mandate = entry and book.get("mandate", entry.body["mandate_hash"])
        plan = entry and book.get("plan", f"{entry.body['plan']}/{entry.body['revision']}")
    if entry is None or mandate is None or plan is None:
        raise PlanError(f"run {run}: the ledger lacks its mandate or plan")
    return Mandate.model_validate(mandate.body), _plan(plan.body), _where_it_stopped(ledger, run, entry.body["as_of"])


def _where_it_stopped(ledger: Ledger, run: str, began: str) -> datetime:
    """Return the last moment of the run's own clock that is on record: a retry goes on from there, not before it."""
    moments = [began]
    moments += [entry.body["as_of"] for entry in ledger.all("step", run) if entry.body["as_of"]]
    moments += [entry.body["ended_at"] for entry in ledger.all("outcome", run)]
    return max(datetime.fromisoformat(moment) for moment in moments)


def _plan(body: dict[str, Any]) -> Plan:
    return Plan.model_validate({name: body[name] for name in Plan.model_fields})


def _begin(world: World, run: str, asked: Asked, catalog: Catalog) -> None:
    mandate = read_mandate(Path(asked.mandate))
    check_mandate(mandate)
    start = moment_of(world, mandate, asked.as_of)
    plan = made(mandate, catalog, start)
    body = {
        "plan": plan.id, "revision": plan.revision, "account": mandate.account, "broker": asked.broker,
        "planner": asked.planner, "mandate": Path(asked.mandate).stem, "mandate_hash": mandate.hash,
        "as_of": iso(start), "dry_run": asked.dry_run,
    }  # fmt: skip
    with world.ledger.writing() as book:
        book.append("mandate", mandate.model_dump(mode="json"), key=mandate.hash)
        book.append(
            "plan",
            plan.model_dump(mode="json") | {"hash": plan.hash},
            key=f"{plan.id}/{plan.revision}",
            subject=plan.id,
        )
        book.append("run", body, key=run, subject=mandate.account)


def made(mandate: Mandate, catalog: Catalog, now: datetime) -> Plan:
    """Make a plan by rules, and check it like any other. Raises PlanError."""
    steps = plan_steps(mandate)
    problems = check([step.model_dump() for step in steps], mandate, catalog)
    if problems:
        raise PlanError("; ".join(f"{problem.code}: {problem.message}" for problem in problems))
    plan_id = f"p{uuid.uuid4().hex[:12]}"
    return Plan(id=plan_id, objective=mandate.objective, mandate_hash=mandate.hash, steps=steps, created_at=now)
