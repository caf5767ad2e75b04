"""The picture of the weights: each symbol's before the run, aimed at, and after it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from tasks.canvas import FAINT, GREY, INK, LINE, MARGIN, WIDTH, canvas, fitted, svg, write
from tasks.figures import readable
from tasks.outcome import WeightLine
from tasks.outcome_lines import most_changed

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_SYMBOLS = 60

_BOUGHT, _SOLD, _AIM = "#b7e0c4", "#f5c4bf", "#d97706"
_FIGURE, _TALL = 62.0, 600.0  # a column of figures, and a picture that needs its axis above and below


def weights_picture(weights: Sequence[WeightLine]) -> str:
    """Draw each symbol's weight before, its target and its weight after, in per cent of managed equity."""
    lines = most_changed(weights, MOST_SYMBOLS)
    left_out = len(weights) - len(lines)
    top, row = 62.0, 22.0
    bottom = top + row * len(lines)
    scale = _scale(lines)
    with canvas(bottom + (66 if left_out else 48)) as (figure, axes):
        _draw_legend(axes, "Weights in per cent of managed equity")
        for at, word in enumerate(("before", "target", "after")):
            write(axes, (WIDTH - MARGIN - (2 - at) * _FIGURE, 54), word, 11, GREY, ha="right")
        _draw_grid(axes, scale, top, bottom)
        _draw_marks(axes, scale, lines, top + row / 2, row)
        if left_out:
            note = f"and {left_out} more, each nearer to its target before the run than those shown"
            write(axes, (MARGIN, bottom + 52), note, 11, GREY)
        return svg(figure, "Weights before, target and after")


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
    return _Scale(MARGIN + min(max(longest * 9.0, 40), 220) + 18, WIDTH - 3 * _FIGURE - MARGIN - 12, tuple(ticks))


def _draw_legend(axes: "Axes", title: str) -> None:
    write(axes, (MARGIN, 28), title, 13, INK, bold=True)
    x = 330.0
    for word, mark in (("before", _ring), ("target", _bar), ("after", _dot)):
        mark(axes, [x], [24.0])
        write(axes, (x + 11, 28), word, 12, INK)
        x += 76
    for word, color, thick in (("bought", _BOUGHT, 6), ("sold", _SOLD, 6), ("left to the target", _AIM, 1.4)):
        axes.hlines(24, x, x + 22, colors=color, lw=thick)
        write(axes, (x + 30, 28), word, 12, INK)
        x += 92


def _draw_grid(axes: "Axes", scale: _Scale, top: float, bottom: float) -> None:
    for tick in scale.ticks:
        x = scale.x(tick)
        axes.vlines(x, top - 2, bottom + 4, colors=LINE if tick == 0 else FAINT, lw=0.9, zorder=0)
        for y in (top - 8, bottom + 18) if bottom - top > _TALL else (bottom + 18,):
            write(axes, (x, y), f"{tick:g} %", 11, GREY, ha="center")


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
        shown, size = fitted(line.symbol, scale.left - MARGIN - 14, 12.0, bold=True)
        gid = f"weight {readable(line.symbol)}"  # the whole name, should it have been cut
        write(axes, (scale.left - 14, y + 4), shown, size, INK, bold=True, ha="right", gid=gid)
        for at, value in enumerate(values):
            write(axes, (WIDTH - MARGIN - (2 - at) * _FIGURE, y + 4), f"{value:.2f}", 11, INK, ha="right")


def _ring(axes: "Axes", xs: Sequence[float], ys: Sequence[float]) -> None:
    axes.plot(xs, ys, "o", ms=7, mfc="white", mec=GREY, mew=1.1, zorder=3)


def _bar(axes: "Axes", xs: Sequence[float], ys: Sequence[float]) -> None:
    axes.plot(xs, ys, "|", ms=11, mec=_AIM, mew=1.8, zorder=4)


def _dot(axes: "Axes", xs: Sequence[float], ys: Sequence[float]) -> None:
    axes.plot(xs, ys, "o", ms=4.2, mfc=INK, mec="none", zorder=5)
