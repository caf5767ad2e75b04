"""Deployments: what the Prefect server knows of our flows, so that a run can be retried and suspended."""

from pathlib import Path
from typing import Any
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.exceptions import ObjectAlreadyExists
from prefect.types.entrypoint import EntrypointType
from prefect.workers.process import ProcessWorker

from blocks.mandate import Mandate
from flows.rebalance import rebalance
from flows.replan import replan

POOL = "tradewright"


def ensure_pool(client: SyncPrefectClient) -> None:
    """Create the work pool whose worker retries runs, if it is not there."""
    template = ProcessWorker.get_default_base_job_template()
    pool = WorkPoolCreate(
        name=POOL, type="process", base_job_template=template, description="Tradewright: retries and schedules"
    )
    try:
        client.create_work_pool(pool)
    except ObjectAlreadyExists:
        return


def deploy_rebalance(path: Path, mandate: Mandate, home: Path) -> UUID:
    """Create or update the deployment of one mandate file; return its id."""
    deployment: Any = rebalance.to_deployment(
        path.stem,
        parameters={"mandate": str(path.absolute())},
        description=f"{mandate.objective} (account {mandate.account})",
        tags=["tradewright", f"account:{mandate.account}"],
        entrypoint_type=EntrypointType.MODULE_PATH,
        work_pool_name=POOL,
        job_variables={"env": {"TRADEWRIGHT_HOME": str(home)}},
    )
    return UUID(str(deployment.apply()))


def deploy_replan(home: Path) -> UUID:
    """Create or update the deployment that replaces a stale revision; return its id."""
    deployment: Any = replan.to_deployment(
        "replan",
        description="replace a plan's stale revision by the next",
        tags=["tradewright"],
        entrypoint_type=EntrypointType.MODULE_PATH,
        work_pool_name=POOL,
        job_variables={"env": {"TRADEWRIGHT_HOME": str(home)}},
    )
    return UUID(str(deployment.apply()))
