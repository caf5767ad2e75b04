"""What a terminal shows of a plan and of a run: complete without colour, and good in 80 columns."""

import json
import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from tasks.outcome import GOOD, OrderLine, Outcome, StepLine
from tasks.pictures import age, most_changed, readable
from tasks.plan import Plan, Step, critical_path
from tasks.report import (
    FEW,
    average_of,
    gate,
    moment,
    orders_in_short,
    per_cent,
    price_of,
    quantity_of,
    skipped_kinds,
    statement,
    step_lines,
    sum_of,
)

if TYPE_CHECKING:
    from rich.console import Console

COLUMNS = 80
MOST_ORDERS, MOST_WEIGHTS, MOST_REASONS = 30, 40, 20

_PLAINER = str.maketrans("●◆│├┼┴╰─→", "o#||++`->")  # for a terminal that has no more than ASCII
_STYLES = {
    **dict.fromkeys(("completed", "held", "done", "filled"), "green"),
    **dict.fromkeys(("waiting", "partial", "stale", "partly filled", "working"), "yellow"),
    **dict.fromkeys(("rejected", "failed", "dead", "unknown"), "bold red"),
    "reused": "blue",
    "not run": "dim",
}


def draw_plan(plan: Plan) -> str:
    """Draw the plan as a graph, with each step's tool, what it takes and why, and name the critical path."""
    steps, widest = plan.in_order, min(max(len(step.id) for step in plan.steps), 20)
    indent = 2 * len(steps) + 1
    lines = []
    for step, (row, lanes) in zip(steps, _graph(steps), strict=True):
        lines.append(f"{row:{indent}}{step.id:{widest}}  {step.tool}")
        for text in (_told(step), _taken(step), step.why):
            wrapped = textwrap.wrap(readable(text), COLUMNS - indent - 2, break_on_hyphens=False)
            lines += [f"{lanes:{indent}}  {part}" for part in wrapped]
    path = critical_path(plan.steps)
    return "\n".join((*lines, "", f"critical path: {' → '.join(path)} ({len(path)} of {len(steps)} steps)"))


def _told(step: Step) -> str:
    params = (f"{name} = {json.dumps(value, ensure_ascii=False, default=str)}" for name, value in step.params.items())
    return "with " + ", ".join(params) if step.params else ""


def _taken(step: Step) -> str:
    inputs = (source if name == source else f"{source} as {name}" for name, source in step.inputs.items())
    return "takes " + ", ".join(inputs) if step.inputs else ""


def _graph(steps: Sequence[Step]) -> Iterator[tuple[str, str]]:
    """Yield each step's row of the drawing, and the lanes that go on beneath it.

    Every step has a lane to itself, right of those before it, down to the last step that takes its result: so a line
    joins exactly the lanes it takes from, and breaks at the others.
    """
    lane = {step.id: index for index, step in enumerate(steps)}
    last = {lane[source]: index for index, step in enumerate(steps) for source in step.inputs.values()}
    for index, step in enumerate(steps):
        taken = {lane[source] for source in step.inputs.values()}
        first = min(taken, default=index)
        goes_on = [last.get(at, at) > index for at in range(index + 1)]
        joints = (_joint(at, first, taken=at in taken, goes_on=goes_on[at]) for at in range(index))
        row = "".join(joint + ("─" if at >= first else " ") for at, joint in enumerate(joints))
        yield row + "●", " ".join("│" if going else " " for going in goes_on)


def _joint(at: int, first: int, *, taken: bool, goes_on: bool) -> str:
    """Return what a row shows in one lane: a joint where it takes, the lane where it goes on, else the line itself."""
    if not taken:
        return "│" if goes_on else "─" if at > first else " "
    if at == first:
        return "├" if goes_on else "╰"
    return "┼" if goes_on else "┴"


def summary(outcome: Outcome, console: "Console") -> None:
    """Print how a run went: its state, plan, orders, weights, what was not traded, the verdict, cash and notes."""
    for show in (_state, _plan, _why_not, _orders, _weights, _skipped, _verdict, _cash, _notes):
        show(outcome, console)


def _state(outcome: Outcome, console: "Console") -> None:
    style = "bold green" if outcome.state in GOOD else "bold red"
    _line(console, (outcome.state.upper(), style), ("  ", ""), (outcome.message, "bold"))
    dry = ", dry run: nothing was sent" if outcome.dry_run else ""
    took = age(outcome.ended_at - outcome.as_of)
    account = f"account {outcome.account} at " if outcome.account else ""  # a run may fail before it knows
    where = f"{outcome.mandate}: {account}broker {outcome.broker}"
    _line(console, (f"{where}, {moment(outcome.as_of)} UTC, took {took}{dry}", ""))


def _plan(outcome: Outcome, console: "Console") -> None:
    if outcome.plan is None:
        _heading(console, "Plan: none was made")
    else:
        _heading(console, f"Plan {outcome.plan.id}, revision {outcome.plan.revision}")
    lines = step_lines(outcome)
    planned = outcome.plan.in_order if outcome.plan else ()
    rows = [row for row, _ in _graph(planned)] + ["●"] * (len(lines) - len(planned))
    width = min(max((len(line.step) for line in lines), default=0), 20)
    indent = max((len(row) for row in rows), default=1)
    for line, row in zip(lines, rows, strict=True):
        old = age(outcome.ended_at - line.as_of) + " old" if line.as_of else ""
        start = f"  {row:{indent}}  {_cut(line.step, width):{width}}  "
        rest = f"{line.state:8}"
        message = _cut(f"{old:12}{readable(line.message)}", console.width - len(start) - len(rest))
        _line(console, (start, ""), (rest, _STYLES[line.state]), (message, ""))
    for stage in gate(outcome) if outcome.plan else ():
        start = f"  {'◆':>{indent}}  {stage.name:{width}}  "
        _line(console, (start, ""), (stage.words, _STYLES[stage.state]))
    _failures(lines, console)


def _failures(lines: Sequence[StepLine], console: "Console") -> None:
    """Print in full why a step failed: its line above may have been cut."""
    rows = [[f"{line.step} failed", line.message] for line in lines if line.state == "failed"]
    _table(console, ("", ""), rows)


def _why_not(outcome: Outcome, console: "Console") -> None:
    if outcome.reasons:
        _heading(console, "What went wrong" if outcome.orders else "Why there are no orders")
        _reasons(console, [(each.check, each.symbol, each.reason) for each in outcome.reasons])


def _reasons(console: "Console", reasons: Sequence[tuple[str, str, str]]) -> None:
    shown = reasons[:MOST_REASONS]
    rules = [f"{statement(rule)}: {symbol}" if symbol else statement(rule) for rule, symbol, _ in shown]
    pairs = ((["no", rule], ["", reason]) for rule, (_, _, reason) in zip(rules, shown, strict=True))
    _table(console, ("", ""), [row for pair in pairs for row in pair])
    _left_out(console, len(reasons) - MOST_REASONS)


def _orders(outcome: Outcome, console: "Console") -> None:
    if not outcome.orders:
        _heading(console, "Orders: none")
        return
    _heading(console, f"Orders: {orders_in_short(outcome)}")
    first = sorted(outcome.orders, key=lambda order: order.state == "filled")[:MOST_ORDERS]
    shown = [order for order in outcome.orders if order in first]
    heads = ("side", ">quantity", "symbol", ">limit", "state", ">filled", ">price", ">commission")
    _table(console, heads, [_order_row(order) for order in shown])
    _left_out(console, len(outcome.orders) - MOST_ORDERS)
    _table(console, ("", ""), [[order.symbol, order.message] for order in shown if order.message])


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
    _heading(console, "Weights in per cent of managed equity")
    rows = [[line.symbol, per_cent(line.before), per_cent(line.target), per_cent(line.after)] for line in lines]
    heads: tuple[str, ...] = ("symbol", ">before", ">target", ">after")
    if len(rows) > 6 and max(len(line.symbol) for line in lines) <= 8:
        half = (len(rows) + 1) // 2
        rows = [[*left, " ", *right] for left, right in zip(rows, [*rows[half:], [""] * 4], strict=False)]
        heads = (*heads, " ", *heads)
    _table(console, heads, rows)
    _left_out(console, len(outcome.weights) - MOST_WEIGHTS)


def _skipped(outcome: Outcome, console: "Console") -> None:
    if not outcome.skipped:
        return
    _heading(console, f"Not traded: {len(outcome.skipped)}")
    rows = []
    for kind in skipped_kinds(outcome.skipped):
        if len(kind.skipped) > FEW:
            rows.append([f"{len(kind.skipped)} symbols", kind.reason])
        else:
            rows += [[each.symbol, each.reason] for each in kind.skipped]
    _table(console, ("", ""), rows)


def _verdict(outcome: Outcome, console: "Console") -> None:
    if outcome.verdict is None:
        _heading(console, "Verdict: none, the run did not come to it")
        return
    word = "approved" if outcome.verdict.approved else "refused"
    _heading(console, f"Verdict: {word}, {gate(outcome)[0].words}")
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
    sums = (("before", outcome.cash_before), ("after", outcome.cash_after), ("managed equity", outcome.equity))
    known = [f"{name} {sum_of(value)}" for name, value in sums if value is not None]
    if known:
        _heading(console, f"Cash in {outcome.currency}: {', '.join(known)}")
    if outcome.usd:
        _heading(console, f"Language models: {price_of(outcome.usd)} USD")


def _notes(outcome: Outcome, console: "Console") -> None:
    if outcome.notes:
        _heading(console, "Notes")
        _table(console, ("", ""), [["-", note] for note in outcome.notes])


def _heading(console: "Console", text: str) -> None:
    console.print()
    _line(console, (text, "bold"))


def _left_out(console: "Console", count: int) -> None:
    if count > 0:
        _line(console, (f"  and {count} more", ""))


def _line(console: "Console", *parts: tuple[str, str]) -> None:
    from rich.text import Text  # noqa: PLC0415

    console.print(Text.assemble(*((_writable(text, console), style) for text, style in parts)), highlight=False)


def _table(console: "Console", heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows in columns; a head with > stands to the right, a column that says nothing is left out."""
    from rich.padding import Padding  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    said = [at for at in range(len(heads)) if any(row[at] for row in rows)]
    if not said:
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=any(heads), header_style="dim")
    for at in said:
        side: Literal["right", "left"] = "right" if heads[at].startswith(">") else "left"
        table.add_column(heads[at].removeprefix(">"), justify=side, overflow="fold")
    for row in rows:
        styles = (_STYLES.get(row[at], "") if heads[at] == "state" else "" for at in said)
        cells = (_writable(readable(row[at]), console) for at in said)
        table.add_row(*(Text(cell, style) for cell, style in zip(cells, styles, strict=True)))
    console.print(Padding(table, (0, 0, 0, 2), expand=False), highlight=False)


def _cut(text: str, most: int) -> str:
    """Return the text, or as much of it as there is room for."""
    return text if len(text) <= most else f"{text[: max(most - 3, 0)]}..."


def _writable(text: str, console: "Console") -> str:
    """Return text in characters that the terminal can write, and none that steer it."""
    steady = "".join(each if each.isprintable() else " " for each in text)
    if not console.options.ascii_only:
        return steady
    return steady.translate(_PLAINER).encode("ascii", "replace").decode("ascii")
