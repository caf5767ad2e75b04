"""The pipeline of every run, first revision or later: carry out, verify, ask a person, submit, report."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from prefect.client.schemas.objects import State
from prefect.futures import PrefectFuture
from prefect.settings import PREFECT_UI_URL
from prefect.states import Completed, Failed

from blocks.clock import wall
from blocks.errors import BrokerError, MarketError, NothingToReplan, StalePlan, TradewrightError
from flows import events
from flows.approval import refusal
from flows.compiler import carry_out_plan
from flows.job import Job, opened
from flows.reporting import finish, outcome_of
from flows.world import World
from tasks.approval import is_needed
from tasks.carry_out import StepResult
from tasks.compiled import compile_plan
from tasks.finishing import inspect_rest
from tasks.intents import Intent, commit, committed
from tasks.lease import renew
from tasks.outcome import GOOD, Outcome
from tasks.plan import Step
from tasks.prefect_tasks import say, submit_task, verify_task
from tasks.reconciliation import settle_earlier
from tasks.revisions import superseded_by
from tasks.verification.gate import Inspection


def carried_through(
    world: World,
    run: str,
    begin: Callable[[], None],
    failed: Callable[[str], Outcome],
    then: Callable[[Job], None] = lambda _: None,
) -> State[Any]:
    """Carry a run out from wherever it stands, and return the state it ends in.

    `begin` records a run that is new, `failed` sums up one that comes to no job, `then` is called once the job is ours.
    Raises NothingToReplan where `begin` does.
    """
    try:
        with opened(world, run, begin) as job:
            then(job)
            outcome = _outcome(job)
            finish(world.ledger, outcome)
    except NothingToReplan:
        raise
    except TradewrightError as error:
        outcome = failed(str(error))
        finish(world.ledger, outcome)
    else:
        _tell(job, outcome)  # with the lease given back: whoever hears of it may need the account
    _publish(world)
    return _state(outcome)


def _tell(job: Job, outcome: Outcome) -> None:
    desk = job.desk
    events.orders_moved(job.asked, (line for line in outcome.orders if line.state not in {"proposed", "intended"}))
    events.results_settled(job.asked, desk.catalog, desk.mandate.freshness, job.plan)
    events.plan_closed(job.asked, outcome, f"{PREFECT_UI_URL.value() or ''}/runs/flow-run/{outcome.run}")
    if (
        outcome.state == "stale"
        and not job.dry_run
        and superseded_by(desk.ledger, job.plan.id, job.plan.revision) is None
    ):
        events.plan_stale(job.asked, outcome.message)


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
        newer = superseded_by(job.desk.ledger, job.plan.id, job.plan.revision)
        return outcome_of(job, state="stale" if newer else "failed", message=str(error))


def _carried_out(job: Job) -> Outcome:
    desk, now = job.desk, job.desk.now
    say("%s, account %s, as of %s", desk.mandate.objective, desk.mandate.account, f"{job.started:%Y-%m-%d %H:%M} UTC")
    _refuse_if_superseded(job)
    before = committed(desk.ledger, job.plan)
    if before:
        return _finished(job, before)
    unknown = asyncio.run(settle_earlier(desk.ledger, job.broker, desk.mandate.account, desk.broker, now()))
    if unknown:
        refs = ", ".join(intent.order_ref for intent in unknown)
        raise BrokerError(f"the broker does not say what became of {refs}: nothing is sent until that is known")
    futures, failures = carry_out_plan(job.plan, desk, _teller(job))
    if failures:
        step, reason = next(iter(failures.items()))
        return outcome_of(job, state="failed", message=f"step {step} failed: {reason}")
    verified = _verified(job, futures)
    inspection = verified.result()
    if not inspection.passes or not inspection.proposal.orders or job.dry_run:
        return outcome_of(job, inspection=inspection)
    if is_needed(desk.mandate, inspection.proposal):
        refused = refusal(job, inspection)
        if refused:
            return outcome_of(job, inspection=inspection, state="rejected", message=refused)
    return _committed_to(job, inspection, verified)


def _committed_to(job: Job, inspection: Inspection, verified: PrefectFuture[Inspection]) -> Outcome:
    desk = job.desk
    _refuse_if_superseded(job)
    renew(desk.ledger, desk.mandate.account, desk.run, wall())
    intents = commit(desk.ledger, job.plan, inspection, desk.mandate, desk.broker, desk.now())
    return _submitted(job, inspection, intents, after=[verified])


def _refuse_if_superseded(job: Job) -> None:
    newer = superseded_by(job.desk.ledger, job.plan.id, job.plan.revision)
    if newer:
        raise StalePlan(f"revision {newer} of plan {job.plan.id} has replaced this one: nothing is sent")


def _teller(job: Job) -> Callable[[Step, StepResult], None]:
    """Return what tells of each step's result as it comes."""
    desk = job.desk

    def tell(step: Step, found: StepResult) -> None:
        events.result_recorded(job.asked, desk.catalog, desk.mandate.freshness, step, found)

    return tell


def _verified(job: Job, futures: Mapping[str, Any]) -> PrefectFuture[Inspection]:
    node = compile_plan(job.plan, job.desk.catalog, job.desk.mandate.account)[-2]
    return verify_task(job.looking_again(), job.plan, node).submit(results=dict(futures))


def _submitted(
    job: Job, inspection: Inspection, intents: tuple[Intent, ...], after: Sequence[PrefectFuture[Inspection]] = ()
) -> Outcome:
    node = compile_plan(job.plan, job.desk.catalog, job.desk.mandate.account)[-1]
    task = submit_task(job.looking_again, job.broker, job.plan, intents, inspection, node)
    future = task.submit(wait_for=list(after))
    future.wait()
    found = future.state.result(raise_on_failure=False)
    if isinstance(found, Exception):
        return outcome_of(job, inspection=inspection, intents=intents, broken=str(found))
    return outcome_of(job, inspection=found, intents=intents)


def _finished(job: Job, intents: tuple[Intent, ...]) -> Outcome:
    """Finish the orders an earlier attempt committed to: exactly those; what the gate no longer allows is given up."""
    say("an earlier attempt committed to %d orders: finishing exactly those", len(intents))
    return _submitted(job, asyncio.run(inspect_rest(job.desk, job.broker, job.plan, intents)), intents)
