"""What a terminal shows of a run."""

from collections.abc import Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING

from tasks.figures import age, average_of, per_cent, price_of, quantity_of, readable, statement, sum_of
from tasks.not_traded import FEW, skipped_kinds
from tasks.outcome import GOOD, OrderLine, Outcome, StepLine
from tasks.outcome_lines import after, circumstances, lineage, most_changed, orders_in_short, step_lines
from tasks.plan_drawing import graph
from tasks.printing import STYLES, cut, print_heading, print_left_out, print_line, print_table
from tasks.stages import gate

if TYPE_CHECKING:
    from rich.console import Console

MOST_ORDERS, MOST_WEIGHTS, MOST_REASONS = 30, 40, 20


def summary(outcome: Outcome, console: "Console") -> None:
    """Print how a run went: its state, plan, orders, weights, what was not traded, the verdict, cash and notes."""
    for show in (_state, _plan, _why_not, _orders, _weights, _skipped, _verdict, _cash, _notes):
        show(outcome, console)


def _state(outcome: Outcome, console: "Console") -> None:
    style = "bold green" if outcome.state in GOOD else "bold red"
    print_line(console, (outcome.state.upper(), style), ("  ", ""), (outcome.message, "bold"))
    dry = ", dry run: nothing was sent" if outcome.dry_run else ""
    print_line(console, (circumstances(outcome) + dry, ""))
    if lineage(outcome):
        print_line(console, (lineage(outcome), ""))


def _plan(outcome: Outcome, console: "Console") -> None:
    if outcome.plan is None:
        print_heading(console, "Plan: none was made")
    else:
        print_heading(console, f"Plan {outcome.plan.id}, revision {outcome.plan.revision}")
    lines = step_lines(outcome)
    planned = outcome.plan.in_order if outcome.plan else ()
    rows = [row for row, _ in graph(planned)] + ["●"] * (len(lines) - len(planned))
    width = min(max((len(line.step) for line in lines), default=0), 20)
    indent = max((len(row) for row in rows), default=1)
    for line, row in zip(lines, rows, strict=True):
        old = age(outcome.ended_at - line.as_of) + " old" if line.as_of else ""
        start = f"  {row:{indent}}  {cut(line.step, width):{width}}  "
        rest = f"{line.state:8}"
        message = cut(f"{old:12}{readable(line.message)}", console.width - len(start) - len(rest))
        print_line(console, (start, ""), (rest, STYLES[line.state]), (message, ""))
    for stage in gate(outcome) if outcome.plan else ():
        start = f"  {'◆':>{indent}}  {stage.name:{width}}  "
        print_line(console, (start, ""), (stage.words, STYLES[stage.state]))
    _failures(lines, console)


def _failures(lines: Sequence[StepLine], console: "Console") -> None:
    """Print in full why a step failed: its line above may have been cut."""
    rows = [[f"{line.step} failed", line.message] for line in lines if line.state == "failed"]
    print_table(console, ("", ""), rows)


def _why_not(outcome: Outcome, console: "Console") -> None:
    if outcome.reasons:
        print_heading(console, "What went wrong" if outcome.orders else "Why there are no orders")
        _reasons(console, [(each.check, each.symbol, each.reason) for each in outcome.reasons])


def _reasons(console: "Console", reasons: Sequence[tuple[str, str, str]]) -> None:
    shown = reasons[:MOST_REASONS]
    rules = [f"{statement(rule)}: {symbol}" if symbol else statement(rule) for rule, symbol, _ in shown]
    pairs = ((["no", rule], ["", reason]) for rule, (_, _, reason) in zip(rules, shown, strict=True))
    print_table(console, ("", ""), [row for pair in pairs for row in pair])
    print_left_out(console, len(reasons) - MOST_REASONS)


def _orders(outcome: Outcome, console: "Console") -> None:
    if not outcome.orders:
        print_heading(console, "Orders: none")
        return
    print_heading(console, f"Orders: {orders_in_short(outcome)}")
    first = sorted(outcome.orders, key=lambda order: order.state == "filled")[:MOST_ORDERS]
    shown = [order for order in outcome.orders if order in first]
    heads = ("side", ">quantity", "symbol", ">limit", "state", ">filled", ">price", ">commission")
    print_table(console, heads, [_order_row(order) for order in shown])
    print_left_out(console, len(outcome.orders) - MOST_ORDERS)
    print_table(console, ("", ""), [[order.symbol, order.message] for order in shown if order.message])


def _order_row(order: OrderLine) -> list[str]:
    return [
        order.side,
        quantity_of(order.quantity),
        order.symbol,
        price_of(order.limit),
        statement(order.state),
        quantity_of(order.filled) if 0 < order.filled < order.quantity else "",
        "" if order.price is None else average_of(order.price),
        price_of(order.commission) if order.commission else "",
    ]


def _weights(outcome: Outcome, console: "Console") -> None:
    lines = most_changed(outcome.weights, MOST_WEIGHTS)
    if not lines:
        return
    print_heading(console, "Weights in per cent of managed equity")
    rows = [[line.symbol, per_cent(line.before), per_cent(line.target), per_cent(line.after)] for line in lines]
    heads: tuple[str, ...] = ("symbol", ">before", ">target", f">{after(outcome)}")
    if len(rows) > 6 and max(len(line.symbol) for line in lines) <= 8:
        rows = _side_by_side(rows)
        heads = (*heads, " ", *heads)
    print_table(console, heads, rows)
    print_left_out(console, len(outcome.weights) - MOST_WEIGHTS)


def _side_by_side(rows: list[list[str]]) -> list[list[str]]:
    """Fold a table in the middle: its second half stands to the right of its first, each row once."""
    half = (len(rows) + 1) // 2
    pairs = zip_longest(rows[:half], rows[half:], fillvalue=[""] * len(rows[0]))
    return [[*left, " ", *right] for left, right in pairs]


def _skipped(outcome: Outcome, console: "Console") -> None:
    if not outcome.skipped:
        return
    print_heading(console, f"Not traded: {len(outcome.skipped)}")
    rows = []
    for kind in skipped_kinds(outcome.skipped):
        if len(kind.skipped) > FEW:
            rows.append([f"{len(kind.skipped)} symbols", kind.reason])
        else:
            rows += [[each.symbol, each.reason] for each in kind.skipped]
    print_table(console, ("", ""), rows)


def _verdict(outcome: Outcome, console: "Console") -> None:
    if outcome.verdict is None:
        print_heading(console, "Verdict: none, the run did not come to it")
        return
    word = "approved" if outcome.verdict.approved else "refused"
    print_heading(console, f"Verdict: {word}, {gate(outcome)[0].words}")
    failed = [check for check in outcome.verdict.checks if not check.held]
    figures = (f"found {check.figure or 'nothing'}, limit {check.limit or 'none'}" for check in failed)
    _reasons(
        console,
        [
            (check.check, check.symbol, f"{check.reason} ({words})")
            for check, words in zip(failed, figures, strict=True)
        ],
    )


def _cash(outcome: Outcome, console: "Console") -> None:
    sums = (("before", outcome.cash_before), (after(outcome), outcome.cash_after), ("managed equity", outcome.equity))
    known = [f"{name} {sum_of(value)}" for name, value in sums if value is not None]
    if known:
        print_heading(console, f"Cash in {outcome.currency}: {', '.join(known)}")
    if outcome.usd:
        print_heading(console, f"Language models: {price_of(outcome.usd)} USD")


def _notes(outcome: Outcome, console: "Console") -> None:
    if outcome.notes:
        print_heading(console, "Notes")
        print_table(console, ("", ""), [["-", note] for note in outcome.notes])
