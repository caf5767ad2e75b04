"""Revisions: a plan is never changed. A replan claims the next revision; who comes second finds it taken."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from blocks.errors import NothingToReplan, PlanError
from blocks.ledger import Entry, Ledger, Reading, Writing
from blocks.mandate import Mandate
from tasks.lease import is_held
from tasks.plan import Plan

GOING: frozenset[str] = frozenset({"", "waiting"})
"""States of a revision whose run has not ended: none is on record yet, or it waits for a person."""


_OPEN_FOR = timedelta(days=1)


@dataclass(frozen=True)
class Revision:
    """One revision of a plan, the run that carries it out, and how that ended so far."""

    plan: Plan
    run: str
    asked: Mapping[str, Any]
    outcome: Mapping[str, Any]

    @property
    def state(self) -> str:
        """Return the state its run ended in, `waiting` while a person is asked, and nothing until then."""
        return str(self.outcome.get("state", ""))


def plan_of(entry: Entry) -> Plan:
    """Return the plan that an entry holds."""
    return Plan.model_validate({name: entry.body[name] for name in Plan.model_fields})


def recorded_mandate(book: Ledger | Reading, mandate_hash: str) -> Mandate:
    """Return the mandate that a plan was made for. Raises PlanError."""
    entry = book.get("mandate", mandate_hash)
    if entry is None:
        raise PlanError(f"mandate {mandate_hash}: the ledger knows of none")
    return Mandate.model_validate(entry.body)


def revision_of(book: Ledger | Reading, plan: str, revision: int) -> Revision:
    """Return a revision as it stands. Raises PlanError where there is none."""
    entry = book.get("plan", f"{plan}/{revision}")
    begun = entry and book.get("run", entry.body["run"])
    if entry is None or begun is None:
        raise PlanError(f"plan {plan} revision {revision}: the ledger knows of none; `tradewright status` lists plans")
    ended = book.latest("outcome", begun.key)
    return Revision(plan_of(entry), begun.key, begun.body, ended.body if ended else {})


def newest_revision(book: Ledger | Reading, plan: str) -> int:
    """Return the number of a plan's newest revision. Raises PlanError for a plan that the ledger does not know."""
    entry = book.latest("plan", plan)
    if entry is None:
        raise PlanError(f"plan {plan}: the ledger knows of none; `tradewright status` lists plans")
    return int(entry.body["revision"])


def open_revisions(book: Ledger | Reading, wall: datetime) -> tuple[Revision, ...]:
    """Return the revisions that are still to lead to orders: those that a watch has to look after.

    That is the newest run of each account that came to anything, if it has not ended, has committed to no orders and
    began within a day: what was left behind longer ago is for the next run to plan anew. Dry runs, and runs that came
    to nothing beside another, take nobody's place.
    """
    newest = dict[tuple[str, str], Revision]()
    for entry in book.all("run"):
        if wall - entry.at < _OPEN_FOR and not entry.body["dry_run"]:
            found = revision_of(book, entry.body["plan"], entry.body["revision"])
            if not _came_to_nothing(book, found):
                newest[entry.body["broker"], entry.subject] = found
    return tuple(each for each in newest.values() if each.state in GOING and not _committed(book, each))


def _came_to_nothing(book: Ledger | Reading, revision: Revision) -> bool:
    replaced = superseded_by(book, revision.plan.id, revision.plan.revision) is not None
    return replaced or revision.state in {"failed", "rejected", "stale"}


def _committed(book: Ledger | Reading, revision: Revision) -> bool:
    return book.get("submission", f"{revision.plan.id}/{revision.plan.revision}") is not None


def begin(book: Writing, run: str, plan: Plan, mandate: Mandate, asked: Mapping[str, Any]) -> None:
    """Record a revision and the run that carries it out; `asked` is what the run was asked for."""
    key = f"{plan.id}/{plan.revision}"
    book.append("mandate", mandate.model_dump(mode="json"), key=mandate.hash)
    book.append("plan", plan.model_dump(mode="json") | {"hash": plan.hash, "run": run}, key=key, subject=plan.id)
    named = {"plan": plan.id, "revision": plan.revision, "account": mandate.account, "mandate_hash": mandate.hash}
    book.append("run", dict(asked) | named, key=run, subject=mandate.account)


def check_claimable(book: Ledger | Reading, plan: str, revision: int, wall: datetime) -> Revision:
    """Return the revision that may be replaced by the next one. Raises NothingToReplan where it may not.

    Not replaced is one that has been already, one that ended well, and one whose orders are on their way.
    """
    newest = newest_revision(book, plan)
    if newest != revision:
        raise NothingToReplan(f"plan {plan} revision {revision} was followed by revision {newest} already")
    found = revision_of(book, plan, revision)
    if found.state in {"completed", "held"}:
        raise NothingToReplan(f"plan {plan} revision {revision} is {found.state}: a new run makes a new plan")
    if _committed(book, found) and is_held(book, found.asked["account"], found.run, wall):
        raise NothingToReplan(f"plan {plan} revision {revision} is sending its orders")
    return found


def superseded_by(book: Ledger | Reading, plan: str, revision: int) -> int | None:
    """Return the newer revision that has replaced this one, if there is one."""
    entry = book.latest("plan", plan)
    return entry.body["revision"] if entry and entry.body["revision"] > revision else None
