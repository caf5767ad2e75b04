"""The model planner: a plan in a form that can say nothing else, repaired or refused; without a plan a run holds."""

import asyncio
import datetime as dt
import json
import sqlite3
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from blocks.clock import wall
from blocks.errors import AnswerUnusable
from blocks.ledger import Ledger
from blocks.mandate import Mandate, read_mandate, sample_path
from blocks.models.account import calls_of
from blocks.models.anthropic import Access, AnthropicWire
from blocks.models.asking import Asking
from blocks.models.calls import Calls
from blocks.models.prices import Prices
from tasks.catalog import load_catalog
from tasks.plan import Step
from tasks.planners.model import plan_steps
from tasks.planners.picture import Picture
from tasks.planners.rules import plan_steps as by_rules
from tests.messages_server import KEY, Act, MessagesServer, Script, fails, in_turn, says

SAMPLE = read_mandate(sample_path())
PICTURE = Picture(dt.date(2022, 12, 28), {"cash": "100000.00", "holdings": {}})
Written = list[dict[str, Any]]


def plan_of(mandate: Mandate, **changes: Any) -> Written:
    """Write a good plan as a model does, nulls and all; `changes` are made to its steps, by their ids."""
    steps = [json.loads(step.model_dump_json()) for step in by_rules(mandate)]
    for step in steps:
        step["params"] |= {"symbols": None} if step["tool"] == "gather_quotes" else {}
        step.update(changes.get(step["id"], {}))
    return steps


def answered(*plans: Any) -> Script:
    return in_turn(*(each if isinstance(each, Act) else says({"steps": each}) for each in plans))


def make(service: MessagesServer, home: Path, picture: Picture = PICTURE) -> tuple[Step, ...]:
    wire = AnthropicWire(lambda: Access(SecretStr(KEY), service.url), dt.timedelta(seconds=5))
    ledger = Ledger(home / "ledger.db", wall)
    calls = Calls(ledger, wire, Prices(home), "p1", "r1", Decimal("0.50"), wall)
    return asyncio.run(plan_steps(Asking(calls, SAMPLE.models, "plan"), SAMPLE, load_catalog(), picture))


def test_a_good_plan_is_taken_as_it_is(service: MessagesServer, home: Path) -> None:
    service.script = answered(plan_of(SAMPLE))

    assert by_rules(SAMPLE) == make(service, home)

    assert 1 == len(service.requests)


def test_the_form_of_an_answer_has_one_kind_of_step_a_tool_and_none_that_sends(
    service: MessagesServer, home: Path
) -> None:
    service.script = answered(plan_of(SAMPLE))
    make(service, home)

    schema = service.requests[0]["output_config"]["format"]["schema"]
    kinds = [_resolved(each, schema) for each in schema["properties"]["steps"]["items"]["anyOf"]]
    assert list(load_catalog().tools) == [kind["properties"]["tool"]["const"] for kind in kinds]
    assert all(each["additionalProperties"] is False for each in _objects(schema))
    draft = next(kind for kind in kinds if kind["properties"]["tool"]["const"] == "draft_orders")
    inputs = _resolved(draft["properties"]["inputs"], schema)
    assert {"targets", "quotes", "positions", "drift"} == set(inputs["properties"])
    assert {"targets", "quotes", "positions"} == set(inputs["required"])


def _resolved(part: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = schema["$defs"][part["$ref"].rsplit("/", 1)[-1]] if "$ref" in part else part
    return found


def _objects(part: Any) -> Iterator[dict[str, Any]]:
    if isinstance(part, dict):
        if part.get("type") == "object":
            yield part
        for each in part.values():
            yield from _objects(each)
    for each in part if isinstance(part, list) else ():
        yield from _objects(each)


def test_the_prompt_tells_tools_mandate_and_account_and_names_no_account_run_or_plan(
    service: MessagesServer, home: Path
) -> None:
    service.script = answered(plan_of(SAMPLE))
    make(service, home, Picture(PICTURE.on, PICTURE.account, "The quotes ran out."))

    stable, question = (service.requests[0][part] for part in ("system", "messages"))
    told = json.dumps(stable)
    assert all(f"- {name}: " in told for name in load_catalog().tools)
    asked = question[0]["content"][0]["text"]
    assert 'account: {"cash": "100000.00", "holdings": {}}' in asked.splitlines()
    assert "The quotes ran out." in asked
    assert all(symbol in asked for symbol in SAMPLE.universe)
    assert not [secret for secret in (SAMPLE.account, "p1", "r1", "notify") if f'"{secret}"' in asked]


FAULTS: list[tuple[Any, str]] = [
    ([], "empty-plan"),
    (plan_of(SAMPLE)[:-1], "no-proposal"),
    (plan_of(SAMPLE, quotes={"tool": "place_orders"}), "forbidden-tool"),
    (plan_of(SAMPLE, quotes={"tool": "gather_rumours"}), "unknown-tool"),
    (plan_of(SAMPLE, quotes={"params": {"symbols": ["GME"]}}), "unknown-symbol"),
    (plan_of(SAMPLE, quotes={"why": "because " * 40}), "why-too-long"),
    (plan_of(SAMPLE, draft={"inputs": {"targets": "targets"}}), "missing-input"),
    (plan_of(SAMPLE, draft={"id": "submit"}), "bad-step-id"),
    (plan_of(SAMPLE, targets={"params": "all"}), "bad-step"),
    (["sell everything"], "bad-step"),
    (plan_of(SAMPLE) * 3, "too-many-steps"),
]


@pytest.mark.parametrize(("faulty", "code"), FAULTS, ids=[code for _, code in FAULTS])
def test_a_faulty_plan_goes_back_with_its_codes_twice_and_is_then_refused(
    service: MessagesServer, home: Path, faulty: Any, code: str
) -> None:
    service.script = answered(faulty, faulty, plan_of(SAMPLE))
    assert by_rules(SAMPLE) == make(service, home)
    assert all(code in json.dumps(request["messages"][-1]) for request in service.requests[1:3])

    service.script = answered(faulty, faulty, faulty, plan_of(SAMPLE))
    before = len(service.requests)
    with pytest.raises(AnswerUnusable, match=f"planner claude-sonnet-5-5: its answer cannot be used: .*{code}"):
        make(service, home, Picture(PICTURE.on, {"another": "account"}))
    assert 3 == len(service.requests) - before


# On a real Prefect server, from the command line


@pytest.fixture
def mandate(home: Path) -> Path:
    path = home / "core.toml"
    path.write_text(CORE)
    return path


CORE = """
account = "CORE"
base_currency = "USD"
policy = { weights = { AAPL = 0.50, MSFT = 0.45 } }
limits = { max_turnover = 1 }
"""


@pytest.mark.prefect
def test_a_run_planned_by_a_model_trades_what_the_rules_plan_would_and_says_who_planned_and_what_it_cost(
    modelled: Any, service: MessagesServer, home: Path, server_folder: Path, mandate: Path
) -> None:
    steps = plan_of(read_mandate(mandate), drift={"why": "as the model has it"})
    service.script = answered(steps)
    by_rule = modelled("run", "--dry-run", "--mandate", mandate, "--json").json
    assert ("0", []) == (by_rule["usd"], service.requests)

    said = modelled("run", "--planner", "model", "--mandate", mandate, "--json")

    assert (0, "completed") == (said.status, said.json["state"])
    wanted, sent = ([(o["symbol"], o["quantity"], o["limit"]) for o in each["orders"]] for each in (by_rule, said.json))
    assert wanted == sent
    assert "as the model has it" in [step["why"] for step in said.json["plan"]["steps"]]
    ledger = Ledger(home / "ledger.db", wall)
    (call,) = calls_of(ledger, said.json["plan"]["id"])
    assert ("planner", "plan", said.json["usd"]) == (call["role"], call["step"], call["usd"])
    assert Decimal(0) < Decimal(said.json["usd"]) < Decimal("0.50")

    why = modelled("explain", said.json["orders"][0]["order_ref"]).out
    assert "made by claude-sonnet-5-5" in why
    assert f"asked claude-sonnet-5-5 as planner in step plan: end_turn, {call['input']} + " in why
    assert "no model was asked" not in why
    _is_nowhere(KEY, home, server_folder)


@pytest.mark.prefect
def test_a_recorded_run_is_replayed_without_a_service_or_a_key_and_makes_the_same_orders(
    modelled: Any, served: Any, service: MessagesServer, home: Path, mandate: Path
) -> None:
    service.script = answered(plan_of(read_mandate(mandate), drift={"why": "as the model has it"}))
    said = modelled("run", "--planner", "model", "--mandate", mandate, "--dry-run", "--json").json
    recorded = home.rename(home.with_name("recorded")) / "ledger.db"
    home.mkdir()
    mandate.write_text(CORE)
    before = len(service.requests)

    again = served("run", "--planner", "model", "--mandate", mandate, "--dry-run", "--replay", recorded, "--json").json

    assert ("completed", "0", before) == (again["state"], again["usd"], len(service.requests))
    assert said["plan"]["hash"] == again["plan"]["hash"]
    assert said["orders"]
    assert _orders(said) == _orders(again)
    assert said["plan"]["id"] != again["plan"]["id"]

    mandate.write_text(CORE.replace("0.45", "0.40"))
    other = served("run", "--planner", "model", "--mandate", mandate, "--replay", recorded, "--json")
    assert (1, "failed", "0") == (other.status, other.json["state"], other.json["usd"])
    assert "holds no answer to this request, and a replay calls nobody" in other.json["message"]


def _orders(said: Any) -> str:
    """Return a run's orders, byte for byte, but for the references that name its plan."""
    return json.dumps([{name: value for name, value in each.items() if name != "order_ref"} for each in said["orders"]])


def _is_nowhere(secret: str, *folders: Path) -> None:
    """See to it that no file holds a secret, the server's database and its log among them."""
    for folder in folders:
        for path in folder.rglob("*"):
            assert not (path.is_file() and secret.encode() in path.read_bytes()), path
        for database in folder.rglob("*.db"):
            with sqlite3.connect(database) as connection:
                assert not [line for line in connection.iterdump() if secret in line], database


@pytest.mark.prefect
def test_where_no_plan_comes_of_it_nothing_is_traded_unless_the_mandate_falls_back_on_the_rules(
    modelled: Any, service: MessagesServer, home: Path, mandate: Path
) -> None:
    service.script = answered(["sell everything"])
    held = modelled("run", "--planner", "model", "--mandate", mandate, "--json")
    assert (1, "failed", None, []) == (held.status, held.json["state"], held.json["plan"], held.json["orders"])
    assert held.json["message"].startswith(
        "no plan was made, and nothing is traded: planner claude-sonnet-5-5: its ans"
    )
    assert Decimal(held.json["usd"]) > 0
    assert [] == Ledger(home / "ledger.db", wall).all("intent")

    mandate.write_text(CORE + '[models]\nfallback = "rules"\n')
    service.script = answered(fails(400))
    done = modelled("run", "--planner", "model", "--mandate", mandate, "--json")
    assert (0, "completed", "0") == (done.status, done.json["state"], done.json["usd"])
    assert "made by rules, since no plan came of claude-sonnet-5-5" in modelled("explain", "AAPL").out


@pytest.mark.prefect
@pytest.mark.slow
@pytest.mark.parametrize(
    ("models", "act", "said"),
    [
        ("", fails(400), "the service answers 400"),
        ("", fails(401), "the service answers 401"),
        ("", fails(529), "the service answers 529"),
        ("", Act(cut=30), "the connection failed"),
        ("", Act(body="<html>"), "no message"),
        ("", Act(), "it was empty"),
        ("", says("Sure! Here is your plan:"), "Invalid JSON"),
        ("", says({"plan": []}), "steps: missing"),
        ("", says({"steps": []}, stop_reason="refusal"), "it was declined"),
        ("", says('{"steps": [', stop_reason="max_tokens"), "it was cut off"),
        ('timeout = "1s"', says({"steps": []}, delay=2), "no answer within 1 s, 3 times"),
        ("budget_usd = 0.0001", says({"steps": []}), "of the budget of 0.0001 (models.budget_usd) 0.0001 is left"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_whatever_is_answered_the_run_ends_with_the_reason(
    modelled: Any, service: MessagesServer, home: Path, mandate: Path, models: str, act: Act, said: str
) -> None:
    mandate.write_text(f"{CORE}[models]\n{models}\n")
    service.script = in_turn(act)
    began = wall()

    ended = modelled("run", "--planner", "model", "--mandate", mandate, "--json")

    assert (1, "failed", True) == (ended.status, ended.json["state"], said in ended.json["message"])
    assert [] == Ledger(home / "ledger.db", wall).all("intent")
    assert (wall() - began).total_seconds() < 60


@pytest.mark.prefect
def test_a_model_without_a_price_is_refused_before_anything_is_started(modelled: Any, mandate: Path) -> None:
    mandate.write_text(CORE + '[models]\nplanner = "new-1"\n')

    said = modelled("run", "--planner", "model", "--mandate", mandate)

    assert (2, "") == (said.status, said.out)
    assert "new-1: no price is known for" in said.err
    assert "loading Prefect" not in said.err


@pytest.mark.prefect
@pytest.mark.slow
def test_a_replan_asks_the_model_anew_with_what_changed_and_out_of_the_same_budget(
    modelled: Any, service: MessagesServer, home: Path, mandate: Path
) -> None:
    mandate.write_text(CORE + 'approval = { mode = "always" }\n')
    service.script = answered(plan_of(read_mandate(mandate)))
    asked = modelled("run", "--planner", "model", "--mandate", mandate, "--json").json
    assert "waiting" == asked["state"]

    anew = modelled("replan", asked["plan"]["id"], "--cause", "the prices moved", "--json").json

    assert ("waiting", 2) == (anew["state"], anew["plan"]["revision"])
    question = service.requests[-1]["messages"][0]["content"][0]["text"]
    assert "The plan before this one came to its end" in question
    assert '"cause": "the prices moved"' in question
    assert Decimal(asked["usd"]) < Decimal(anew["usd"])
    assert 2 == len(list(calls_of(Ledger(home / "ledger.db", wall), asked["plan"]["id"])))
    (figures,) = modelled("status", "--plans", "--json").json
    assert {"revisions": 2, "calls": 2, "planner_share": "1", "executor_calls_per_step": "0"}.items() <= figures.items()
    assert (anew["usd"], 5, 3, "0.6") == tuple(
        figures[name] for name in ("usd", "steps", "longest_chain", "longest_chain_share")
    )
    assert "2 model calls, " in modelled("status", "--plans").out


@pytest.mark.prefect
def test_without_a_key_a_run_by_model_says_where_one_is_looked_for(served: Any, mandate: Path) -> None:
    said = served("run", "--planner", "model", "--mandate", mandate, "--json")

    assert (1, "failed") == (said.status, said.json["state"])
    assert (
        "there is no key: set ANTHROPIC_API_KEY where the run is carried out, or save a Block" in said.json["message"]
    )
