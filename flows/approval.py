"""Ask a person: the run is suspended with a form in the Prefect UI, and goes on from its beginning once answered."""

from prefect.exceptions import ObjectNotFound
from prefect.flow_runs import suspend_flow_run
from prefect.input import RunInput
from pydantic import Field

from blocks.clock import wall
from blocks.errors import StalePlan
from blocks.values import iso
from flows.job import Job
from flows.reporting import finish, outcome_of
from tasks.approval import Request, answer, ask, requested, why_it_no_longer_holds
from tasks.outcome import Outcome
from tasks.prefect_tasks import say
from tasks.report import request_markdown
from tasks.verification.gate import Inspection

KEY = "approval"
"""What Prefect knows the pause by; one in a run, since a revision asks once."""


class Approval(RunInput):
    """What a person answers."""

    approve: bool = Field(False, description="whether these orders may be sent; left off, they are refused")
    note: str = Field("", description="why; kept in the ledger")


def refusal(job: Job, inspection: Inspection) -> str | None:
    """Return why a person has said no, or None once one has said yes to these orders.

    Suspends the run until there is an answer. Raises StalePlan where the request has lapsed, or where what was
    approved is no longer what would be sent.
    """
    ledger, plan, mandate = job.desk.ledger, job.plan, job.desk.mandate
    request = requested(ledger, plan)
    if request is None:
        request = ask(ledger, plan, inspection.proposal, mandate, wall())
        finish(ledger, _waiting(job, inspection, request))
        say("approval: asked about %d orders, until %s", len(request.orders), iso(request.expires_at))
    if request.state != "refused" and wall() > request.expires_at:
        raise StalePlan(f"the approval that was asked for lapsed at {iso(request.expires_at)}")
    if request.state == "asked":
        given = _answered(job, inspection, request)
        request = answer(ledger, plan, request, approved=given.approve, note=given.note)
        say("approval: %s%s", request.state, f": {request.note}" if request.note else "")
    if request.state == "refused":
        return f"a person refused these orders{f': {request.note}' if request.note else ''}"
    changed = why_it_no_longer_holds(request, inspection.proposal.orders, mandate.approval.reprice_bps)
    if changed:
        raise StalePlan(f"the approval no longer holds: {changed}")
    return None


def _waiting(job: Job, inspection: Inspection, request: Request) -> Outcome:
    text = f"{len(request.orders)} orders wait for approval, until {iso(request.expires_at)}"
    return outcome_of(job, inspection=inspection, state="waiting", message=text)


def _answered(job: Job, inspection: Inspection, request: Request) -> Approval:
    form = Approval.with_initial_data(description=request_markdown(_waiting(job, inspection, request)))
    left = max(1, int((request.expires_at - wall()).total_seconds()))
    try:
        given: Approval = suspend_flow_run(wait_for_input=form, timeout=left, key=KEY)
    except ObjectNotFound:
        raise StalePlan("the run went on though nobody had answered whether its orders may be sent") from None
    return given
