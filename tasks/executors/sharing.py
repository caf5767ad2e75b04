"""Share turnover, cash and the number of orders out among the trades that want them, each in proportion.

This is where every draft starts: `optimise` betters it where it can, and falls back on it where it cannot.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from heapq import heapify, heappop, heappush

from blocks.brokers.port import Side

_ROUNDS = 64  # halving what falls short ends well before, unless nearly nothing can be traded
_PATIENCE = 10_000  # single steps handed out in a round, beyond two a lot


@dataclass(frozen=True, slots=True)
class Lot:
    """One trade that may be made, counted in steps of a share or of 0.0001 share."""

    symbol: str
    side: Side
    limit: Decimal  # price of one share
    price: Decimal  # of one step, at the limit
    worth: Decimal  # of one step, at the middle
    gap: Decimal  # money to the target, at the middle
    least: int  # fewest steps that make an order
    most: int  # steps to the target, or to the nearest limit before it; at least `least`
    cost: Decimal = Decimal(0)  # of one step: half the spread

    @property
    def before(self) -> int:
        """Return the steps that stay before the target; at most one more goes beyond it, and comes nearer."""
        return min(self.most, int(self.gap // self.worth))


@dataclass(frozen=True, slots=True)
class Budgets:
    """What all orders together may use."""

    orders: int
    turnover: Decimal  # money
    cash: Decimal  # money for buys; below zero: sells fill the hole first
    recycles: bool  # whether the proceeds of own sells pay for buys
    whole: bool  # whether a step is large enough to hand out what rounding left over


def share_out(lots: Sequence[Lot], budgets: Budgets) -> dict[str, int]:
    """Return symbol -> steps for the lots that get an order; each `least` to `most`, within every budget."""
    ranked = sorted(lots, key=lambda lot: (-lot.gap, lot.symbol))
    given = _settle(ranked, budgets)
    offer_again(ranked, given, budgets)
    return given


def _settle(ranked: Sequence[Lot], budgets: Budgets) -> dict[str, int]:
    """Spread over the largest drifts; drop what falls short of an order, and spread again over those that stay."""
    queue, chosen, given = ranked, ranked, dict[str, int]()
    for _ in range(_ROUNDS):
        chosen = queue[: budgets.orders]
        given = _spread(chosen, budgets)
        short = [lot.symbol for lot in chosen if given[lot.symbol] < lot.least]
        if not short:
            return given
        # Only the smaller half: with all gone at once, nobody would be left to use what they free.
        dropped = set(short[len(short) // 2 :])
        queue = [lot for lot in queue if lot.symbol not in dropped]
    return _covered(chosen, given, budgets)


def left_over(lots: Sequence[Lot], given: Mapping[str, int], budgets: Budgets) -> tuple[Decimal, Decimal]:
    """Return the turnover and the cash that these steps leave."""
    sold, bought = _money(lots, given, "sell"), _money(lots, given, "buy")
    return budgets.turnover - sold - bought, budgets.cash - bought + (sold if budgets.recycles else 0)


def _spread(lots: Sequence[Lot], budgets: Budgets) -> dict[str, int]:
    """Give every trade the same part of its way where turnover binds, every buy the same part where cash does."""
    sells, buys = [lot for lot in lots if lot.side == "sell"], [lot for lot in lots if lot.side == "buy"]
    part = _part(sells, buys, budgets)
    given = _cut(sells, part)
    cash = left_over(sells, given, budgets)[1]  # what whole steps of sells really bring
    wanted = _wanted(buys)
    given |= _cut(buys, min(part, max(Fraction(cash), Fraction(0)) / wanted) if wanted else part)
    if budgets.whole:
        hand_out(lots, given, budgets)
    return given


def _part(sells: Sequence[Lot], buys: Sequence[Lot], budgets: Budgets) -> Fraction:
    """Return which part of all trades turnover allows; exact, so that no whole share is lost to rounding."""
    sold, bought = _wanted(sells), _wanted(buys)
    turnover, cash = Fraction(budgets.turnover), Fraction(budgets.cash)
    part = turnover / (sold + bought) if sold + bought else Fraction(1)
    if sold:  # where cash stops the buys sooner, the turnover they leave lets more be sold
        part = max(part, _part_of_sells(sold, turnover, cash, budgets.recycles))
    return min(part, Fraction(1))


def _cut(lots: Sequence[Lot], part: Fraction) -> dict[str, int]:
    return {lot.symbol: lot.most * part.numerator // part.denominator for lot in lots}


def _wanted(lots: Sequence[Lot]) -> Fraction:
    return Fraction(sum((lot.price * lot.most for lot in lots), Decimal(0)))


def _part_of_sells(sells: Fraction, turnover: Fraction, cash: Fraction, recycles: bool) -> Fraction:
    """Solve sells x part + the cash that buys then spend = turnover."""
    if not recycles:
        return (turnover - max(cash, Fraction(0))) / sells
    return min(turnover / sells, (turnover - cash) / (2 * sells))


def hand_out(lots: Sequence[Lot], given: dict[str, int], budgets: Budgets) -> None:
    """Give what rounding down left, step by step, to whoever is furthest from the target."""
    turnover, cash = left_over(lots, given, budgets)
    heap = [(given[lot.symbol] * lot.worth - lot.gap, lot.symbol, lot) for lot in lots if given[lot.symbol] < lot.most]
    heapify(heap)
    for _ in range(_PATIENCE + 2 * len(lots)):
        if not heap:
            return
        gap, symbol, lot = heappop(heap)
        if lot.price > turnover or (lot.side == "buy" and lot.price > cash):
            continue
        given[symbol] += 1
        turnover -= lot.price
        cash += _cash_of(lot, 1, budgets)
        if given[symbol] < lot.most:
            heappush(heap, (gap + lot.worth, symbol, lot))


def _covered(lots: Sequence[Lot], given: dict[str, int], budgets: Budgets) -> dict[str, int]:
    """Drop what fell short, then the smallest buys until the sells that remain pay for them."""
    kept = {lot.symbol: given[lot.symbol] for lot in lots if given[lot.symbol] >= lot.least}
    lots = [lot for lot in lots if lot.symbol in kept]
    cash = left_over(lots, kept, budgets)[1]
    for lot in reversed(lots):
        if cash < 0 and lot.side == "buy":
            cash += lot.price * kept.pop(lot.symbol)
    return kept


def offer_again(ranked: Sequence[Lot], given: dict[str, int], budgets: Budgets) -> None:
    """Let those left out take what is still there: one that was dropped early may fit after all."""
    traded = [lot for lot in ranked if lot.symbol in given]
    turnover, cash = left_over(traded, given, budgets)
    for lot in ranked:
        room = min(turnover, cash) if lot.side == "buy" else turnover
        steps = min(int(room // lot.price), lot.most)
        if lot.symbol in given or steps < lot.least or len(given) == budgets.orders:
            continue
        given[lot.symbol] = steps
        turnover -= steps * lot.price
        cash += _cash_of(lot, steps, budgets)


def _cash_of(lot: Lot, steps: int, budgets: Budgets) -> Decimal:
    if lot.side == "buy":
        return -steps * lot.price
    return steps * lot.price if budgets.recycles else Decimal(0)


def _money(lots: Sequence[Lot], given: Mapping[str, int], side: Side) -> Decimal:
    return sum((lot.price * given[lot.symbol] for lot in lots if lot.side == side), Decimal(0))
