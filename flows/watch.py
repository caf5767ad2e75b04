"""The watch: one long-lived run that looks, each minute while a plan is open, whether its results still hold."""

import asyncio
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from prefect import flow

from blocks.clock import wall
from blocks.errors import TradewrightError
from blocks.ledger import Ledger
from blocks.places import home
from flows import events
from flows.job import job_of
from flows.world import World, open_world
from tasks.prefect_tasks import say
from tasks.results import results_of
from tasks.revisions import Revision, open_revisions
from tasks.verification.gate import why_stale

_TELL_AGAIN = timedelta(minutes=10)
"""A plan that nobody has replanned by then is told of once more."""

_JUST_AFTER = timedelta(milliseconds=500)


_NEWS = ("run", "step", "outcome")
_BETWEEN_GLANCES = 2.0
"""Seconds. A glance asks the ledger alone, for less than a millisecond."""


@dataclass(frozen=True)
class Look:
    """What the watch saw of an open revision: why it is stale, or until when it is not, by its age alone."""

    revision: Revision
    cause: str
    left: timedelta | None


@flow(name="watch", flow_run_name=lambda: f"watch {wall():%Y-%m-%d}", persist_result=False, retries=0)
def watch(every: float = 60) -> None:
    """Look around each `every` seconds until the day ends, by UTC; the deployment's schedule starts the next watch.

    It looks sooner where a result expires sooner, or where a run has come further. A plan whose results no longer hold
    is told of: the automation that hears of it starts the replan.
    """
    world, told = open_world(home()), dict[tuple[str, int], datetime]()
    parent = os.getppid()
    end = datetime.combine(wall().date() + timedelta(days=1), datetime.min.time(), UTC)
    while True:
        now, seen = wall(), world.ledger.pin()
        looks = list(look_around(world, now))
        for look in (look for look in looks if look.cause):
            known = (look.revision.plan.id, look.revision.plan.revision)
            if known not in told or now - told[known] >= _TELL_AGAIN:
                told[known] = now
                say("plan %s revision %d is stale: %s", *known, look.cause)
                events.plan_stale(look.revision.asked, look.cause)
        pause = min([timedelta(seconds=every), *(look.left + _JUST_AFTER for look in looks if look.left is not None)])
        if wall() + pause >= end:
            return
        _sleep(world.ledger, pause.total_seconds(), seen)
        if os.getppid() != parent:
            say("the worker that started this watch is gone")
            return


def _sleep(ledger: Ledger, seconds: float, seen: int) -> None:
    """Let time go by, but no longer than until a run has begun, found something or ended since entry `seen`."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0 and not any(ledger.all(kind, after=seen) for kind in _NEWS):
        time.sleep(min(_BETWEEN_GLANCES, left))


def look_around(world: World, now: datetime) -> Iterator[Look]:
    """Yield what there is to see of each open revision at this moment of the wall clock."""
    for revision in open_revisions(world.ledger, now):
        try:
            yield _look_at(world, revision)
        except TradewrightError as error:
            say("plan %s revision %d cannot be looked at: %s", revision.plan.id, revision.plan.revision, error)


def _look_at(world: World, revision: Revision) -> Look:
    job, results = job_of(world, revision.run, goes_on=True), results_of(world.ledger, revision.run)
    reasons = asyncio.run(why_stale(job.desk, job.plan, results))
    if reasons:
        first = reasons[0]
        return Look(revision, f"{first.symbol}: {first.reason}" if first.symbol else first.reason, None)
    now = job.desk.now()
    return Look(revision, "", min((result.expires_at - now for result in results.values()), default=None))
