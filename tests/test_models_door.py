"""The models door: one object or a reason, on record, within its budget, over real HTTP and the real SDK."""

import asyncio
import datetime as dt
import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field, SecretStr

from blocks.clock import wall
from blocks.errors import AnswerUnusable, BudgetSpent, ModelError, ModelUnavailable, UnusableInput
from blocks.ledger import Ledger
from blocks.mandate import Models
from blocks.models.anthropic import Access, AnthropicWire
from blocks.models.asking import Asking
from blocks.models.budget import spent
from blocks.models.calls import Calls
from blocks.models.port import Lookup, Prompt
from blocks.models.prices import Prices, Tokens
from tests.messages_server import KEY, Act, MessagesServer, calls, fails, in_turn, messages_server, says

QUESTION = Prompt("You count.", "How many?")


class Count(BaseModel):
    """What the models here are asked for."""

    n: int = Field(ge=1)


class Name(BaseModel):
    """Arguments of the one look-up there is."""

    name: str


def asking(
    service: MessagesServer,
    home: Path,
    *,
    budget: str = "0.50",
    scope: str = "p1",
    timeout: float = 5,
    replay: Path | None = None,
) -> Asking:
    """Return a door as a new process would open it."""
    wire = AnthropicWire(lambda: Access(SecretStr(KEY), service.url), dt.timedelta(seconds=timeout))
    recorded = Ledger(replay / "ledger.db", wall) if replay else None
    ledger = Ledger(home / "ledger.db", wall)
    return Asking(Calls(ledger, wire, Prices(home), scope, "r1", Decimal(budget), wall, recorded), Models(), "step")


def ask(door: Asking, role: Any = "executor", prompt: Prompt = QUESTION, **more: Any) -> Count:
    return asyncio.run(door.ask(role, prompt, Count, **more))


def test_an_answer_comes_back_as_an_object_and_is_on_record_whole(service: MessagesServer, home: Path) -> None:
    service.script = in_turn(says({"n": 3}))

    assert 3 == ask(asking(service, home)).n

    ledger = Ledger(home / "ledger.db", wall)
    (call,), (answer,) = ledger.all("model.call", "p1"), ledger.all("model.answer")
    assert ("executor", "claude-haiku-5-5", "step") == tuple(call.body[name] for name in ("role", "model", "step"))
    assert call.key == answer.key
    sent = ledger.get("model.request", call.body["request"])
    assert sent is not None
    assert "How many?" in sent.body["request"]
    assert "end_turn" == answer.body["stop_reason"]
    assert (
        Decimal(answer.body["usd"])
        == Decimal(answer.body["input"] * Decimal("0.1") + answer.body["output"] * Decimal("0.5")) / 10**6
        < Decimal(call.body["worst_usd"])
    )


def test_the_stable_part_comes_first_and_is_marked_for_the_cache(service: MessagesServer, home: Path) -> None:
    service.script = in_turn(says({"n": 3}))
    prompt = Prompt("A rule that holds for every call. " * 200, "How many?")

    ask(asking(service, home), prompt=prompt)
    ask(asking(service, home), prompt=Prompt(prompt.stable, "And now?"))

    assert {"type": "ephemeral"} == service.requests[0]["system"][0]["cache_control"]
    first, second = (entry.body for entry in Ledger(home / "ledger.db", wall).all("model.answer"))
    assert (0, first["cache_write"]) == (first["cache_read"], second["cache_read"])
    assert first["cache_write"] > 1000


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        (says({"n": 0}), "n: 0: should be greater than or equal to 1"),
        (says({"n": "many"}), "should be a valid integer"),
        (says({}), "n: missing"),
        (says([1, 2]), "should be an object"),
        (says("no JSON at all"), "Invalid JSON"),
        (says(""), "it was empty"),
        (Act(), "it was empty"),
        (says({"n": 3}, stop_reason="refusal"), "it was declined"),
        (says('{"n": ', stop_reason="max_tokens"), "it was cut off (max_tokens)"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_used_goes_back_once_with_the_exact_complaint(
    service: MessagesServer, home: Path, wrong: Act, complaint: str
) -> None:
    service.script = in_turn(wrong, says({"n": 4}))
    assert 4 == ask(asking(service, home)).n
    assert complaint in json.dumps(service.requests[1]["messages"][-1])
    roles = [message["role"] for message in service.requests[1]["messages"]]
    assert roles in (["user"], ["user", "assistant", "user"])

    service.script = in_turn(wrong)
    before = len(service.requests)
    with pytest.raises(AnswerUnusable, match="executor claude-haiku-5-5: its answer cannot be used"):
        ask(asking(service, home, scope="another"))
    assert 2 == len(service.requests) - before


def test_what_the_judge_complains_of_goes_back_as_often_as_allowed(service: MessagesServer, home: Path) -> None:
    service.script = in_turn(says({"n": 1}), says({"n": 2}), says({"n": 3}))
    picky = {"judge": lambda count: "" if count.n == 3 else f"{count.n} is too few", "rounds": 2}

    assert 3 == ask(asking(service, home), **picky).n

    assert "2 is too few" in json.dumps(service.requests[2]["messages"][-1])
    service.script = in_turn(says({"n": 1}), says({"n": 2}), says({"n": 1}), says({"n": 3}))
    with pytest.raises(AnswerUnusable, match="1 is too few"):
        ask(asking(service, home, scope="another"), **picky)


@pytest.mark.parametrize("act", [fails(429, retry_after="0.1"), fails(500), fails(529), Act(cut=20)], ids=str)
def test_what_passes_is_tried_again_and_each_try_is_on_record(service: MessagesServer, home: Path, act: Act) -> None:
    service.script = in_turn(act, says({"n": 5}))

    assert 5 == ask(asking(service, home)).n

    assert 2 == len(service.requests) == len(Ledger(home / "ledger.db", wall).all("model.call"))


@pytest.mark.parametrize(
    ("act", "reason"),
    [
        (fails(500), "the service answers 500: scripted 500"),
        (fails(401), "the service answers 401"),
        (Act(cut=20), "the connection failed"),
        (says({"n": 1}, delay=2), "no answer within 0.5 s, 3 times"),
        (Act(body="{}"), "what was answered is no message"),
        (Act(body="<html>"), "what was answered is no message"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_outage_is_an_error_with_its_reason_in_bounded_time(
    service: MessagesServer, home: Path, act: Act, reason: str
) -> None:
    service.script = in_turn(act)
    began = wall()

    with pytest.raises(ModelUnavailable, match=reason):
        ask(asking(service, home, timeout=0.5))

    assert (wall() - began).total_seconds() < 15


def test_a_service_that_is_not_there_is_an_error(service: MessagesServer, home: Path) -> None:
    service.url = "http://127.0.0.1:9"

    with pytest.raises(ModelUnavailable, match="the connection failed"):
        ask(asking(service, home))


def test_a_model_looks_things_up_with_what_it_is_offered_and_nothing_else(service: MessagesServer, home: Path) -> None:
    looked = []
    lookup = Lookup("count_of", "How many there are of one thing.", Name, lambda args: looked.append(args.name) or "7")  # type: ignore[attr-defined,func-returns-value]
    service.script = in_turn(
        calls(("count_of", {"name": "a"}), ("place_order", {"symbol": "X", "quantity": 10_000})),
        calls(("count_of", {"nme": "a"}), ("count_of", {"name": "b"}), ("count_of", {"name": "c"})),
        says({"n": 7}),
    )

    assert 7 == ask(asking(service, home), lookups=[lookup], max_lookups=3).n

    assert ["a", "b"] == looked
    results = [block for request in service.requests[-1:] for block in _results(request)]
    assert ["7", "7"] == [block["content"] for block in results if not block.get("is_error")]
    faults = [block["content"] for block in results if block.get("is_error")]
    assert "there is no tool 'place_order'; there are: count_of" == faults[0]
    assert "nme: unknown key" in faults[1] or "name: missing" in faults[1]
    assert "no look-ups are left" in faults[2]
    (attempt,) = Ledger(home / "ledger.db", wall).all("model.attempt", "p1")
    assert ("place_order", ["count_of"]) == (attempt.body["tool"], attempt.body["offered"])


def test_a_model_that_never_stops_looking_up_is_stopped(service: MessagesServer, home: Path) -> None:
    service.script = lambda request: calls(("count_of", {"name": str(len(request["messages"]))}))
    lookup = Lookup("count_of", "How many there are.", Name, lambda _: "7")

    with pytest.raises(AnswerUnusable, match="goes on calling tools"):
        ask(asking(service, home), lookups=[lookup], max_lookups=3)

    assert len(service.requests) <= 5


def _results(request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for message in request["messages"]:
        yield from (block for block in message["content"] if block["type"] == "tool_result")


def test_the_same_request_of_one_objective_is_answered_from_the_record(service: MessagesServer, home: Path) -> None:
    service.script = in_turn(says({"n": 1}), says({"n": 2}))

    assert [1, 1] == [ask(asking(service, home)).n for _ in range(2)]

    assert 1 == len(service.requests)
    assert 2 == ask(asking(service, home, scope="another")).n


def test_an_answer_that_came_to_nothing_is_asked_for_again(service: MessagesServer, home: Path) -> None:
    service.script = in_turn(says({"n": 0}), says({"n": 0}), says({"n": 2}))

    with pytest.raises(AnswerUnusable):
        ask(asking(service, home))

    assert 2 == ask(asking(service, home)).n


def test_a_replay_calls_nobody_and_answers_only_what_is_on_record(
    service: MessagesServer, home: Path, tmp_path: Path
) -> None:
    service.script = in_turn(says({"n": 1}))
    ask(asking(service, home))
    replay = asking(service, tmp_path / "new", scope="p2", replay=home)

    assert 1 == ask(replay).n
    with pytest.raises(ModelUnavailable, match="a replay calls nobody"):
        ask(replay, prompt=Prompt("You count.", "How many now?"))

    assert 1 == len(service.requests)


def test_a_call_that_might_not_fit_is_not_sent(service: MessagesServer, home: Path) -> None:
    service.script = in_turn(says({"n": 1}))

    with pytest.raises(
        BudgetSpent, match=r"of the budget of 0\.0001 \(models\.budget_usd\) 0\.0001 is left: it was not sent"
    ):
        ask(asking(service, home, budget="0.0001"))

    assert [] == service.requests


def test_a_prompt_whose_bound_is_too_much_is_counted(service: MessagesServer, home: Path) -> None:
    service.script = in_turn(says({"n": 1}))
    long = Prompt(
        "A word. " * 20_000, "How many?"
    )  # 160,000 bytes, so at most as many tokens: 0.80 USD, and 0.22 counted

    assert 1 == ask(asking(service, home, budget="0.60"), "reviewer", long).n
    assert 1 == len(service.counts)


@given(
    acts=st.lists(
        st.sampled_from(
            [
                says({"n": 1}), says({"n": 0}), says(""), fails(529, retry_after="0"), fails(500, retry_after="0"),
                Act(cut=10), Act(body="{}"), calls(("x", {})),
                says({"n": 1}, usage={"input_tokens": 5000, "output_tokens": 6000}),
            ]
        ),
        min_size=1,
        max_size=12,
    ),
    at_once=st.integers(1, 4),
    tries=st.integers(1, 4),
)  # fmt: skip
@settings(deadline=None, max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_interleaving_of_retries_costs_more_than_the_budget(
    tmp_path_factory: pytest.TempPathFactory, acts: list[Act], at_once: int, tries: int
) -> None:
    home, limit = tmp_path_factory.mktemp("home"), Decimal("0.50")
    with messages_server() as service:
        service.script = in_turn(*acts)

        async def all_at_once(attempt: int) -> list[Any]:
            doors = [asking(service, home) for _ in range(at_once)]
            questions = (Prompt("You count.", f"How many, {attempt} {number}?") for number in range(at_once))
            asked = (door.ask("reviewer", each, Count) for door, each in zip(doors, questions, strict=True))
            return await asyncio.gather(*asked, return_exceptions=True)

        found = [each for attempt in range(tries) for each in asyncio.run(all_at_once(attempt))]

    assert all(isinstance(each, Count | ModelError) for each in found)
    ledger = Ledger(home / "ledger.db", wall)
    assert spent(ledger, "p1") <= limit
    paid = sum(Decimal(entry.body["usd"]) for entry in ledger.all("model.answer"))
    assert paid <= limit
    assert len(service.requests) == len(ledger.all("model.call", "p1"))


def test_the_key_is_nowhere(
    service: MessagesServer, home: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level("DEBUG")
    service.script = in_turn(
        says({"n": 0, "key": KEY}), fails(401), Act(status=400, body=json.dumps({"error": {"message": KEY}}))
    )
    door = asking(service, home)

    errors = []
    for number in range(3):
        with pytest.raises(ModelError) as caught:
            ask(door, prompt=Prompt("You count.", f"How many {number}?"))
        errors.append(caught.value)

    assert {KEY} == service.keys
    texts = [repr(door), caplog.text, *capfd.readouterr(), *map(repr, errors), *map(str, errors)]
    files = [path.read_bytes() for path in home.rglob("*") if path.is_file()]
    assert not [text for text in texts if KEY in text]
    assert not [content for content in files if KEY.encode() in content]


@pytest.mark.pure
@pytest.mark.parametrize(
    ("used", "usd"),
    [
        (Tokens(fresh=1000, output=100), "0.00015"),
        (Tokens(fresh=1000, cache_read=2000, cache_write=3000, output=100), "0.000545"),
        (Tokens(fresh=100_001, output=100), "0.0502505"),
    ],
)
def test_a_price_depends_on_the_length_of_the_prompt(tmp_path: Path, used: Tokens, usd: str) -> None:
    cost = Prices(tmp_path).cost("claude-haiku-5-5", used, dt.date(2026, 11, 30))

    assert Decimal(usd) == cost


@pytest.mark.pure
def test_a_model_without_a_price_is_an_error_that_says_how_to_add_it(tmp_path: Path) -> None:
    today = dt.date(2026, 11, 30)
    with pytest.raises(UnusableInput, match=r'no price is known for 2026-11-30.*\[\[price\]\] model = "new-1"'):
        Prices(tmp_path).cost("new-1", Tokens(fresh=1), today)

    price = 'model = "new-1"\nsince = {}\ninput = {}\noutput = 2\ncache_read = 1\ncache_write = 1\n'
    lines = (price.format("2026-01-01", 1), price.format("2026-11-01", 3), price.format("2027-01-01", 9))
    (tmp_path / "prices.toml").write_text("".join(f"[[price]]\n{line}" for line in lines))

    assert Decimal("0.000003") == Prices(tmp_path).cost("new-1", Tokens(fresh=1), today)
    assert Prices(tmp_path).cost("claude-haiku-5-5", Tokens(fresh=1), today)


@pytest.mark.pure
@given(st.integers(0, 300_000), st.integers(0, 5000), st.integers(0, 100))
def test_no_split_of_a_prompt_costs_more_than_the_worst(prompt: int, output: int, part: int) -> None:
    prices, today = Prices(Path("nowhere")), dt.date(2026, 11, 30)
    written = prompt * part // 100
    used = Tokens(fresh=prompt - written, cache_write=written, output=output)

    assert prices.cost("claude-haiku-5-5", used, today) <= prices.worst("claude-haiku-5-5", prompt, output, today)
