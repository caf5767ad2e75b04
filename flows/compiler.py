"""The compiler: a plan becomes a dynamic graph of Prefect task runs, independent steps side by side."""

from collections.abc import Callable, Mapping

from prefect.futures import PrefectFuture, wait

from tasks.carry_out import StepResult
from tasks.compiled import compile_plan
from tasks.desk import Desk
from tasks.freshness import Result
from tasks.plan import Plan, Step
from tasks.prefect_tasks import step_task


def carry_out_plan(
    plan: Plan, desk: Desk, tell: Callable[[Step, StepResult], None]
) -> tuple[dict[str, PrefectFuture[Result]], dict[str, str]]:
    """Run the plan's steps in dependency order, and `tell` of each result as it comes.

    Returns each step's future, ended, and why those that failed did.
    """
    steps = {step.id: step for step in plan.steps}
    futures: dict[str, PrefectFuture[Result]] = {}
    for node in compile_plan(plan, desk.catalog, desk.mandate.account):
        if node.name in steps:
            step = steps[node.name]
            inputs = {name: futures[source] for name, source in step.inputs.items()}
            futures[step.id] = step_task(desk, step, node, tell).submit(**inputs)
    wait(list(futures.values()))
    return futures, _failures(futures)


def _failures(futures: Mapping[str, PrefectFuture[Result]]) -> dict[str, str]:
    found = {}
    for step, future in futures.items():
        if future.state.is_failed() or future.state.is_crashed():
            error = future.state.result(raise_on_failure=False)
            found[step] = str(error) if isinstance(error, Exception) else future.state.message or "failed"
    return found
