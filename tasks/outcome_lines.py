"""The lines of an outcome as the page and the terminal show them: its steps, its largest moves, its orders in short."""

from collections.abc import Sequence
from decimal import Decimal

from tasks.figures import age, moment, sum_of
from tasks.outcome import Outcome, StepLine, WeightLine, is_forecast


def circumstances(outcome: Outcome) -> str:
    """Return whose run it was, where, when, and how long it took."""
    account = f"account {outcome.account} at " if outcome.account else ""  # a run may fail before it knows
    took = age(outcome.ended_at - outcome.as_of)
    return f"{outcome.mandate}: {account}broker {outcome.broker}, {moment(outcome.as_of)} UTC, took {took}"


def lineage(outcome: Outcome) -> str:
    """Return which revision this is and why it was made; nothing for a first one."""
    if outcome.plan is None or outcome.plan.revision == 1:
        return ""
    return f"revision {outcome.plan.revision}, in place of {outcome.plan.revision - 1}: {outcome.cause}"


def step_lines(outcome: Outcome) -> tuple[StepLine, ...]:
    """Return how each step of the plan went, in its order; what the run never came to was not run."""
    went = {line.step: line for line in outcome.steps}
    planned = outcome.plan.in_order if outcome.plan else ()
    lines = [went.pop(step.id, StepLine(step=step.id, tool=step.tool, state="not run", message="")) for step in planned]
    return (*lines, *went.values())


def most_changed(weights: Sequence[WeightLine], most: int) -> list[WeightLine]:
    """Return at most so many lines, those furthest from target before the run; the largest target comes first."""
    chosen = sorted(weights, key=lambda line: (-abs(line.target - line.before), line.symbol))[:most]
    return sorted(chosen, key=lambda line: (-line.target, -line.after, line.symbol))


def after(outcome: Outcome) -> str:
    """Return what the figures after the run are to be called."""
    return "if all fill" if is_forecast(outcome.state, dry_run=outcome.dry_run) else "after"


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
