"""Approval, staleness and replan on a real Prefect server, as the one who is asked goes through it."""

from pathlib import Path
from typing import Any

import pytest

from blocks.clock import wall
from blocks.ledger import Ledger
from tests.prefect_server import ask, wait_for_end, wait_for_rest

pytestmark = [pytest.mark.prefect, pytest.mark.slow]

MANDATE = """
account = "CORE"
base_currency = "USD"
policy = { weights = { AAPL = 0.50, MSFT = 0.45 } }
limits = { max_turnover = 1 }
approval = { mode = "always" }
"""

DEARER = """date,symbol,close
2022-12-27,AAPL,125.73
2022-12-28,AAPL,129.60
"""
"""3 % above the sample's close of that day."""


@pytest.fixture
def core(home: Path) -> Path:
    path = home / "core.toml"
    path.write_text(MANDATE)
    return path


@pytest.fixture
def worker(served: Any) -> Any:
    """Have a worker up that goes on with what was suspended."""
    assert 0 == served("up").status
    yield
    served("down")


def intents(home: Path) -> list[str]:
    return [entry.body["symbol"] for entry in Ledger(home / "ledger.db", wall).all("intent")]


def test_what_is_approved_is_sent_once(served: Any, server: Any, home: Path, core: Path, worker: None) -> None:
    asked = served("run", "--mandate", core, "--json")
    run = asked.json["flow_run_id"]
    assert (0, "waiting", {"proposed"}) == (
        asked.status,
        asked.json["state"],
        {o["state"] for o in asked.json["orders"]},
    )
    assert [] == intents(home)

    assert 0 == served("approve", run, "--note", "as planned").status
    ended = wait_for_end(server, run, after=0)

    assert ("Completed", "2 orders filled") == (ended["state_name"], ended["state"]["message"][:15])
    assert ["AAPL", "MSFT"] == sorted(intents(home))
    again = served("approve", run)
    assert (2, "waits for no answer; it is completed") == (again.status, again.err.strip().split(": ", 2)[2][3:])


def test_prices_that_move_while_a_person_is_asked_make_the_plan_stale_and_a_replan_asks_anew(
    served: Any, server: Any, home: Path, core: Path, worker: None
) -> None:
    asked = served("run", "--mandate", core, "--json").json
    (home / "dearer.csv").write_text(DEARER)
    assert 0 == served("ingest", home / "dearer.csv").status
    assert 0 == served("approve", asked["flow_run_id"]).status
    ended = wait_for_end(server, asked["flow_run_id"], after=0)

    assert "Stale" == ended["state_name"]
    assert "the approval no longer holds: buy AAPL: 397 approved, 385 now" == ended["state"]["message"]
    assert [] == intents(home)

    anew = served("replan", asked["plan"]["id"], "--json")
    assert (0, "waiting", 2) == (anew.status, anew.json["state"], anew.json["plan"]["revision"])
    assert {"129.6", "129.60"} & {order["limit"] for order in anew.json["orders"]}

    assert 0 == served("refuse", anew.json["flow_run_id"], "--note", "not before the election").status
    refused = wait_for_end(server, anew.json["flow_run_id"], after=0)
    assert ("Rejected", "not before the election") == (refused["state_name"], refused["state"]["message"][-23:])
    assert [] == intents(home)

    once_more = served("replan", asked["plan"]["id"])
    assert (1, True) == (once_more.status, "makes the same plan again" in once_more.err)


def test_of_two_replans_that_race_one_does_it_and_the_other_ends_quietly(
    served: Any, server: Any, home: Path, core: Path, worker: None
) -> None:
    asked = served("run", "--mandate", core, "--json").json
    deployment = ask(server, "deployments/name/replan/replan")["id"]
    parameters = {"plan": asked["plan"]["id"], "revision": 1, "cause": "a race"}
    runs = [ask(server, f"deployments/{deployment}/create_flow_run", parameters=parameters)["id"] for _ in range(2)]
    names = sorted(wait_for_rest(server, run)["state_name"] for run in runs)

    assert ["Nothing to replan", "Suspended"] == names
    assert "Cancelled" == ask(server, f"flow_runs/{asked['flow_run_id']}")["state_name"]
    assert [1, 2] == [entry.body["revision"] for entry in Ledger(home / "ledger.db", wall).all("plan")]
    assert [] == intents(home)
