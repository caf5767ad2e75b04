"""The page a run leaves behind: one markdown document with pictures and tables."""

from collections.abc import Iterator, Sequence

from tasks.canvas import data_uri
from tasks.figures import age, average_of, cash_text, moment, per_cent, price_of, quantity_of, statement, sum_of
from tasks.markdown import code, in_lines, quiet, quiet_line, table
from tasks.not_traded import FEW, skipped_kinds
from tasks.outcome import OrderLine, Outcome, StepLine, is_forecast
from tasks.outcome_lines import after, circumstances, lineage, orders_in_short, step_lines
from tasks.plan_picture import plan_picture
from tasks.situation import Skipped
from tasks.stages import RuleLine, gate, rule_lines
from tasks.verification.verdict import Check
from tasks.weights_picture import weights_picture

_WIDE, _NARROW = 44, 28  # characters in a line of a cell


def run_markdown(outcome: Outcome) -> str:
    """Return the whole of a run as markdown, its pictures inside."""
    parts = (
        *_headline(outcome),
        *_why_not(outcome),
        *_plan(outcome),
        *_weights(outcome),
        *_orders(outcome),
        *_skipped(outcome),
        *_verdict(outcome),
        *_notes(outcome),
        *_provenance(outcome),
    )
    return "\n\n".join(parts) + "\n"


def request_markdown(outcome: Outcome) -> str:
    """Return what a person is to know who is asked whether these orders may be sent."""
    parts = (*_headline(outcome), *_asked_for(outcome), *_verdict(outcome), *_notes(outcome))
    return "\n\n".join(parts) + "\n"


def _headline(outcome: Outcome) -> Iterator[str]:
    yield f"# Rebalance {outcome.state}{', dry run' if outcome.dry_run else ''}"
    yield f"**{quiet(outcome.message) or 'no message'}**"
    yield quiet(circumstances(outcome))
    if lineage(outcome):
        yield quiet(lineage(outcome))
    sums = (outcome.equity, outcome.cash_before, outcome.cash_after)
    figures = ["" if value is None else cash_text(value, quiet(outcome.currency)) for value in sums]
    if any(figures):
        yield table((">Managed equity", ">Cash before", f">Cash {after(outcome)}"), [figures])


def _why_not(outcome: Outcome) -> Iterator[str]:
    if outcome.reasons:
        yield "## Why there are no orders" if not outcome.orders else "## What went wrong"
        reasons = outcome.reasons
        rows = [[quiet(statement(each.check)), quiet(each.symbol), in_lines(each.reason, _WIDE)] for each in reasons]
        yield table(("Rule", "Symbol", "Reason"), rows)


def _plan(outcome: Outcome) -> Iterator[str]:
    yield "## Plan"
    if outcome.plan is None:
        yield "No plan was made."
    else:
        yield f"Objective: {quiet(outcome.plan.objective)}"
        picture = plan_picture(outcome.plan, outcome.steps, gate(outcome), outcome.ended_at)
        yield f"![The plan, and how its steps went]({data_uri(picture)})"
    lines = step_lines(outcome)
    if lines:
        heads = ("Step", "State", "Found", ">Age", ">Good until, UTC")
        yield table(heads, [_step_row(line, outcome) for line in lines])


def _step_row(line: StepLine, outcome: Outcome) -> list[str]:
    now, day = outcome.ended_at, outcome.as_of
    state = f"**{line.state}**" if line.state == "failed" else line.state
    until = "" if line.expires_at is None else moment(line.expires_at, day)
    return [
        in_lines(line.step, _NARROW),
        state,
        in_lines(line.message, _WIDE),
        "" if line.as_of is None else age(now - line.as_of),
        f"{until}, expired" if line.expires_at and line.expires_at < now else until,
    ]


def _weights(outcome: Outcome) -> Iterator[str]:
    if outcome.weights:
        yield f"## Weights{', if all orders fill' if is_forecast(outcome.state, dry_run=outcome.dry_run) else ''}"
        yield f"![Weights before, target and after]({data_uri(weights_picture(outcome.weights))})"


def _orders(outcome: Outcome) -> Iterator[str]:
    yield "## Orders"
    if not outcome.orders:
        yield "No orders."
        return
    ordered = ("Side", ">Quantity", "Symbol", ">Limit", "State", ">Filled", ">Price", ">Commission")
    yield table((*ordered, "Reference"), [_order_row(order) for order in outcome.orders])
    yield quiet(orders_in_short(outcome))
    messages = [f"- {quiet_line(order.symbol)}: {quiet(order.message)}" for order in outcome.orders if order.message]
    yield from ["\n".join(messages)] if messages else []


def _asked_for(outcome: Outcome) -> Iterator[str]:
    """Yield the orders in few columns, for they are shown in a narrow form, and their turnover."""
    yield "## Orders"
    notionals = [order.quantity * order.limit for order in outcome.orders]
    rows = [
        [order.side, quantity_of(order.quantity), quiet(order.symbol), price_of(order.limit), sum_of(notional)]
        for order, notional in zip(outcome.orders, notionals, strict=True)
    ]
    yield table(("Side", ">Quantity", "Symbol", ">Limit", ">Sum"), rows)
    turnover = (
        f": a turnover of {per_cent(sum(notionals) / outcome.equity)} % of managed equity" if outcome.equity else ""
    )
    yield f"{quiet(orders_in_short(outcome))}{turnover}"


def _order_row(order: OrderLine) -> list[str]:
    price = "" if order.price is None else average_of(order.price)
    return [
        order.side, quantity_of(order.quantity), quiet(order.symbol), price_of(order.limit), statement(order.state),
        quantity_of(order.filled), price, price_of(order.commission), code(order.order_ref),
    ]  # fmt: skip


def _skipped(outcome: Outcome) -> Iterator[str]:
    if outcome.skipped:
        yield f"## Not traded ({len(outcome.skipped)})"
        yield table(("Symbols", ">Count", "Reason"), list(_skipped_rows(outcome.skipped)))


def _skipped_rows(skipped: Sequence[Skipped]) -> Iterator[list[str]]:
    for kind in skipped_kinds(skipped):
        if len(kind.skipped) > FEW:
            symbols = ", ".join(each.symbol for each in kind.skipped)
            yield [in_lines(symbols, _WIDE), str(len(kind.skipped)), in_lines(kind.reason, _WIDE)]
        else:
            yield from ([quiet(each.symbol), "1", in_lines(each.reason, _WIDE)] for each in kind.skipped)


def _verdict(outcome: Outcome) -> Iterator[str]:
    yield "## Verdict"
    if outcome.verdict is None:
        yield "No verdict: the run did not come to it."
        return
    stage = gate(outcome)[0]
    word = "Approved" if outcome.verdict.approved else "Refused"
    yield f"**{word}**: {stage.words}; valid until {moment(outcome.verdict.expires_at, outcome.as_of)} UTC."
    rows = [row for line in rule_lines(outcome.verdict.checks) for row in _rule_rows(line)]
    yield table(("Rule", "Symbol", "Held", "Figure", "Limit", "Why not"), rows)


def _rule_rows(line: RuleLine) -> Iterator[list[str]]:
    rule, places = in_lines(statement(line.rule), _NARROW), len(line.failed) + len(line.held)
    for check in line.failed:
        yield [rule, quiet(check.symbol), "**failed**", *_figures(check), in_lines(check.reason, _NARROW)]
    if places == 1 and line.held:
        yield [rule, quiet(line.held[0].symbol), "held", *_figures(line.held[0]), ""]
    elif line.held:
        limits = {check.limit for check in line.held}
        yield [rule, "", f"{len(line.held)} of {places} held", "", quiet(limits.pop()) if len(limits) == 1 else "", ""]


def _figures(check: Check) -> tuple[str, str]:
    return in_lines(check.figure, _NARROW), in_lines(check.limit, _NARROW)


def _notes(outcome: Outcome) -> Iterator[str]:
    if outcome.notes:
        yield "## Notes"
        yield "\n".join(f"- {quiet_line(note)}" for note in outcome.notes)


def _provenance(outcome: Outcome) -> Iterator[str]:
    yield "## Where this comes from"
    rows = [["Flow run", code(outcome.run)]]
    if outcome.plan:
        plan = outcome.plan
        rows += [
            ["Plan", f"{code(plan.id)}, revision {plan.revision}, made {moment(plan.created_at)} UTC"],
            ["Hash of the plan", code(plan.hash)],
            ["Hash of the revision before", code(plan.parent or "")],
            ["Hash of the mandate", code(plan.mandate_hash)],
        ]
    if outcome.verdict:
        rows += [["Hash of the orders", code(outcome.verdict.proposal_hash)]]
        rows += [["Hash of the situation", code(outcome.verdict.situation_hash)]]
    rows += [["Snapshots", "<br>".join(code(each) for each in outcome.snapshots)]]
    rows += [["Spent on language models", f"{price_of(outcome.usd)} USD"]]
    yield table(("What", "Which"), [row for row in rows if row[1]])
