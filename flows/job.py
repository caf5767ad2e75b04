"""A job: one flow run's mandate, plan, clock and doors; the same again when the run is retried."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from blocks.brokers.doors import read_only
from blocks.brokers.port import Broker
from blocks.clock import Clock, wall
from blocks.errors import LedgerError, PlanError
from blocks.ledger import Entry, Ledger
from blocks.mandate import Mandate
from blocks.values import iso
from flows.world import World, moment_of
from tasks.catalog import load_catalog
from tasks.desk import Desk
from tasks.lease import give_back, take
from tasks.plan import Plan
from tasks.revisions import recorded_mandate, revision_of


@dataclass(frozen=True)
class Job:
    """Everything a run needs; the broker is for submission alone."""

    world: World
    asked: Mapping[str, Any]
    desk: Desk
    plan: Plan
    broker: Broker
    started: datetime

    @property
    def name(self) -> str:
        """Return the mandate's name."""
        return str(self.asked["mandate"])

    @property
    def dry_run(self) -> bool:
        """Tell whether the run is to go no further than the verdict."""
        return bool(self.asked["dry_run"])

    def looking_again(self) -> Desk:
        """Return the desk with the market as it is stored by now: the gate is not to see what the steps saw."""
        return replace(self.desk, market=self.world.market(self.desk.mandate))


@contextmanager
def opened(world: World, run: str, begin: Callable[[], None]) -> Iterator[Job]:
    """Open a run's job and hold its account's lease; a run that the ledger does not know of is begun first.

    Raises UnusableInput, PlanError, LeaseTaken, LedgerError where entries were altered, and what `begin` raises.
    """
    _refuse_what_was_altered(world.ledger)
    if world.ledger.get("run", run) is None:
        begin()
    asked = _begun(world.ledger, run).body
    take(world.ledger, asked["account"], run, wall(), instead_of=asked["instead_of"])
    try:
        # Read only now: until the lease is ours another process may be at work on this very run.
        yield job_of(world, run)
    finally:
        give_back(world.ledger, asked["account"], run)


def _refuse_what_was_altered(ledger: Ledger) -> None:
    """Make sure that what was done can be known. Raises LedgerError."""
    faults = ledger.faults()
    if faults:
        raise LedgerError(
            f"{ledger.path}: {faults[0]}: nothing is done by a ledger that cannot be relied on; restore a backup of it"
        )


def _begun(ledger: Ledger, run: str) -> Entry:
    entry = ledger.get("run", run)
    if entry is None:
        raise PlanError(f"run {run}: the ledger knows of none")
    return entry


def job_of(world: World, run: str, *, goes_on: bool = False) -> Job:
    """Build a run's job from what it began with: a changed mandate file must not change a run half done.

    `goes_on` says that another process is at work on it, whose clock has not stopped since.
    """
    asked = _begun(world.ledger, run).body
    mandate = recorded_mandate(world.ledger, asked["mandate_hash"])
    plan = revision_of(world.ledger, asked["plan"], asked["revision"]).plan
    clock = Clock(_moment_of(world, run, mandate, goes_on=goes_on))
    market = world.market(mandate)
    broker = world.paper(mandate, world.market(mandate, pinned=False))  # an exchange trades at the prices there are
    desk = Desk(
        run, mandate, asked["broker"], load_catalog(), world.ledger, world.store, market, read_only(broker), clock.now
    )
    return Job(world, asked, desk, plan, broker, clock.start)


def _moment_of(world: World, run: str, mandate: Mandate, *, goes_on: bool) -> datetime:
    """Return the moment at which the run's own clock goes on: the last one on record, since its clock stood still.

    It has not stood still while a person was asked. A run that was asked for no moment of the past catches up with the
    newest prices there are: a retry days later is not to trade on those of its beginning.
    """
    begun, ended = _begun(world.ledger, run), world.ledger.latest("outcome", run)
    entry, field = (ended, "ended_at") if ended else (begun, "as_of")
    moment = datetime.fromisoformat(entry.body[field])
    if goes_on or (ended and ended.body["state"] == "waiting"):
        moment += wall() - entry.at
    seen = [entry.body["as_of"] for entry in world.ledger.all("step", run) if entry.body["as_of"]]
    if begun.body["asked_as_of"] is None:
        seen.append(iso(moment_of(world, mandate, None, wall())))
    return max(moment, *map(datetime.fromisoformat, seen)) if seen else moment
