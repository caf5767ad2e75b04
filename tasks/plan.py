"""The plan: steps, named inputs and reasons; an explicit graph that is never changed once made."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from graphlib import TopologicalSorter
from typing import Any

from pydantic import Field

from blocks.canonical import digest
from blocks.values import Moment, Name
from tasks.situation import Value

MAX_STEPS = 12
MAX_WHY = 200


class Step(Value):
    """One step: a tool, what it is told, whose results it takes, and why."""

    id: str
    tool: str
    params: dict[str, Any]
    inputs: dict[str, str] = Field(description="input name -> id of the step whose result it takes")
    why: str


class Plan(Value):
    """A checked plan. Its hash covers what it does, not when or by whom it was made."""

    id: Name
    revision: int = Field(1, ge=1)
    parent: str | None = Field(None, description="hash of the revision before")
    objective: Name | str
    mandate_hash: str
    steps: tuple[Step, ...]
    created_at: Moment

    @cached_property
    def hash(self) -> str:
        """Return the SHA-256 of canonical {objective, mandate_hash, steps}."""
        return digest({"objective": self.objective, "mandate_hash": self.mandate_hash, "steps": self.steps})

    @cached_property
    def in_order(self) -> tuple[Step, ...]:
        """Return the steps so that each comes after its inputs; ties keep the order they were written in."""
        return tuple(step for level in levels(self.steps) for step in level)


def levels(steps: Sequence[Step]) -> list[list[Step]]:
    """Group steps by how far down the graph they stand: those of one level can run side by side."""
    place = {step.id: index for index, step in enumerate(steps)}
    sorter = TopologicalSorter({step.id: set(step.inputs.values()) for step in steps})
    sorter.prepare()
    found = []
    while sorter.is_active():
        ready = sorted(sorter.get_ready(), key=place.__getitem__)
        found.append([steps[place[step_id]] for step_id in ready])
        sorter.done(*ready)
    return found


def critical_path(steps: Sequence[Step]) -> tuple[str, ...]:
    """Return the ids of the longest chain of steps: no run can take fewer rounds than this."""
    longest: dict[str, tuple[str, ...]] = {}
    for level in levels(steps):
        for step in level:
            before = max((longest[source] for source in step.inputs.values()), key=len, default=())
            longest[step.id] = (*before, step.id)
    return max(longest.values(), key=len, default=())


def plan_from(content: Mapping[str, Any], **known: Any) -> Plan:
    """Build a plan from content that `plan_check.check` found nothing wrong with; `known` fills what it leaves out."""
    return Plan.model_validate({**known, **content})
