"""Superseding: the run whose plan was replaced is told so, and ended where it only waits."""

import httpx
from prefect.client.orchestration import get_client
from prefect.exceptions import ObjectNotFound
from prefect.states import Cancelled

from blocks.ledger import Ledger
from flows import events
from flows.job import Job
from tasks.prefect_tasks import say
from tasks.revisions import revision_of

_WAITING = {"PAUSED", "SCHEDULED", "PENDING"}


def supersede(ledger: Ledger, job: Job) -> None:
    """Tell of the revision that this job's replaces, and cancel its run if that is suspended or not begun.

    One that is running sees at its gate that it was replaced, and stops there.
    """
    old = revision_of(ledger, job.plan.id, job.plan.revision - 1)
    say("replan: revision %d replaces %d: %s", job.plan.revision, old.plan.revision, job.asked["cause"])
    events.plan_superseded(old.asked, by=job.plan.revision, cause=job.asked["cause"])
    events.results_settled(old.asked, job.desk.catalog, job.desk.mandate.freshness, old.plan)
    try:
        _cancel(old.run, f"replaced by revision {job.plan.revision}: {job.asked['cause']}")
    except (httpx.HTTPError, ObjectNotFound) as error:
        say("replan: the old run %s could not be cancelled (%s); it will stop at its gate", old.run, error)


def _cancel(run: str, why: str) -> None:
    with get_client(sync_client=True) as client:
        state = client.read_flow_run(run).state  # type: ignore[arg-type]
        if state is not None and state.type.value in _WAITING:
            client.set_flow_run_state(run, Cancelled(message=why), force=True)
