"""A plan drawn in characters, with a lane for each result; good in 80 columns."""

import json
import textwrap
from collections.abc import Iterator, Sequence

from tasks.figures import readable
from tasks.plan import Plan, Step, critical_path

COLUMNS = 80


def draw_plan(plan: Plan) -> str:
    """Draw the plan as a graph, with each step's tool, what it takes and why, and name the critical path."""
    steps, widest = plan.in_order, min(max(len(step.id) for step in plan.steps), 20)
    indent = 2 * len(steps) + 1
    lines = []
    for step, (row, lanes) in zip(steps, graph(steps), strict=True):
        lines.append(f"{row:{indent}}{step.id:{widest}}  {step.tool}")
        for text in (_told(step), _taken(step), step.why):
            wrapped = textwrap.wrap(readable(text), COLUMNS - indent - 2, break_on_hyphens=False)
            lines += [f"{lanes:{indent}}  {part}" for part in wrapped]
    path = critical_path(plan.steps)
    return "\n".join((*lines, "", f"critical path: {' → '.join(path)} ({len(path)} of {len(steps)} steps)"))


def _told(step: Step) -> str:
    params = (f"{name} = {json.dumps(value, ensure_ascii=False, default=str)}" for name, value in step.params.items())
    return "with " + ", ".join(params) if step.params else ""


def _taken(step: Step) -> str:
    inputs = (source if name == source else f"{source} as {name}" for name, source in step.inputs.items())
    return "takes " + ", ".join(inputs) if step.inputs else ""


def graph(steps: Sequence[Step]) -> Iterator[tuple[str, str]]:
    """Yield each step's row of the drawing, and the lanes that go on beneath it.

    Every step has a lane to itself, right of those before it, down to the last step that takes its result: so a line
    joins exactly the lanes it takes from, and breaks at the others.
    """
    lane = {step.id: index for index, step in enumerate(steps)}
    last = {lane[source]: index for index, step in enumerate(steps) for source in step.inputs.values()}
    for index, step in enumerate(steps):
        taken = {lane[source] for source in step.inputs.values()}
        first = min(taken, default=index)
        goes_on = [last.get(at, at) > index for at in range(index + 1)]
        joints = (_joint(at, first, taken=at in taken, goes_on=goes_on[at]) for at in range(index))
        row = "".join(joint + ("─" if at >= first else " ") for at, joint in enumerate(joints))
        yield row + "●", " ".join("│" if going else " " for going in goes_on)


def _joint(at: int, first: int, *, taken: bool, goes_on: bool) -> str:
    """Return what a row shows in one lane: a joint where it takes, the lane where it goes on, else the line itself."""
    if not taken:
        return "│" if goes_on else "─" if at > first else " "
    if at == first:
        return "├" if goes_on else "╰"
    return "┼" if goes_on else "┴"
