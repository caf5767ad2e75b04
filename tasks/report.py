"""The page a run leaves behind: one markdown document with pictures and tables."""

import html
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from decimal import Context, Decimal
from typing import NamedTuple

from blocks.values import money, plain
from tasks.outcome import OrderLine, Outcome, StepLine
from tasks.pictures import Stage, age, data_uri, plan_picture, readable, weights_picture
from tasks.situation import Skipped
from tasks.verification.verdict import Check

FEW = 3
"""So many symbols skipped for one kind of reason are shown with all figures; more are folded into one line."""

_SIX_DIGITS = Context(prec=6)
_MARKUP = re.compile(r"[\\`*_{}\[\]|~#$]")
_LINK = re.compile(r"(?<=:)//|(?<=[wW]{3})\.|@")
_OPENING = re.compile(r"^(?:(\d+)(?=[.)])|(?=[-+=]))")
_FIGURES = re.compile(r"\d[\d.,]*")


class SkippedKind(NamedTuple):
    """Symbols that are not traded for one kind of reason."""

    reason: str
    skipped: tuple[Skipped, ...]


class RuleLine(NamedTuple):
    """One rule of the gate: the places where it failed, and those where it held."""

    rule: str
    failed: tuple[Check, ...]
    held: tuple[Check, ...]


def sum_of(value: Decimal) -> str:
    """Write a sum of money to the cent, its thousands apart."""
    return _without_minus_zero(f"{value:,.2f}")


def price_of(value: Decimal) -> str:
    """Write a price, its thousands apart, with at least two decimals and none lost."""
    whole, _, cents = money(value).partition(".")
    return f"{Decimal(whole):,}.{cents}"


def average_of(value: Decimal) -> str:
    """Write the average of several prices, which may never end, to six digits or four decimals."""
    return price_of(round(value, 4) if value >= 100 else _SIX_DIGITS.plus(value))


def quantity_of(value: Decimal) -> str:
    """Write a number of shares, its thousands apart."""
    whole, dot, part = plain(value).partition(".")
    return f"{Decimal(whole):,}{dot}{part}"


def per_cent(weight: Decimal) -> str:
    """Write a weight in per cent, with two decimals."""
    return _without_minus_zero(f"{weight * 100:.2f}")


def _without_minus_zero(figure: str) -> str:
    return figure if figure.strip("-0.") else figure.removeprefix("-")


def moment(at: datetime, day: datetime | None = None) -> str:
    """Write a moment in UTC to the second, without its date where that is the day's."""
    at = at.astimezone(UTC)
    return f"{at:%H:%M:%S}" if day and at.date() == day.date() else f"{at:%Y-%m-%d %H:%M:%S}"


def statement(rule: str) -> str:
    """Return a rule's name as the statement it makes."""
    return readable(rule.replace("_", " "))


def step_lines(outcome: Outcome) -> tuple[StepLine, ...]:
    """Return how each step of the plan went, in its order; what the run never came to was not run."""
    went = {line.step: line for line in outcome.steps}
    planned = outcome.plan.in_order if outcome.plan else ()
    lines = [went.pop(step.id, StepLine(step=step.id, tool=step.tool, state="not run", message="")) for step in planned]
    return (*lines, *went.values())


def rule_lines(checks: Iterable[Check]) -> list[RuleLine]:
    """Return one line for each rule, those that failed first."""
    by_rule: dict[str, list[Check]] = defaultdict(list)
    for check in checks:
        by_rule[check.check].append(check)
    lines = [
        RuleLine(rule, tuple(check for check in group if not check.held), tuple(check for check in group if check.held))
        for rule, group in by_rule.items()
    ]
    return sorted(lines, key=lambda line: not line.failed)


def skipped_kinds(skipped: Iterable[Skipped]) -> list[SkippedKind]:
    """Group what is not traded by its kind of reason: its opening, without the figures."""
    groups: dict[str, list[Skipped]] = defaultdict(list)
    for each in skipped:
        groups[_FIGURES.sub("…", _opening(each.reason))].append(each)
    kinds = [SkippedKind(_common(kind, group), tuple(group)) for kind, group in groups.items()]
    return sorted(kinds, key=lambda kind: -len(kind.skipped))


def _opening(reason: str) -> str:
    return re.split("[:;]", readable(reason), maxsplit=1)[0]


def _common(kind: str, group: Sequence[Skipped]) -> str:
    """Return the opening that all share, its figures too if those are the same."""
    openings = {_opening(each.reason) for each in group}
    return openings.pop() if len(openings) == 1 else kind


def gate(outcome: Outcome) -> tuple[Stage, Stage]:
    """Return what became of the two stages that follow every plan."""
    return _verify_stage(outcome), _submit_stage(outcome)


def _verify_stage(outcome: Outcome) -> Stage:
    if outcome.verdict is None:
        return Stage("verify", "not run", "not run")
    lines = rule_lines(outcome.verdict.checks)
    failed = sum(bool(line.failed) for line in lines)
    if outcome.verdict.approved:
        return Stage("verify", "done", f"{len(lines)} rules held")
    return Stage("verify", "failed", f"{failed} of {len(lines)} rules failed")


def _submit_stage(outcome: Outcome) -> Stage:
    states = Counter(order.state for order in outcome.orders if order.state != "proposed")
    if states:
        bad = not {"dead", "unknown"}.isdisjoint(states)
        words = ", ".join(f"{count} {statement(state)}" for state, count in states.items())
        return Stage("submit", "failed" if bad else "done", words)
    if outcome.state == "waiting":
        return Stage("submit", "not run", "waits for approval")
    if outcome.orders and outcome.dry_run:
        return Stage("submit", "not run", "dry run")
    return Stage("submit", "not run", "nothing to send" if outcome.state in {"held", "completed"} else "nothing sent")


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


def _headline(outcome: Outcome) -> Iterator[str]:
    yield f"# Rebalance {outcome.state}{', dry run' if outcome.dry_run else ''}"
    yield f"**{_text(outcome.message) or 'no message'}**"
    sums = (outcome.equity, outcome.cash_before, outcome.cash_after)
    words = (_text(word) for word in (outcome.mandate, outcome.account, outcome.broker))
    moments = (moment(outcome.as_of), moment(outcome.ended_at, outcome.as_of))
    figures = ("" if value is None else f"{sum_of(value)} {_text(outcome.currency)}" for value in sums)
    heads = ("Mandate", "Account", "Broker", "As of, UTC", "Ended", ">Managed equity", ">Cash before", ">Cash after")
    yield _table(heads, [[*words, *moments, *figures]])


def _why_not(outcome: Outcome) -> Iterator[str]:
    if outcome.reasons:
        yield "## Why there are no orders" if not outcome.orders else "## What went wrong"
        rows = [[_text(statement(each.check)), _text(each.symbol), _text(each.reason)] for each in outcome.reasons]
        yield _table(("Rule", "Symbol", "Reason"), rows)


def _plan(outcome: Outcome) -> Iterator[str]:
    yield "## Plan"
    if outcome.plan is None:
        yield "No plan was made."
    else:
        yield f"Objective: {_text(outcome.plan.objective)}"
        picture = plan_picture(outcome.plan, outcome.steps, gate(outcome), outcome.ended_at)
        yield f"![The plan, and how its steps went]({data_uri(picture)})"
    lines = step_lines(outcome)
    if lines:
        heads = ("Step", "Tool", "State", "Found", ">As of, UTC", ">Age", ">Valid until")
        yield _table(heads, [_step_row(line, outcome) for line in lines])


def _step_row(line: StepLine, outcome: Outcome) -> list[str]:
    now, day = outcome.ended_at, outcome.as_of
    state = f"**{line.state}**" if line.state == "failed" else line.state
    until = "" if line.expires_at is None else moment(line.expires_at, day)
    return [
        _text(line.step), _text(line.tool), state, _text(line.message),
        *(("", "") if line.as_of is None else (moment(line.as_of, day), age(now - line.as_of))),
        f"{until}, expired" if line.expires_at and line.expires_at < now else until,
    ]  # fmt: skip


def _weights(outcome: Outcome) -> Iterator[str]:
    if outcome.weights:
        yield "## Weights"
        yield f"![Weights before, target and after]({data_uri(weights_picture(outcome.weights))})"


def _orders(outcome: Outcome) -> Iterator[str]:
    yield "## Orders"
    if not outcome.orders:
        yield "No orders."
        return
    ordered = ("Side", ">Quantity", "Symbol", ">Limit", "State", ">Filled", ">Average price", ">Commission")
    yield _table((*ordered, "Reference"), [_order_row(order) for order in outcome.orders])
    yield _text(orders_in_short(outcome))
    messages = [f"- {_line(order.symbol)}: {_text(order.message)}" for order in outcome.orders if order.message]
    yield from ["\n".join(messages)] if messages else []


def _order_row(order: OrderLine) -> list[str]:
    price = "" if order.price is None else average_of(order.price)
    return [
        order.side, quantity_of(order.quantity), _text(order.symbol), price_of(order.limit), statement(order.state),
        quantity_of(order.filled), price, price_of(order.commission), _code(order.order_ref),
    ]  # fmt: skip


def orders_in_short(outcome: Outcome) -> str:
    """Return how many buys and sells there are, what they come to at their limits, and what they cost."""
    parts = []
    for side in ("sell", "buy"):
        notionals = [order.quantity * order.limit for order in outcome.orders if order.side == side]
        if notionals:
            plural = "s" if len(notionals) > 1 else ""
            parts.append(f"{len(notionals)} {side}{plural} of {sum_of(sum(notionals, Decimal(0)))}")
    commission = sum((order.commission for order in outcome.orders), Decimal(0))
    cost = f", commission {sum_of(commission)}" if commission else ""
    return f"{' and '.join(parts)} {outcome.currency} at the limits{cost}"


def _skipped(outcome: Outcome) -> Iterator[str]:
    if outcome.skipped:
        yield f"## Not traded ({len(outcome.skipped)})"
        yield _table(("Symbols", ">Count", "Reason"), list(_skipped_rows(outcome.skipped)))


def _skipped_rows(skipped: Sequence[Skipped]) -> Iterator[list[str]]:
    for kind in skipped_kinds(skipped):
        if len(kind.skipped) > FEW:
            symbols = ", ".join(_text(each.symbol) for each in kind.skipped)
            yield [symbols, str(len(kind.skipped)), _text(kind.reason)]
        else:
            yield from ([_text(each.symbol), "1", _text(each.reason)] for each in kind.skipped)


def _verdict(outcome: Outcome) -> Iterator[str]:
    yield "## Verdict"
    if outcome.verdict is None:
        yield "No verdict: the run did not come to it."
        return
    stage = gate(outcome)[0]
    word = "Approved" if outcome.verdict.approved else "Refused"
    yield f"**{word}**: {stage.words}; valid until {moment(outcome.verdict.expires_at, outcome.as_of)} UTC."
    rows = [row for line in rule_lines(outcome.verdict.checks) for row in _rule_rows(line)]
    yield _table(("Rule", "Symbol", "Held", "Figure", "Limit", "Why not"), rows)


def _rule_rows(line: RuleLine) -> Iterator[list[str]]:
    rule, places = _text(statement(line.rule)), len(line.failed) + len(line.held)
    for check in line.failed:
        yield [rule, _text(check.symbol), "**failed**", _text(check.figure), _text(check.limit), _text(check.reason)]
    if places == 1 and line.held:
        yield [rule, _text(line.held[0].symbol), "held", _text(line.held[0].figure), _text(line.held[0].limit), ""]
    elif line.held:
        limits = {check.limit for check in line.held}
        yield [rule, "", f"{len(line.held)} of {places} held", "", _text(limits.pop()) if len(limits) == 1 else "", ""]


def _notes(outcome: Outcome) -> Iterator[str]:
    if outcome.notes:
        yield "## Notes"
        yield "\n".join(f"- {_line(note)}" for note in outcome.notes)


def _provenance(outcome: Outcome) -> Iterator[str]:
    yield "## Where this comes from"
    rows = [["Flow run", _code(outcome.run)]]
    if outcome.plan:
        plan = outcome.plan
        rows += [
            ["Plan", f"{_code(plan.id)}, revision {plan.revision}, made {moment(plan.created_at)} UTC"],
            ["Hash of the plan", _code(plan.hash)],
            ["Hash of the revision before", _code(plan.parent or "")],
            ["Hash of the mandate", _code(plan.mandate_hash)],
        ]
    if outcome.verdict:
        rows += [["Hash of the orders", _code(outcome.verdict.proposal_hash)]]
        rows += [["Hash of the situation", _code(outcome.verdict.situation_hash)]]
    rows += [["Snapshots", ", ".join(_code(each) for each in outcome.snapshots)]]
    rows += [["Spent on language models", f"{price_of(outcome.usd)} USD"]]
    yield _table(("What", "Which"), [row for row in rows if row[1]])


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table of cells that are markdown already; > in a head aligns right, an empty column is left out."""
    said = [at for at in range(len(heads)) if any(row[at] for row in rows)]
    lines = [
        [heads[at].removeprefix(">") for at in said],
        ["---:" if heads[at].startswith(">") else "---" for at in said],
        *([row[at] for at in said] for row in rows),
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _text(text: str) -> str:
    """Return text of any origin so that markdown shows it as it is: no markup, no HTML, no link."""
    quiet = html.escape(_MARKUP.sub(r"\\\g<0>", readable(text)), quote=False)
    return _LINK.sub(lambda found: "".join(f"&#{ord(each)};" for each in found[0]), quiet)


def _line(text: str) -> str:
    """Return text for the beginning of a line, where a number or a dash would open a list."""
    return _OPENING.sub(lambda found: f"{found[1] or ''}\\", _text(text))


def _code(text: str) -> str:
    """Return an id in the type of a machine; what would end it is left out."""
    plain_id = re.sub(r"[`|]", "", readable(text))
    return f"`{plain_id}`" if plain_id else ""
