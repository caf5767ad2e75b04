"""The replan: claim a plan's next revision, keep what is still fresh, take over the old run, carry on to submission."""

from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run
from prefect.states import Completed

from blocks.errors import NothingToReplan
from blocks.places import home
from flows.beginning import begin_replan
from flows.job import Job
from flows.pipeline import carried_through
from flows.reporting import failed_replan
from flows.superseding import supersede
from flows.world import open_world


def _name() -> str:
    asked = flow_run.parameters
    return f"replan {asked['plan']} revision {int(asked['revision']) + 1}"


@flow(name="replan", flow_run_name=_name, persist_result=False, retries=0)
def replan(plan: str, revision: int, cause: str = "by hand") -> State[Any]:
    """Replace one revision of a plan, whose results no longer hold, by the next.

    Of all who try, one claims the revision and carries it out; the others end quietly. Requires the same
    TRADEWRIGHT_HOME as the run that it replaces.
    """
    run, world = str(flow_run.get_id()), open_world(home())

    def take_over(job: Job) -> None:
        supersede(world.ledger, job)

    try:
        return carried_through(
            world,
            run,
            begin=lambda: begin_replan(world, run, plan, revision, cause),
            failed=lambda message: failed_replan(world.ledger, run, plan, revision, message),
            then=take_over,
        )
    except NothingToReplan as reason:
        return Completed(name="Nothing to replan", message=str(reason))
