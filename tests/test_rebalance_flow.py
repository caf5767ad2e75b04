"""The whole chain on a real Prefect server: run, run again, fail, retry."""

from pathlib import Path
from typing import Any

import pytest

from tests.prefect_server import ask, wait_for_end

pytestmark = pytest.mark.prefect

MANDATE = """
account = "PAPER"
base_currency = "USD"

[policy.weights]
AAPL = 0.50
NEWCO = 0.45

[limits]
max_turnover = 1
"""

NEWCO = """date,symbol,open,high,low,close,volume
2022-12-22,NEWCO,10.00,10.20,9.90,10.10,1000
2022-12-23,NEWCO,10.10,10.30,10.00,10.20,1000
2022-12-27,NEWCO,10.20,10.40,10.10,10.30,1000
2022-12-28,NEWCO,10.30,10.50,10.20,10.40,1000
"""


def task_states(server: Any, run: str) -> list[tuple[str, str]]:
    """Return name and state of a run's task runs, in the order they came to be."""
    found = ask(server, "task_runs/filter", flow_runs={"id": {"any_": [run]}}, limit=200)
    return [(each["name"], each["state_name"]) for each in sorted(found, key=lambda each: each["created"])]


def test_the_first_run_invests_the_account_and_the_second_has_nothing_to_do(served: Any, server: Any) -> None:
    first = served("run", "--json")

    assert (0, "completed") == (first.status, first.json["state"])
    assert {"filled"} == {order["state"] for order in first.json["orders"]}
    assert 20 == len(first.json["orders"])
    assert first.json["verdict"]["approved"]

    second = served("run", "--json")

    assert (0, "held", []) == (second.status, second.json["state"], second.json["orders"])
    assert "within" in second.json["message"]
    run = ask(server, f"flow_runs/{second.json['flow_run_id']}")
    assert ("rebalance sample 2022-W52 paper", "Held") == (run["name"], run["state_name"])
    assert f"{server.ui_url}/runs/flow-run/{run['id']}" == second.json["ui_url"]


def test_a_past_date_is_run_with_no_price_later_than_it(served: Any) -> None:
    said = served("run", "--as-of", "2020-03-16", "--json", "--dry-run").json

    apple = next(order for order in said["orders"] if order["symbol"] == "AAPL")
    assert ("completed", "proposed", "2020-03-16T20:01:00Z") == (said["state"], apple["state"], said["as_of"])
    assert "59.29" == apple["limit"]  # the close of that day, 59.290; the next was 61.897


def test_a_dry_run_sends_nothing_and_leaves_the_account_as_it_was(served: Any) -> None:
    dry = served("run", "--dry-run", "--json").json
    wet = served("run", "--json").json

    assert {"proposed"} == {order["state"] for order in dry["orders"]}
    assert "100000.00" == dry["equity"] == wet["equity"]
    assert "2093.84" == dry["cash_after"]  # if all orders fill; commissions come on top


def test_a_step_that_failed_is_retried_alone_once_its_cause_is_gone(served: Any, server: Any, home: Path) -> None:
    mandate = home / "newco.toml"
    mandate.write_text(MANDATE)
    failed = served("run", "--mandate", mandate, "--json")

    assert (1, "failed", []) == (failed.status, failed.json["state"], failed.json["orders"])
    assert "step quotes failed: NEWCO: no prices in the store" in failed.json["message"]
    run = failed.json["flow_run_id"]
    assert {("positions", "Completed"), ("targets", "Completed"), ("quotes", "Failed")} <= set(task_states(server, run))

    (home / "newco.csv").write_text(NEWCO)
    assert 0 == served("ingest", home / "newco.csv").status
    assert 0 == served("up").status
    try:
        retry = {"type": "SCHEDULED", "name": "AwaitingRetry", "message": "Retry from the UI"}
        ask(server, f"flow_runs/{run}/set_state", state=retry)
        ended = wait_for_end(server, run, after=1)
    finally:
        served("down")

    assert ("Completed", "2 orders filled") == (ended["state_name"], ended["state"]["message"][:15])
    second_attempt = task_states(server, run)[-7:]
    expected = {
        ("positions", "Reused"), ("targets", "Reused"), ("quotes", "Completed"), ("drift", "Completed"),
        ("draft", "Completed"), ("verify", "Approved"), ("submit", "Completed"),
    }  # fmt: skip
    assert expected == set(second_attempt)


def test_halted_means_rejected_and_nothing_sent(served: Any) -> None:
    served("halt", "--reason", "trying the switch")
    halted = served("run", "--json")

    assert (1, "rejected") == (halted.status, halted.json["state"])
    assert "trying the switch" in halted.json["message"]
    assert {"proposed"} == {order["state"] for order in halted.json["orders"]}

    served("resume")

    assert "completed" == served("run", "--json").json["state"]


HELD = """
account = "PAPER"
base_currency = "USD"
policy = { weights = { AAPL = 0.30, MSFT = 0.30, XOM = 0.30 } }
limits = { max_turnover = 1 }
"""

CHANGED = """
account = "PAPER"
base_currency = "USD"
frozen = ["XOM"]
policy = { weights = { AAPL = 0, XOM = 0.60, KO = 0.20 } }
limits = { max_turnover = 2 }
"""


def test_frozen_weightless_and_outside_holdings_do_what_the_mandate_says_and_the_summary_tells(
    served: Any, home: Path
) -> None:
    (home / "held.toml").write_text(HELD)
    (home / "changed.toml").write_text(CHANGED)
    before = served("run", "--mandate", home / "held.toml", "--json").json
    held = {order["symbol"]: order["quantity"] for order in before["orders"]}

    said = served("run", "--mandate", home / "changed.toml")

    assert 0 == said.status
    summary = " ".join(said.out.split())
    assert f"XOM is frozen: {held['XOM']} held, counted at its last close of 106.627, never traded" in summary
    assert f"AAPL has a weight of 0: its {held['AAPL']} are to be sold" in summary
    assert (
        f"MSFT is outside the mandate: {held['MSFT']} held, not counted, never traded; a weight of 0 would sell it"
        in summary
    )
    orders = {
        o["symbol"]: (o["side"], o["quantity"])
        for o in served("run", "--mandate", home / "changed.toml", "--json").json["orders"]
    }
    assert {} == orders
