"""The watch: one long-lived run that looks, each minute while a plan is open, whether its results still hold."""

import asyncio
import time
from collections.abc import Iterator
from datetime import datetime, timedelta

from prefect import flow

from blocks.clock import wall
from blocks.errors import TradewrightError
from blocks.places import home
from flows import events
from flows.job import job_of
from flows.world import World, open_world
from tasks.prefect_tasks import say
from tasks.results import results_of
from tasks.revisions import Revision, open_revisions
from tasks.verification.gate import why_stale


@flow(name="watch", persist_result=False, retries=0)
def watch(every: float = 60, hours: float = 24) -> None:
    """Look around each `every` seconds, for so many hours; a deployment's schedule starts the next watch.

    A plan whose results no longer hold is told of once: the automation that hears of it starts the replan.
    """
    world, told, end = open_world(home()), set[tuple[str, int]](), wall() + timedelta(hours=hours)
    while True:
        for revision, cause in stale_plans(world, wall()):
            known = (revision.plan.id, revision.plan.revision)
            if known not in told:
                told.add(known)
                say("plan %s revision %d is stale: %s", *known, cause)
                events.plan_stale(revision.asked, cause)
        if wall() + timedelta(seconds=every) > end:
            return
        time.sleep(every)


def stale_plans(world: World, now: datetime) -> Iterator[tuple[Revision, str]]:
    """Yield the open revisions whose results no longer hold, each with the reason."""
    for revision in open_revisions(world.ledger, now):
        try:
            job = job_of(world, revision.run, goes_on=True)
            reasons = asyncio.run(why_stale(job.desk, job.plan, results_of(world.ledger, revision.run)))
        except TradewrightError as error:
            say("plan %s revision %d cannot be looked at: %s", revision.plan.id, revision.plan.revision, error)
            continue
        if reasons:
            first = reasons[0]
            yield revision, f"{first.symbol}: {first.reason}" if first.symbol else first.reason
