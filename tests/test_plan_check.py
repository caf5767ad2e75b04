"""Everything wrong that a plan can be, the plan that rules make, and what becomes of a plan that holds."""

import copy
import json
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blocks.canonical import canonical_json
from blocks.mandate import Mandate, read_mandate, sample_path
from tasks.catalog import Catalog, load_catalog
from tasks.compiled import as_text, compile_plan
from tasks.plan import Plan, Step, critical_path, levels
from tasks.plan_check import Problem, check
from tasks.planners.rules import plan_steps
from tasks.situation import Targets
from tasks.tool import Params, tool
from tests.examples import examples

pytestmark = pytest.mark.pure

Json = dict[str, Any]
Change = Callable[[list[Json]], object]

CATALOG = load_catalog()
MANDATE = Mandate.model_validate(
    {"account": "PAPER", "base_currency": "USD", "policy": {"weights": {"SPY": "0.60", "AGG": "0.38"}}}
)
NOW = datetime(2026, 3, 2, 15, 5, tzinfo=UTC)
METHODS = ("fixed", "equal", "inverse_volatility", "minimum_variance", "hierarchical_risk_parity")


def by(method: str) -> Mandate:
    policy = {"method": method, "weights": {"SPY": "0.60", "AGG": "0.38"}}
    return Mandate.model_validate({"account": "PAPER", "base_currency": "USD", "policy": policy})


def step(step_id: str, name: str, inputs: Json | None = None, **params: Any) -> Json:
    return {"id": step_id, "tool": name, "params": params, "inputs": inputs or {}, "why": "because"}


def whole() -> list[Json]:
    """Return a plan that nothing is wrong with."""
    three = {"targets": "targets", "quotes": "quotes", "positions": "positions"}
    return [
        step("quotes", "gather_quotes", symbols=["SPY", "AGG"]),
        step("positions", "gather_positions"),
        step("targets", "set_targets", method="fixed"),
        step("drift", "measure_drift", three),
        step("draft", "draft_orders", three | {"drift": "drift"}),
    ]


def put(index: int, key: str, value: Any) -> Change:
    return lambda steps: steps[index].update({key: value})


def without(index: int, key: str) -> Change:
    return lambda steps: steps[index].pop(key)


def added(*more: Any) -> Change:
    return lambda steps: steps.extend(more)


def link(index: int, name: str, source: Any) -> Change:
    return lambda steps: steps[index]["inputs"].update({name: source})


def cut(index: int, name: str) -> Change:
    return lambda steps: steps[index]["inputs"].pop(name)


def found(change: Change, mandate: Mandate = MANDATE) -> list[tuple[str, str | None, str]]:
    steps = whole()
    change(steps)
    return [(problem.code, problem.step, problem.message) for problem in check(steps, mandate, CATALOG)]


def test_nothing_is_wrong_with_a_plan_that_holds() -> None:
    assert () == check(whole(), MANDATE, CATALOG)


def test_a_plan_without_steps_is_empty() -> None:
    said = "the plan has no steps; at least one has to make a proposal"

    assert (Problem(code="empty-plan", step=None, message=said),) == check([], MANDATE, CATALOG)


KEYS = "id, tool, params, inputs, why"
TOOLS = "gather_quotes, gather_bars, gather_positions, measure_risk, set_targets, measure_drift, draft_orders"
DEAD = "feeds nothing: no step on the way to the proposal takes its result"
GATE_ONLY = "no step can submit, change or cancel an order; the gate does, after the last step"
LOOKBACK = "params of gather_bars: lookback_days"

# Each fault alone: the change to a plan that holds, and all that is said of it.
FAULTS: list[tuple[Change, str, str | None, str]] = [
    (added("draft"), "bad-step", None, f"a step is an object with {KEYS}, not 'draft'"),
    (added(None), "bad-step", None, f"a step is an object with {KEYS}, not None"),
    (added([]), "bad-step", None, f"a step is an object with {KEYS}, not []"),
    (without(4, "why"), "bad-step", "draft", "why: missing"),
    (without(4, "id"), "bad-step", None, "id: missing"),
    (put(4, "id", 5), "bad-step", None, "id: 5 is not text in quotes"),
    (put(4, "tool", None), "bad-step", "draft", "tool: None is not text in quotes"),
    (put(4, "params", []), "bad-step", "draft", "params: [] is not an object"),
    (put(4, "inputs", "quotes"), "bad-step", "draft", "inputs: 'quotes' is not an object"),
    (put(4, "why", 3.5), "bad-step", "draft", "why: 3.5 is not text in quotes"),
    (put(4, "script", "x"), "bad-step", "draft", f"script: unknown key; allowed: {KEYS}"),
    (put(4, "param", {}), "bad-step", "draft", f"param: unknown key (did you mean 'params'?); allowed: {KEYS}"),
    (link(4, "drift", 3), "bad-step", "draft", "inputs.drift: 3 is not a step id in quotes"),
    (link(4, "drift", ["drift"]), "bad-step", "draft", "inputs.drift: ['drift'] is not a step id in quotes"),
    (put(4, "tool", "draft_order"), "unknown-tool", "draft",
     "there is no tool 'draft_order' (did you mean 'draft_orders'?)"),
    (put(4, "tool", "pray"), "unknown-tool", "draft", f"there is no tool 'pray'; there are: {TOOLS}"),
    (put(4, "tool", ""), "unknown-tool", "draft", f"there is no tool ''; there are: {TOOLS}"),
    (put(4, "tool", "submit_orders"), "forbidden-tool", "draft", f"'submit_orders': {GATE_ONLY}"),
    (put(4, "tool", "place_order"), "forbidden-tool", "draft", f"'place_order': {GATE_ONLY}"),
    (put(4, "tool", "SendOrders"), "forbidden-tool", "draft", f"'SendOrders': {GATE_ONLY}"),
    (put(4, "tool", "cancel_all"), "forbidden-tool", "draft", f"'cancel_all': {GATE_ONLY}"),
    (put(4, "tool", "buy"), "forbidden-tool", "draft", f"'buy': {GATE_ONLY}"),
    (put(2, "params", {"metod": "fixed"}), "bad-params", "targets",
     "params of set_targets: metod: unknown key (did you mean 'method'?); allowed: method"),
    (put(2, "params", {"method": "equal"}), "bad-params", "targets",
     "params of set_targets: method: 'equal': the mandate says 'fixed'"),
    (put(2, "params", {"method": "luck"}), "bad-params", "targets",
     ("params of set_targets: method: 'luck': should be 'fixed', 'equal', 'inverse_volatility', 'minimum_variance' "
      "or 'hierarchical_risk_parity'")),
    (put(0, "params", {"symbols": []}), "bad-params", "quotes",
     "params of gather_quotes: symbols: []: Tuple should have at least 1 item after validation, not 0"),
    (put(0, "params", {"symbols": "SPY"}), "bad-params", "quotes",
     "params of gather_quotes: symbols: 'SPY': should be a list"),
    (put(0, "params", {"symbols": ["SPY", "SPZ"]}), "unknown-symbol", "quotes",
     "params.symbols.1: SPZ is not in the mandate's universe (did you mean 'SPY'?)"),
    (link(4, "views", "targets"), "unknown-input", "draft",
     "inputs.views: draft_orders takes no such input; allowed: targets, quotes, positions, drift"),
    (link(4, "drifts", "drift"), "unknown-input", "draft",
     ("inputs.drifts: draft_orders takes no such input (did you mean 'drift'?); "
      "allowed: targets, quotes, positions, drift")),
    (link(1, "quotes", "quotes"), "unknown-input", "positions",
     "inputs.quotes: gather_positions takes no such input; allowed: none"),
    (cut(4, "quotes"), "missing-input", "draft", "inputs.quotes: draft_orders needs Quotes"),
    (link(4, "quotes", "positions"), "wrong-input-type", "draft",
     "inputs.quotes: takes Quotes, but 'positions' (gather_positions) gives Account"),
    (link(4, "drift", "drfit"), "dangling-input", "draft",
     "inputs.drift: there is no step 'drfit' (did you mean 'drift'?)"),
    (link(4, "drift", "ghost"), "dangling-input", "draft", "inputs.drift: there is no step 'ghost'"),
    (put(4, "why", "x" * 201), "why-too-long", "draft", "why has 201 characters; at most 200 are allowed"),
    (added(step("Risk", "gather_quotes")), "bad-step-id", "Risk",
     "'Risk': a step id is [a-z][a-z0-9_-]*, at most 32 characters"),
    (added(step("q" * 33, "gather_quotes")), "bad-step-id", "q" * 33,
     f"'{'q' * 33}': a step id is [a-z][a-z0-9_-]*, at most 32 characters"),
    (added(step("verify", "gather_quotes")), "bad-step-id", "verify",
     "'verify': is the name of a task that the gate appends; choose another"),
    (added(step("spare", "gather_quotes")), "dead-step", "spare", DEAD),
    (added(copy.deepcopy(whole()[0])), "duplicate-step", "quotes", "2 steps are called 'quotes'; ids are unique"),
    (lambda steps: steps.pop(4), "no-proposal", None, "no step makes a proposal; end the plan with draft_orders"),
    (added({**whole()[4], "id": "again"}), "several-proposals", "again",
     "2 steps make a proposal (draft, again); exactly one may"),
    (added(*(step(f"q{number}", "gather_quotes") for number in range(8))), "too-many-steps", None,
     "13 steps; at most 12 are allowed"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "code", "name", "message"), FAULTS)
def test_a_fault_is_told_with_its_code_and_its_step(change: Change, code: str, name: str | None, message: str) -> None:
    assert (code, name, message) in found(change)


@pytest.mark.parametrize(("change", "code", "name", "message"), FAULTS)
def test_one_fault_is_told_once_and_brings_no_others_but_what_follows_from_it(
    change: Change, code: str, name: str | None, message: str
) -> None:
    # Where a step cannot be read, its tool is not there or it is named anew, the proposal or what feeds it is gone.
    follow = {"no-proposal", "dead-step"}
    follow |= {"missing-input"} if code == "unknown-input" else set()
    codes = [problem_code for problem_code, *_ in found(change)]

    assert 1 == codes.count(code) or code == "dead-step"
    assert set() == set(codes) - {code} - follow


def test_steps_that_wait_for_each_other_are_a_cycle() -> None:
    mandate = by("inverse_volatility")
    steps = [
        step("a", "measure_drift", {"targets": "t", "quotes": "q", "positions": "p"}),
        *(
            step(*one)
            for one in (("q", "gather_quotes"), ("p", "gather_positions"), ("t", "set_targets", {"bars": "a"}))
        ),
        step("draft", "draft_orders", {"targets": "t", "quotes": "q", "positions": "p"}),
    ]
    problems = {problem.code: problem for problem in check(steps, mandate, CATALOG)}

    assert {"cycle", "wrong-input-type"} == set(problems)
    assert problems["cycle"].message in {
        "the steps wait for each other: a <- t <- a",
        "the steps wait for each other: t <- a <- t",
    }


def test_a_step_that_waits_for_itself_is_a_cycle() -> None:
    codes = [problem[0] for problem in found(link(4, "drift", "draft"))]

    assert ["wrong-input-type", "cycle"] == [code for code in codes if code != "dead-step"]


def test_a_tool_that_asked_for_too_much_is_told_as_capability() -> None:
    catalog = Catalog(CATALOG.tools, {"trade_at_once": "parameter 'broker' is no door"})
    problems = check([*whole(), step("now", "trade_at_once")], MANDATE, catalog)

    said = "tool 'trade_at_once' was refused: parameter 'broker' is no door"
    assert Problem(code="capability", step="now", message=said) in problems


@pytest.mark.parametrize("method", METHODS[2:])
def test_a_method_that_looks_back_needs_bars(method: str) -> None:
    problems = found(put(2, "params", {}), by(method))

    assert [("missing-input", "targets", f"inputs.bars: method {method!r} needs Bars")] == problems


@pytest.mark.parametrize("days", [19, 2521, "many", 30.5, None])
def test_a_look_back_stays_within_reason(days: Any) -> None:
    steps = [*whole(), step("bars", "gather_bars", lookback_days=days)]
    said = [problem.message for problem in check(steps, MANDATE, CATALOG) if problem.code == "bad-params"]

    assert (days is not None) == any(message.startswith(LOOKBACK) for message in said)


def test_everything_wrong_is_told_at_once() -> None:
    steps: list[Any] = [
        7,
        {"id": "half", "tool": "gather_quotes"},
        step("Quotes", "gather_quotes", symbols=["TOTDY"]),
        step("bars", "gather_bars", lookback_days=1),
        step("twice", "measure_risk"),
        step("twice", "measure_risk", {"bars": "ghost", "more": "bars"}),
        step("send", "submit_orders"),
        step("greedy", "trade_at_once"),
        step("guess", "gather_qoutes") | {"why": "x" * 500},
        step("a", "measure_drift", {"targets": "b", "quotes": "Quotes", "positions": "Quotes"}),
        step("b", "set_targets", {"bars": "a"}),
        step("draft", "draft_orders", {"targets": "b"}),
        step("redraft", "draft_orders", {"targets": "b", "quotes": "Quotes", "positions": "a"}),
    ]
    problems = check(steps, MANDATE, Catalog(CATALOG.tools, {"trade_at_once": "it asks for too much"}))

    assert {
        "too-many-steps", "duplicate-step", "bad-step-id", "bad-step", "unknown-tool", "bad-params", "unknown-input",
        "missing-input", "wrong-input-type", "dangling-input", "cycle", "dead-step", "several-proposals",
        "unknown-symbol", "capability", "why-too-long", "forbidden-tool",
    } == {problem.code for problem in problems}  # fmt: skip
    assert all(problem.message and "\n" not in problem.message for problem in problems)


# The plan that rules make


@pytest.mark.parametrize("method", METHODS)
def test_the_plan_that_rules_make_is_whole_for_every_method(method: str) -> None:
    mandate = by(method)
    steps = plan_steps(mandate)

    assert () == check([each.model_dump() for each in steps], mandate, CATALOG)
    assert (method in METHODS[2:]) == ("gather_bars" in [each.tool for each in steps])


def test_the_plan_that_rules_make_is_whole_for_the_sample_mandate() -> None:
    sample = read_mandate(sample_path())

    assert () == check([each.model_dump() for each in plan_steps(sample)], sample, CATALOG)


# A plan's hash, and its steps byte for byte


def plan_of(steps: list[Json], **more: Any) -> Plan:
    usual = {"id": "p1", "objective": "rebalance", "mandate_hash": MANDATE.hash, "created_at": NOW}
    return Plan.model_validate({**usual, "steps": steps, **more})


def test_the_hash_depends_on_what_a_plan_does() -> None:
    plain = plan_of(whole())
    shorter = [each for each in whole() if each["id"] != "drift"]
    others = [
        plan_of(whole(), objective="raise cash"),
        plan_of(whole(), mandate_hash=by("equal").hash),
        plan_of(shorter),
        plan_of(list(reversed(whole()))),
        plan_of([{**whole()[0], "why": "another reason"}, *whole()[1:]]),
    ]

    assert 6 == len({plain.hash, *(other.hash for other in others)})


def test_the_hash_does_not_depend_on_when_or_by_whom_it_was_made() -> None:
    later = plan_of(whole(), id="p2", revision=3, parent="abc", created_at=datetime(2027, 1, 1, tzinfo=UTC))

    assert plan_of(whole()).hash == later.hash


class Sums(Params):
    amount: Decimal


def test_amounts_survive_byte_for_byte() -> None:
    steps = [
        step("a", "spend", amount="11.50"),
        step("b", "spend", amount="1e2", deep={"list": ["0.10", 7, None, True]}),
    ]
    plan = plan_of(steps)
    again = Plan.model_validate_json(plan.model_dump_json())

    assert (
        [each["params"] for each in steps]
        == [each.params for each in plan.steps]
        == [each.params for each in again.steps]
    )
    assert plan.hash == again.hash
    assert '"amount":"11.50"' in canonical_json(plan.steps)
    assert plan.hash != plan_of([step("a", "spend", amount="11.5"), steps[1]]).hash


def test_a_plan_cannot_be_changed_once_made() -> None:
    plan = plan_of(whole())

    with pytest.raises(ValueError, match="frozen"):
        plan.objective = "another"  # type: ignore[misc]


# The compiled plan


def test_a_compiled_plan_says_what_runs_after_what_with_the_gate_at_its_end() -> None:
    mandate = by("minimum_variance")
    plan = plan_of([each.model_dump() for each in plan_steps(mandate)])

    assert (
        "quotes: gather_quotes [market.read], tried 3 times\n"
        "positions: gather_positions [account.read], tried 3 times\n"
        "bars: gather_bars [market.read], tried 3 times\n"
        "targets: set_targets after bars [analysis]\n"
        "drift: measure_drift after targets, quotes, positions [analysis]\n"
        "draft: draft_orders after targets, quotes, positions, drift [orders.draft]\n"
        "verify: the gate after draft [gate]\n"
        "submit: the broker after verify [orders.submit]"
    ) == as_text(compile_plan(plan, CATALOG, "PAPER"))


def test_every_node_is_tagged_with_plan_account_and_capability() -> None:
    nodes = compile_plan(plan_of(whole()), CATALOG, "PAPER")

    assert {("plan:p1", "account:PAPER")} == {node.tags[:2] for node in nodes}
    assert ("plan:p1", "account:PAPER", "market.read") == nodes[0].tags


def test_submission_stands_after_the_gate_and_nowhere_else() -> None:
    nodes = compile_plan(plan_of(whole()), CATALOG, "PAPER")

    assert [("submit", ("verify",))] == [(node.name, node.after) for node in nodes if "orders.submit" in node.tags]


def test_steps_of_one_level_can_run_side_by_side() -> None:
    plan = plan_of(list(reversed(whole())))

    assert [["targets", "positions", "quotes"], ["drift"], ["draft"]] == [
        [each.id for each in level] for level in levels(plan.steps)
    ]
    assert ["targets", "positions", "quotes", "drift", "draft"] == [each.id for each in plan.in_order]


def test_the_critical_path_is_the_longest_chain() -> None:
    mandate = by("inverse_volatility")

    assert ("targets", "drift", "draft") == critical_path(plan_of(whole()).steps)[-3:]
    assert ("bars", "targets", "drift", "draft") == critical_path(plan_steps(mandate))
    assert () == critical_path(())


# Whatever is handed in

words = st.sampled_from(
    [*CATALOG.tools, "submit", "ghost", "quotes", "targets", "draft", "a", "b", "verify", "", "Ä", "\ud800"]
)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6) | words, inner, max_size=3),
    max_leaves=8,
)
inputs = st.dictionaries(st.sampled_from(["bars", "targets", "quotes", "positions", "drift"]), words, max_size=4)
params = st.dictionaries(st.sampled_from(["symbols", "method", "lookback_days"]), anything, max_size=2)
step_like = st.fixed_dictionaries(
    {"id": words | anything, "tool": words | anything, "params": params | anything, "inputs": inputs | anything},
    optional={"why": st.text(max_size=5) | anything, "more": anything},
)


@examples(100)
@given(st.lists(step_like | anything, max_size=14))
def test_no_steps_whatever_make_the_check_raise(steps: list[Any]) -> None:
    problems = check(steps, MANDATE, CATALOG)

    assert problems
    assert problems == tuple(Problem.model_validate(problem.model_dump()) for problem in problems)


@st.composite
def graphs(draw: st.DrawFn) -> tuple[Mandate, list[Json]]:
    """Return steps that are right most of the time: what a plan needs and more, each input from a step of its type."""
    mandate = by(draw(st.sampled_from(METHODS)))
    names = ["gather_quotes", "gather_positions", "gather_bars", "set_targets", "draft_orders"]
    names += draw(st.lists(st.sampled_from([*CATALOG.tools, *names[:4]]), max_size=7))
    steps = [step(f"s{number}", name) for number, name in enumerate(names)]
    for each in steps:
        wanted = {name: given.result for name, given in CATALOG.tools[each["tool"]].inputs.items()}
        for name, result in wanted.items():
            givers = [other["id"] for other in steps if CATALOG.tools[other["tool"]].result is result]
            if givers and draw(st.integers(0, 19)) > 0:
                each["inputs"][name] = draw(st.sampled_from(givers))
    trimmed = draw(st.integers(0, 9)) > 0
    used = leading_to(steps)
    return mandate, draw(st.permutations([each for each in steps if each["id"] in used or not trimmed]))


def leading_to(steps: list[Json]) -> set[str]:
    """Return the first proposing step and all it needs."""
    edges = {each["id"]: set(each["inputs"].values()) for each in steps}
    used = {each["id"] for each in steps if each["tool"] == "draft_orders"}
    used = {min(used)} if used else set()
    while more := {source for each in used for source in edges[each]} - used:
        used |= more
    return used


@examples(200)
@given(graphs())
def test_whatever_the_check_passes_has_an_order_and_compiles(graph: tuple[Mandate, list[Json]]) -> None:
    mandate, steps = graph
    if check(steps, mandate, CATALOG):
        return
    plan = plan_of(json.loads(json.dumps(steps)))
    nodes = compile_plan(plan, CATALOG, mandate.account)
    place = {node.name: index for index, node in enumerate(nodes)}

    assert len(steps) + 2 == len(place)
    assert all(place[before] < place[node.name] for node in nodes for before in node.after)
    assert ["verify", "submit"] == [node.name for node in nodes[-2:]]
    assert len(critical_path(plan.steps)) == len(levels(plan.steps))


def test_many_of_the_graphs_that_are_tried_do_pass() -> None:
    """Show that the test above looks at something."""
    passed = []

    @settings(max_examples=100, deadline=None, database=None, derandomize=True)
    @given(graphs())
    def count(graph: tuple[Mandate, list[Json]]) -> None:
        passed.append(not check(graph[1], graph[0], CATALOG))

    count()

    assert sum(passed) > 20


def test_a_step_is_closed_to_what_it_does_not_know() -> None:
    with pytest.raises(ValueError, match="extra"):
        Step.model_validate({**whole()[0], "script": "x"})


def test_a_tool_may_add_problems_of_its_own() -> None:
    def too_dear(params: Sums, inputs: frozenset[str], mandate: Mandate) -> Any:
        if params.amount > 10:
            yield "bad-params", f"params of spend: amount: {params.amount}: at most 10"

    def spend(params: Sums) -> Targets:
        raise NotImplementedError

    entry = tool(freshness="analysis", check=too_dear)(spend).__tool__  # type: ignore[attr-defined]
    catalog = Catalog({**CATALOG.tools, "spend": entry})
    problems = check([*whole(), step("dear", "spend", amount="11.50")], MANDATE, catalog)

    assert ["params of spend: amount: 11.50: at most 10", DEAD] == [problem.message for problem in problems]
