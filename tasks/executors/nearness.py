"""What a share-out is worth: tracking error plus cost, the budgets it keeps, and how good any could be."""

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction

from tasks.executors.sharing import Budgets, Lot, left_over


def gain(lot: Lot, steps: int) -> Decimal:
    """Return by how much so many steps lower |value - target|, less half the spread that they cost."""
    return lot.gap - abs(lot.gap - lot.worth * steps) - lot.cost * steps


def distance(lots: Iterable[Lot], given: Mapping[str, int]) -> Decimal:
    """Return the tracking error in money, the sum of |value after - target value|, plus the cost of getting there."""
    return sum((lot.gap - gain(lot, given.get(lot.symbol, 0)) for lot in lots), Decimal(0))


def spread_paid(lots: Iterable[Lot], given: Mapping[str, int]) -> Decimal:
    """Return what so many steps cost."""
    return sum((lot.cost * given.get(lot.symbol, 0) for lot in lots), Decimal(0))


def keeps_budgets(lots: Sequence[Lot], given: Mapping[str, int], budgets: Budgets) -> bool:
    """Tell whether orders of so many steps are each allowed, and all together within every budget."""
    traded = [lot for lot in lots if lot.symbol in given]
    if len(given) > budgets.orders or any(not lot.least <= given[lot.symbol] <= lot.most for lot in traded):
        return False
    turnover, cash = left_over(traded, given, budgets)
    return turnover >= 0 and (cash >= 0 or all(lot.side == "sell" for lot in traded))


def least_distance(lots: Sequence[Lot], budgets: Budgets) -> Decimal:
    """Return a distance that no share-out can go below: the best with each budget alone, and steps cut at will."""
    sells, buys = [lot for lot in lots if lot.side == "sell"], [lot for lot in lots if lot.side == "buy"]
    brought = sum((lot.price * lot.most for lot in sells), Decimal(0)) if budgets.recycles else Decimal(0)
    best = min(
        sum(sorted((gain(lot, lot.most) for lot in lots), reverse=True)[: budgets.orders], Decimal(0)),
        _gain_for(lots, budgets.turnover),
        _gain_for(sells, None) + _gain_for(buys, budgets.cash + brought),
    )
    return distance(lots, {}) - best


def _gain_for(lots: Iterable[Lot], money: Decimal | None) -> Decimal:
    """Return the most that so much money can gain: best gain for money first, the last in part (Dantzig 1957)."""
    pieces = [(lot.price * steps, worth) for lot in lots for steps, worth in _pieces(lot)]
    if money is None:
        return sum((worth for _, worth in pieces), Decimal(0))
    total, left = Decimal(0), max(money, Decimal(0))
    for price, worth in sorted(pieces, key=lambda piece: Fraction(piece[1]) / Fraction(piece[0]), reverse=True):
        if price > left:
            return total + worth * left / price
        total, left = total + worth, left - price
    return total


def _pieces(lot: Lot) -> Iterable[tuple[int, Decimal]]:
    """Split a trade into the steps before the target and the one that goes beyond it, with what each gains."""
    before = gain(lot, lot.before)
    if lot.before:
        yield lot.before, before
    if lot.most > lot.before:
        yield 1, gain(lot, lot.most) - before
