"""Markdown that shows text of any origin as it is."""

import html
import re
import textwrap
from collections.abc import Sequence

from tasks.figures import readable

_MARKUP = re.compile(r"[\\`*_{}\[\]|~#$]")
_LINK = re.compile(r"(?<=:)//|(?<=[wW]{3})\.|@")
_OPENING = re.compile(r"^(?:(\d+)(?=[.)])|(?=[-+=]))")


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table of cells that are markdown already; > in a head aligns right, an empty column is left out."""
    said = [at for at in range(len(heads)) if any(row[at] for row in rows)]
    lines = [
        [heads[at].removeprefix(">") for at in said],
        ["---:" if heads[at].startswith(">") else "---" for at in said],
        *([row[at] for at in said] for row in rows),
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def quiet(text: str) -> str:
    """Return text of any origin so that markdown shows it as it is: no markup, no HTML, no link."""
    quiet = html.escape(_MARKUP.sub(r"\\\g<0>", readable(text)), quote=False)
    return _LINK.sub(lambda found: "".join(f"&#{ord(each)};" for each in found[0]), quiet)


def in_lines(text: str, most: int) -> str:
    """Return the same for a cell, in lines of at most so many characters: a cell that is too wide is cut off.

    The Prefect UI breaks no line of a table by itself, and shows 828 of its pixels where the window has 1400.
    """
    return "<br>".join(quiet(line) for line in textwrap.wrap(readable(text), most, break_on_hyphens=False))


def quiet_line(text: str) -> str:
    """Return text for the beginning of a line, where a number or a dash would open a list."""
    return _OPENING.sub(lambda found: f"{found[1] or ''}\\", quiet(text))


def code(text: str) -> str:
    """Return an id in the type of a machine; what would end it is left out."""
    plain_id = re.sub(r"[`|]", "", readable(text))
    return f"`{plain_id}`" if plain_id else ""
