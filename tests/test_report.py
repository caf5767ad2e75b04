"""The page of a run: complete, readable, and nothing in it acts as markup that is not ours."""

import base64
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from markdown_it import MarkdownIt

from tasks.figures import average_of, per_cent, price_of, quantity_of, sum_of
from tasks.not_traded import skipped_kinds, why_nothing
from tasks.outcome import OrderLine, Outcome, StepLine, WeightLine
from tasks.outcome_lines import step_lines
from tasks.plan import Plan, Step
from tasks.report import request_markdown, run_markdown
from tasks.situation import Reason, Skipped
from tasks.stages import gate
from tasks.verification.verdict import Check, Verdict

NOW = datetime(2026, 3, 2, 15, 5, tzinfo=UTC)
ODD = "a|b`c`\n<img src=x onerror=alert(1)> *d* [e](javascript:f) https://g.h\x1b[31m"


def step(step_id: str, tool: str, *inputs: str) -> Step:
    return Step(id=step_id, tool=tool, params={}, inputs={source: source for source in inputs}, why="it is needed")


PLAN = Plan(
    id="p-1",
    revision=2,
    parent="12" * 32,
    objective="rebalance the portfolio",
    mandate_hash="ab" * 32,
    steps=(step("quotes", "gather_quotes"), step("draft", "draft_orders", "quotes")),
    created_at=NOW,
)
STEPS = (
    StepLine(
        step="quotes",
        tool="gather_quotes",
        state="reused",
        message="20 quotes",
        as_of=NOW - timedelta(minutes=2),
        expires_at=NOW - timedelta(minutes=1),
    ),
)
ORDERS = (
    OrderLine(
        order_ref="tw-1",
        symbol="SPY",
        side="buy",
        quantity=Decimal(1200),
        limit=Decimal("500.5"),
        state="filled",
        filled=Decimal(1200),
        price=Decimal("500.123456789"),
        commission=Decimal(1),
    ),
    OrderLine(
        order_ref="tw-2",
        symbol="AGG",
        side="sell",
        quantity=Decimal("10.5"),
        limit=Decimal("99.125"),
        state="partly_filled",
        filled=Decimal(4),
        message="the window closed",
    ),
)


def verdict(*failed: str) -> Verdict:
    judged = [Check(check="account_is_fresh", held=True, figure="10s", limit="15m")]
    for at in range(20):
        held = f"S{at}" not in failed
        reason = "" if held else f"selling 5, holding {at}"
        judged.append(
            Check(check="nothing_is_sold_short", symbol=f"S{at}", held=held, figure="5", limit="9", reason=reason)
        )
    return Verdict(
        approved=not failed,
        checks=tuple(judged),
        proposal_hash="cd" * 32,
        situation_hash="ef" * 32,
        expires_at=NOW + timedelta(minutes=5),
    )


def outcome(**changed: Any) -> Outcome:
    usual: dict[str, Any] = {
        "run": "run-1",
        "state": "partial",
        "message": "1 of 2 orders filled",
        "mandate": "sample",
        "account": "PAPER",
        "broker": "paper",
        "currency": "USD",
        "dry_run": False,
        "as_of": NOW - timedelta(seconds=42),
        "ended_at": NOW,
        "plan": PLAN,
        "cause": "prices moved",
        "steps": STEPS,
        "equity": Decimal(1234567),
        "cash_before": Decimal(100000),
        "cash_after": Decimal("2012.345678"),
        "weights": (WeightLine(symbol="SPY", before=Decimal(0), target=Decimal("0.6"), after=Decimal("0.59")),),
        "orders": ORDERS,
        "verdict": verdict(),
        "notes": ("GME is held outside the mandate",),
        "snapshots": ("snap-1", "snap-2"),
        "usd": Decimal("0.0312"),
    }
    return Outcome(**(usual | changed))


FAILED = outcome(
    state="failed",
    message="the planner gave no answer",
    plan=None,
    steps=(),
    equity=None,
    cash_before=None,
    cash_after=None,
    weights=(),
    orders=(),
    verdict=None,
    notes=(),
    snapshots=(),
)


def rows(page: str, *, under: str) -> list[list[str]]:
    """Return the cells of the tables under a heading, without heads and rules."""
    section = page.split(f"## {under}", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines[2:]]


def pictures(page: str) -> list[str]:
    return [base64.b64decode(found).decode() for found in re.findall(r"data:image/svg\+xml;base64,([^)]*)", page)]


def test_the_page_begins_with_state_and_message() -> None:
    lines = run_markdown(outcome()).splitlines()

    assert ["# Rebalance partial", "", "**1 of 2 orders filled**"] == lines[:3]
    assert "sample: account PAPER at broker paper, 2026-03-02 15:04:18 UTC, took 42 s" == lines[4]
    assert "revision 2, in place of 1: prices moved" == lines[6]
    assert "| Managed equity | Cash before | Cash after |" == lines[8]
    assert "| 1,234,567.00 USD | 100,000.00 USD | 2,012.35 USD |" == lines[10]


def test_a_first_revision_says_nothing_of_what_it_replaces() -> None:
    first = outcome(plan=PLAN.model_copy(update={"revision": 1, "parent": None}), cause="")

    assert "in place of" not in run_markdown(first)


def test_a_dry_run_says_so_at_the_top_and_at_its_end() -> None:
    proposed = tuple(order.model_copy(update={"state": "proposed"}) for order in ORDERS)
    dry = outcome(state="completed", dry_run=True, orders=proposed)

    assert run_markdown(dry).startswith("# Rebalance completed, dry run\n")
    assert "dry run" == gate(dry)[1].words


def test_what_a_dry_run_says_of_afterwards_is_called_what_it_is() -> None:
    dry = run_markdown(outcome(state="completed", dry_run=True))

    assert "| Managed equity | Cash before | Cash if all fill |" in dry
    assert "## Weights, if all orders fill" in dry
    assert "if all" not in run_markdown(outcome(state="rejected", dry_run=True))


def test_who_is_asked_is_shown_the_orders_their_sum_turnover_and_the_verdict() -> None:
    asked = request_markdown(outcome(state="waiting", equity=Decimal(100_000)))
    notionals = [order.quantity * order.limit for order in ORDERS]

    assert [f"{each:,.2f}" for each in notionals] == [row[4] for row in rows(asked, under="Orders")]
    assert f"at the limits, commission 1.00: a turnover of {sum(notionals) / 1000:.2f} % of managed equity" in asked
    assert "| Managed equity | Cash before | Cash if all fill |" in asked
    assert "## Verdict" in asked


def test_the_page_holds_both_pictures_whole() -> None:
    plan, weights = pictures(run_markdown(outcome()))

    assert ">gather_quotes<" in plan
    assert ">SPY<" in weights
    assert "svg" in ET.fromstring(plan).tag  # noqa: S314  our own picture


def test_each_step_says_what_it_found_how_old_it_is_and_until_when_it_holds() -> None:
    found = rows(run_markdown(outcome()), under="Plan")

    assert found == [
        ["quotes", "reused", "20 quotes", "2 min", "15:04:00, expired"],
        ["draft", "not run", "", "", ""],
    ]


def test_no_line_of_a_table_is_so_long_that_the_page_cuts_it_off() -> None:
    words = "the gateway gave no answer, " * 9
    said = {"message": words, "state": "failed"}
    page = run_markdown(
        outcome(
            steps=(STEPS[0].model_copy(update=said),),
            skipped=tuple(Skipped(symbol=f"SYMBOL{at}", reason="restricted: weight 0") for at in range(40)),
            reasons=(Reason(check="quotes_are_usable", symbol="SPY", reason=words),),
            snapshots=("7f" * 32, "8e" * 32),
        )
    )
    cells = [
        cell for name in ("What went wrong", "Plan", "Not traded") for row in rows(page, under=name) for cell in row
    ]

    assert 44 >= max(len(line) for cell in cells for line in cell.split("<br>"))
    assert words.strip() in {cell.replace("<br>", " ") for cell in cells}
    assert f"| `{'7f' * 32}`<br>`{'8e' * 32}` |" in page


def test_what_the_run_did_that_the_plan_does_not_name_is_shown_too() -> None:
    extra = StepLine(step="ask", tool="model", state="failed", message="no answer")

    assert ["quotes", "draft", "ask"] == [line.step for line in step_lines(outcome(steps=(*STEPS, extra)))]


def test_orders_stand_with_their_figures_and_sums() -> None:
    page = run_markdown(outcome())

    assert rows(page, under="Orders") == [
        ["buy", "1,200", "SPY", "500.50", "filled", "1,200", "500.1235", "1.00", "`tw-1`"],
        ["sell", "10.5", "AGG", "99.125", "partly filled", "4", "", "0.00", "`tw-2`"],
    ]
    assert "1 sell of 1,040.81 and 1 buy of 600,600.00 USD at the limits, commission 1.00" in page
    assert "- AGG: the window closed" in page


def test_a_run_without_orders_says_so_and_why() -> None:
    reasons = (Reason(check="quotes_are_usable", symbol="SPY", reason="the quote is delayed"),)
    page = run_markdown(outcome(orders=(), reasons=reasons))

    assert [["quotes are usable", "SPY", "the quote is delayed"]] == rows(page, under="Why there are no orders")
    assert "## Orders\n\nNo orders.\n" in page


def test_a_failed_run_without_a_plan_has_a_page() -> None:
    page = run_markdown(FAILED)

    assert page.startswith("# Rebalance failed\n\n**the planner gave no answer**\n")
    assert "No plan was made." in page
    assert "No verdict: the run did not come to it." in page
    assert [] == pictures(page)


def test_many_symbols_skipped_for_one_kind_of_reason_are_folded_and_few_are_not() -> None:
    within = tuple(Skipped(symbol=f"S{at}", reason=f"within its band: weight 0.0{at}, target 0.05") for at in range(9))
    odd = Skipped(symbol="GME", reason="outside the mandate: never traded")
    found = rows(run_markdown(outcome(skipped=(odd, *within))), under="Not traded (10)")

    assert found == [
        ["S0, S1, S2, S3, S4, S5, S6, S7, S8", "9", "within their bands"],
        ["GME", "1", "outside the mandate: never traded"],
    ]


def test_reasons_that_differ_in_figures_only_are_of_one_kind() -> None:
    apart = [Skipped(symbol=f"S{at}", reason=f"a sell of {at} is working, a buy would go against it") for at in (5, 61)]
    alike = [Skipped(symbol="A", reason="max_orders is 20: other symbols come first")]

    assert ["a sell of … is working, a buy would go against it"] == [kind.reason for kind in skipped_kinds(apart)]
    assert ["max_orders is 20"] == [kind.reason for kind in skipped_kinds(alike)]


@pytest.mark.parametrize(
    ("reasons", "said"),
    [
        (["within its band: weight 0.05"] * 20, "all 20 symbols are within their bands"),
        (["within its band: weight 0.05"], "the only symbol is within its band"),
        (["frozen: never traded", "frozen: never traded"], "all 2 symbols are frozen"),
        (["no usable quote: no bid"] * 2, "no usable quote (2 symbols)"),
        (
            ["max_weight: at most 0 of 5", *["within its band"] * 3],
            "within their bands (3 symbols), max_weight (1 symbol)",
        ),
        ([], "no symbols"),
    ],
)
def test_why_nothing_is_traded_reads_as_a_sentence(reasons: list[str], said: str) -> None:
    assert said == why_nothing(Skipped(symbol=f"S{at}", reason=reason) for at, reason in enumerate(reasons))


def test_a_rule_that_held_everywhere_takes_one_row() -> None:
    page = run_markdown(outcome())

    assert "**Approved**: 2 rules held; valid until 15:10:00 UTC." in page
    assert rows(page, under="Verdict") == [
        ["account is fresh", "held", "10s", "15m"],
        ["nothing is sold short", "20 of 20 held", "", "9"],
    ]


def test_every_place_where_a_rule_failed_is_listed_first() -> None:
    page = run_markdown(outcome(state="rejected", verdict=verdict("S3", "S7")))

    assert "**Refused**: 1 of 2 rules failed" in page
    assert rows(page, under="Verdict") == [
        ["nothing is sold short", "S3", "**failed**", "5", "9", "selling 5, holding 3"],
        ["nothing is sold short", "S7", "**failed**", "5", "9", "selling 5, holding 7"],
        ["nothing is sold short", "", "18 of 20 held", "", "9", ""],
        ["account is fresh", "", "held", "10s", "15m", ""],
    ]


def test_the_page_says_where_everything_comes_from() -> None:
    found = dict(rows(run_markdown(outcome()), under="Where this comes from"))

    assert "`p-1`, revision 2, made 2026-03-02 15:05:00 UTC" == found["Plan"]
    assert f"`{PLAN.hash}`" == found["Hash of the plan"]
    assert f"`{'12' * 32}`" == found["Hash of the revision before"]
    assert "`snap-1`<br>`snap-2`" == found["Snapshots"]
    assert "0.0312 USD" == found["Spent on language models"]


def test_odd_text_is_shown_as_it_is_wherever_it_stands() -> None:
    page = run_markdown(
        outcome(
            message=ODD,
            mandate=ODD,
            account=ODD,
            steps=(STEPS[0].model_copy(update={"message": ODD}),),
            orders=(ORDERS[0].model_copy(update={"symbol": ODD, "order_ref": ODD, "message": ODD}),),
            skipped=(Skipped(symbol=ODD, reason=ODD),),
            reasons=(Reason(check=ODD, symbol=ODD, reason=ODD),),
            notes=(ODD, "1. one", "- two", "# three"),
            snapshots=(ODD,),
            weights=(WeightLine(symbol=ODD, before=Decimal(0), target=Decimal(1), after=Decimal(1)),),
        )
    )
    reader = MarkdownIt("commonmark", {"html": True}).enable("table")
    shown = reader.render(re.sub(r"\]\(data:[^)]*\)", "](picture.svg)", page))

    assert 2 == shown.count("<img ") == shown.count('<img src="picture.svg"')
    assert not re.search("<(a|em|script)[ >]", shown)
    assert "a|b`c` &lt;img src=x onerror=alert(1)&gt; *d* [e](javascript:f) https://g.h [31m" in shown
    assert "https://" not in re.sub(r"`[^`\n]*`", "", page)  # many readers make a link of a bare address
    assert "\x1b" not in page
    assert {9} == {len(row) for row in rows(page, under="Orders")}
    assert "\n- 1\\. one\n- \\- two\n- \\# three\n" in page
    assert 2 == len(pictures(page))


def test_the_same_run_gives_the_same_page() -> None:
    assert run_markdown(outcome()) == run_markdown(outcome())


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({}, "1 filled, 1 partly filled"),
        ({"orders": (), "state": "held"}, "nothing to send"),
        ({"orders": (), "state": "failed"}, "nothing sent"),
        (
            {"orders": (ORDERS[0].model_copy(update={"state": "proposed"}),), "state": "waiting"},
            "waits for approval",
        ),
    ],
)
def test_the_tail_of_the_plan_says_what_became_of_the_orders(changed: dict[str, Any], words: str) -> None:
    assert words == gate(outcome(**changed))[1].words


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (sum_of(Decimal("-1234567.895")), "-1,234,567.90"),
        (sum_of(Decimal("-0.001")), "0.00"),
        (sum_of(Decimal("9e27")), "9,000,000,000,000,000,000,000,000,000.00"),
        (price_of(Decimal("12345.5")), "12,345.50"),
        (price_of(Decimal("-0.5")), "-0.50"),
        (price_of(Decimal("0.00000001")), "0.00000001"),
        (average_of(Decimal("428.20765432")), "428.2077"),
        (average_of(Decimal("0.000123456789")), "0.000123457"),
        (quantity_of(Decimal("1E+3")), "1,000"),
        (quantity_of(Decimal("1000.5000")), "1,000.5"),
        (per_cent(Decimal("0.06255")), "6.26"),
        (per_cent(Decimal("-0.000001")), "0.00"),
    ],
)
def test_figures_are_written_for_people(written: str, expected: str) -> None:
    assert expected == written
