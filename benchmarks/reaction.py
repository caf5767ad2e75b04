"""From the moment a result expires to the first step of the replan: how long, and where the time goes."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

from blocks.clock import wall
from blocks.ledger import Ledger

TRADEWRIGHT = Path(sys.executable).with_name("tradewright")
PLANS = 3
"""Each is revised four times, for nobody answers: so many reactions to measure."""

MANDATE = """
account = "BENCH"
base_currency = "USD"
policy = { weights = { AAPL = 0.50, MSFT = 0.45 } }
limits = { max_turnover = 1 }
approval = { mode = "always" }
freshness = { quotes = "80s", positions = "80s", proposal = "80s" }
"""
PARTS = ("age check", "event to run", "worker and process", "claim to first step")


def measure() -> dict[str, Any]:
    """Return, in seconds, median and 95th percentile of the whole and of each part, on a server of its own."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "bench.toml").write_text(MANDATE)
        try:
            call(home, "up", home / "bench.toml")
            reactions = [one for _ in range(PLANS) for one in reactions_of(home)]
        finally:
            call(home, "down")
    figures = {name: spread([reaction[name] for reaction in reactions]) for name in ("whole", *PARTS)}
    return {"reactions": len(reactions)} | figures


def spread(seconds: list[float]) -> dict[str, float]:
    """Return the median and the 95th percentile."""
    return {
        "median s": statistics.median(seconds),
        "p95 s": statistics.quantiles(seconds, n=20, method="inclusive")[-1],
    }


def call(home: Path, *arguments: object) -> str:
    """Run the command line with a state folder of its own."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "TRADEWRIGHT_"))}
    surroundings = clean | {"TRADEWRIGHT_HOME": str(home), "PREFECT_HOME": str(home / "no-prefect")}
    command = [str(TRADEWRIGHT), *map(str, arguments)]
    done = subprocess.run(command, env=surroundings, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{arguments}: {done.stdout} {done.stderr}")
    return done.stdout


def reactions_of(home: Path) -> Iterator[dict[str, float]]:
    """Have one plan made and revised until it may not be any more; yield what each revision after the first took."""
    plan = json.loads(call(home, "run", "--mandate", home / "bench.toml", "--json"))["plan"]["id"]
    ledger = Ledger(home / "ledger.db", wall)
    for revision in range(2, 6):
        entry = wait_for(ledger, f"{plan}/{revision}")
        yield reaction(home, ledger, plan, entry.body)
    while ledger.latest("outcome", entry.body["run"]) is None:  # until then it holds the account
        time.sleep(0.2)


def wait_for(ledger: Ledger, revision: str) -> Any:
    """Return a revision's entry once its run has found a result."""
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        entry = ledger.get("plan", revision)
        if entry and ledger.latest("step", entry.body["run"]):
            return entry
        time.sleep(0.2)
    raise RuntimeError(f"revision {revision} never came")


def reaction(home: Path, ledger: Ledger, plan: str, new: dict[str, Any]) -> dict[str, float]:
    """Return the seconds from expiry to the new revision's first step, and those of each part of the way."""
    old = ledger.get("plan", f"{plan}/{new['revision'] - 1}")
    run = ask(home, f"flow_runs/{new['run']}")
    told = [datetime.fromisoformat(each["occurred"]) for each in stale_events(home, plan, old.body["revision"])]
    first = ledger.all("step", new["run"])[0].at
    created, started = (datetime.fromisoformat(run[name]) for name in ("created", "start_time"))
    moments = [expiry(ledger, old.body["run"]), min(told), created, started, first]
    spans = [(after - before).total_seconds() for before, after in pairwise(moments)]
    return {"whole": (first - moments[0]).total_seconds()} | dict(zip(PARTS, spans, strict=True))


def expiry(ledger: Ledger, run: str) -> datetime:
    """Return when the first result of a run expired, by the wall clock: the run's own clock goes as fast."""
    waiting = next(entry for entry in ledger.all("outcome", run) if entry.body["state"] == "waiting")
    ends = [datetime.fromisoformat(entry.body["expires_at"]) for entry in ledger.all("step", run)]
    left: timedelta = min(ends) - datetime.fromisoformat(waiting.body["ended_at"])
    return waiting.at + left


def stale_events(home: Path, plan: str, revision: int) -> list[dict[str, Any]]:
    """Return what was told of a revision that had gone stale."""
    wanted = {
        "event": {"name": ["tradewright.plan.stale"]},
        "resource": {"id": [f"tradewright.plan.{plan}.{revision}"]},
    }
    return list(ask(home, "events/filter", filter=wanted)["events"])


def ask(home: Path, path: str, **body: Any) -> Any:
    """Ask the benchmark's Prefect server."""
    url = json.loads((home / "server.json").read_text())["api_url"]
    data = json.dumps(body).encode() if body else None
    request = urllib.request.Request(f"{url}/{path}", data=data, headers={"Content-Type": "application/json"})  # noqa: S310
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
        return json.loads(answer.read())
