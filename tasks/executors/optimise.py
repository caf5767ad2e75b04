"""Distribute cash, turnover and orders so that the trades end nearest to their targets, cost counted.

The nearest steps where every budget holds them. Otherwise the proportional share, bettered by a mixed-integer
programme where that finds something better; every suggestion is brought to whole steps and checked exactly.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property

from tasks.executors.nearness import distance, keeps_budgets, least_distance, spread_paid
from tasks.executors.programme import Programme
from tasks.executors.sharing import Budgets, Lot, hand_out, offer_again, share_out
from tasks.executors.taking_back import mended, nearest_within
from tasks.situation import Sizing

NODE_LIMIT = 50
ROUNDING_GAP = Decimal("1e-6")  # mip_rel_gap where trades compete only for what rounding takes: quick to prove
MIP_REL_GAP = Decimal("1e-5")  # where they compete for more
SHARED_OUT_GAP = Decimal("1e-3")  # and the spread: so near to the bound, a share in proportion is taken as it is
LARGEST = 1000  # lots; more take the solver too long, and a share too much or too little hardly shows among so many

_SHOWN = Decimal("1e-6")

Given = dict[str, int]
"""Symbol -> steps of those that get an order."""


@dataclass(frozen=True, slots=True)
class Distributed:
    """Who gets how much, and how that was found."""

    given: Given
    sizing: Sizing


def distribute(lots: Sequence[Lot], budgets: Budgets) -> Distributed:
    """Return steps for the lots that get an order; each `least` to `most`, within every budget."""
    nearest = {lot.symbol: lot.most for lot in lots}
    if keeps_budgets(lots, nearest, budgets):
        return Distributed(nearest, Sizing(method="nearest", gap=Decimal(0)))
    contest = _Contest(lots, budgets, nearest_within(lots, budgets))
    unasked = contest.why_not_to_ask()
    return contest.as_started(unasked) if unasked else contest.programmed()


@dataclass(frozen=True)
class _Contest:
    """Trades that want more than the budgets hold."""

    lots: Sequence[Lot]
    budgets: Budgets
    rounded: Given | None  # the nearest steps with one or none taken back; nothing where that is not enough

    @cached_property
    def start(self) -> Given:
        """Return the best without a solver."""
        return _nearest_of(self.lots, (share_out(self.lots, self.budgets), self.rounded))

    @cached_property
    def bound(self) -> Decimal:
        """Return what no share-out can go below."""
        return least_distance(self.lots, self.budgets)

    @cached_property
    def _mip_rel_gap(self) -> Decimal:
        only_rounding = self.rounded is not None and len(self.lots) <= self.budgets.orders
        return ROUNDING_GAP if only_rounding else MIP_REL_GAP

    def why_not_to_ask(self) -> str:
        """Return why the solver need not or cannot help, or nothing."""
        if self._is_near_enough():
            return "near enough to the bound"
        if len(self.lots) > LARGEST:
            return f"{len(self.lots)} trades compete, the solver is asked for up to {LARGEST}"
        if not self.budgets.whole and len(self.start) == len(self.lots):
            return "fractions of a share leave nothing to round"
        return ""

    def _is_near_enough(self) -> bool:
        """Tell whether bettering the start would be for nothing.

        Where more than rounding is in the way, any share-out that uses the budgets up is about as near, and the last
        basis point of spread would decide: one trade in full and the next not at all. Proportion is preferred to that.
        """
        away = distance(self.lots, self.start)
        if self.rounded is not None:
            return away - self.bound <= self._mip_rel_gap * away
        return away - self.bound <= SHARED_OUT_GAP * away + spread_paid(self.lots, self.start)

    def as_started(self, note: str) -> Distributed:
        """Return the best without a solver."""
        return Distributed(self.start, Sizing(method="greedy", gap=self._gap(self.start, self.bound), note=note))

    def programmed(self) -> Distributed:
        """Return what the solver betters, or the start where it betters nothing."""
        answer = Programme(self.lots, self.budgets, self.start).solved(NODE_LIMIT, float(self._mip_rel_gap))
        best = _nearest_of(self.lots, (self.start, _settled(self.lots, answer.steps, self.budgets)))
        known = self.bound if answer.bound is None else max(self.bound, answer.bound)
        sizing = Sizing(
            method="greedy" if best is self.start else "milp",
            gap=self._gap(best, known),
            node_limit=NODE_LIMIT,
            mip_rel_gap=self._mip_rel_gap,
            note=answer.message,
        )
        return Distributed(best, sizing)

    def _gap(self, given: Given, bound: Decimal) -> Decimal:
        away = distance(self.lots, given)
        return max((away - bound) / away, Decimal(0)).quantize(_SHOWN) if away else away


def _settled(lots: Sequence[Lot], steps: Given, budgets: Budgets) -> Given | None:
    """Return a suggestion made to hold exactly, with what it leaves handed out."""
    given = mended(lots, steps, budgets)
    if given:
        offer_again(sorted(lots, key=lambda lot: (-lot.gap, lot.symbol)), given, budgets)
        hand_out([lot for lot in lots if lot.symbol in given], given, budgets)
    return given


def _nearest_of(lots: Sequence[Lot], candidates: Iterable[Given | None]) -> Given:
    """Return the nearest, of equals the first."""
    return min((given for given in candidates if given is not None), key=lambda given: distance(lots, given))
