"""What Prefect sees: a task run for each step, one for the gate, one for submission. Each calls one plain function."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import UUID

import httpx
from prefect import Task, get_run_logger
from prefect.artifacts import acreate_progress_artifact, aupdate_progress_artifact
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State, TaskRun
from prefect.states import Completed

from blocks.brokers.port import Broker
from blocks.errors import BrokerUnavailable
from blocks.ledger import Ledger
from tasks.carry_out import StepResult, carry_out
from tasks.compiled import Node
from tasks.desk import Desk
from tasks.finishing import see_through
from tasks.freshness import Result
from tasks.intents import Intent
from tasks.plan import Plan, Step
from tasks.summing_up import how_far
from tasks.verification.gate import Inspection, inspect
from tasks.window import Wait

_Logger = logging.Logger | logging.LoggerAdapter[logging.Logger]


def say(message: str, *values: object) -> None:
    """Log a line of ours in the run's log; the terminal shows these and not Prefect's own."""
    logger: _Logger = get_run_logger()
    logger.info(message, *values, extra={"tradewright": True})


def _task(node: Node, function: Any, **options: Any) -> Task[..., Any]:
    """Make a task that is named and tagged as compiled. Nothing is cached or pickled: the ledger is the cache."""
    return Task(
        function, name=node.name, task_run_name=node.name, tags=set(node.tags), retries=node.retries,
        cache_policy=NO_CACHE, persist_result=False, **options,
    )  # fmt: skip


def step_task(desk: Desk, step: Step, node: Node, tell: Callable[[Step, StepResult], None]) -> Task[..., Any]:
    """Return the task of one step; its inputs are the results of the steps before. It is to `tell` of its result."""

    def run_step(**inputs: Result) -> Any:
        found = asyncio.run(carry_out(desk, step, inputs))
        say("%s: %s", step.id, found.message)
        tell(step, found)
        if found.reused:
            text = f"{found.message}; good until {found.expires_at:%H:%M:%S} UTC"
            return Completed(name="Reused", message=text, data=found)
        return found

    return _task(node, run_step, retry_delay_seconds=[1, 5], retry_condition_fn=_might_answer_now)


def _might_answer_now(_task: Task[..., Any], _run: TaskRun, state: State[Any]) -> bool:
    return isinstance(state.result(raise_on_failure=False), BrokerUnavailable)


def verify_task(desk: Desk, plan: Plan, node: Node) -> Task[..., Any]:
    """Return the gate's task: it looks at the world itself."""

    def run_gate(results: Mapping[str, StepResult]) -> Any:
        inspection = asyncio.run(inspect(desk, plan, results))
        held = sum(check.held for check in inspection.verdict.checks)
        say("verify: %d of %d checks held", held, len(inspection.verdict.checks))
        for reason in (*inspection.verdict.reasons, *inspection.stale):
            say("verify: %s %s: %s", reason.check, reason.symbol, reason.reason)
        message = f"{held} of {len(inspection.verdict.checks)} checks held"
        return Completed(name=_word(inspection), message=message, data=inspection)

    return _task(node, run_gate)


def _word(inspection: Inspection) -> str:
    if inspection.stale:
        return "Stale"
    return "Approved" if inspection.passes else "Rejected"


def submit_task(
    look_again: Callable[[], Desk],
    broker: Broker,
    plan: Plan,
    intents: Sequence[Intent],
    inspection: Inspection,
    node: Node,
) -> Task[..., Any]:
    """Return the submission task: the only one that is given a broker. Never retried by itself."""

    def run_submission() -> Inspection:
        say("submit: %d orders to the %s broker", len(intents), intents[0].broker)
        wait = _showing_progress(look_again().ledger, plan, intents)
        return asyncio.run(see_through(look_again, broker, plan, intents, inspection, wait, say))

    return _task(node, run_submission)


def _showing_progress(ledger: Ledger, plan: Plan, intents: Sequence[Intent]) -> Wait:
    """Return what waits while orders work, and shows on the run's page how far they have come."""
    shown: tuple[UUID | None, str] = None, ""

    async def wait(seconds: float) -> None:
        nonlocal shown
        (artifact, before), (per_cent, words) = shown, how_far(ledger, intents)
        try:
            if artifact is None:
                artifact = await acreate_progress_artifact(float(per_cent), f"orders-{plan.id}-{plan.revision}", words)
            elif words != before:
                await aupdate_progress_artifact(artifact, float(per_cent), words)
            shown = artifact, words
        except httpx.HTTPError as error:  # a page that cannot be written is no reason to leave orders alone
            say("submit: %s (not shown on the page: %s)", words, type(error).__name__)
        await asyncio.sleep(seconds)

    return wait
