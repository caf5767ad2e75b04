"""The picture of a plan: its graph, how each step went, and the stages that follow every plan."""

import textwrap
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from tasks.canvas import GREY, INK, LINE, MARGIN, Point, canvas, fitted, svg, write
from tasks.figures import age, readable
from tasks.outcome import StepLine, StepState
from tasks.plan import Plan, critical_path, levels
from tasks.plan_layout import Layout, side_by_side, stairs
from tasks.stages import Stage

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DEEPEST = 7  # so many columns leave a box room for its text; deeper plans are stairs
_TINTS: dict[StepState, tuple[str, str]] = {
    "done": ("#e6f4ea", "#137333"),
    "reused": ("#e8f0fe", "#174ea6"),
    "failed": ("#fce8e6", "#b31412"),
    "not run": ("#f4f5f6", "#5f6368"),
}


class _Box(NamedTuple):
    key: str
    name: str
    tool: str
    state: StepState
    words: str


def plan_picture(plan: Plan, steps: Sequence[StepLine], gate: Sequence[Stage], now: datetime | None = None) -> str:
    """Draw the plan's graph with how each step went and how old it was `now`, and the tail that no plan can express."""
    columns = [[step.id for step in level] for level in levels(plan.steps)]
    tail = [f"gate:{stage.name}" for stage in gate]
    edges = [(source, step.id) for step in plan.steps for source in dict.fromkeys(step.inputs.values())]
    appended = list(pairwise([columns[-1][-1], *tail]))
    edges += appended
    columns += [[key] for key in tail]
    layout = side_by_side(columns, edges) if len(columns) <= _DEEPEST else stairs(columns, edges, tail)
    path = critical_path(plan.steps)
    bold = {*pairwise(path), *appended}
    note = f"dark lines: the critical path, {len(path)} of {len(plan.steps)} steps; after a state: the age of its data"
    with canvas(layout.height) as (figure, axes):
        _draw_panel(axes, layout, tail)
        for edge in edges:
            _draw_edge(axes, layout.routes[edge], bold=edge in bold)
        for box in (*_step_boxes(plan, steps, now), *_stage_boxes(gate)):
            _draw_box(axes, layout, box)
        write(axes, (MARGIN, layout.height - 14), note, 11, GREY)
        return svg(figure, "The plan, and how its steps went")


def _step_boxes(plan: Plan, steps: Sequence[StepLine], now: datetime | None) -> Iterator[_Box]:
    went = {line.step: line for line in steps}
    for step in plan.steps:
        line = went.get(step.id)
        state: StepState = line.state if line else "not run"
        old = f" · {age(now - line.as_of)}" if line and line.as_of and now and state in {"done", "reused"} else ""
        yield _Box(step.id, step.id, step.tool, state, state + old)


def _stage_boxes(gate: Sequence[Stage]) -> Iterator[_Box]:
    for stage in gate:
        yield _Box(f"gate:{stage.name}", stage.name, "", stage.state, stage.words)


def _draw_panel(axes: "Axes", layout: Layout, tail: Sequence[str]) -> None:
    from matplotlib.patches import FancyBboxPatch  # noqa: PLC0415

    if not tail:
        return
    spots = [layout.places[key] for key in tail]
    left, right = spots[0][0] - 12, spots[-1][0] + layout.width + 12
    top, bottom = spots[0][1] - layout.tall / 2 - 12, spots[-1][1] + layout.tall / 2 + 28
    panel = FancyBboxPatch((left, top), right - left, bottom - top, boxstyle="round,pad=0,rounding_size=10", zorder=0)
    panel.set(facecolor="#f7f4ec", edgecolor="#c9b98a", linestyle=(0, (4, 3)), linewidth=0.9)
    axes.add_patch(panel)
    write(axes, (left + 12, bottom - 10), "follows every plan; no plan can express it", 10.5, "#7a6a35")


def _draw_edge(axes: "Axes", route: Sequence[Point], *, bold: bool) -> None:
    from matplotlib.patches import PathPatch, Polygon  # noqa: PLC0415
    from matplotlib.path import Path  # noqa: PLC0415

    (x, y), color = route[-1], GREY if bold else LINE
    line = Path([*route[:-1], (x - 5, y)], [Path.MOVETO, *[Path.CURVE4] * (len(route) - 1)])
    axes.add_patch(PathPatch(line, fc="none", ec=color, lw=1.5 if bold else 0.9, zorder=2 if bold else 1))
    axes.add_patch(Polygon([(x - 1, y), (x - 8, y - 4), (x - 8, y + 4)], fc=color, ec="none", zorder=2))


def _draw_box(axes: "Axes", layout: Layout, box: _Box) -> None:
    from matplotlib.patches import FancyBboxPatch  # noqa: PLC0415

    (left, middle), (fill, ink) = layout.places[box.key], _TINTS[box.state]
    style, line = ("round,pad=0,rounding_size=7", 1.0) if box.tool else ("square,pad=0", 1.8)
    corner = (left, middle - layout.tall / 2)
    axes.add_patch(
        FancyBboxPatch(corner, layout.width, layout.tall, boxstyle=style, fc=fill, ec=ink, lw=line, zorder=3)
    )
    words = textwrap.wrap(readable(box.words), 22, max_lines=2, placeholder=" …")
    rows = [(box.name, 13.0, INK), (box.tool, 11.0, GREY), *((line, 11.0, ink) for line in words)]
    rows = [row for row in rows if row[0]]
    for at, (text, most, color) in enumerate(rows):
        shown, size = fitted(text, layout.width - 16, most, bold=not at)
        spot = (left + 9, middle + (at - (len(rows) - 1) / 2) * 15.5 + 4.5)
        write(axes, spot, shown, size, color, bold=not at, gid=None if at else f"step {readable(box.name)}")
