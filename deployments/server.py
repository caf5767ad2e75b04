"""The local Prefect server: started if none is configured, recorded in the state folder, and never anybody else's."""

import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import time
import tomllib
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from blocks.errors import TradewrightError

STARTUP_SECONDS = 180
_QUIET = {"PREFECT_SERVER_ANALYTICS_ENABLED": "false", "DO_NOT_TRACK": "1", "PREFECT_LOGGING_SERVER_LEVEL": "WARNING"}
_PROMPT = {
    "PREFECT_SERVER_EVENTS_PROACTIVE_GRANULARITY": "PT2S",  # between looks for what should have come
    "PREFECT_WORKER_QUERY_SECONDS": "2",
    "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30",  # so that a run that has died is noticed within minutes
}


class ServerError(TradewrightError):
    """The local Prefect server does not come up."""


@dataclass(frozen=True)
class Server:
    """A Prefect server: ours if it has a process id, else one that the user has configured."""

    api_url: str
    process: int | None = None

    @property
    def ui_url(self) -> str:
        """Return where its web page is."""
        return self.api_url.removesuffix("/api")


def configured() -> Server | None:
    """Return the server that the user has configured for Prefect: by PREFECT_API_URL, or in the active profile."""
    named = os.environ.get("PREFECT_API_URL") or _in_profile()
    return Server(named.rstrip("/")) if named else None


def _in_profile() -> str | None:
    folder = Path(os.environ.get("PREFECT_HOME") or Path.home() / ".prefect").expanduser()
    path = Path(os.environ.get("PREFECT_PROFILES_PATH") or folder / "profiles.toml").expanduser()
    try:
        content = tomllib.loads(path.read_text())
    except (OSError, ValueError):
        return None  # no profile is the usual case, and Prefect itself complains of a broken one
    active = os.environ.get("PREFECT_PROFILE") or content.get("active")
    profile = content.get("profiles", {}).get(active, {})
    url = profile.get("PREFECT_API_URL") if isinstance(profile, dict) else None
    return url if isinstance(url, str) else None


def recorded(home: Path) -> Server | None:
    """Return the server this state folder has started, if it is still the one that runs."""
    record = read_record(_record(home))
    try:
        url, process = record["api_url"], int(record["process"])
        return Server(url, process) if _is_ours(process, url) else None
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


def write_record(path: Path, **facts: Any) -> None:
    """Write down what was started for a state folder, and for which: a copy of the folder has started nothing."""
    path.write_text(json.dumps(facts | {"home": str(path.parent.resolve())}))


def read_record(path: Path) -> dict[str, Any]:
    """Return what was started for the state folder that the record lies in; nothing where it is another's."""
    try:
        facts = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return facts if isinstance(facts, dict) and facts.get("home") == str(path.parent.resolve()) else {}


def ensure(home: Path, say: Callable[[str], None]) -> Server:
    """Return the server to use, starting the local one if need be. Raises ServerError when it does not come up."""
    found = configured()
    if found:
        if not answers(found):
            raise ServerError(
                f"the configured Prefect server at {found.api_url} does not answer: "
                "check PREFECT_API_URL or the profile"
            )
        return found
    with _alone(home):
        server = recorded(home)
        if server is None:
            say("starting the local Prefect server (about 25 seconds the first time; it stays up for the next run)")
            server = _started(home)
        _wait_until_healthy(server, home)
    return server


def stop(home: Path) -> Server | None:
    """End the server that this state folder has started; return it, or None where there was none."""
    with _alone(home):
        server = recorded(home)
        if server and server.process:
            end_process(server.process)
    return server


def end_process(process: int) -> None:
    """Ask a process of ours and its children to end, and wait until it has; after ten seconds it is killed."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process, sign)
        except ProcessLookupError:
            return
        for _ in range(100):
            if not _lives(process):
                return
            time.sleep(0.1)


def children(process: int) -> list[int]:
    """Return the processes that a process has started and that still run."""
    return [child for child, parent in _parents().items() if parent == process]


def is_child_of_a_worker(process: int) -> bool:
    """Tell whether a process still runs, and the Prefect worker that has started it."""
    parent = _parents().get(process)
    return parent is not None and runs(parent, "worker")


def _parents() -> dict[int, int]:
    command = ["ps", "-A", "-o", "pid=", "-o", "ppid="]
    shown = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    return {int(child): int(parent) for child, parent in (line.split() for line in shown.stdout.splitlines())}


def environment(home: Path, server: Server) -> dict[str, str]:
    """Return the environment in which a process of ours talks to this server."""
    own = {"PREFECT_API_URL": server.api_url, "TRADEWRIGHT_HOME": str(home)}
    if server.process:
        own["PREFECT_HOME"] = str(home / "prefect")
    return {**_PROMPT, **os.environ, **_QUIET, **own}


def _record(home: Path) -> Path:
    return home / "server.json"


@contextmanager
def _alone(home: Path) -> Iterator[None]:
    home.mkdir(parents=True, exist_ok=True)
    with (home / "server.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _started(home: Path) -> Server:
    port = _port(home)
    url = f"http://127.0.0.1:{port}/api"
    # The web page asks this address for its data; without it, it asks port 4200 and stays blank.
    surroundings = environment(home, Server(url, 1)) | {"PREFECT_UI_API_URL": url, "PREFECT_SERVER_UI_API_URL": url}
    command = [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)]
    with (home / "server.log").open("ab") as log:
        process = subprocess.Popen(  # noqa: S603
            command,
            env=surroundings,
            cwd=home,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    server = Server(url, process.pid)
    write_record(_record(home), **asdict(server))
    return server


def _port(home: Path) -> int:
    """Return the port that the last server of this state folder had, for its worker and bookmarks; else a free one."""
    last = str(read_record(_record(home)).get("api_url", "")).removesuffix("/api").rpartition(":")[2]
    for port in (int(last) if last.isdigit() else 0, 0):
        with socket.socket() as probe, suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            return int(probe.getsockname()[1])
    raise ServerError("no port of 127.0.0.1 is free for the local Prefect server")


def _wait_until_healthy(server: Server, home: Path) -> None:
    deadline, what = time.monotonic() + STARTUP_SECONDS, f"did not come up within {STARTUP_SECONDS} s"
    while time.monotonic() < deadline:
        if healthy(server):
            return
        if server.process and not _lives(server.process):
            what = "ended by itself"
            break
        time.sleep(0.2)
    raise ServerError(f"the local Prefect server {what}: see {home / 'server.log'}")


def healthy(server: Server) -> bool:
    """Tell whether the server says that it is well."""
    try:
        with urllib.request.urlopen(f"{server.api_url}/health", timeout=5) as answer:  # noqa: S310
            return bool(answer.status == 200)
    except (OSError, ValueError):
        return False


def answers(server: Server) -> bool:
    """Tell whether anybody answers there, if only with a request to log in."""
    try:
        return healthy(server) or bool(urllib.request.urlopen(server.api_url, timeout=5))  # noqa: S310
    except urllib.error.HTTPError:
        return True
    except (OSError, ValueError):
        return False


def _lives(process: int) -> bool:
    try:
        finished, _ = os.waitpid(process, os.WNOHANG)  # our own child would stay as a zombie otherwise
        if finished:
            return False
    except ChildProcessError:
        pass
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _is_ours(process: int, url: str) -> bool:
    return runs(process, url.removesuffix("/api").rsplit(":", 1)[1])


def runs(process: int, word: str) -> bool:
    """Tell whether a recorded process is still the Prefect one started with this word, and not a later namesake."""
    if not _lives(process):
        return False
    command = ["ps", "-ww", "-p", str(process), "-o", "args="]  # -ww: not cut to the width of a terminal
    shown = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    return "prefect" in shown.stdout and word in shown.stdout.split()
