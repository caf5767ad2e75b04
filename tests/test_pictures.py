"""The pictures: well formed, the same each time, and every name in them."""

import base64
import re
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from xml.etree import ElementTree as ET

import pytest

from tasks.canvas import data_uri
from tasks.figures import age
from tasks.outcome import StepLine, StepState, WeightLine
from tasks.outcome_lines import most_changed
from tasks.plan import Plan, Step
from tasks.plan_picture import plan_picture
from tasks.stages import Stage
from tasks.weights_picture import MOST_SYMBOLS, weights_picture

NOW = datetime(2026, 3, 2, 15, 5, tzinfo=UTC)
GATE = (Stage("verify", "done", "29 rules held"), Stage("submit", "done", "18 filled, 2 dead"))
SVG = "{http://www.w3.org/2000/svg}"


def step(step_id: str, tool: str, *inputs: str) -> Step:
    return Step(id=step_id, tool=tool, params={}, inputs={source: source for source in inputs}, why="it is needed")


def plan(*steps: Step) -> Plan:
    return Plan(id="p-1", objective="rebalance", mandate_hash="ab" * 32, steps=steps, created_at=NOW)


RULES = plan(
    step("quotes", "gather_quotes"),
    step("positions", "gather_positions"),
    step("targets", "set_targets"),
    step("drift", "measure_drift", "targets", "quotes", "positions"),
    step("draft", "draft_orders", "targets", "quotes", "positions", "drift"),
)
CHAIN = plan(
    step("first", "gather_quotes"),
    *(step(f"link-{at}", "form_views", "first" if at == 1 else f"link-{at - 1}") for at in range(1, 11)),
    step("draft", "draft_orders", "link-10", "link-3", "first"),
)
LONG = "a-step-with-a-name-of-32-letters"
WIDE = plan(
    *(step(f"{LONG[:30]}{at:02}", "gather_positions") for at in range(11)),
    step("draft", "draft_orders", *(f"{LONG[:30]}{at:02}" for at in range(11))),
)


def line(step_id: str, state: StepState, seconds: int = 30) -> StepLine:
    return StepLine(step=step_id, tool="t", state=state, message="20 quotes", as_of=NOW - timedelta(seconds=seconds))


def weights(count: int) -> list[WeightLine]:
    return [
        WeightLine(
            symbol=f"SY{at:03}",
            before=Decimal(at) / 10_000,
            target=round(Decimal(1) / count, 6),
            after=round(Decimal(1) / count, 6) - Decimal("0.0003"),
        )
        for at in range(count)
    ]


def words(svg: str) -> list[str]:
    """Return all text of a picture, and the names of its groups."""
    root = ET.fromstring(svg)  # noqa: S314  our own picture
    texts = ["".join(each.itertext()) for each in root.iter(f"{SVG}text")]
    return [*texts, *(each.get("id", "") for each in root.iter(f"{SVG}g"))]


@pytest.mark.parametrize("drawn", [RULES, CHAIN, WIDE, plan(step("draft", "draft_orders"))])
def test_every_step_and_the_fixed_tail_stand_in_the_plans_picture(drawn: Plan) -> None:
    found = words(plan_picture(drawn, (), GATE, NOW))

    for each in drawn.steps:
        assert f"step {each.id}" in found
        assert each.tool in found
    assert {"verify", "29 rules held", "submit", "18 filled, 2 dead"} <= set(found)


def test_a_box_says_its_state_and_how_old_its_data_is() -> None:
    steps = (line("quotes", "reused"), line("positions", "done", 240), line("targets", "failed"))

    found = words(plan_picture(RULES, steps, GATE, NOW))

    assert {"reused · 30 s", "done · 4 min", "failed"} <= set(found)
    assert 2 == found.count("not run")


def test_a_plan_without_a_run_can_be_drawn() -> None:
    assert 5 == words(plan_picture(RULES, (), ())).count("not run")


@pytest.mark.parametrize("drawn", [RULES, CHAIN, WIDE])
def test_no_line_of_a_plan_runs_through_a_box(drawn: Plan) -> None:
    root = ET.fromstring(plan_picture(drawn, (), GATE))  # noqa: S314  our own picture
    paths = [(each.get("d", ""), each.get("style", "")) for each in root.iter(f"{SVG}path")]
    boxes = [_corners(d) for d, style in paths if "stroke: #5f6368" in style and "fill: #f4f5f6" in style]
    lines = [_points(d) for d, style in paths if "fill: none" in style and "stroke:" in style]

    assert lines
    assert len(drawn.steps) <= len(boxes)
    for x, y in (point for each in lines for point in each):
        for left, top, right, bottom in boxes:
            assert not (left + 1 < x < right - 1 and top + 1 < y < bottom - 1)


def _numbers(path: str) -> list[tuple[float, float]]:
    figures = [float(each) for each in re.findall(r"-?\d+\.?\d*", path)]
    return list(zip(figures[::2], figures[1::2], strict=True))


def _corners(path: str) -> tuple[float, float, float, float]:
    xs, ys = zip(*_numbers(path), strict=True)
    return min(xs), min(ys), max(xs), max(ys)


def _points(path: str) -> list[tuple[float, float]]:
    """Return points all along a curve: its pieces are cubic, each begins where the one before ended."""
    stops, points = _numbers(path), []
    for at in range(0, len(stops) - 3, 3):
        p, q, r, s = stops[at : at + 4]
        for t in (part / 12 for part in range(13)):
            mix = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3)
            points.append(
                tuple(sum(m * v for m, v in zip(mix, vs, strict=True)) for vs in zip(p, q, r, s, strict=True))
            )
    return points


def test_every_symbol_stands_in_the_weights_picture_with_its_three_weights() -> None:
    lines = [WeightLine(symbol="BRK B", before=Decimal("0.05"), target=Decimal("0.0625"), after=Decimal("-0.01"))]

    found = words(weights_picture([*lines, *weights(19)]))

    assert {"weight BRK B", "BRK B", "5.00", "6.25", "-1.00", "before", "target", "after", "SY018"} <= set(found)


def test_the_largest_target_comes_first() -> None:
    two = [
        WeightLine(symbol="AGG", before=Decimal(0), target=Decimal("0.38"), after=Decimal(0)),
        WeightLine(symbol="SPY", before=Decimal(0), target=Decimal("0.60"), after=Decimal(0)),
    ]

    found = words(weights_picture(two))

    assert found.index("SPY") < found.index("AGG")


def test_of_more_than_sixty_symbols_the_most_changed_are_shown_and_the_rest_counted() -> None:
    lines = weights(75)

    found = words(weights_picture(lines))

    assert MOST_SYMBOLS == sum(each.startswith("weight ") for each in found)
    assert any(each.startswith("and 15 more") for each in found)
    furthest = max(lines, key=lambda each: abs(each.target - each.before))
    assert furthest.symbol in found
    assert 60 == len(most_changed(lines, 60))


def test_pictures_stay_small() -> None:
    assert len(weights_picture(weights(20))) < 60_000
    assert len(weights_picture(weights(60))) < 150_000
    assert len(plan_picture(CHAIN, (), GATE)) < 60_000


def test_the_same_input_gives_the_same_bytes_on_any_thread() -> None:
    with ThreadPoolExecutor(4) as threads:
        plans = set(threads.map(lambda _: plan_picture(RULES, (line("quotes", "done"),), GATE, NOW), range(4)))
        bars = set(threads.map(lambda _: weights_picture(weights(5)), range(4)))

    assert 1 == len(plans) == len(bars)


@pytest.mark.parametrize("odd", ["<b>&\"'", "$x$", "a\nb\x00\x1b[31m", "\\frac{", "x" * 500])
def test_odd_text_leaves_a_picture_well_formed(odd: str) -> None:
    lines = [WeightLine(symbol=odd, before=Decimal(0), target=Decimal(1), after=Decimal(1))]

    assert words(weights_picture(lines))
    assert words(plan_picture(RULES, (), (Stage(odd, "failed", odd),)))


@pytest.mark.parametrize("count", [0, 1, 2])
def test_few_symbols_can_be_drawn(count: int) -> None:
    assert words(weights_picture(weights(count)))


def test_a_picture_needs_nothing_from_outside_and_has_an_opaque_ground() -> None:
    svg = weights_picture(weights(2))

    assert "fill: #ffffff" in svg
    assert not re.search(r"(href|src)=\"(?!#)|url\((?!#)|@import|@font-face", svg)


def test_a_data_uri_holds_the_picture_itself() -> None:
    head, _, body = data_uri("<svg/>").partition(",")

    assert "data:image/svg+xml;base64" == head
    assert b"<svg/>" == base64.b64decode(body)


@pytest.mark.parametrize(
    ("length", "written"),
    [
        (timedelta(seconds=-5), "0 s"),
        (timedelta(seconds=60), "1 min"),
        (timedelta(seconds=95), "95 s"),
        (timedelta(minutes=90), "90 min"),
        (timedelta(hours=30), "30 h"),
        (timedelta(days=3, hours=2), "3 d"),
    ],
)
def test_an_age_is_written_in_the_unit_a_person_would_use(length: timedelta, written: str) -> None:
    assert written == age(length)
