"""A run that is killed, one that finds the account taken, and two at once: no order twice, and the right end."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from blocks.ledger import Entry, Ledger
from tasks.lease import give_back, take
from tests.prefect_server import ask, wait_for_end

pytestmark = pytest.mark.prefect

TRADEWRIGHT = Path(sys.executable).with_name("tradewright")


def wall() -> datetime:
    return datetime.now(UTC)


def started(home: Path, server: Any) -> "subprocess.Popen[str]":
    """Start `tradewright run --json` in the background, in a process group of its own."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "TRADEWRIGHT_"))}
    places = {
        "TRADEWRIGHT_HOME": str(home),
        "PREFECT_HOME": str(home / "no-prefect"),
        "PREFECT_API_URL": server.api_url,
    }
    return subprocess.Popen(
        [TRADEWRIGHT, "run", "--json"],
        env=clean | places,
        cwd=home,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )


def killed_at(home: Path, server: Any, kind: str, number: int) -> str:
    """Start a run, kill it as soon as the ledger has so many entries of a kind, and return its flow run's id."""
    process, ledger = started(home, server), Ledger(home / "ledger.db", wall)
    deadline = time.monotonic() + 120
    while len(ledger.all(kind)) < number:
        assert None is process.poll(), "it ended too soon"
        assert time.monotonic() < deadline, "it never came that far"
        time.sleep(0.002)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    [run] = ledger.all("run")
    assert [] == ledger.all("outcome"), "it was killed too late"
    return run.key


def retried(served: Any, server: Any, run: str) -> dict[str, Any]:
    """Retry a run as from the web page, by a worker, and return it once it has ended again."""
    before = ask(server, f"flow_runs/{run}")["run_count"]
    if ask(server, f"flow_runs/{run}")["state_type"] == "RUNNING":  # nobody has told the server that it is dead
        ask(server, f"flow_runs/{run}/set_state", state={"type": "CRASHED", "name": "Crashed"}, force=True)
    assert 0 == served("up").status
    try:
        state = {"type": "SCHEDULED", "name": "AwaitingRetry", "message": "Retry from the UI"}
        ask(server, f"flow_runs/{run}/set_state", state=state)
        return wait_for_end(server, run, before)
    finally:
        served("down")


def booked(ledger: Ledger) -> list[str]:
    """Return the references of the orders in the broker's book."""
    return [entry.body["order_ref"] for entry in ledger.all("paper.order", "PAPER")]


def state_of(ledger: Ledger, order_ref: str) -> str:
    entry = ledger.latest("order", order_ref)
    return str(entry.body["state"]) if entry else "intended"


def by_execution(entries: list[Entry]) -> dict[str, Any]:
    return {entry.body["exec_id"]: entry.body for entry in entries}


def assert_our_ledger_tells_what_the_broker_has_booked(ledger: Ledger) -> None:
    intents = [entry.key for entry in ledger.all("intent")]
    states = Counter(state_of(ledger, ref) for ref in intents)
    expected = {"filled": len(booked(ledger)), "dead": len(intents) - len(booked(ledger))}

    assert by_execution(ledger.all("paper.fill")) == by_execution(ledger.all("fill"))
    assert {state: count for state, count in expected.items() if count} == states
    assert [] == ledger.faults()


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "number"), [("step", 1), ("intent", 1), ("order", 8)])
def test_after_a_kill_a_new_run_settles_what_was_left_and_sizes_anew(
    served: Any, server: Any, home: Path, kind: str, number: int
) -> None:
    killed_at(home, server, kind, number)
    ledger = Ledger(home / "ledger.db", wall)
    before, left = booked(ledger), [entry.key for entry in ledger.all("intent")]
    assert len(before) < 20
    said = served("run", "--json").json

    assert "completed" == said["state"]
    assert {"filled"} == {order["state"] for order in said["orders"]}
    assert ["filled" if ref in before else "dead" for ref in left] == [state_of(ledger, ref) for ref in left]
    assert [*before, *(order["order_ref"] for order in said["orders"])] == booked(ledger)
    symbols = Counter(entry.body["order"]["symbol"] for entry in ledger.all("paper.order", "PAPER"))
    assert dict.fromkeys(symbols, 1) == symbols
    assert_our_ledger_tells_what_the_broker_has_booked(ledger)


@pytest.mark.slow
def test_after_a_kill_a_retry_finishes_exactly_the_orders_that_were_committed_to(
    served: Any, server: Any, home: Path
) -> None:
    run = killed_at(home, server, "order", 8)
    ledger = Ledger(home / "ledger.db", wall)
    intents, before = [entry.key for entry in ledger.all("intent")], booked(ledger)
    assert 7 <= len(before) < 20
    ended = retried(served, server, run)

    assert ("Completed", "20 orders filled") == (ended["state_name"], ended["state"]["message"][:16])
    assert intents == booked(ledger)
    assert_our_ledger_tells_what_the_broker_has_booked(ledger)
    [outcome] = ledger.all("outcome", run)
    spent = sum(Decimal(fill.body["quantity"]) * Decimal(fill.body["price"]) for fill in ledger.all("fill"))
    commissions = sum(Decimal(fill.body["commission"]) for fill in ledger.all("fill"))
    assert 100_000 - spent - commissions == Decimal(outcome.body["cash_after"])
    assert "held" == served("run", "--json").json["state"]


@pytest.mark.slow
def test_a_run_that_finds_the_account_taken_fails_and_can_be_retried_by_its_own_clock(
    served: Any, server: Any, home: Path
) -> None:
    ledger = Ledger(home / "ledger.db", wall)
    take(ledger, "PAPER", "somebody-else", wall())
    refused = served("run", "--json")

    assert (1, "failed", []) == (refused.status, refused.json["state"], refused.json["orders"])
    holder = f"run somebody-else, in process {os.getpid()} of this machine"
    assert f"account PAPER is being rebalanced by {holder}" in refused.json["message"]
    assert [] == booked(ledger)
    give_back(ledger, "PAPER", "somebody-else")
    ended = retried(served, server, refused.json["flow_run_id"])
    assert ("Completed", "20 orders filled") == (ended["state_name"], ended["state"]["message"][:16])
    assert_our_ledger_tells_what_the_broker_has_booked(ledger)


def test_of_two_runs_at_once_one_rebalances_and_the_other_says_who_does(server: Any, home: Path) -> None:
    processes = [started(home, server) for _ in range(2)]
    said = [json.loads(process.communicate(timeout=240)[0]) for process in processes]
    first, second = sorted(said, key=lambda one: str(one["state"]))
    ledger = Ledger(home / "ledger.db", wall)

    assert "completed" == first["state"]
    assert 20 == len(booked(ledger)) == len(set(booked(ledger)))
    assert {"filled"} == {order["state"] for order in first["orders"]}
    assert_our_ledger_tells_what_the_broker_has_booked(ledger)
    assert second["state"] in {"failed", "held"}  # held: it came when the first had ended
    if second["state"] == "failed":
        assert f"account PAPER is being rebalanced by run {first['flow_run_id']}" in second["message"]
    lease = ledger.latest("lease", "PAPER")
    assert lease
    assert "" == lease.body["owner"]
