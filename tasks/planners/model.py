"""The model planner: a large model writes the plan, in a form that can say nothing else, and the check decides."""

import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Union

from pydantic import BaseModel, ConfigDict, Field, WrapValidator, create_model

from blocks.mandate import Mandate
from blocks.models.port import ModelDoor, Prompt
from tasks.catalog import Catalog
from tasks.plan import MAX_STEPS, MAX_WHY, Step
from tasks.plan_check import check
from tasks.planners.picture import Picture
from tasks.tool import Tool

REPAIRS = 2
"""How often a plan goes back with what is wrong with it."""

_CLOSED = ConfigDict(extra="forbid")
_TOLD = ("direction", "min_trade", "fractional", "frozen", "raise_cash", "policy", "bands", "limits", "freshness")

_RULES = f"""\
You plan the rebalance of one portfolio. A plan is a list of steps, each of them one call of a tool from the list below.
Programs carry the steps out; then, without you, a gate checks the orders against every limit of the mandate and sends
them. No step can send, change or cancel an order, and none needs to.

- The plan ends in exactly one step that gives a Proposal, and every other step feeds, directly or not, into that one.
- `inputs` maps each input's name to the id of the step whose result it takes. The types have to fit.
- Steps that do not depend on each other run side by side. Take no step that the mandate does not need: at most \
{MAX_STEPS}, and as few as do the job.
- `id` is lowercase: letters, digits, _ and -, beginning with a letter, at most 32; never `verify` or `submit`.
- `why` says in at most {MAX_WHY} characters why this portfolio needs the step today.
- Leave a parameter or input that you don't need out, or null.

Tools:
"""


async def plan_steps(door: ModelDoor, mandate: Mandate, catalog: Catalog, picture: Picture) -> tuple[Step, ...]:
    """Ask for the steps of a plan; what is wrong with them goes back, twice at most.

    Raises ModelError: AnswerUnusable, with every fault that is left, where no plan can be compiled.
    """

    def faults(answer: BaseModel) -> str:
        problems = check(_written(answer), mandate, catalog)
        return "; ".join(f"{each.code} ({each.step or 'the plan'}): {each.message}" for each in problems)

    prompt = Prompt(_RULES + "\n".join(_told(each) for each in catalog.tools.values()), _question(mandate, picture))
    answer = await door.ask("planner", prompt, answer_of(catalog), judge=faults, rounds=REPAIRS)
    return tuple(Step.model_validate(step) for step in _written(answer))


def answer_of(catalog: Catalog) -> type[BaseModel]:
    """Return the type of an answer: its JSON schema has one kind of step a tool, and cannot name anything else.

    It reads any list, so that the check says what is wrong, by its codes, rather than a union that nothing fits.
    """
    kinds = tuple(_step_of(each) for each in catalog.tools.values())
    step: Any = Annotated[Union[kinds], WrapValidator(lambda value, _: value)]  # noqa: UP007
    return create_model("PlanSteps", __config__=_CLOSED, steps=(list[step], Field(description="in any order")))


def _step_of(tool: Tool) -> type[BaseModel]:
    inputs: dict[str, Any] = {
        name: (str, ...) if each.required else (str | None, None) for name, each in tool.inputs.items()
    }
    fields: dict[str, Any] = {
        "id": (str, ...),
        "tool": (Literal[tool.name], ...),
        "params": (tool.params, ...),
        "inputs": (create_model(f"inputs_{tool.name}", __config__=_CLOSED, **inputs), ...),
        "why": (str, ...),
    }
    return create_model(f"step_{tool.name}", __config__=_CLOSED, **fields)


def _written(answer: Any) -> list[Any]:
    """Return the steps as a plan's file would hold them: null stands for what was left out."""
    return [_without_nulls(step) for step in answer.steps]


def _without_nulls(step: Any) -> Any:
    if not isinstance(step, Mapping):
        return step
    return {
        key: {name: each for name, each in value.items() if each is not None} if isinstance(value, Mapping) else value
        for key, value in step.items()
    }


def _told(tool: Tool) -> str:
    """Say what a tool takes, gives and costs."""
    params = "; ".join(_params(tool)) or "none"
    inputs = ", ".join(
        f"{name}: {each.result.__name__}{'' if each.required else ' (optional)'}" for name, each in tool.inputs.items()
    )
    cost = "no model call" if tool.kind == "code" else "calls of a small model, paid by the same budget"
    return (
        f"- {tool.name}: {tool.summary} params: {params}. inputs: {inputs or 'none'}. gives: {tool.result.__name__}."
        f" ages as: {tool.freshness}. costs: {cost}."
    )


def _params(tool: Tool) -> Iterator[str]:
    for name, field in tool.params.model_json_schema().get("properties", {}).items():
        kinds = [kind for kind in field.get("anyOf", [field]) if kind.get("type") != "null"]
        facts = {key: value for kind in kinds for key, value in kind.items() if key not in {"title", "default"}}
        unit = f", {field['description']}" if "description" in field else ""
        yield f"{name} ({json.dumps(facts)}{unit})"


def _question(mandate: Mandate, picture: Picture) -> str:
    told = mandate.model_dump(mode="json", include=set(_TOLD))
    said = {
        "objective": mandate.objective,
        "session": picture.on.isoformat(),
        "mandate": {name: told[name] for name in _TOLD},
        "account": picture.account,
    }
    lines = [f"{name}: {json.dumps(value)}" for name, value in said.items()]
    if picture.changed:
        lines.append(f"The plan before this one came to its end, so plan anew with that in mind. {picture.changed}")
    return "\n".join(lines)
