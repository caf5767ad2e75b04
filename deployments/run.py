"""Run a flow in this process, as a run of its deployment, so that the UI can retry it."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
from prefect import Flow
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.objects import FlowRun
from prefect.exceptions import Pause
from prefect.flow_engine import run_flow
from prefect.states import Pending

from blocks.clock import wall
from blocks.ledger import Ledger
from blocks.mandate import Mandate
from deployments.deploy import POOL, Place, deploy_replan, ensure_pool, ensure_rebalance
from flows.rebalance import rebalance
from flows.replan import replan
from tasks.outcome import Outcome


@dataclass(frozen=True)
class Ran:
    """How a run went: what the ledger says of it, what Prefect says, and whether a worker could go on with it."""

    outcome: Outcome | None
    said: str
    worker: bool


def run_rebalance(path: Path, mandate: Mandate, home: Path, parameters: dict[str, Any]) -> Ran:
    """Carry out one rebalance here and now."""
    return _run_here(rebalance, lambda client: ensure_rebalance(client, Place(home), path, mandate), parameters, home)


def run_replan(home: Path, plan: str, revision: int, cause: str) -> Ran:
    """Replace a plan's revision here and now; no outcome means that there was nothing to replan."""
    asked = {"plan": plan, "revision": revision, "cause": cause}
    return _run_here(replan, lambda _: deploy_replan(Place(home)), asked, home)


def _run_here(
    flow: Flow[Any, Any], deploy: Callable[[SyncPrefectClient], UUID], parameters: dict[str, Any], home: Path
) -> Ran:
    """Run a flow in this process, as a run of its deployment.

    What the ledger says counts: a server that is lost on the way makes no run undone.
    """
    run, said, worker = "", "", False
    try:
        with get_client(sync_client=True) as client:
            ensure_pool(client)
            # Pending, so that no worker takes it away from this process. It carries its state folder with it: the
            # deployment may have been made for another, and a Retry or Resume must not go on in that one.
            flow_run = client.create_flow_run_from_deployment(
                deploy(client),
                parameters=_as_json(parameters),
                state=Pending(),
                job_variables=Place(home).job_variables,
            )
            run = str(flow_run.id)
            said = _state_message(flow, flow_run, parameters)
            worker = _worker_is_up(client)
    except httpx.HTTPError as error:
        said = f"the Prefect server stopped answering ({type(error).__name__})"
    entry = Ledger(home / "ledger.db", wall).latest("outcome", run)
    return Ran(Outcome.model_validate(entry.body) if entry else None, said, worker)


def _state_message(flow: Flow[Any, Any], flow_run: FlowRun, parameters: dict[str, Any]) -> str:
    try:
        state: Any = run_flow(flow, flow_run=flow_run, parameters=parameters, return_type="state")
    except Pause:
        return "suspended: a person is asked"
    return str(state.message)


def _worker_is_up(client: SyncPrefectClient) -> bool:
    return any(str(worker.status).endswith("ONLINE") for worker in client.read_workers_for_work_pool(POOL))


def _as_json(parameters: dict[str, Any]) -> dict[str, Any]:
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in parameters.items()}


def show_progress(say: Callable[[str], None]) -> None:
    """Show our own log lines as they come; Prefect's are for the UI: the environment silences its console."""
    for name in ("prefect.flow_runs", "prefect.task_runs"):
        logging.getLogger(name).addHandler(_Progress(say))


class _Progress(logging.Handler):
    def __init__(self, say: Callable[[str], None]) -> None:
        super().__init__(logging.INFO)
        self._say = say

    def emit(self, record: logging.LogRecord) -> None:
        if getattr(record, "tradewright", False):
            self._say(record.getMessage())
