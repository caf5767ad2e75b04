"""What a run does not trade, grouped by its kind of reason."""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tasks.figures import readable
from tasks.situation import Skipped

FEW = 3
"""So many symbols skipped for one kind of reason are shown with all figures; more are folded into one line."""

_FIGURES = re.compile(r"\d[\d.,]*")
_OF_SEVERAL = {"within its band": "within their bands"}
_ADJECTIVES = {"within its band", "within their bands", "frozen", "restricted", "below min_trade"}  # a symbol *is* this


class SkippedKind(NamedTuple):
    """Symbols that are not traded for one kind of reason."""

    reason: str
    skipped: tuple[Skipped, ...]


def skipped_kinds(skipped: Iterable[Skipped]) -> list[SkippedKind]:
    """Group what is not traded by its kind of reason: its opening, without the figures."""
    groups: dict[str, list[Skipped]] = defaultdict(list)
    for each in skipped:
        groups[_FIGURES.sub("…", _opening(each.reason))].append(each)
    kinds = [SkippedKind(_common(kind, group), tuple(group)) for kind, group in groups.items()]
    return sorted(kinds, key=lambda kind: -len(kind.skipped))


def _opening(reason: str) -> str:
    return re.split("[:;]", readable(reason), maxsplit=1)[0]


def _common(kind: str, group: Sequence[Skipped]) -> str:
    """Return the opening that all share, its figures too if those are the same, in words that suit their number."""
    openings = {_opening(each.reason) for each in group}
    reason = openings.pop() if len(openings) == 1 else kind
    return reason if len(group) == 1 else _OF_SEVERAL.get(reason, reason)


def why_nothing(skipped: Iterable[Skipped]) -> str:
    """Say in one line why no symbol at all is traded."""
    kinds = skipped_kinds(skipped)
    if len(kinds) == 1 and kinds[0].reason in _ADJECTIVES:
        count, reason = len(kinds[0].skipped), kinds[0].reason
        return f"all {count} symbols are {reason}" if count > 1 else f"the only symbol is {reason}"
    return ", ".join(f"{kind.reason} ({_symbols(len(kind.skipped))})" for kind in kinds) or "no symbols"


def _symbols(count: int) -> str:
    return f"{count} symbol{'s' if count > 1 else ''}"
