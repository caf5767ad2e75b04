"""How lines and tables reach a terminal: in what it can write, and complete without colour."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from tasks.figures import readable

if TYPE_CHECKING:
    from rich.console import Console

_PLAINER = str.maketrans("●◆│├┼┴╰─→", "o#||++`->")  # for a terminal that has no more than ASCII
STYLES = {
    **dict.fromkeys(("completed", "held", "done", "filled"), "green"),
    **dict.fromkeys(("waiting", "partial", "stale", "partly filled", "working"), "yellow"),
    **dict.fromkeys(("rejected", "failed", "dead", "unknown"), "bold red"),
    "reused": "blue",
    "not run": "dim",
}
"""The style of each state a run, a step or an order can be in."""


def print_heading(console: "Console", text: str) -> None:
    """Print the heading of a part, below an empty line."""
    console.print()
    print_line(console, (text, "bold"))


def print_left_out(console: "Console", count: int) -> None:
    """Print how many lines were left out, if any were."""
    if count > 0:
        print_line(console, (f"  and {count} more", ""))


def print_line(console: "Console", *parts: tuple[str, str]) -> None:
    """Print one line of parts, each a text and its style."""
    from rich.text import Text  # noqa: PLC0415

    console.print(Text.assemble(*((_writable(text, console), style) for text, style in parts)), highlight=False)


def print_table(console: "Console", heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows in columns; a head with > stands to the right, a column that says nothing is left out."""
    from rich.padding import Padding  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    said = [at for at in range(len(heads)) if any(row[at] for row in rows)]
    if not said:
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=any(heads), header_style="dim")
    for at in said:
        side: Literal["right", "left"] = "right" if heads[at].startswith(">") else "left"
        table.add_column(heads[at].removeprefix(">"), justify=side, overflow="fold")
    for row in rows:
        styles = (STYLES.get(row[at], "") if heads[at] == "state" else "" for at in said)
        cells = (_writable(readable(row[at]), console) for at in said)
        table.add_row(*(Text(cell, style) for cell, style in zip(cells, styles, strict=True)))
    console.print(Padding(table, (0, 0, 0, 2), expand=False), highlight=False)


def cut(text: str, most: int) -> str:
    """Return the text, or as much of it as there is room for."""
    return text if len(text) <= most else f"{text[: max(most - 3, 0)]}..."


def _writable(text: str, console: "Console") -> str:
    """Return text in characters that the terminal can write, and none that steer it."""
    steady = "".join(each if each.isprintable() else " " for each in text)
    if not console.options.ascii_only:
        return steady
    return steady.translate(_PLAINER).encode("ascii", "replace").decode("ascii")
