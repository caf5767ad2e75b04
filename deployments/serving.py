"""`tradewright up` and `down`: the local server, and a worker for what is deployed there."""

import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from blocks.canonical import digest
from blocks.places import made_home
from deployments import deploy_command, server

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient
    from prefect.client.schemas.objects import FlowRun

_WORKERS_HERE = f"tradewright-{socket.gethostname()}-"


def up(files: Sequence[Path]) -> int:
    """Start the server (if it is to be a local one) and a worker, deploy the mandates, and have a watch look around."""
    named = deploy_command.read_mandates(files)
    folder = made_home()
    place = server.ensure(folder, print)
    surroundings = server.environment(folder, place)
    os.environ.update(surroundings)
    from deployments.deploy import POOL  # noqa: PLC0415  3 s to import

    done = deploy_command.put(named, folder, POOL, remove=lambda _: False)
    worker = _worker(folder)
    if worker and server.read_record(_record(folder)).get("api_url") != place.api_url:
        _end(worker)  # it works for a server that is no more, or for another one
        worker = None
    if worker:
        print("a worker is up already")
    else:
        print(_start_worker(folder, surroundings, POOL))
    print("\n".join(deploy_command.told(done)))
    print(_have_it_watched(POOL))
    print(f"Prefect UI: {place.ui_url}\n`tradewright down` stops server and worker")
    return 0


def _have_it_watched(pool: str) -> str:
    """Start a watch if none is running: its schedule starts one a day, and this is not midnight."""
    from prefect.client.orchestration import get_client  # noqa: PLC0415

    with get_client(sync_client=True) as client:
        _end_what_nobody_carries_out(client, pool)
        if _watching(client):
            return "a watch is looking around already"
        client.create_flow_run_from_deployment(client.read_deployment_by_name("watch/watch").id)
    return "a watch looks around each minute while a plan is open"


def _end_what_nobody_carries_out(client: "SyncPrefectClient", pool: str) -> None:
    """Mark watches as crashed whose worker on this machine is gone: they would keep a new one away."""
    from prefect.states import Crashed  # noqa: PLC0415

    online = (each for each in client.read_workers_for_work_pool(pool) if str(each.status).endswith("ONLINE"))
    if any(not worker.name.startswith(_WORKERS_HERE) for worker in online):
        return  # a run's process has a number and no machine: it may be another's
    for run in _watching(client):
        process = run.infrastructure_pid or ""
        if process.isdigit() and not server.is_child_of_a_worker(int(process)):
            client.set_flow_run_state(run.id, Crashed(message="its worker is gone"), force=True)


def _watching(client: "SyncPrefectClient") -> "list[FlowRun]":
    from prefect.client.schemas.filters import (  # noqa: PLC0415
        DeploymentFilter,
        DeploymentFilterName,
        FlowRunFilter,
        FlowRunFilterState,
        FlowRunFilterStateType,
    )
    from prefect.client.schemas.objects import StateType  # noqa: PLC0415

    going = FlowRunFilterState(type=FlowRunFilterStateType(any_=[StateType.RUNNING, StateType.PENDING]))
    return client.read_flow_runs(
        deployment_filter=DeploymentFilter(name=DeploymentFilterName(any_=["watch"])),
        flow_run_filter=FlowRunFilter(state=going),
    )


def down() -> int:
    """Stop the worker and the server that were started here, and nothing else."""
    folder = made_home()
    worker = _worker(folder)
    if worker:
        _end(worker)
    place = server.stop(folder)
    print(
        "stopped: "
        + (", ".join(name for name, was in (("worker", worker), ("server", place)) if was) or "nothing was running")
    )
    return 0


def _end(worker: int) -> None:
    """End a worker and its runs: each is a session of its own, which the worker's end leaves alone."""
    runs = server.children(worker)
    server.end_process(worker)
    for run in runs:
        server.end_process(run)


def _start_worker(folder: Path, surroundings: dict[str, str], pool: str) -> str:
    command = [sys.executable, "-m", "prefect", "worker", "start", "--pool", pool, "--type", "process"]
    command += ["--name", _worker_name(folder)]
    with (folder / "worker.log").open("ab") as log:
        process = subprocess.Popen(  # noqa: S603
            command, env=surroundings, cwd=folder,
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
    server.write_record(_record(folder), process=process.pid, api_url=surroundings["PREFECT_API_URL"])
    return "a worker is up: it carries out schedules, retries and replans"


def _worker_name(folder: Path) -> str:
    """Return the name of the one worker that a state folder has on this machine."""
    return f"{_WORKERS_HERE}{digest(str(folder))[:8]}"


def _record(folder: Path) -> Path:
    return folder / "worker.json"


def _worker(folder: Path) -> int | None:
    """Return the process of the worker started here, if it is still that one."""
    try:
        process = int(server.read_record(_record(folder))["process"])
    except (ValueError, TypeError, KeyError):
        return None
    return process if server.runs(process, "worker") else None
