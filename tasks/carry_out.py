"""Carry out one step: find a result that is still fresh, or call the tool with exactly its inputs and doors."""

import inspect
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from blocks.canonical import digest
from tasks.desk import Desk
from tasks.freshness import Result, expiry
from tasks.plan import Step
from tasks.results import alive, fresh_result, keep
from tasks.situation import Account
from tasks.tool import Tool
from tasks.wording import in_words


class StepResult(Result):
    """A result, and how this run came by it."""

    step: str
    reused: bool
    message: str


async def carry_out(desk: Desk, step: Step, inputs: Mapping[str, Result]) -> StepResult:
    """Return the step's result, from the ledger if it is still fresh there; what happened is recorded either way."""
    tool = desk.catalog.tools[step.tool]
    try:
        found = await _result(desk, tool, step, inputs)
    except Exception as error:
        _record(desk, step, "failed", None, f"{type(error).__name__}: {error}")
        raise
    _record(desk, step, "reused" if found.reused else "done", found, found.message)
    return found


async def _result(desk: Desk, tool: Tool, step: Step, inputs: Mapping[str, Result]) -> StepResult:
    params = tool.params.model_validate(step.params, context={"universe": desk.mandate.universe})
    key = await _reuse_key(desk, tool, params, inputs)
    known = fresh_result(desk.ledger, desk.store, key, desk.now())
    reused = known is not None
    result = known or await _work(desk, tool, params, inputs, key)
    message = in_words(alive(desk.store, result), desk.mandate)
    return StepResult(**result.model_dump(), step=step.id, reused=reused, message=message)


async def _work(desk: Desk, tool: Tool, params: BaseModel, inputs: Mapping[str, Result], key: str) -> Result:
    began = desk.now()
    value = _recorded(desk, await _called(desk, tool, params, inputs))
    as_of = getattr(value, "as_of", began)
    expires_at = expiry(desk.mandate.freshness, tool.freshness, as_of, inputs.values())
    sources = {name: source.id for name, source in inputs.items()}
    return keep(desk.ledger, value, tool=tool, key=key, expires_at=expires_at, as_of=as_of, sources=sources)


async def _called(desk: Desk, tool: Tool, params: BaseModel, inputs: Mapping[str, Result]) -> BaseModel:
    given: dict[str, Any] = {name: alive(desk.store, inputs[name]) if name in inputs else None for name in tool.inputs}
    given |= {name: desk.doors[capability] for name, capability in tool.doors.items()}
    given |= {name: value for name, value in (("mandate", desk.mandate), ("now", desk.now())) if name in tool.wants}
    if "params" in inspect.signature(tool.function).parameters:
        given["params"] = params
    value = tool.function(**given)
    found = await value if inspect.isawaitable(value) else value
    return tool.result.model_validate(found)


def _recorded(desk: Desk, value: BaseModel) -> BaseModel:
    """Put what an account door answered into the store; the market door has done so itself."""
    if not isinstance(value, Account):
        return value
    return value.model_copy(update={"snapshot": desk.store.put_account(desk.broker, value.state, value.open_orders)})


async def _reuse_key(desk: Desk, tool: Tool, params: BaseModel, inputs: Mapping[str, Result]) -> str:
    """Return what a result depends on, so that a changed world, mandate, account or broker never finds an old one."""
    revisions = {}
    for name, capability in tool.doors.items():
        revision = desk.doors[capability].revision()
        revisions[name] = await revision if inspect.isawaitable(revision) else revision
    sources = {name: result.id for name, result in inputs.items()}
    account = [desk.mandate.hash, desk.mandate.account, desk.broker]
    return digest([tool.name, params.model_dump(mode="json"), sources, revisions, *account])


def _record(desk: Desk, step: Step, state: str, result: StepResult | None, message: str) -> None:
    body = {"step": step.id, "tool": step.tool, "state": state, "result": result and result.id, "message": message}
    times = {"as_of": result and result.as_of, "expires_at": result and result.expires_at}
    desk.ledger.append("step", body | times, subject=desk.run)
