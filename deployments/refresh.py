"""The refresh: work out anew, each month, the exact dates of every mandate's schedule."""

from pathlib import Path

from prefect import flow
from prefect.client.orchestration import get_client

from blocks.clock import wall
from blocks.errors import UnusableInput
from blocks.mandate import read_mandate
from blocks.places import home
from deployments.deploy import Place, deploy_rebalance, deployed, mandate_of, planner_of, schedule_of
from tasks.prefect_tasks import say


@flow(name="refresh", persist_result=False, retries=0)
def refresh_schedules() -> None:
    """Deploy every mandate again as its file says now. Raises UnusableInput if any file cannot be used."""
    faults = []
    with get_client(sync_client=True) as client:
        known = [(each, path) for each in deployed(client) if (path := mandate_of(each))]
    for deployment, path in known:
        try:
            _refresh(Place(home(), deployment.work_pool_name or ""), path, planner_of(deployment))
            say("refreshed the schedule of %s", path)
        except UnusableInput as error:
            faults.append(str(error))
    if faults:
        raise UnusableInput("; ".join(faults))


def _refresh(place: Place, path: Path, planner: str) -> None:
    mandate = read_mandate(path)
    deploy_rebalance(place, path, mandate, schedule_of(path, mandate, wall()), planner)
