"""The local Prefect server: found again by its record, never anybody else's, and really gone after `down`."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from deployments import server as prefect_server
from tests.prefect_server import ask


def words(process: int) -> str:
    """Return a process's command line, empty if it is gone."""
    shown = subprocess.run(
        ["ps", "-ww", "-p", str(process), "-o", "args="], capture_output=True, text=True, check=False
    )
    return shown.stdout.strip()


def sleeper(*arguments: str) -> subprocess.Popen[bytes]:
    """Start a process that does nothing, with these words in its command line."""
    return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", *arguments])


@pytest.mark.parametrize("columns", ["20", "80", "200"])
def test_the_recorded_server_is_recognized_however_narrow_the_terminal(
    home: Path, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    process = sleeper("prefect", "server", "start", "--port", "45678")
    record = {"api_url": "http://127.0.0.1:45678/api", "process": process.pid}
    prefect_server.write_record(home / "server.json", **record)

    found = prefect_server.recorded(home)
    process.kill()
    process.wait()

    assert process.pid == (found and found.process)
    assert prefect_server.recorded(home) is None


def test_another_process_that_has_got_the_recorded_number_is_neither_used_nor_stopped(home: Path) -> None:
    process = sleeper("something", "else")
    record = {"api_url": "http://127.0.0.1:45678/api", "process": process.pid}
    prefect_server.write_record(home / "server.json", **record)

    stopped = prefect_server.stop(home)
    alive = process.poll() is None
    process.kill()
    process.wait()

    assert (None, True) == (stopped, alive)


def test_a_copy_of_a_state_folder_has_started_nothing(home: Path, tmp_path: Path) -> None:
    process = sleeper("prefect", "server", "start", "--port", "45678")
    prefect_server.write_record(home / "server.json", api_url="http://127.0.0.1:45678/api", process=process.pid)
    copy = tmp_path / "copy"
    shutil.copytree(home, copy)

    found = prefect_server.recorded(home), prefect_server.recorded(copy), prefect_server.stop(copy)
    alive = process.poll() is None
    process.kill()
    process.wait()

    assert (process.pid, None, None, True) == (found[0] and found[0].process, found[1], found[2], alive)


@pytest.mark.parametrize("text", ["", "not JSON", "[]", '{"api_url": 1}', '{"process": "x"}'])
def test_a_record_that_cannot_be_read_is_no_server(home: Path, text: str) -> None:
    (home / "server.json").write_text(text)

    assert prefect_server.recorded(home) is None


def watching(worker: int) -> int:
    """Wait until a worker has a run, a minute at most, and return the run's process."""
    deadline = time.monotonic() + 60
    while not (runs := prefect_server.children(worker)) and time.monotonic() < deadline:
        time.sleep(0.2)
    return runs[0]


@pytest.mark.prefect
def test_the_server_stays_up_for_the_next_command_and_down_ends_it(tradewright: Any, home: Path) -> None:
    first = tradewright("up")
    record = json.loads((home / "server.json").read_text())
    worker = json.loads((home / "worker.json").read_text())["process"]
    second = tradewright("up")
    watch = watching(worker)

    assert (0, 0) == (first.status, second.status)
    assert record == json.loads((home / "server.json").read_text())
    assert "a worker is up already" in second.out
    assert "prefect" in words(record["process"])
    assert "worker" in words(worker)

    down = tradewright("down")

    assert "stopped: worker, server" == down.out.strip()
    assert ("", "", "") == (words(record["process"]), words(worker), words(watch))
    assert "nothing was running" in tradewright("down").out


def running_watch(server: Any) -> str:
    """Wait until a watch looks around, a minute at most, and return its run."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for run in ask(server, "flow_runs/filter", limit=200):
            if run["name"].startswith("watch") and run["state_name"] == "Running":
                return str(run["id"])
        time.sleep(0.5)
    raise AssertionError("no watch came up")


@pytest.mark.prefect
@pytest.mark.slow
def test_a_watch_whose_worker_was_killed_does_not_keep_the_next_one_away(tradewright: Any, home: Path) -> None:
    try:
        tradewright("up")
        running = prefect_server.recorded(home)
        watch = running_watch(running)
        os.killpg(json.loads((home / "worker.json").read_text())["process"], signal.SIGKILL)

        again = tradewright("up")
        left = ask(running, f"flow_runs/{watch}")["state_name"]
    finally:
        tradewright("down")

    assert "a watch looks around each minute" in again.out
    assert "Crashed" == left


@pytest.mark.prefect
@pytest.mark.slow
def test_a_server_that_was_killed_is_started_anew(tradewright: Any, home: Path) -> None:
    tradewright("up")
    before, url = (json.loads((home / "server.json").read_text())[name] for name in ("process", "api_url"))
    os.killpg(before, signal.SIGKILL)
    deadline = time.monotonic() + 30
    while words(before) and time.monotonic() < deadline:
        time.sleep(0.1)

    again = tradewright("up")
    record = json.loads((home / "server.json").read_text())
    after = record["process"]
    tradewright("down")

    assert 0 == again.status
    assert before != after
    assert url == record["api_url"]  # the worker and a bookmark still find it


def test_a_configured_server_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    with pytest.raises(prefect_server.ServerError, match=r"http://127\.0\.0\.1:9/api does not answer"):
        prefect_server.ensure(Path("unused"), print)
