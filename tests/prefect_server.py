"""Ask a Prefect server as its web page does."""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

BUSY = 503  # its database is locked: it asks to be asked again
ENDED = {"COMPLETED", "FAILED", "CRASHED", "CANCELLED"}


def ask(server: Any, path: str, method: str | None = None, **body: Any) -> Any:
    """Return what the server answers to a question with a body, or to one without."""
    data = json.dumps(body).encode() if body else None
    request = urllib.request.Request(
        f"{server.api_url}/{path}", data=data, method=method, headers={"Content-Type": "application/json"}
    )
    for _ in range(20):
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                said = answer.read()
        except urllib.error.HTTPError as error:
            if error.code != BUSY:
                raise
            time.sleep(0.5)
        else:
            return json.loads(said) if said else None
    raise AssertionError(f"the server was busy for ten seconds: {path}")


def wait_until(what: Callable[[], Any], seconds: float = 180) -> Any:
    """Return what comes, as soon as it is true."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := what():
            return found
        time.sleep(0.5)
    raise AssertionError(f"it did not come within {seconds} s")


def wait_for_end(server: Any, run: str, after: int) -> dict[str, Any]:
    """Wait until a run has ended its attempt number `after` + 1, two minutes at most."""
    return _wait(server, run, lambda found: found["run_count"] > after and found["state_type"] in ENDED)


def wait_for_rest(server: Any, run: str) -> dict[str, Any]:
    """Wait until a run has ended or is suspended, two minutes at most."""
    return _wait(server, run, lambda found: found["state_type"] in ENDED | {"PAUSED"})


def _wait(server: Any, run: str, done: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        found: dict[str, Any] = ask(server, f"flow_runs/{run}")
        if done(found):
            return found
        time.sleep(0.5)
    raise AssertionError(f"run {run} did not come to rest: {found['state_name']}")
