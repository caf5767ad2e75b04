"""The paper that pictures are drawn on: its size, its colours, and text that fits; every length is in pixels."""

import base64
import io
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tasks.figures import readable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, MARGIN = 900, 18.0
INK, GREY, FAINT, LINE = "#202124", "#5f6368", "#e6e9ed", "#a3adb8"

_SETTINGS: Any = {
    "svg.hashsalt": "tradewright",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.sans-serif": ["Helvetica Neue", "Arial", "DejaVu Sans"],
}
_ONE_AT_A_TIME = threading.Lock()  # matplotlib's settings belong to the whole process

Point = tuple[float, float]


@contextmanager
def canvas(height: float) -> Iterator[tuple["Figure", "Axes"]]:
    """Lend white axes in pixels from the top left, and matplotlib's settings with them."""
    import matplotlib as mpl  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    with _ONE_AT_A_TIME, mpl.rc_context(_SETTINGS):
        figure = Figure(figsize=(WIDTH / 96, height / 96), facecolor="white")
        axes = figure.add_axes((0, 0, 1, 1), xlim=(0, WIDTH), ylim=(height, 0))
        axes.set_axis_off()
        yield figure, axes


def svg(figure: "Figure", title: str) -> str:
    """Return a figure as SVG, the same bytes for the same figure."""
    file = io.StringIO()
    unsaid = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    figure.savefig(file, format="svg", metadata={"Title": title, **unsaid})
    return file.getvalue()


def write(axes: "Axes", at: Point, text: str, size: float, color: str, *, bold: bool = False, **more: Any) -> None:
    """Write one line of text of any origin, its baseline there."""
    weight = "bold" if bold else "normal"
    # Without parse_math=False a dollar sign in a name would start a formula.
    axes.text(*at, readable(text), fontsize=size * 0.75, color=color, weight=weight, parse_math=False, zorder=6, **more)


def fitted(text: str, room: float, size: float, *, bold: bool) -> tuple[str, float]:
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


def data_uri(svg: str) -> str:
    """Return a picture as an address that a page can show without fetching anything."""
    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode()
