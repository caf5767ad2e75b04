"""What the tests share: one Prefect server a session, and the command line as a user calls it."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from deployments import server as prefect_server
from deployments.server import Server
from tests.messages_server import KEY, MessagesServer, messages_server

ROOT = Path(__file__).resolve().parent.parent
_OURS = ("PREFECT_", "TRADEWRIGHT_", "ANTHROPIC_")
TRADEWRIGHT = Path(sys.executable).with_name("tradewright")


@dataclass(frozen=True)
class Said:
    """What the command line answered."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Return standard output as the one JSON value it has to be."""
        return json.loads(self.out)


Call = Callable[..., Said]


def _call(home: Path, surroundings: dict[str, str]) -> Call:
    def call(*arguments: object, cwd: Path = home) -> Said:
        command = [str(TRADEWRIGHT), *map(str, arguments)]
        done = subprocess.run(
            command,
            env=surroundings,
            cwd=cwd,
            capture_output=True,
            text=True,
            timeout=300,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        return Said(done.returncode, done.stdout, done.stderr)

    return call


def _surroundings(home: Path) -> dict[str, str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
    return {
        **clean,
        "TRADEWRIGHT_HOME": str(home),
        "PREFECT_HOME": str(home / "no-prefect"),
        "NO_COLOR": "1",
        "COLUMNS": "100",
    }


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return an empty state folder."""
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.fixture
def tradewright(home: Path) -> Call:
    """Return the command line, with no server configured."""
    return _call(home, _surroundings(home))


@pytest.fixture(scope="session")
def server_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder that the session's Prefect server keeps everything in."""
    return tmp_path_factory.mktemp("server")


@pytest.fixture(scope="session")
def server(server_folder: Path) -> Iterator[Server]:
    """Return the session's Prefect server, on a free port of 127.0.0.1."""
    folder = server_folder
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PREFECT_API_URL", raising=False)
        patch.setenv("PREFECT_HOME", str(folder / "no-prefect"))
        running = prefect_server.ensure(folder, print)
    yield running
    prefect_server.stop(folder)


@pytest.fixture
def served(home: Path, server: Server) -> Call:
    """Return the command line with the session's server configured."""
    return _call(home, _surroundings(home) | {"PREFECT_API_URL": server.api_url})


@pytest.fixture
def service() -> Iterator[MessagesServer]:
    """Return a language model's service on loopback, which does what a test scripts."""
    with messages_server() as running:
        yield running


@pytest.fixture
def modelled(home: Path, server: Server, service: MessagesServer) -> Call:
    """Return the command line with the session's server and the models' service configured."""
    access = {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": service.url}
    return _call(home, _surroundings(home) | {"PREFECT_API_URL": server.api_url} | access)


@pytest.fixture
def down(served: Call) -> Iterator[None]:
    """See to it that the worker that a test starts ends with it."""
    yield
    served("down")
