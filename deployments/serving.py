"""`tradewright up` and `down`: the local server, and a worker that retries runs."""

import json
import os
import subprocess
import sys
from pathlib import Path

from blocks.places import made_home
from deployments import server


def up() -> int:
    """Start the server (if it is to be a local one) and a worker, both in the background."""
    folder = made_home()
    place = server.ensure(folder, print)
    surroundings = server.environment(folder, place)
    os.environ.update(surroundings)
    if _worker(folder):
        print("a worker is up already")
    else:
        _start_worker(folder, surroundings)
        print("a worker is up: runs can be retried from the web page")
    print(f"Prefect UI: {place.ui_url}\n`tradewright down` stops both")
    return 0


def down() -> int:
    """Stop the worker and the server that were started here, and nothing else."""
    folder = made_home()
    worker = _worker(folder)
    if worker:
        server.end_process(worker)
    _record(folder).unlink(missing_ok=True)
    place = server.stop(folder)
    print(
        "stopped: "
        + (", ".join(name for name, was in (("worker", worker), ("server", place)) if was) or "nothing was running")
    )
    return 0


def _start_worker(folder: Path, surroundings: dict[str, str]) -> None:
    from prefect.client.orchestration import get_client  # noqa: PLC0415  3 s to import

    from deployments.deploy import POOL, ensure_pool  # noqa: PLC0415

    with get_client(sync_client=True) as client:
        ensure_pool(client)
    name = f"tradewright-{os.getpid()}"
    command = [sys.executable, "-m", "prefect", "worker", "start", "--pool", POOL, "--type", "process", "--name", name]
    with (folder / "worker.log").open("ab") as log:
        process = subprocess.Popen(  # noqa: S603
            command, env=surroundings, cwd=folder,
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
    _record(folder).write_text(json.dumps({"process": process.pid}))


def _record(folder: Path) -> Path:
    return folder / "worker.json"


def _worker(folder: Path) -> int | None:
    """Return the process of the worker started here, if it is still that one."""
    try:
        process = int(json.loads(_record(folder).read_text())["process"])
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return process if server.runs(process, "worker") else None
