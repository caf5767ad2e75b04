"""Superseding: the run whose plan was replaced is told so, and ended where it only waits."""

import httpx
from prefect.client.orchestration import get_client
from prefect.exceptions import ObjectNotFound
from prefect.states import Cancelled

from blocks.ledger import Ledger
from blocks.models.budget import spent
from flows import events
from flows.job import Job
from flows.reporting import record
from tasks.outcome import Outcome
from tasks.prefect_tasks import say
from tasks.revisions import GOING, Revision, revision_of

_WAITING = {"PAUSED", "SCHEDULED", "PENDING"}


def supersede(ledger: Ledger, job: Job) -> None:
    """Tell of the revision that this job's replaces, and cancel its run if that is suspended or not begun.

    One that is running sees at its gate that it was replaced, and stops there.
    """
    old = revision_of(ledger, job.plan.id, job.plan.revision - 1)
    say("replan: revision %d replaces %d: %s", job.plan.revision, old.plan.revision, job.asked["cause"])
    if old.state in GOING:
        record(ledger, _replaced(ledger, old, job))
    events.plan_superseded(old.asked, by=job.plan.revision, cause=job.asked["cause"])
    events.results_settled(old.asked, job.desk.catalog, job.desk.mandate.freshness, old.plan)
    try:
        _cancel(old.run, f"replaced by revision {job.plan.revision}: {job.asked['cause']}")
    except (httpx.HTTPError, ObjectNotFound) as error:
        say("replan: the old run %s could not be cancelled (%s); it will stop at its gate", old.run, error)


def _replaced(ledger: Ledger, old: Revision, job: Job) -> Outcome:
    """Sum up the run that was replaced: as it last was, and now at an end."""
    facts = dict(old.outcome) or {
        "run": old.run, "mandate": old.asked["mandate"], "account": old.asked["account"],
        "broker": old.asked["broker"], "currency": job.desk.mandate.base_currency, "dry_run": old.asked["dry_run"],
        "as_of": old.asked["as_of"], "ended_at": old.asked["as_of"], "plan": old.plan, "cause": old.asked["cause"],
        "usd": spent(ledger, old.plan.id),
    }  # fmt: skip
    message = f"replaced by revision {job.plan.revision}: {job.asked['cause']}"
    return Outcome.model_validate(facts | {"state": "stale", "message": message})


def _cancel(run: str, why: str) -> None:
    with get_client(sync_client=True) as client:
        state = client.read_flow_run(run).state  # type: ignore[arg-type]
        if state is not None and state.type.value in _WAITING:
            client.set_flow_run_state(run, Cancelled(message=why), force=True)
