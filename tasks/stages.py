"""The two stages that follow every plan, verify and submit: how each rule came out, and what became of the orders."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from tasks.figures import statement
from tasks.outcome import Outcome, StepState
from tasks.verification.verdict import Check


class Stage(NamedTuple):
    """One box of the tail that follows every plan, such as verify, and what became of it."""

    name: str
    state: StepState
    words: str


class RuleLine(NamedTuple):
    """One rule of the gate: the places where it failed, and those where it held."""

    rule: str
    failed: tuple[Check, ...]
    held: tuple[Check, ...]


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
