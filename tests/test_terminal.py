"""What a terminal shows: plans drawn as graphs, runs in 80 columns, with and without colour."""

import io
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Literal

import pytest
from rich.console import Console

from tasks.outcome import OrderLine, Outcome, StepLine, WeightLine
from tasks.plan import Plan, Step
from tasks.plan_drawing import COLUMNS, draw_plan
from tasks.situation import Reason, Skipped
from tasks.terminal import summary
from tasks.verification.verdict import Check, Verdict

NOW = datetime(2026, 3, 2, 15, 5, tzinfo=UTC)


def step(step_id: str, tool: str, *inputs: str, why: str = "it is needed", **params: object) -> Step:
    return Step(id=step_id, tool=tool, params=params, inputs={source: source for source in inputs}, why=why)


def plan(*steps: Step) -> Plan:
    return Plan(id="p-1", objective="rebalance", mandate_hash="ab" * 32, steps=steps, created_at=NOW)


RULES = plan(
    step("quotes", "gather_quotes", why="prices decide weights and limits"),
    step("positions", "gather_positions", why="what is held decides what can be traded"),
    step("bars", "gather_bars", lookback_days=252),
    step("targets", "set_targets", "bars"),
    step("drift", "measure_drift", "targets", "quotes", "positions"),
    step("draft", "draft_orders", "targets", "quotes", "positions", "drift"),
)

DRAWN = """\
●            quotes     gather_quotes
│              prices decide weights and limits
│ ●          positions  gather_positions
│ │            what is held decides what can be traded
│ │ ●        bars       gather_bars
│ │ │          with lookback_days = 252
│ │ │          it is needed
│ │ ╰─●      targets    set_targets
│ │   │        takes bars
│ │   │        it is needed
├─┼───┼─●    drift      measure_drift
│ │   │ │      takes targets, quotes, positions
│ │   │ │      it is needed
╰─┴───┴─┴─●  draft      draft_orders
               takes targets, quotes, positions, drift
               it is needed

critical path: bars → targets → drift → draft (4 of 6 steps)"""

SUMMED_UP = """\
PARTIAL  1 of 2 orders filled
sample: account PAPER at broker paper, 2026-03-02 15:04:18 UTC, took 42 s

Plan p-1, revision 1
  ●            quotes     reused  12 s old    20 quotes
  │ ●          positions  done    61 s old    100,000.00 USD in cash
  │ │ ●        bars       not run
  │ │ ╰─●      targets    not run
  ├─┼───┼─●    drift      not run
  ╰─┴───┴─┴─●  draft      not run
            ◆  verify     2 rules held
            ◆  submit     1 filled, 1 dead

Orders: 1 sell of 1,040.81 and 1 buy of 600,600.00 USD at the limits, commission 1.00
  side  quantity  symbol   limit  state   filled     price  commission
  buy      1,200  SPY     500.50  filled          500.1235        1.00
  sell      10.5  AGG     99.125  dead         4
  AGG  the window closed

Weights in per cent of managed equity
  symbol  before  target  after
  SPY       0.00   60.00  59.00
  AGG      41.00   38.00  39.50

Not traded: 10
  9 symbols  within their bands
  GME        outside the mandate: never traded

Verdict: approved, 2 rules held

Cash in USD: before 100,000.00, after 2,012.35, managed equity 1,234,567.00

Language models: 0.0312 USD

Notes
  -  GME is held outside the mandate
"""


def verdict(*failed: str) -> Verdict:
    judged = [Check(check="account_is_fresh", held=True, figure="10s", limit="15m")]
    for at in range(40):
        held = f"S{at}" not in failed
        reason = "" if held else f"selling 5, holding {at}"
        judged.append(
            Check(check="nothing_is_sold_short", symbol=f"S{at}", held=held, figure="5", limit=str(at), reason=reason)
        )
    return Verdict(
        approved=not failed,
        checks=tuple(judged),
        proposal_hash="cd" * 32,
        situation_hash="ef" * 32,
        expires_at=NOW + timedelta(minutes=5),
    )


def order(symbol: str, side: Literal["buy", "sell"], **more: Any) -> OrderLine:
    return OrderLine(**({"order_ref": "tw", "symbol": symbol, "side": side, "state": "filled"} | more))


def outcome(**changed: Any) -> Outcome:
    within = (Skipped(symbol=f"S{at}", reason=f"within its band: weight 0.0{at}, target 0.05") for at in range(9))
    price, agg = Decimal("500.123456789"), {"filled": Decimal(4), "message": "the window closed", "state": "dead"}
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
        "plan": RULES,
        "steps": (
            StepLine(step="quotes", tool="q", state="reused", message="20 quotes", as_of=NOW - timedelta(seconds=12)),
            StepLine(
                step="positions",
                tool="p",
                state="done",
                message="100,000.00 USD in cash",
                as_of=NOW - timedelta(seconds=61),
            ),
        ),
        "equity": Decimal(1234567),
        "cash_before": Decimal(100000),
        "cash_after": Decimal("2012.345678"),
        "weights": (
            WeightLine(symbol="AGG", before=Decimal("0.41"), target=Decimal("0.38"), after=Decimal("0.395")),
            WeightLine(symbol="SPY", before=Decimal(0), target=Decimal("0.6"), after=Decimal("0.59")),
        ),
        "orders": (
            order("SPY", "buy", quantity=1200, limit="500.5", filled=1200, price=price, commission=1),
            order("AGG", "sell", quantity="10.5", limit="99.125", **agg),
        ),
        "skipped": (*within, Skipped(symbol="GME", reason="outside the mandate: never traded")),
        "verdict": verdict(),
        "notes": ("GME is held outside the mandate",),
        "usd": Decimal("0.0312"),
    }
    return Outcome(**(usual | changed))


def printed(run: Outcome, **terminal: Any) -> str:
    """Return what is printed for a run, without the spaces that fill its lines up."""
    file = terminal.pop("file", io.StringIO())
    summary(run, Console(**({"file": file, "width": COLUMNS, "no_color": True} | terminal)))
    file.flush()
    return "".join(f"{line.rstrip()}\n" for line in file.getvalue().splitlines())


def test_a_plan_is_drawn_with_a_lane_for_each_result() -> None:
    assert DRAWN == draw_plan(RULES)


def test_a_line_breaks_at_the_lanes_it_does_not_take_from() -> None:
    drawn = draw_plan(
        plan(step("a", "t"), step("b", "t"), step("c", "t"), step("d", "t", "a", "c"), step("e", "t", "b", "d"))
    )

    assert "╰─│─┴─●    d  t" in drawn
    assert "  ╰───┴─●  e  t" in drawn


def test_twelve_steps_in_a_chain_with_long_names_stay_within_eighty_columns() -> None:
    ids = [f"step-{at:02}-with-a-long-name" for at in range(12)]
    words = "a reason of as many letters as a plan may give, " * 4
    chain = [step(one, "gather_positions", *ids[max(at - 1, 0) : at], why=words) for at, one in enumerate(ids)]

    lines = draw_plan(plan(*chain)).splitlines()

    assert COLUMNS >= max(len(line) for line in lines[:-1])
    assert lines[-1].endswith("(12 of 12 steps)")


def test_an_input_that_is_named_otherwise_than_its_step_says_so() -> None:
    drawn = draw_plan(
        plan(step("q1", "gather_quotes"), Step(id="d", tool="t", params={}, inputs={"quotes": "q1"}, why=""))
    )

    assert "takes q1 as quotes" in drawn


def test_a_run_is_summed_up_in_plain_text() -> None:
    assert SUMMED_UP == printed(outcome(), width=120)


def test_nothing_is_wider_than_eighty_columns() -> None:
    text = printed(outcome(message="long " * 60, notes=("word " * 60,), steps=(), verdict=verdict("S3")))

    assert COLUMNS >= max(len(line) for line in text.splitlines())


def test_without_colour_no_code_reaches_the_terminal_and_with_it_states_have_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    plain = printed(outcome())
    colour = printed(outcome(), force_terminal=True, no_color=False, color_system="standard")

    assert "\x1b" not in plain
    assert "\x1b[1;31mPARTIAL\x1b[0m" in colour


def test_a_failed_run_without_a_plan_is_short() -> None:
    text = printed(
        outcome(
            state="failed",
            message="the planner gave no answer",
            account="",
            currency="",
            plan=None,
            steps=(),
            equity=None,
            cash_before=None,
            cash_after=None,
            weights=(),
            orders=(),
            skipped=(),
            verdict=None,
            notes=(),
            usd=Decimal(0),
        )
    )

    assert text == (
        "FAILED  the planner gave no answer\n"
        "sample: broker paper, 2026-03-02 15:04:18 UTC, took 42 s\n\n"
        "Plan: none was made\n\nOrders: none\n\nVerdict: none, the run did not come to it\n"
    )


def test_why_a_step_failed_is_printed_in_full() -> None:
    message = "the gateway gave no answer, and " * 6 + "that is all"
    failed = StepLine(step="quotes", tool="gather_quotes", state="failed", message=message)

    text = printed(outcome(steps=(failed,)))

    assert "quotes failed" in text
    assert "that is all" in text


def test_why_there_are_no_orders_is_printed() -> None:
    reasons = (Reason(check="quotes_are_usable", symbol="SPY", reason="the quote is delayed"),)

    text = printed(outcome(orders=(), reasons=reasons))

    assert "Why there are no orders\n  no  quotes are usable: SPY\n      the quote is delayed\n" in text
    assert "Orders: none\n" in text


def test_each_rule_that_failed_stands_with_its_figures() -> None:
    text = printed(outcome(state="rejected", verdict=verdict("S3", "S7")))

    assert "Verdict: refused, 1 of 2 rules failed\n" in text
    assert "  no  nothing is sold short: S7\n      selling 5, holding 7 (found 5, limit 7)\n" in text


def test_a_dry_run_says_that_nothing_was_sent() -> None:
    assert "dry run: nothing was sent" in printed(outcome(state="completed", dry_run=True), width=120)


def test_long_lists_are_cut_and_the_rest_is_counted() -> None:
    orders = tuple(
        order(f"S{at}", "buy", quantity=1, limit=1, state="dead" if at == 99 else "filled") for at in range(100)
    )
    weights = tuple(
        WeightLine(symbol=f"W{at}", before=Decimal(at) / 1000, target=Decimal(0), after=Decimal(0)) for at in range(90)
    )
    text = printed(outcome(orders=orders, weights=weights, verdict=verdict(*(f"S{at}" for at in range(30)))))

    assert ["  and 70 more", "  and 50 more", "  and 10 more"] == [
        line for line in text.splitlines() if line.startswith("  and ")
    ]
    assert any("S99" in line and "dead" in line for line in text.splitlines())
    assert "W89" in text
    assert " W1 " not in text


@pytest.mark.parametrize("count", [7, 8, 20, 21, 40])
def test_weights_in_two_columns_show_each_symbol_once(count: int) -> None:
    weights = tuple(
        WeightLine(symbol=f"W{at:02}", before=Decimal(0), target=Decimal(count - at) / 1000, after=Decimal(0))
        for at in range(count)
    )

    text = printed(outcome(weights=weights, skipped=()), width=100).split("Weights in per cent")[1]
    section = text.split("\n\n")[0].splitlines()

    assert sorted(line.symbol for line in weights) == sorted(re.findall(r"W\d\d", "".join(section)))
    assert ["W00", f"W{(count + 1) // 2:02}"] == re.findall(r"W\d\d", section[2])


def test_markup_and_codes_in_symbols_and_messages_are_text() -> None:
    odd = "[red]x[/red] :smile: \x1b[2Jy"

    text = printed(
        outcome(message=odd, notes=(odd,), skipped=(Skipped(symbol=odd, reason=odd),)), force_terminal=True, width=120
    )

    assert 4 == text.count("[red]x[/red] :smile:")
    assert "\x1b[2J" not in text


def test_a_terminal_that_has_only_ascii_is_given_nothing_else() -> None:
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding="ascii", errors="strict")

    summary(outcome(message="naïve 株 …"), Console(file=file, width=COLUMNS))
    file.flush()

    assert b"`-+---+-+-o  draft" in raw.getvalue()
    assert b"na?ve ? ?" in raw.getvalue()
