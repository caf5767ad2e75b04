"""Whatever state a run is found in, in the web page, Retry or Resume brings it to a right end; no order is doubled."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from blocks.clock import wall
from blocks.ledger import Ledger
from deployments import server as prefect_server
from tests.home_ledger import orders, run_of
from tests.prefect_server import ask, wait_for_end, wait_for_rest, wait_until

pytestmark = [pytest.mark.prefect, pytest.mark.slow]

TRADEWRIGHT = Path(sys.executable).with_name("tradewright")
MANDATE = """
account = "STATES"
base_currency = "USD"
policy = { weights = { AAPL = 0.50, MSFT = 0.45 } }
limits = { max_turnover = 1 }
"""
RETRY = {"type": "SCHEDULED", "name": "AwaitingRetry", "message": "Retry from the UI"}


@pytest.fixture
def states(home: Path) -> Path:
    path = home / "states.toml"
    path.write_text(MANDATE)
    return path


def filled(home: Path) -> dict[str, int]:
    shares = dict[str, int]()
    for entry in Ledger(home / "ledger.db", wall).all("fill"):
        shares[entry.body["symbol"]] = shares.get(entry.body["symbol"], 0) + int(entry.body["quantity"])
    return shares


def a_run(server: Any, **more: Any) -> str:
    """Ask for a run of the mandate as the web page does."""
    deployment = ask(server, "deployments/name/rebalance/states")["id"]
    return str(ask(server, f"deployments/{deployment}/create_flow_run", **(more or {"tags": []}))["id"])


def test_a_run_whose_process_was_killed_with_orders_at_work_is_marked_as_crashed_and_a_retry_finishes_it(
    served: Any, server: Any, home: Path, states: Path, down: None
) -> None:
    states.write_text(MANDATE + 'paper = { latency = "2s" }\nsubmission = { submit_window = "20m" }\n')
    assert 0 == served("up", states).status
    run = killed_while_its_orders_work(server, home, states)

    crashed = wait_until(lambda: in_state(server, run, "CRASHED"), 330)
    assert "its process gave no sign of life for three minutes" == crashed["state"]["message"]
    ask(server, f"flow_runs/{run}/set_state", state=RETRY)

    ended = wait_for_end(server, run, after=1)
    assert ("Completed", "2 orders filled") == (ended["state_name"], ended["state"]["message"][:15])
    assert ["AAPL", "MSFT"] == orders(home)
    assert {"AAPL": 397, "MSFT": 193} == filled(home)


def killed_while_its_orders_work(server: Any, home: Path, mandate: Path) -> str:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "TRADEWRIGHT_"))}
    surroundings = clean | {"TRADEWRIGHT_HOME": str(home), "PREFECT_API_URL": server.api_url}
    command = [str(TRADEWRIGHT), "run", "--mandate", str(mandate)]
    process = subprocess.Popen(command, env=surroundings, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_until(lambda: orders(home), 60)
    process.send_signal(signal.SIGKILL)
    process.wait()
    return Ledger(home / "ledger.db", wall).all("run")[-1].key


def in_state(server: Any, run: str, kind: str) -> dict[str, Any] | None:
    found: dict[str, Any] = ask(server, f"flow_runs/{run}")
    return found if found["state_type"] == kind else None


def test_started_from_page_schedule_and_terminal_at_once_one_rebalances_and_the_others_end(
    served: Any, server: Any, home: Path, states: Path, down: None
) -> None:
    states.write_text(MANDATE + 'paper = { latency = "2s" }\n')  # so that the first is still at it when the others come
    assert 0 == served("up", states).status
    scheduled = {"state": {"type": "SCHEDULED", "name": "Scheduled"}}
    runs = [a_run(server), a_run(server, **scheduled)]
    by_hand = served("run", "--mandate", states, "--json")
    ended = [wait_for_rest(server, run) for run in runs] + [ask(server, f"flow_runs/{by_hand.json['flow_run_id']}")]

    said = [each["state_name"] for each in ended]
    assert 1 == sum(
        each["state"]["message"].startswith("2 orders filled") for each in ended if each["state"]["message"]
    )
    assert {"Completed", "Held", "Failed", "Cancelled"} >= set(said)
    assert 1 == said.count("Completed")
    assert ["AAPL", "MSFT"] == orders(home)


def test_a_run_that_nobody_has_taken_up_is_late_and_is_carried_out_once_there_is_a_worker(
    served: Any, server: Any, home: Path, states: Path, down: None
) -> None:
    assert 0 == served("deploy", states).status
    run = a_run(server)
    wait_until(lambda: ask(server, f"flow_runs/{run}")["state_name"] == "Late", 90)
    assert 0 == served("up").status

    assert "Completed" == wait_for_end(server, run, after=0)["state_name"]
    assert ["AAPL", "MSFT"] == orders(home)


def test_a_paused_deployment_plans_no_runs_until_it_is_resumed_and_then_goes_on(
    served: Any, server: Any, home: Path, states: Path, down: None
) -> None:
    assert 0 == served("up", states).status
    deployment = ask(server, "deployments/name/rebalance/states")["id"]
    ask(server, f"deployments/{deployment}/pause_deployment", method="POST", nothing=None)
    assert [] == planned(server, deployment)
    assert ask(server, f"deployments/{deployment}")["paused"]

    ask(server, f"deployments/{deployment}/resume_deployment", method="POST", nothing=None)
    wait_until(lambda: planned(server, deployment), 30)
    assert "Completed" == wait_for_end(server, a_run(server), after=0)["state_name"]
    assert ["AAPL", "MSFT"] == orders(home)


def planned(server: Any, deployment: str) -> list[str]:
    wanted = {"deployments": {"id": {"any_": [deployment]}}, "flow_runs": {"state": {"type": {"any_": ["SCHEDULED"]}}}}
    return [each["id"] for each in ask(server, "flow_runs/filter", **wanted)]


def test_orders_that_are_left_working_are_shown_as_they_go_and_counted_by_a_replan(
    served: Any, server: Any, home: Path, states: Path
) -> None:
    states.write_text(
        MANDATE
        + 'paper = { latency = "30m" }\nsubmission = { submit_window = "3s", at_window_end = "leave" }\n'
        + 'freshness = { quotes = "1h", positions = "1h" }\n'
    )
    first = served("run", "--mandate", states, "--json").json
    assert ("partial", {"working"}) == (first["state"], {order["state"] for order in first["orders"]})
    (progress,) = artifacts(server, first["flow_run_id"], "progress")
    assert (0, "0 of 2 orders have filled; at work: AAPL, MSFT") == (progress["data"], progress["description"])

    again = served("replan", first["plan"]["id"], "--json").json
    assert ("held", 2, []) == (again["state"], again["plan"]["revision"], again["orders"])
    assert ["AAPL", "MSFT"] == orders(home)


def artifacts(server: Any, run: str, kind: str) -> list[dict[str, Any]]:
    found = ask(server, "artifacts/filter", flow_runs={"id": {"any_": [run]}})
    return [each for each in found if each["type"] == kind]


def test_the_fifth_revision_after_the_first_fails_with_its_reason(
    served: Any, server: Any, home: Path, states: Path
) -> None:
    states.write_text(MANDATE + 'approval = { mode = "always" }\n')
    plan = served("run", "--mandate", states, "--json").json["plan"]["id"]
    revisions = [served("replan", plan, "--json").json for _ in range(4)]
    fifth = served("replan", plan, "--json")

    assert [("waiting", number) for number in (2, 3, 4, 5)] == [(r["state"], r["plan"]["revision"]) for r in revisions]
    assert (1, "failed") == (fifth.status, fifth.json["state"])
    assert "has been revised 4 times (freshness.max_revisions)" in fifth.json["message"]
    assert [] == orders(home)


class Listener(HTTPServer):
    """A server of the user's that is told how runs end."""

    heard: list[str]


class Hears(BaseHTTPRequestHandler):
    """Writes down what it is told."""

    server: Listener

    def do_POST(self) -> None:
        """Keep the body."""
        self.server.heard.append(self.rfile.read(int(self.headers["content-length"])).decode())
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def listener() -> Iterator[Listener]:
    found = Listener(("127.0.0.1", 0), Hears)
    found.heard = []
    thread = threading.Thread(target=found.serve_forever)
    thread.start()
    yield found
    found.shutdown()
    thread.join()
    found.server_close()


def test_who_asked_to_be_told_is_told_how_runs_end_and_not_of_what_was_switched_off(
    served: Any, server: Any, states: Path, listener: Listener
) -> None:
    name = a_webhook(server, f"http://127.0.0.1:{listener.server_port}/told")
    states.write_text(MANDATE + f'notify = {{ block = "{name}", on = ["completed"] }}\n')
    assert 0 == served("deploy", states).status
    assert "completed" == served("run", "--mandate", states, "--json").json["state"]
    assert "held" == served("run", "--mandate", states, "--json").json["state"]
    wait_until(lambda: listener.heard, 30)
    time.sleep(5)  # what is not to come is given time to come

    (told,) = listener.heard
    assert "Tradewright: STATES completed" in told
    assert "2 orders filled" in told


def a_webhook(server: Any, url: str) -> str:
    """Make the notification block of a user who has a server of their own; return its name."""
    kind = ask(server, "block_types/slug/custom-webhook")
    schema = ask(server, "block_schemas/filter", block_schemas={"block_type_id": {"any_": [kind["id"]]}})[0]
    data = {"name": "mine", "url": url, "json_data": {"subject": "{{subject}}", "body": "{{body}}"}}
    block = {"name": "states", "data": data, "block_schema_id": schema["id"], "block_type_id": kind["id"]}
    ask(server, "block_documents/", **block)
    return "custom-webhook/states"


Start = Callable[..., Any]


def test_a_server_that_is_restarted_while_a_person_is_asked_makes_one_replan(tradewright: Start, home: Path) -> None:
    """The server is this test's own: the others' may not be killed."""
    mandate = home / "states.toml"
    ages = 'freshness = { quotes = "110s", positions = "110s", proposal = "110s" }\n'
    mandate.write_text(MANDATE + 'approval = { mode = "always" }\n' + ages)
    try:
        assert 0 == tradewright("up", mandate).status
        first = tradewright("run", "--mandate", mandate, "--json").json
        assert "waiting" == first["state"]
        os.killpg(json.loads((home / "server.json").read_text())["process"], signal.SIGKILL)
        assert 0 == tradewright("up").status

        second = wait_until(lambda: run_of(home, 2), 180)
        server = prefect_server.recorded(home)
        assert "Suspended" == wait_for_rest(server, second)["state_name"]
        time.sleep(15)  # whoever else has noticed is given time to come
        assert [1, 2] == [entry.body["revision"] for entry in Ledger(home / "ledger.db", wall).all("plan")]
        assert 0 == tradewright("approve", second).status
        assert "Completed" == wait_for_end(server, second, after=0)["state_name"]
        assert ["AAPL", "MSFT"] == orders(home)
    finally:
        tradewright("down")
