"""Deployments: what the Prefect server knows of our flows, so that a run can be scheduled, retried and suspended."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from prefect import Flow
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.client.schemas.filters import DeploymentFilter, DeploymentFilterTags
from prefect.client.schemas.objects import ConcurrencyLimitConfig, ConcurrencyLimitStrategy
from prefect.client.schemas.responses import DeploymentResponse
from prefect.exceptions import ObjectAlreadyExists, ObjectNotFound
from prefect.schedules import Cron, Schedule
from prefect.types.entrypoint import EntrypointType
from prefect.workers.process import ProcessWorker

from blocks.mandate import Mandate, sample_path
from deployments.schedule import prefect_schedule
from flows.ingest import ingest
from flows.rebalance import rebalance
from flows.replan import replan
from flows.watch import watch

POOL, TAG = "tradewright", "tradewright"
_ONE_AT_A_TIME = ConcurrencyLimitConfig(limit=1, collision_strategy=ConcurrencyLimitStrategy.CANCEL_NEW)


def ensure_pool(client: SyncPrefectClient, pool: str = POOL) -> None:
    """Create the work pool whose worker carries runs out, of process type, if it is not there."""
    template = ProcessWorker.get_default_base_job_template()
    wanted = WorkPoolCreate(
        name=pool, type="process", base_job_template=template, description="Tradewright: schedules, retries, replans"
    )
    try:
        client.create_work_pool(wanted)
    except ObjectAlreadyExists:
        return


@dataclass(frozen=True)
class Place:
    """Where deployed runs are carried out: the state folder on the worker's machine, and the work pool."""

    home: Path
    pool: str = POOL

    @property
    def job_variables(self) -> dict[str, Any]:
        """Return what a worker has to know to carry a run out in this state folder."""
        return {"env": {"TRADEWRIGHT_HOME": str(self.home)}}

    def deploy(self, flow: Flow[Any, Any], name: str, description: str, **more: Any) -> UUID:
        """Create or update one deployment; return its id."""
        deployment: Any = flow.to_deployment(
            name,
            description=description,
            tags=[TAG, *more.pop("tags", ())],
            entrypoint_type=EntrypointType.MODULE_PATH,
            work_pool_name=self.pool,
            job_variables=self.job_variables,
            **more,
        )
        return UUID(str(deployment.apply()))


def schedule_of(path: Path, mandate: Mandate, now: datetime) -> Schedule | None:
    """Return a mandate's schedule; the sample has none, for its prices end in 2022. Raises UnusableInput."""
    return None if path.samefile(sample_path()) else _named("sessions", prefect_schedule(mandate.schedule, now))


def deploy_rebalance(place: Place, path: Path, mandate: Mandate, schedule: Schedule | None, planner: str) -> UUID:
    """Deploy a mandate with its schedule, and who plans what is scheduled."""
    return place.deploy(
        rebalance,
        path.stem,
        f"{mandate.objective} (account {mandate.account})",
        parameters={"mandate": str(path.absolute()), "planner": planner},
        tags=[f"account:{mandate.account}"],
        schedules=[schedule] if schedule else None,
        concurrency_limit=_ONE_AT_A_TIME,
    )


def ensure_rebalance(client: SyncPrefectClient, place: Place, path: Path, mandate: Mandate) -> UUID:
    """Return the deployment of a mandate to run it by hand: as it is where there is one, else without a schedule."""
    try:
        return client.read_deployment_by_name(f"{rebalance.name}/{path.stem}").id
    except ObjectNotFound:
        return place.deploy(
            rebalance,
            path.stem,
            f"{mandate.objective} (account {mandate.account})",
            parameters={"mandate": str(path.absolute())},
            tags=[f"account:{mandate.account}"],
        )


def deploy_replan(place: Place) -> UUID:
    """Deploy what replaces a stale revision. Its parameters come out of events as text, which the flow reads."""
    return place.deploy(replan, "replan", "replace a plan's stale revision by the next", enforce_parameter_schema=False)


def deploy_watch(place: Place) -> UUID:
    """Deploy the watch: one a day, each until the day ends."""
    text = "look, each minute while a plan is open, whether its results still hold"
    schedule = _named("daily", Cron("0 0 * * *", timezone="UTC"))
    return place.deploy(watch, "watch", text, schedules=[schedule], concurrency_limit=_ONE_AT_A_TIME)


def deploy_ingest(place: Place) -> UUID:
    """Deploy the ingest; which files, and when, is for the user to say."""
    return place.deploy(ingest, "ingest", "take price files into the store")


def deploy_refresh(place: Place) -> UUID:
    """Deploy the monthly refresh of every schedule: exact dates reach about a year."""
    from deployments.refresh import refresh_schedules  # noqa: PLC0415  it imports this module

    schedule = _named("monthly", Cron("0 3 1 * *", timezone="UTC"))
    return place.deploy(refresh_schedules, "refresh", "work the schedules' dates out anew", schedules=[schedule])


def _named(slug: str, schedule: Schedule) -> Schedule:
    """Return a schedule under a name of its own, by which a later deploy finds and replaces it."""
    return replace(schedule, slug=slug)


def deployed(client: SyncPrefectClient) -> Iterator[DeploymentResponse]:
    """Yield the server's deployments that are ours."""
    ours = DeploymentFilter(tags=DeploymentFilterTags(all_=[TAG]))
    offset = 0
    while found := client.read_deployments(deployment_filter=ours, offset=offset):
        yield from found
        offset += len(found)


def mandate_of(deployment: DeploymentResponse) -> Path | None:
    """Return the mandate file that a deployment of ours rebalances to; None for the other flows."""
    name = deployment.parameters.get("mandate")
    return Path(name) if name else None


def planner_of(deployment: DeploymentResponse | None) -> str:
    """Return who makes the plans of a deployment's runs."""
    return str(deployment.parameters.get("planner", "rules")) if deployment else "rules"
