"""The share-out as a mixed-integer linear programme, counted in whole steps from the floor of a share-out that holds.

In this form a trade has one column for the steps that stay before its target and one for the single step beyond, and
no |value - target| is left in it. HiGHS mostly proves it at its root; in shares, with a column and two rows for every
|value - target|, 43 of 100 accounts were left unproved after half a second.

Floats go in and come out; what is returned are whole steps, a suggestion that `optimise` checks exactly.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property

from tasks.executors.nearness import distance, gain
from tasks.executors.sharing import Budgets, Lot, left_over
from tasks.executors.sheet import Sheet, Terms

_ALMOST = 1e-4  # of a step: what the solver's tolerances may leave short of a whole one


@dataclass(frozen=True, slots=True)
class Suggestion:
    """Steps that may be better, and what no steps in the programme can better."""

    steps: dict[str, int]  # empty if nothing was found
    bound: Decimal | None  # of the distance; none where it holds only for share-outs with no more sells
    message: str


@dataclass(frozen=True)
class Programme:
    """Lots and budgets, around a share-out that keeps them."""

    lots: Sequence[Lot]
    budgets: Budgets
    start: Mapping[str, int]

    def solved(self, node_limit: int, mip_rel_gap: float) -> Suggestion:
        """Put it to the solver and return what it suggests."""
        sheet = Sheet()
        # The floor's distance is a column: the gap is then a share of the distance, and not of what is gained.
        sheet.column(self._scaled(distance(self.lots, self._floor)), 1, 1, whole=False)
        moves, ordered = dict[str, Terms](), Terms()
        for lot in self.lots:
            moves[lot.symbol] = self._move(sheet, lot, ordered)
        if self._scarce:
            sheet.row(-math.inf, ordered, self.budgets.orders)
        self._limit_money(sheet, moves)
        answer = sheet.least(node_limit, mip_rel_gap)
        known = math.isfinite(answer.bound) and not self._limits_sells
        bound = Decimal(answer.bound) * Decimal(self._unit) if known else None
        return Suggestion(self._steps(answer.values, moves), bound, answer.message)

    @cached_property
    def _unit(self) -> float:
        """Return the money that figures are counted in, so that none is far from one."""
        prices = [float(lot.price) for lot in self.lots]
        return math.sqrt(min(prices)) * math.sqrt(max(prices))

    def _scaled(self, money: Decimal) -> float:
        return float(money) / self._unit

    @cached_property
    def _scarce(self) -> bool:
        return len(self.lots) > self.budgets.orders

    @cached_property
    def _limits_sells(self) -> bool:
        """Tell whether two sides share scarce turnover: sells take a spread less of it, all sells would be nearest."""
        wanted = sum((lot.price * lot.most for lot in self.lots), Decimal(0))
        return wanted > self.budgets.turnover and len({lot.side for lot in self.lots}) > 1

    @cached_property
    def _floor(self) -> dict[str, int]:
        """Return the steps that the programme counts from: the start's, without those beyond a target."""
        return {lot.symbol: min(self.start.get(lot.symbol, 0), lot.before) for lot in self.lots}

    def _move(self, sheet: Sheet, lot: Lot, ordered: Terms) -> Terms:
        """Add the columns of a trade; return those that count its steps from the floor."""
        floor = self._floor[lot.symbol]
        # Parts of a share are no whole numbers here, and their thousands of steps are counted by the most there may be.
        whole, each = self.budgets.whole, 1 if self.budgets.whole else lot.most
        worth = self._scaled((lot.worth - lot.cost) * each)
        move = {sheet.column(-worth, -floor / each, (lot.before - floor) / each, whole=whole): float(each)}
        if lot.most > lot.before:  # one more goes beyond the target; it gains less, so the solver takes it last
            beyond = gain(lot, lot.most) - gain(lot, lot.before)
            move[sheet.column(-self._scaled(beyond), 0, 1, whole=whole)] = 1.0
        if self._scarce or lot.least > 1:
            order = sheet.column(0, 0, 1)
            ordered[order] = 1.0
            part = {column: steps / lot.most for column, steps in move.items()}
            sheet.row(-math.inf, {**part, order: -1.0}, -floor / lot.most)
            sheet.row(-floor / lot.most, {**part, order: -lot.least / lot.most}, math.inf)
        return move

    def _limit_money(self, sheet: Sheet, moves: Mapping[str, Terms]) -> None:
        turnover, cash = left_over(self.lots, self._floor, self.budgets)
        sells, buys = self._spent(moves, "sell"), self._spent(moves, "buy")
        sheet.row(-math.inf, {**sells, **buys}, self._scaled(turnover))
        if self._limits_sells:
            sheet.row(-math.inf, sells, self._scaled(self._more_to_sell()))
        if buys:
            self._limit_buys(sheet, sells, buys, cash)

    def _more_to_sell(self) -> Decimal:
        """Return the money of sells beyond the floor: as much as in the start, and the dearest single order more."""
        beyond = (
            (lot, self.start.get(lot.symbol, 0) - self._floor[lot.symbol]) for lot in self.lots if lot.side == "sell"
        )
        return sum((lot.price * steps for lot, steps in beyond), max(lot.least * lot.price for lot in self.lots))

    def _limit_buys(self, sheet: Sheet, sells: Terms, buys: Terms, cash: Decimal) -> None:
        paid = {**buys, **({column: -price for column, price in sells.items()} if self.budgets.recycles else {})}
        hole = max(-self.budgets.cash, Decimal(0))
        if hole:  # no buys at all, or else sells have to fill the hole first
            some = sheet.column(0, 0, 1)
            wanted = sum((lot.price * lot.most for lot in self.lots if lot.side == "buy"), Decimal(0))
            bought = sum((lot.price * self._floor[lot.symbol] for lot in self.lots if lot.side == "buy"), Decimal(0))
            sheet.row(-math.inf, {**buys, some: -self._scaled(wanted)}, -self._scaled(bought))
            paid[some] = self._scaled(hole)
        sheet.row(-math.inf, paid, self._scaled(cash + hole))

    def _spent(self, moves: Mapping[str, Terms], side: str) -> Terms:
        return {
            column: self._scaled(lot.price) * steps
            for lot in self.lots
            if lot.side == side
            for column, steps in moves[lot.symbol].items()
        }

    def _steps(self, values: Sequence[float], moves: Mapping[str, Terms]) -> dict[str, int]:
        if not values:
            return {}
        counted = {
            symbol: self._floor[symbol] + sum(values[column] * steps for column, steps in move.items())
            for symbol, move in moves.items()
        }
        return {symbol: steps for symbol, value in counted.items() if (steps := math.floor(value + _ALMOST)) > 0}
