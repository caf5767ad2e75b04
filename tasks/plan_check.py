"""Everything wrong that a plan can be: each fault has a stable code, and all are told at once."""

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any

from pydantic import ValidationError

from blocks.mandate import Mandate
from blocks.reading import complaint, nearest
from tasks.catalog import Catalog
from tasks.compiled import GATE
from tasks.plan import MAX_STEPS, MAX_WHY
from tasks.situation import Proposal, Value
from tasks.tool import Tool

_STEP_ID = re.compile(r"[a-z][a-z0-9_-]{0,31}")
_SUBMITS = re.compile(r"submit|place|send|execut|transmit|cancel|trade_|_trade|(^|_)(buy|sell|order)(_|$)")
_KEYS: dict[str, type] = {"id": str, "tool": str, "params": dict, "inputs": dict, "why": str}


class Problem(Value):
    """One thing wrong with a plan: a stable code, the step it concerns (none for the whole), and what to do."""

    code: str
    step: str | None
    message: str


def check(steps: Sequence[Any], mandate: Mandate, catalog: Catalog) -> tuple[Problem, ...]:
    """Return everything wrong with a plan's steps, as they were written; empty means it can be compiled."""
    if not steps:
        return (
            Problem(code="empty-plan", step=None, message="the plan has no steps; at least one has to make a proposal"),
        )
    whole = [step for step in steps if not list(_shape_problems(step))]
    found = [problem for step in steps for problem in _shape_problems(step)]
    found += _count_problems(steps)
    found += [problem for step in whole for problem in _step_problems(step, mandate, catalog)]
    found += [problem for step in whole for problem in _input_problems(step, whole, catalog)]
    found += _graph_problems(whole, catalog)
    return tuple(found)


def _shape_problems(step: Any) -> Iterator[Problem]:
    if not isinstance(step, Mapping):
        yield Problem(
            code="bad-step", step=None, message=f"a step is an object with {_listed(_KEYS)}, not {_short(step)}"
        )
        return
    name = step["id"] if isinstance(step.get("id"), str) else None
    for key, kind in _KEYS.items():
        if key not in step:
            yield Problem(code="bad-step", step=name, message=f"{key}: missing")
        elif not isinstance(step[key], kind):
            yield Problem(code="bad-step", step=name, message=f"{key}: {_short(step[key])} is not {_A[kind]}")
    for key in step:
        if key not in _KEYS:
            yield Problem(
                code="bad-step",
                step=name,
                message=f"{key}: unknown key{nearest(key, _KEYS)}; allowed: {_listed(_KEYS)}",
            )
    inputs = step.get("inputs")
    for key, source in inputs.items() if isinstance(inputs, Mapping) else ():
        if not isinstance(source, str):
            yield Problem(
                code="bad-step", step=name, message=f"inputs.{key}: {_short(source)} is not a step id in quotes"
            )


_A: dict[type, str] = {str: "text in quotes", dict: "an object"}


def _listed(words: Mapping[str, object]) -> str:
    return ", ".join(words)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _count_problems(steps: Sequence[Any]) -> Iterator[Problem]:
    if len(steps) > MAX_STEPS:
        yield Problem(code="too-many-steps", step=None, message=f"{len(steps)} steps; at most {MAX_STEPS} are allowed")
    ids = [step["id"] for step in steps if isinstance(step, Mapping) and isinstance(step.get("id"), str)]
    for name in sorted({name for name in ids if ids.count(name) > 1}):
        yield Problem(
            code="duplicate-step", step=name, message=f"{ids.count(name)} steps are called {name!r}; ids are unique"
        )


def _step_problems(step: Mapping[str, Any], mandate: Mandate, catalog: Catalog) -> Iterator[Problem]:
    name, entry = step["id"], catalog.tools.get(step["tool"])
    if not _STEP_ID.fullmatch(name):
        yield Problem(
            code="bad-step-id", step=name, message=f"{name!r}: a step id is [a-z][a-z0-9_-]*, at most 32 characters"
        )
    if name in GATE:
        yield Problem(
            code="bad-step-id",
            step=name,
            message=f"{name!r}: is the name of a task that the gate appends; choose another",
        )
    if len(step["why"]) > MAX_WHY:
        yield Problem(
            code="why-too-long",
            step=name,
            message=f"why has {len(step['why'])} characters; at most {MAX_WHY} are allowed",
        )
    if entry is None:
        yield _no_such_tool(name, step["tool"], catalog)
        return
    try:
        params = entry.params.model_validate(step["params"], context={"universe": mandate.universe})
    except ValidationError as error:
        yield from _params_problems(name, error, entry)
        return
    if entry.check is not None:
        for code, message in entry.check(params, frozenset(step["inputs"]), mandate):
            yield Problem(code=code, step=name, message=message)


def _no_such_tool(step: str, tool: str, catalog: Catalog) -> Problem:
    if tool in catalog.refused:
        return Problem(code="capability", step=step, message=f"tool {tool!r} was refused: {catalog.refused[tool]}")
    close = difflib.get_close_matches(tool, catalog.tools, n=1, cutoff=0.8)
    if not close and _SUBMITS.search(tool.lower()):
        message = f"{tool!r}: no step can submit, change or cancel an order; the gate does, after the last step"
        return Problem(code="forbidden-tool", step=step, message=message)
    hint = nearest(tool, catalog.tools) or f"; there are: {_listed(catalog.tools)}"
    return Problem(code="unknown-tool", step=step, message=f"there is no tool {tool!r}{hint}")


def _params_problems(step: str, error: ValidationError, entry: Tool) -> Iterator[Problem]:
    faults = error.errors(include_url=False)
    for fault in faults:
        if fault["type"] == "unknown-symbol":
            where = ".".join(str(part) for part in fault["loc"])
            yield Problem(code="unknown-symbol", step=step, message=f"params.{where}: {fault['msg']}")
    if any(fault["type"] != "unknown-symbol" for fault in faults):
        yield Problem(code="bad-params", step=step, message=f"params of {entry.name}: {complaint(error, entry.params)}")


def _input_problems(step: Mapping[str, Any], steps: Sequence[Mapping[str, Any]], catalog: Catalog) -> Iterator[Problem]:
    name, entry = step["id"], catalog.tools.get(step["tool"])
    tool_of = {other["id"]: other["tool"] for other in steps}
    for key, source in step["inputs"].items():
        if source not in tool_of:
            hint = nearest(source, tool_of)
            yield Problem(code="dangling-input", step=name, message=f"inputs.{key}: there is no step {source!r}{hint}")
        if entry is None:
            continue
        wanted, giver = entry.inputs.get(key), catalog.tools.get(tool_of.get(source, ""))
        if wanted is None:
            allowed = _listed(entry.inputs) or "none"
            message = f"inputs.{key}: {entry.name} takes no such input{nearest(key, entry.inputs)}; allowed: {allowed}"
            yield Problem(code="unknown-input", step=name, message=message)
        elif giver is not None and giver.result is not wanted.result:
            takes, gives = wanted.result.__name__, giver.result.__name__
            message = f"inputs.{key}: takes {takes}, but {source!r} ({giver.name}) gives {gives}"
            yield Problem(code="wrong-input-type", step=name, message=message)
    for key, wanted in entry.inputs.items() if entry else ():
        if wanted.required and key not in step["inputs"]:
            yield Problem(
                code="missing-input", step=name, message=f"inputs.{key}: {step['tool']} needs {wanted.result.__name__}"
            )


def _graph_problems(steps: Sequence[Mapping[str, Any]], catalog: Catalog) -> Iterator[Problem]:
    proposing = [step["id"] for step in steps if _result_of(step, catalog) is Proposal]
    if not proposing:
        yield Problem(code="no-proposal", step=None, message="no step makes a proposal; end the plan with draft_orders")
    if len(proposing) > 1:
        message = f"{len(proposing)} steps make a proposal ({', '.join(proposing)}); exactly one may"
        yield Problem(code="several-proposals", step=proposing[1], message=message)
    edges = {step["id"]: set(step["inputs"].values()) for step in steps}
    circle = _circle(edges)
    if circle:
        yield Problem(code="cycle", step=circle[0], message=f"the steps wait for each other: {' <- '.join(circle)}")
    useful = _leading_to(proposing, edges) or {source for sources in edges.values() for source in sources}
    for step in steps:
        if step["id"] not in useful and step["id"] not in proposing and step["id"] not in circle:
            yield Problem(
                code="dead-step",
                step=step["id"],
                message="feeds nothing: no step on the way to the proposal takes its result",
            )


def _result_of(step: Mapping[str, Any], catalog: Catalog) -> type | None:
    entry = catalog.tools.get(step["tool"])
    return entry.result if entry else None


def _circle(edges: Mapping[str, set[str]]) -> list[str]:
    try:
        tuple(TopologicalSorter(edges).static_order())
    except CycleError as error:
        return list(error.args[1])
    return []


def _leading_to(ends: Sequence[str], edges: Mapping[str, set[str]]) -> set[str]:
    found: set[str] = set()
    waiting = list(ends)
    while waiting:
        for source in edges.get(waiting.pop(), ()):
            if source not in found:
                found.add(source)
                waiting.append(source)
    return found
