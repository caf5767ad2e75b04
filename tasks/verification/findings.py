"""What a rule finds: a figure, the limit it is held against, and a reason where they disagree."""

from collections.abc import Callable, Sequence
from decimal import Context, Decimal
from typing import NamedTuple, Protocol, TypeVar

from blocks.values import plain

EXACT = Context(prec=400, traps=[])
"""The arithmetic of the gate: no product or sum of ours needs that many digits, and nothing raises.

Without traps a comparison with NaN is false, so every rule is written to hold only where a comparison says yes.
"""

BASIS_POINT = Decimal("0.0001")

_TO_READ = Context(prec=16, traps=[])
_RATIO = Context(prec=6, traps=[])


class Finding(NamedTuple):
    """One rule's answer in one place; no reason means that the rule holds."""

    figure: str
    limit: str
    reason: str = ""
    strain: Decimal = Decimal(0)  # grows towards the limit, and tells which place speaks for all that hold


class Judged(NamedTuple):
    """A finding with the rule's name and the symbol it concerns, empty for the whole."""

    rule: str
    symbol: str
    finding: Finding


class Named(Protocol):
    """Anything that belongs to one symbol."""

    @property
    def symbol(self) -> str:
        """Return the symbol."""
        ...


Subject = TypeVar("Subject", bound=Named)
World = TypeVar("World")


def found(held: bool, figure: str, limit: str, reason: str, strain: Decimal = Decimal(0)) -> Finding:
    """Return a finding that gives its reason only where the rule does not hold."""
    return Finding(figure, limit, "" if held else reason, strain)


def each(rule: Callable[[Subject, World], Finding], subjects: Sequence[Subject], world: World) -> list[Judged]:
    """Judge every subject by one rule; without subjects the rule still leaves its name."""
    judged = [Judged(rule.__name__, subject.symbol, rule(subject, world)) for subject in subjects]
    return judged or [Judged(rule.__name__, "", Finding("nothing to judge", ""))]


def spoken_for(judged: list[Judged]) -> list[Judged]:
    """Return each place where a rule fails, or, where none does, the one nearest to the limit."""
    failed = [one for one in judged if one.finding.reason]
    return failed or [max(judged, key=lambda one: one.finding.strain)]


def shown(value: Decimal | None) -> str:
    """Write a figure for reading, to 16 digits."""
    return "none" if value is None else plain(_TO_READ.plus(value))


def ratio(part: Decimal, whole: Decimal) -> Decimal:
    """Return a quotient for reading, to 6 digits; the rules themselves compare products."""
    return _RATIO.divide(part, whole)
