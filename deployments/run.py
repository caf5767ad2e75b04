"""Run a rebalance in this process: its own flow run of the mandate's deployment, so that the UI can retry it."""

import logging
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.flow_engine import run_flow
from prefect.states import Pending

from blocks.clock import wall
from blocks.errors import TradewrightError
from blocks.ledger import Ledger
from blocks.mandate import Mandate
from deployments.deploy import POOL, deploy_rebalance, ensure_pool
from flows.rebalance import rebalance
from tasks.outcome import Outcome


def run_rebalance(
    path: Path, mandate: Mandate, home: Path, *, as_of: datetime, broker: str, planner: str, dry_run: bool
) -> tuple[Outcome, bool]:
    """Carry out one rebalance here and now; return its outcome, and whether a worker is there that could retry it.

    What the ledger says counts: a server that is lost on the way makes no run undone. Raises TradewrightError.
    """
    parameters = {
        "mandate": str(path.absolute()),
        "as_of": as_of,
        "broker": broker,
        "planner": planner,
        "dry_run": dry_run,
    }
    run, said, worker = "", "", False
    try:
        with get_client(sync_client=True) as client:
            ensure_pool(client)
            deployment = deploy_rebalance(path, mandate, home)
            # Pending, so that no worker takes it away from this process.
            flow_run = client.create_flow_run_from_deployment(
                deployment, parameters=_as_json(parameters), state=Pending()
            )
            run = str(flow_run.id)
            state: Any = run_flow(rebalance, flow_run=flow_run, parameters=parameters, return_type="state")
            said, worker = str(state.message), _worker_is_up(client)
    except httpx.HTTPError as error:
        said = f"the Prefect server stopped answering ({type(error).__name__})"
    entry = Ledger(home / "ledger.db", wall).latest("outcome", run)
    if entry is None:
        raise TradewrightError(f"the run broke off: {said}; `tradewright status` says what the ledger knows")
    return Outcome.model_validate(entry.body), worker


def _worker_is_up(client: SyncPrefectClient) -> bool:
    return any(str(worker.status).endswith("ONLINE") for worker in client.read_workers_for_work_pool(POOL))


def _as_json(parameters: dict[str, Any]) -> dict[str, Any]:
    return {**parameters, "as_of": parameters["as_of"].isoformat()}


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
