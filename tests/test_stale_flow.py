"""A plan whose results age while a person is asked: one replan, whoever notices, and no order twice."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from blocks.clock import wall
from blocks.ledger import Ledger
from tests.home_ledger import orders, run_of
from tests.prefect_server import ask, wait_for_end, wait_for_rest, wait_until

pytestmark = [pytest.mark.prefect, pytest.mark.slow]

MANDATE = """
account = "SHORT"
base_currency = "USD"
policy = { weights = { AAPL = 0.50, MSFT = 0.45 } }
limits = { max_turnover = 1 }
approval = { mode = "always" }
freshness = { quotes = "100s", positions = "100s", proposal = "100s" }
"""
"""Quotes are those of the close, a minute before the run begins: forty seconds later all three have expired."""


@pytest.fixture
def short(home: Path) -> Path:
    path = home / "short.toml"
    path.write_text(MANDATE)
    return path


@pytest.fixture
def up(served: Any, short: Path) -> Iterator[None]:
    assert 0 == served("up", short).status
    yield
    served("down")


def revisions(home: Path) -> list[int]:
    return [entry.body["revision"] for entry in Ledger(home / "ledger.db", wall).all("plan")]


def replans(server: Any, plan: str) -> list[str]:
    """Return the states of the runs that were to replan a plan: its name is theirs once they have begun."""
    found = ask(server, "flow_runs/filter", flows={"name": {"any_": ["replan"]}}, limit=200)
    return [each["state_name"] for each in found if each["parameters"]["plan"] == plan]


def all_ended(states: list[str]) -> list[str] | None:
    going = {"Scheduled", "Late", "Pending", "Running", "Suspended", "AwaitingConcurrencySlot"}
    return None if going & set(states) else states


def switch_automations(server: Any, named: str, *, on: bool) -> None:
    """Have the server itself wait for results or not: without, the watch is left, and the automation that hears it."""
    for each in ask(server, "automations/filter", limit=200):
        if named in each["name"]:
            ask(server, f"automations/{each['id']}", method="PATCH", enabled=on)


def end_watch(server: Any) -> None:
    """Have nobody look: what is left are the server's own automations."""
    watching = {"flows": {"name": {"any_": ["watch"]}}, "flow_runs": {"state": {"type": {"any_": ["RUNNING"]}}}}
    (run,) = wait_until(lambda: ask(server, "flow_runs/filter", **watching))
    ask(server, f"flow_runs/{run['id']}/set_state", state={"type": "CANCELLED"}, force=True)


@pytest.mark.parametrize("noticed_by", ["the watch", "an automation"])
def test_three_results_that_expire_together_make_one_replan_which_is_approved_and_sent_once(
    served: Any, server: Any, home: Path, short: Path, up: None, noticed_by: str
) -> None:
    switch_automations(server, "older than", on=noticed_by == "an automation")
    if noticed_by == "an automation":
        end_watch(server)
    first = served("run", "--mandate", short, "--json").json
    assert "waiting" == first["state"]

    second = wait_until(lambda: run_of(home, 2))
    assert "Suspended" == wait_for_rest(server, second)["state_name"]
    assert "Cancelled" == ask(server, f"flow_runs/{first['flow_run_id']}")["state_name"]
    assert 0 == served("approve", second).status
    ended = wait_for_end(server, second, after=0)

    assert ("Completed", "2 orders filled") == (ended["state_name"], ended["state"]["message"][:15])
    assert [1, 2] == revisions(home)
    assert ["AAPL", "MSFT"] == orders(home)
    ended = wait_until(lambda: all_ended(replans(server, first["plan"]["id"])))
    assert 1 == ended.count("Completed")
    assert {"Completed", "Nothing to replan"} >= set(ended)

    retry = {"type": "SCHEDULED", "name": "AwaitingRetry", "message": "Retry from the UI"}
    ask(server, f"flow_runs/{first['flow_run_id']}/set_state", state=retry)
    again = wait_until(lambda: stale(server, first["flow_run_id"]))
    assert "revision 2 of plan" in again["state"]["message"]
    assert ["AAPL", "MSFT"] == orders(home)


def test_shares_that_come_in_while_a_person_is_asked_start_a_replan_and_cash_between_two_weeks_does_not(
    served: Any, server: Any, home: Path, short: Path, up: None
) -> None:
    short.write_text(MANDATE.replace("100s", "15m"))
    first = served("run", "--mandate", short, "--json").json
    assert 0 == served("transfer", "--mandate", short, "--shares", "AAPL=100").status

    second = wait_until(lambda: run_of(home, 2))
    assert "Suspended" == wait_for_rest(server, second)["state_name"]
    assert "Cancelled" == ask(server, f"flow_runs/{first['flow_run_id']}")["state_name"]
    begun = Ledger(home / "ledger.db", wall).get("run", second)
    assert begun
    assert "AAPL: 0 held when the orders were drafted, 100 now" == begun.body["cause"]
    assert 0 == served("approve", second).status
    assert "Completed" == wait_for_end(server, second, after=0)["state_name"]

    assert 0 == served("transfer", "--mandate", short, "--cash", "20000").status
    short.write_text(MANDATE.replace("100s", "15m").replace("always", "auto"))
    next_week = served("run", "--mandate", short, "--json").json
    assert ("completed", 1, ["buy", "buy"]) == (
        next_week["state"],
        next_week["plan"]["revision"],
        [order["side"] for order in next_week["orders"]],
    )


def test_cash_that_leaves_during_a_run_makes_it_stale(
    served: Any, server: Any, home: Path, short: Path, up: None
) -> None:
    short.write_text(MANDATE.replace("100s", "15m"))
    end_watch(server)
    run = served("run", "--mandate", short, "--json").json["flow_run_id"]
    assert 0 == served("transfer", "--mandate", short, "--cash=-5000").status
    assert 0 == served("approve", run).status

    ended = wait_for_end(server, run, after=0)
    assert "Stale" == ended["state_name"]
    assert "the approval no longer holds: buy AAPL: 397 approved, 378 now" == ended["state"]["message"]
    assert [] == orders(home)


def stale(server: Any, run: str) -> dict[str, Any] | None:
    found: dict[str, Any] = ask(server, f"flow_runs/{run}")
    return found if found["state_name"] == "Stale" else None


def test_a_run_that_was_cancelled_while_a_person_was_asked_asks_again_when_it_is_retried_and_sends_once(
    served: Any, server: Any, home: Path, short: Path, up: None
) -> None:
    short.write_text(MANDATE.replace("100s", "15m"))
    run = served("run", "--mandate", short, "--json").json["flow_run_id"]
    ask(server, f"flow_runs/{run}/set_state", state={"type": "CANCELLED"}, force=True)
    ask(server, f"flow_runs/{run}/set_state", state={"type": "SCHEDULED", "name": "AwaitingRetry"})
    assert "Suspended" == wait_for_rest(server, run)["state_name"]
    assert [] == orders(home)
    assert 0 == served("approve", run).status

    assert "Completed" == wait_for_end(server, run, after=0)["state_name"]
    assert ["AAPL", "MSFT"] == orders(home)
