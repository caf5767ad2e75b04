"""The rebalance: plan, carry out, verify, submit, report."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.futures import PrefectFuture
from prefect.runtime import flow_run
from prefect.states import Completed, Failed

from blocks.clock import wall
from blocks.errors import BrokerError, MarketError, StalePlan, TradewrightError
from blocks.places import home
from flows.compiler import carry_out_plan
from flows.job import Asked, Job, opened
from flows.reporting import failed_outcome, finish, outcome_of
from flows.world import World, open_world
from tasks.compiled import compile_plan
from tasks.finishing import inspect_rest
from tasks.intents import Intent, commit, committed, withdraw
from tasks.lease import renew
from tasks.outcome import GOOD, Outcome
from tasks.prefect_tasks import say, submit_task, verify_task
from tasks.reconciliation import settle_earlier
from tasks.verification.gate import Inspection


def _name() -> str:
    asked = flow_run.parameters
    year, week, _ = (asked.get("as_of") or wall()).isocalendar()
    return f"rebalance {Path(asked['mandate']).stem} {year}-W{week:02d} {asked['broker']}"


@flow(name="rebalance", flow_run_name=_name, persist_result=False, retries=0)
def rebalance(
    mandate: str,
    as_of: datetime | None = None,
    broker: Literal["paper", "ib"] = "paper",
    planner: Literal["rules", "model"] = "rules",
    dry_run: bool = False,
) -> State[Any]:
    """Rebalance one account to its mandate.

    Requires: the mandate's TOML file on this machine, prices in the store (the sample set is always there), and
    TRADEWRIGHT_HOME the same wherever the flow runs. Retrying re-runs what failed or expired; no order is placed twice.
    """
    run, world = str(flow_run.get_id()), open_world(home())
    asked = Asked(mandate, as_of, broker, planner, dry_run)
    try:
        with opened(world, run, asked) as job:
            outcome = _outcome(job)
            finish(world.ledger, outcome)
    except TradewrightError as error:
        outcome = failed_outcome(world.ledger, run, asked, str(error))
    _publish(world)
    return _state(outcome)


def _publish(world: World) -> None:
    """Bring the notebook's views up to date; a run that has traded does not fail for them."""
    try:
        world.store.publish()
    except MarketError as error:
        say("the views for notebooks stay as they were: %s", error)


def _state(outcome: Outcome) -> State[Any]:
    if outcome.state in GOOD:
        return Completed(name=outcome.state.capitalize(), message=outcome.message)
    return Failed(name=outcome.state.capitalize(), message=outcome.message)


def _outcome(job: Job) -> Outcome:
    try:
        return _carried_out(job)
    except StalePlan as error:
        return outcome_of(job, state="stale", message=str(error))
    except TradewrightError as error:
        return outcome_of(job, state="failed", message=str(error))


def _carried_out(job: Job) -> Outcome:
    desk, now = job.desk, job.desk.now
    say("%s, account %s, as of %s", desk.mandate.objective, desk.mandate.account, f"{job.started:%Y-%m-%d %H:%M} UTC")
    before = committed(desk.ledger, job.plan)
    if before:
        return _finished(job, before)
    unknown = asyncio.run(settle_earlier(desk.ledger, job.broker, desk.mandate.account, desk.broker, now()))
    if unknown:
        refs = ", ".join(intent.order_ref for intent in unknown)
        raise BrokerError(f"the broker does not say what became of {refs}: nothing is sent until that is known")
    futures, failures = carry_out_plan(job.plan, desk)
    if failures:
        step, reason = next(iter(failures.items()))
        return outcome_of(job, state="failed", message=f"step {step} failed: {reason}")
    verified = _verified(job, futures)
    inspection = verified.result()
    if not inspection.passes or not inspection.proposal.orders or job.dry_run:
        return outcome_of(job, inspection=inspection)
    renew(desk.ledger, desk.mandate.account, desk.run, wall())
    intents = commit(desk.ledger, job.plan, inspection, desk.mandate, desk.broker, now())
    return _submitted(job, inspection, intents, after=[verified])


def _verified(job: Job, futures: Mapping[str, Any]) -> PrefectFuture[Inspection]:
    node = compile_plan(job.plan, job.desk.catalog, job.desk.mandate.account)[-2]
    return verify_task(job.looking_again(), job.plan, node).submit(results=dict(futures))


def _submitted(
    job: Job, inspection: Inspection, intents: tuple[Intent, ...], after: Sequence[PrefectFuture[Inspection]] = ()
) -> Outcome:
    node = compile_plan(job.plan, job.desk.catalog, job.desk.mandate.account)[-1]
    future = submit_task(job.desk, job.broker, intents, node).submit(wait_for=list(after))
    future.wait()
    error = future.state.result(raise_on_failure=False)
    broken = str(error) if isinstance(error, Exception) else ""
    return outcome_of(job, inspection=inspection, intents=intents, broken=broken)


def _finished(job: Job, intents: tuple[Intent, ...]) -> Outcome:
    """Finish the orders an earlier attempt committed to: exactly those; what the gate no longer allows is given up."""
    say("an earlier attempt committed to %d orders: finishing exactly those", len(intents))
    inspection = asyncio.run(inspect_rest(job.desk, job.broker, job.plan, intents))
    if inspection.proposal.orders and not inspection.passes:
        withdraw(job.desk.ledger, intents, "not sent: the gate refused it when the run was retried")
    return _submitted(job, inspection, intents)
