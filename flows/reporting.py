"""Report a run: its outcome into the ledger, its pictures and tables into the Prefect UI."""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from prefect.artifacts import create_markdown_artifact

from blocks.brokers.port import Fill, Order
from blocks.clock import wall
from blocks.ledger import Ledger
from blocks.models.budget import spent
from flows.asked import Asked
from flows.beginning import plan_id
from flows.job import Job
from tasks.intents import Intent
from tasks.outcome import Outcome, RunState, is_forecast
from tasks.report import run_markdown
from tasks.summing_up import (
    as_drift,
    ending,
    fills_of,
    notes,
    proposed_lines,
    step_lines,
    submitted_lines,
    weight_lines,
)
from tasks.verification.gate import Inspection


def outcome_of(
    job: Job,
    *,
    inspection: Inspection | None = None,
    intents: Sequence[Intent] = (),
    broken: str = "",
    state: RunState | None = None,
    message: str = "",
) -> Outcome:
    """Sum a job up; without an inspection it got no further than its steps.

    `broken` says what ended its submission; `state` and `message` say how it ended where its orders do not.
    """
    facts: dict[str, Any] = {} if inspection is None else _facts(job, inspection, intents, state)
    if state:
        facts |= {"state": state, "message": message}
    if broken:
        facts["message"] = f"submission broke off: {broken}; {facts['message']}"
    desk = job.desk
    return Outcome(
        run=desk.run, mandate=job.name, account=desk.mandate.account, broker=desk.broker,
        currency=desk.mandate.base_currency, dry_run=job.dry_run, as_of=job.started, ended_at=desk.now(), plan=job.plan,
        cause=job.asked["cause"], usd=spent(desk.ledger, job.plan.id),
        steps=step_lines(desk.ledger, desk.run, job.plan), **facts,
    )  # fmt: skip


def _facts(job: Job, inspection: Inspection, intents: Sequence[Intent], known: RunState | None) -> dict[str, Any]:
    """Return the figures of a run: after what has filled, or, for a forecast, as if every order did at its limit.

    `known` is the state it ended in where its orders do not say so.
    """
    ledger, situation, proposal = job.desk.ledger, inspection.situation, inspection.proposal
    lines = submitted_lines(ledger, intents) if intents else proposed_lines(job.plan, proposal)
    state, message = ending(inspection, lines, dry_run=job.dry_run)
    drift = as_drift(situation)
    fills = [fill for fill in fills_of(ledger, intents) if fill.exec_id not in inspection.counted]
    cash = situation.account.cash.get(job.desk.mandate.base_currency, Decimal(0))
    trades: list[tuple[Fill | Order, Decimal, Decimal]] = [(fill, fill.price, fill.commission) for fill in fills]
    if is_forecast(known or state, dry_run=job.dry_run):
        trades = [(order, order.limit, Decimal(0)) for order in proposal.orders]
    flow = sum(
        ((1 if each.side == "sell" else -1) * each.quantity * price - cost for each, price, cost in trades), Decimal(0)
    )
    return {
        "state": state, "message": message, "equity": drift.equity,
        "weights": weight_lines(situation, drift, [each for each, *_ in trades]),
        "cash_before": cash, "cash_after": cash + flow, "orders": lines, "skipped": proposal.skipped,
        "verdict": inspection.verdict, "reasons": (*proposal.reasons, *inspection.stale),
        "notes": tuple(notes(situation, proposal)), "snapshots": inspection.snapshots,
    }  # fmt: skip


def failed_outcome(ledger: Ledger, run: str, asked: Asked, message: str) -> Outcome:
    """Sum up a run that ended before its steps, or outside of them; by its own clock, from which a retry goes on."""
    begun = ledger.get("run", run)
    moment = datetime.fromisoformat(begun.body["as_of"]) if begun else asked.as_of or wall()
    return Outcome(
        run=run, state="failed", message=message, mandate=Path(asked.mandate).stem, account="", broker=asked.broker,
        currency="", dry_run=asked.dry_run, as_of=moment, ended_at=moment, plan=None,
        usd=spent(ledger, plan_id(run)),
    )  # fmt: skip


def failed_replan(ledger: Ledger, run: str, plan: str, revision: int, message: str) -> Outcome:
    """Sum up a replan that came to no revision, or was not let at its account."""
    entry = ledger.get("plan", f"{plan}/{revision}")
    begun = ledger.get("run", run) or (entry and ledger.get("run", entry.body["run"]))
    unknown = {"mandate": plan, "account": "", "broker": "", "dry_run": False, "as_of": wall().isoformat()}
    body: dict[str, Any] = begun.body if begun else unknown
    moment = datetime.fromisoformat(body["as_of"])
    return Outcome(
        run=run, state="failed", message=message, mandate=body["mandate"], account=body["account"],
        broker=body["broker"], currency="", dry_run=body["dry_run"], as_of=moment, ended_at=moment, plan=None,
        usd=spent(ledger, plan),
    )  # fmt: skip


def record(ledger: Ledger, outcome: Outcome) -> None:
    """Write an outcome down; the newest of a run is what counts."""
    ledger.append("outcome", outcome.model_dump(mode="json"), subject=outcome.run)


def finish(ledger: Ledger, outcome: Outcome) -> None:
    """Write the outcome down, and show it on the flow run's page."""
    record(ledger, outcome)
    key = f"rebalance-{_slug(outcome.mandate)}"
    create_markdown_artifact(run_markdown(outcome), key=key, description=f"{outcome.state}: {outcome.message}")


def _slug(name: str) -> str:
    """Return a name as an artifact's key may be: lowercase letters, digits and dashes."""
    letters = [letter if letter.isascii() and letter.isalnum() else "-" for letter in name.lower()]
    return "".join(letters).strip("-") or "mandate"
