"""Deployments, schedules and automations on a real server: as the mandate files say, and twice the same."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.prefect_server import ask

pytestmark = [pytest.mark.prefect, pytest.mark.slow]

MANDATE = """
account = "{account}"
base_currency = "USD"
policy = {{ weights = {{ AAPL = 0.50, MSFT = 0.45 }} }}
freshness = {{ quotes = "{quotes}" }}
schedule = {{ cadence = "{cadence}" }}
"""
ALWAYS = {"ingest", "refresh", "replan", "watch"}

Write = Callable[..., Path]


@pytest.fixture
def mandate(home: Path) -> Write:
    """Return what writes a mandate file of this name."""

    def write(name: str, quotes: str = "15m", cadence: str = "weekly") -> Path:
        path = home / f"{name}.toml"
        path.write_text(MANDATE.format(account=name.upper(), quotes=quotes, cadence=cadence))
        return path

    return write


@pytest.fixture(autouse=True)
def nothing_is_left(server: Any) -> Iterator[None]:
    """Take away afterwards what was deployed: the server is shared with other tests."""
    yield
    for each in deployments(server):
        ask(server, f"deployments/{each['id']}", method="DELETE")
    for each in automations(server):
        ask(server, f"automations/{each['id']}", method="DELETE")


def deployments(server: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = ask(server, "deployments/filter", limit=200)
    return [each for each in found if "tradewright" in each["tags"]]


def automations(server: Any) -> list[dict[str, Any]]:
    return list(ask(server, "automations/filter", limit=200))


def schedules(server: Any, name: str) -> list[dict[str, Any]]:
    (found,) = [each for each in deployments(server) if each["name"] == name]
    return [each["schedule"] for each in found["schedules"]]


def ids(found: list[dict[str, Any]]) -> dict[str, str]:
    return {each["name"]: each["id"] for each in found}


def test_deploying_twice_gives_the_same_set(served: Any, server: Any, mandate: Write) -> None:
    core = mandate("core")
    first = served("deploy", core, "--json")
    there, automatic = ids(deployments(server)), ids(automations(server))

    assert (0, {"core", *ALWAYS}, []) == (first.status, set(first.json["deployments"]), first.json["left"])
    assert first.json["deployments"] == sorted(there)
    assert first.json["automations"] == sorted(automatic)
    assert {"Tradewright: quotes older than 15m", "Tradewright: plan is stale", "Tradewright: run has died"} <= set(
        automatic
    )
    assert 5 == len(first.json["next_runs"])

    again = served("deploy", core, "--json")
    assert first.json | {"next_runs": 0} == again.json | {"next_runs": 0}
    assert (there, automatic) == (ids(deployments(server)), ids(automations(server)))
    assert 1 == len(schedules(server, "core"))
    assert ids(deployments(server)) == there
    assert again.json == served("deploy", "--json").json  # what is deployed already is what is meant


def test_who_plans_what_is_scheduled_is_said_once_and_stays(served: Any, server: Any, mandate: Write) -> None:
    def planners() -> dict[str, str]:
        return {each["name"]: each["parameters"].get("planner", "") for each in deployments(server)}

    core, side = mandate("core"), mandate("side")
    served("deploy", core, side, "--planner", "model")
    assert ("model", "model") == (planners()["core"], planners()["side"])

    served("deploy", core, side)
    assert ("model", "model") == (planners()["core"], planners()["side"])

    served("deploy", side, "--yes", "--planner", "rules")
    assert "rules" == planners()["side"]
    kinds = ask(server, "block_types/slug/tradewright-model-access", method="GET")
    assert "Tradewright model access" == kinds["name"]


def test_a_changed_mandate_file_changes_schedule_and_automations(served: Any, server: Any, mandate: Write) -> None:
    served("deploy", mandate("core"))
    assert "RDATE:20" in schedules(server, "core")[0]["rrule"]
    assert "America/New_York" == schedules(server, "core")[0]["timezone"]

    served("deploy", mandate("core", quotes="7m", cadence="30 15 * * 1"))

    assert [("30 15 * * 1", "America/New_York")] == [(s["cron"], s["timezone"]) for s in schedules(server, "core")]
    names = set(ids(automations(server)))
    assert ("Tradewright: quotes older than 7m" in names, "Tradewright: quotes older than 15m" in names) == (
        True,
        False,
    )


def test_a_run_by_hand_leaves_the_schedule_alone(served: Any, server: Any, mandate: Write) -> None:
    core = mandate("core")
    served("deploy", core)
    before = schedules(server, "core")
    served("run", "--mandate", core, "--dry-run")

    assert before == schedules(server, "core")


def test_a_mandate_that_was_only_tried_by_hand_gets_no_schedule(served: Any, server: Any, mandate: Write) -> None:
    served("run", "--mandate", mandate("tried"), "--dry-run")
    said = served("deploy", "--json").json

    assert ([], []) == (schedules(server, "tried"), said["next_runs"])
    assert {"sample", "tried", *ALWAYS} == set(said["deployments"])


def test_what_is_no_longer_named_is_removed_once_that_is_confirmed_and_nothing_else(
    served: Any, server: Any, mandate: Write
) -> None:
    core, other = mandate("core"), mandate("other")
    served("deploy", core, other)
    mine = {
        "name": "mine", "actions": [{"type": "do-nothing"}], "tags": ["tradewright"],
        "trigger": {"type": "event", "expect": ["x"], "posture": "Reactive", "threshold": 1, "within": 0},
    }  # fmt: skip
    ask(server, "automations/", **mine)

    kept = served("deploy", core, "--json").json
    assert {"core", "other", *ALWAYS} == set(kept["deployments"])  # nobody is there to be asked

    gone = served("deploy", core, "--yes", "--json").json
    assert {"core", *ALWAYS} == set(gone["deployments"])
    assert "mine" in ids(automations(server))


def test_an_automation_that_was_switched_off_stays_off(served: Any, server: Any, mandate: Write) -> None:
    core = mandate("core")
    served("deploy", core)
    stale = ids(automations(server))["Tradewright: plan is stale"]
    ask(server, f"automations/{stale}", method="PATCH", enabled=False)
    served("deploy", core)

    assert not next(each for each in automations(server) if each["id"] == stale)["enabled"]


def test_a_mandate_names_who_is_told_and_of_what(served: Any, server: Any, mandate: Write) -> None:
    core = mandate("core")
    core.write_text(core.read_text() + '[notify]\nblock = "custom-webhook/nobody"\n')
    said = served("deploy", core)
    assert 2 == said.status
    assert "notify.block: 'custom-webhook/nobody': the Prefect server has no such block" in said.err


def test_two_files_of_one_name_are_refused(served: Any, home: Path, mandate: Write) -> None:
    core, folder = mandate("core"), home / "other"
    folder.mkdir()
    (folder / "core.toml").write_text(core.read_text())
    said = served("deploy", core, folder / "core.toml")

    assert (2, True) == (said.status, "another file is named 'core' too" in said.err)


def test_up_says_what_it_serves_and_when_it_runs_next(served: Any, server: Any, mandate: Write) -> None:
    said = served("up", mandate("core"))
    try:
        assert 0 == said.status
        assert "deployments: core, ingest, refresh, replan, watch" in said.out
        assert "  quotes older than 15m\n" in said.out
        assert 5 == said.out.count("next run of core: ")
        assert f"Prefect UI: {server.ui_url}" in said.out
        assert "a watch looks around each minute" in said.out
    finally:
        served("down")
