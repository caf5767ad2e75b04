"""The pictures of a run: its plan as a graph, and the weights before it, aimed at and after it."""

import base64
import io
import textwrap
import threading
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

from tasks.outcome import StepLine, StepState, WeightLine
from tasks.plan import Plan, critical_path, levels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_SYMBOLS = 60

_WIDTH, _MARGIN = 900, 18.0  # pixels, like every length here
_GAP, _DEEPEST = 26.0, 7  # between columns, and how many leave a box room for its text; deeper plans are stairs
_INK, _GREY, _FAINT, _LINE = "#202124", "#5f6368", "#e6e9ed", "#a3adb8"
_BOUGHT, _SOLD, _AIM = "#b7e0c4", "#f5c4bf", "#d97706"
_FIGURE, _TALL = 62.0, 600.0  # a column of figures, and a picture that needs its axis above and below
_TINTS: dict[StepState, tuple[str, str]] = {
    "done": ("#e6f4ea", "#137333"),
    "reused": ("#e8f0fe", "#174ea6"),
    "failed": ("#fce8e6", "#b31412"),
    "not run": ("#f4f5f6", "#5f6368"),
}
_SETTINGS: Any = {
    "svg.hashsalt": "tradewright",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.sans-serif": ["Helvetica Neue", "Arial", "DejaVu Sans"],
}
_ONE_AT_A_TIME = threading.Lock()  # matplotlib's settings belong to the whole process

Point = tuple[float, float]
Edge = tuple[str, str]
Columns = list[list[str]]


class Stage(NamedTuple):
    """One box of the tail that follows every plan, such as verify, and what became of it."""

    name: str
    state: StepState
    words: str


class _Box(NamedTuple):
    key: str
    name: str
    tool: str
    state: StepState
    words: str


class _Layout(NamedTuple):
    """Where everything stands, from the top left."""

    height: float
    width: float  # of a box
    tall: float  # of a box
    places: dict[str, Point]  # box -> its left edge, its middle
    routes: dict[Edge, list[Point]]  # a start, then two handles and an end for each piece of a curve


def data_uri(svg: str) -> str:
    """Return a picture as an address that a page can show without fetching anything."""
    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode()


def readable(text: str) -> str:
    """Return text on one line, without the characters that steer a terminal or that XML cannot hold."""
    return " ".join("".join(each if each.isprintable() else " " for each in text).split())


def age(length: timedelta) -> str:
    """Write how old something is, in the unit a person would use."""
    seconds = max(int(length.total_seconds()), 0)
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size or seconds == size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def most_changed(weights: Sequence[WeightLine], most: int) -> list[WeightLine]:
    """Return at most so many lines, those furthest from target before the run; the largest target comes first."""
    chosen = sorted(weights, key=lambda line: (-abs(line.target - line.before), line.symbol))[:most]
    return sorted(chosen, key=lambda line: (-line.target, -line.after, line.symbol))


def plan_picture(plan: Plan, steps: Sequence[StepLine], gate: Sequence[Stage], now: datetime | None = None) -> str:
    """Draw the plan's graph with how each step went and how old it was `now`, and the tail that no plan can express."""
    columns = [[step.id for step in level] for level in levels(plan.steps)]
    tail = [f"gate:{stage.name}" for stage in gate]
    edges = [(source, step.id) for step in plan.steps for source in dict.fromkeys(step.inputs.values())]
    appended = list(pairwise([columns[-1][-1], *tail]))
    edges += appended
    columns += [[key] for key in tail]
    layout = _side_by_side(columns, edges) if len(columns) <= _DEEPEST else _stairs(columns, edges, tail)
    path = critical_path(plan.steps)
    bold = {*pairwise(path), *appended}
    note = f"dark lines: the critical path, {len(path)} of {len(plan.steps)} steps; after a state: the age of its data"
    with _canvas(layout.height) as (figure, axes):
        _draw_panel(axes, layout, tail)
        for edge in edges:
            _draw_edge(axes, layout.routes[edge], bold=edge in bold)
        for box in (*_step_boxes(plan, steps, now), *_stage_boxes(gate)):
            _draw_box(axes, layout, box)
        _write(axes, (_MARGIN, layout.height - 14), note, 11, _GREY)
        return _svg(figure, "The plan, and how its steps went")


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


def _side_by_side(columns: Columns, edges: Sequence[Edge]) -> _Layout:
    """Stand each level in a column; an edge that skips columns gets a lane of its own between their boxes."""
    level = {key: index for index, column in enumerate(columns) for key in column}
    chains = {
        (one, two): [one, *(f"{one}~{at}" for at in range(level[one] + 1, level[two])), two] for one, two in edges
    }
    slots = _untangled(columns, level, chains.values())
    rooms = [[76.0 if key in level else 24.0 for key in column] for column in slots]
    tallest, inner, tall = max(map(sum, rooms)), _WIDTH - 2 * _MARGIN - 12, 62.0
    width = min((inner + _GAP) / len(columns) - _GAP, 160.0)
    pitch = min((inner - width) / max(len(columns) - 1, 1), width + 80)
    places: dict[str, Point] = {}
    for index, (column, room) in enumerate(zip(slots, rooms, strict=True)):
        top = _MARGIN + (tallest - sum(room)) / 2
        for key, own in zip(column, room, strict=True):
            places[key] = (_MARGIN + index * pitch, top + own / 2)
            top += own
    ends = _ends(places, {edge: places[chain[-2]][1] for edge, chain in chains.items()}, tall)
    routes = {edge: _bends([places[key] for key in chain[:-1]], ends[edge], width) for edge, chain in chains.items()}
    return _Layout(max(tallest, 114) + 2 * _MARGIN + 22, width, tall, places, routes)


def _untangled(columns: Columns, level: Mapping[str, int], chains: Collection[Sequence[str]]) -> Columns:
    """Add the lanes to the columns, then order each by where its neighbours stand, which leaves few lines crossing."""
    slots = [list(column) for column in columns]
    near: dict[str, list[str]] = defaultdict(list)
    for chain in chains:
        for at, key in enumerate(chain[1:-1], level[chain[0]] + 1):
            if key not in slots[at]:
                slots[at].append(key)
        for one, two in pairwise(chain):
            near[one].append(two)
            near[two].append(one)
    for sweep in (slots, slots[::-1], slots):
        for fixed, free in pairwise(sweep):
            place = {key: index - len(fixed) / 2 for index, key in enumerate(fixed)}
            mean = {key: fmean([place[other] for other in near[key] if other in place] or [0]) for key in free}
            free.sort(key=mean.__getitem__)
    return slots


def _ends(places: Mapping[str, Point], order: Mapping[Edge, float], tall: float) -> dict[Edge, Point]:
    """Return where each arrow ends: those of one box spread over its left edge, in the given order."""
    arriving: dict[str, list[Edge]] = defaultdict(list)
    for edge in sorted(order, key=order.__getitem__):
        arriving[edge[1]].append(edge)
    ends = {}
    for target, arrows in arriving.items():
        left, middle = places[target]
        gap = min(13.0, (tall - 14) / len(arrows))
        ends.update({edge: (left, middle + (at - (len(arrows) - 1) / 2) * gap) for at, edge in enumerate(arrows)})
    return ends


def _bends(stops: Sequence[Point], end: Point, width: float) -> list[Point]:
    """Return a route out of the first stop's right side, straight through the lanes, and bent between the columns."""
    (x, y), route = stops[0], [(stops[0][0] + width, stops[0][1])]
    for x, y in (*stops[1:], end):
        start, half = route[-1], (x - route[-1][0]) / 2
        route += [(start[0] + half, start[1]), (x - half, y), (x, y)]
        if (x, y) != end:
            route += [(x, y), (x + width, y), (x + width, y)]
    return route


def _stairs(columns: Columns, edges: Sequence[Edge], tail: Collection[str]) -> _Layout:
    """Give each box a row of its own, further right than all before it: no line from below one can meet another."""
    keys = [key for column in columns for key in column]
    width, tall, drop, bend = 230.0, 56.0, 16.0, 7.0
    pitch = (_WIDTH - 2 * _MARGIN - width - 12) / (len(keys) - 1)
    places = {
        key: (_MARGIN + at * pitch, _MARGIN + tall / 2 + at * (tall + 12) + (14 if key in tail else 0))
        for at, key in enumerate(keys)
    }
    ends = _ends(places, {edge: -places[edge[0]][0] for edge in edges}, tall)
    routes = {}
    for edge, (x, y) in ends.items():
        left, top = places[edge[0]][0] + drop, places[edge[0]][1] + tall / 2
        turn, away = (left, y - bend), (left + bend, y)
        routes[edge] = [(left, top), (left, top), turn, turn, (left, y), (left, y), away, away, (x, y), (x, y)]
    return _Layout(places[keys[-1]][1] + tall / 2 + _MARGIN + 34, width, tall, places, routes)


def _draw_panel(axes: "Axes", layout: _Layout, tail: Sequence[str]) -> None:
    from matplotlib.patches import FancyBboxPatch  # noqa: PLC0415

    if not tail:
        return
    spots = [layout.places[key] for key in tail]
    left, right = spots[0][0] - 12, spots[-1][0] + layout.width + 12
    top, bottom = spots[0][1] - layout.tall / 2 - 12, spots[-1][1] + layout.tall / 2 + 28
    panel = FancyBboxPatch((left, top), right - left, bottom - top, boxstyle="round,pad=0,rounding_size=10", zorder=0)
    panel.set(facecolor="#f7f4ec", edgecolor="#c9b98a", linestyle=(0, (4, 3)), linewidth=0.9)
    axes.add_patch(panel)
    _write(axes, (left + 12, bottom - 10), "follows every plan; no plan can express it", 10.5, "#7a6a35")


def _draw_edge(axes: "Axes", route: Sequence[Point], *, bold: bool) -> None:
    from matplotlib.patches import PathPatch, Polygon  # noqa: PLC0415
    from matplotlib.path import Path  # noqa: PLC0415

    (x, y), color = route[-1], _GREY if bold else _LINE
    line = Path([*route[:-1], (x - 5, y)], [Path.MOVETO, *[Path.CURVE4] * (len(route) - 1)])
    axes.add_patch(PathPatch(line, fc="none", ec=color, lw=1.5 if bold else 0.9, zorder=2 if bold else 1))
    axes.add_patch(Polygon([(x - 1, y), (x - 8, y - 4), (x - 8, y + 4)], fc=color, ec="none", zorder=2))


def _draw_box(axes: "Axes", layout: _Layout, box: _Box) -> None:
    from matplotlib.patches import FancyBboxPatch  # noqa: PLC0415

    (left, middle), (fill, ink) = layout.places[box.key], _TINTS[box.state]
    style, line = ("round,pad=0,rounding_size=7", 1.0) if box.tool else ("square,pad=0", 1.8)
    corner = (left, middle - layout.tall / 2)
    axes.add_patch(
        FancyBboxPatch(corner, layout.width, layout.tall, boxstyle=style, fc=fill, ec=ink, lw=line, zorder=3)
    )
    words = textwrap.wrap(readable(box.words), 22, max_lines=2, placeholder=" …")
    rows = [(box.name, 13.0, _INK), (box.tool, 11.0, _GREY), *((line, 11.0, ink) for line in words)]
    rows = [row for row in rows if row[0]]
    for at, (text, most, color) in enumerate(rows):
        shown, size = _fitted(text, layout.width - 16, most, bold=not at)
        spot = (left + 9, middle + (at - (len(rows) - 1) / 2) * 15.5 + 4.5)
        _write(axes, spot, shown, size, color, bold=not at, gid=None if at else f"step {readable(box.name)}")


def weights_picture(weights: Sequence[WeightLine]) -> str:
    """Draw each symbol's weight before, its target and its weight after, in per cent of managed equity."""
    lines = most_changed(weights, MOST_SYMBOLS)
    left_out = len(weights) - len(lines)
    top, row = 62.0, 22.0
    bottom = top + row * len(lines)
    scale = _scale(lines)
    with _canvas(bottom + (66 if left_out else 48)) as (figure, axes):
        _draw_legend(axes, "Weights in per cent of managed equity")
        for at, word in enumerate(("before", "target", "after")):
            _write(axes, (_WIDTH - _MARGIN - (2 - at) * _FIGURE, 54), word, 11, _GREY, ha="right")
        _draw_grid(axes, scale, top, bottom)
        _draw_marks(axes, scale, lines, top + row / 2, row)
        if left_out:
            note = f"and {left_out} more, each nearer to its target before the run than those shown"
            _write(axes, (_MARGIN, bottom + 52), note, 11, _GREY)
        return _svg(figure, "Weights before, target and after")


class _Scale(NamedTuple):
    """The axis in per cent, between two pixels."""

    left: float
    right: float
    ticks: tuple[float, ...]

    def x(self, per_cent: float) -> float:
        """Return the pixel at which a weight stands."""
        low, high = self.ticks[0], self.ticks[-1]
        return self.left + (per_cent - low) / (high - low) * (self.right - self.left)


def _scale(lines: Sequence[WeightLine]) -> _Scale:
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415

    values = [0.0, *(float(value) * 100 for line in lines for value in (line.before, line.target, line.after))]
    ticks = MaxNLocator(nbins=7, steps=[1, 2, 2.5, 5, 10]).tick_values(min(values), max(*values, 0.1))
    longest = max((len(line.symbol) for line in lines), default=0)
    return _Scale(_MARGIN + min(max(longest * 9.0, 40), 220) + 18, _WIDTH - 3 * _FIGURE - _MARGIN - 12, tuple(ticks))


def _draw_legend(axes: "Axes", title: str) -> None:
    _write(axes, (_MARGIN, 28), title, 13, _INK, bold=True)
    x = 330.0
    for word, mark in (("before", _ring), ("target", _bar), ("after", _dot)):
        mark(axes, [x], [24.0])
        _write(axes, (x + 11, 28), word, 12, _INK)
        x += 76
    for word, color, thick in (("bought", _BOUGHT, 6), ("sold", _SOLD, 6), ("left to the target", _AIM, 1.4)):
        axes.hlines(24, x, x + 22, colors=color, lw=thick)
        _write(axes, (x + 30, 28), word, 12, _INK)
        x += 92


def _draw_grid(axes: "Axes", scale: _Scale, top: float, bottom: float) -> None:
    for tick in scale.ticks:
        x = scale.x(tick)
        axes.vlines(x, top - 2, bottom + 4, colors=_LINE if tick == 0 else _FAINT, lw=0.9, zorder=0)
        for y in (top - 8, bottom + 18) if bottom - top > _TALL else (bottom + 18,):
            _write(axes, (x, y), f"{tick:g} %", 11, _GREY, ha="center")


def _draw_marks(axes: "Axes", scale: _Scale, lines: Sequence[WeightLine], top: float, row: float) -> None:
    ys = [top + at * row for at in range(len(lines))]
    before, target, after = (
        [float(getattr(line, name)) * 100 for line in lines] for name in ("before", "target", "after")
    )
    places = [[scale.x(value) for value in values] for values in (before, target, after)]
    colors = [_BOUGHT if new >= old else _SOLD for old, new in zip(before, after, strict=True)]
    axes.hlines(ys, places[0], places[2], colors=colors, lw=6, zorder=1)
    axes.hlines(ys, places[2], places[1], colors=_AIM, lw=1.2, zorder=2)
    for mark, xs in zip((_ring, _bar, _dot), places, strict=True):
        mark(axes, xs, ys)
    for line, y, *values in zip(lines, ys, before, target, after, strict=True):
        shown, size = _fitted(line.symbol, scale.left - _MARGIN - 14, 12.0, bold=True)
        gid = f"weight {readable(line.symbol)}"  # the whole name, should it have been cut
        _write(axes, (scale.left - 14, y + 4), shown, size, _INK, bold=True, ha="right", gid=gid)
        for at, value in enumerate(values):
            _write(axes, (_WIDTH - _MARGIN - (2 - at) * _FIGURE, y + 4), f"{value:.2f}", 11, _INK, ha="right")


def _ring(axes: "Axes", xs: Sequence[float], ys: Sequence[float]) -> None:
    axes.plot(xs, ys, "o", ms=7, mfc="white", mec=_GREY, mew=1.1, zorder=3)


def _bar(axes: "Axes", xs: Sequence[float], ys: Sequence[float]) -> None:
    axes.plot(xs, ys, "|", ms=11, mec=_AIM, mew=1.8, zorder=4)


def _dot(axes: "Axes", xs: Sequence[float], ys: Sequence[float]) -> None:
    axes.plot(xs, ys, "o", ms=4.2, mfc=_INK, mec="none", zorder=5)


@contextmanager
def _canvas(height: float) -> Iterator[tuple["Figure", "Axes"]]:
    """Lend white axes in pixels from the top left, and matplotlib's settings with them."""
    import matplotlib as mpl  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    with _ONE_AT_A_TIME, mpl.rc_context(_SETTINGS):
        figure = Figure(figsize=(_WIDTH / 96, height / 96), facecolor="white")
        axes = figure.add_axes((0, 0, 1, 1), xlim=(0, _WIDTH), ylim=(height, 0))
        axes.set_axis_off()
        yield figure, axes


def _svg(figure: "Figure", title: str) -> str:
    file = io.StringIO()
    unsaid = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    figure.savefig(file, format="svg", metadata={"Title": title, **unsaid})
    return file.getvalue()


def _write(axes: "Axes", at: Point, text: str, size: float, color: str, *, bold: bool = False, **more: Any) -> None:
    weight = "bold" if bold else "normal"
    # Without parse_math=False a dollar sign in a name would start a formula.
    axes.text(*at, readable(text), fontsize=size * 0.75, color=color, weight=weight, parse_math=False, zorder=6, **more)


def _fitted(text: str, room: float, size: float, *, bold: bool) -> tuple[str, float]:
    """Return the text as large as it fits, its middle cut out where it would be too small to read, and its size.

    It is measured in the widest font that a reader may have, which comes with matplotlib.
    """
    from matplotlib.font_manager import FontProperties  # noqa: PLC0415
    from matplotlib.textpath import TextToPath  # noqa: PLC0415

    text = readable(text)
    font = FontProperties(family="DejaVu Sans", weight="bold" if bold else "normal", size=1)
    width = TextToPath().get_text_width_height_descent(text, font, ismath=False)[0]
    size = max(min(size, room / max(width, 1)), 9.5)
    most = int(len(text) * room / max(width * size, 1))
    return (text if len(text) <= most else f"{text[: (most - 1) // 2]}…{text[-(most // 2) :]}"), size
