"""The book: the situation and the orders as the rules need them, each figure worked out once and exactly."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import NamedTuple

from blocks.brokers.port import Order, Side, WorkingOrder
from blocks.market.quotes import Quote
from tasks.situation import Situation
from tasks.verification.findings import BASIS_POINT, Judged, each
from tasks.verification.quote_rules import MARKET_RULES, QUOTE_RULES, Market, is_positive, last_close, market_of

_ZERO = Decimal(0)


class Need(NamedTuple):
    """A symbol that has to be priced, and its quote if there is one."""

    symbol: str
    quote: Quote | None


@dataclass(frozen=True)
class Book:
    """What the rules look at. Its figures are worked out on first use, inside the gate's exact arithmetic."""

    situation: Situation
    orders: tuple[Order, ...]

    @cached_property
    def targets(self) -> Mapping[str, Decimal]:
        """Return the target weight of each symbol of the universe."""
        return self.situation.target_weights

    @cached_property
    def held(self) -> Mapping[str, Decimal]:
        """Return the shares held, as reported."""
        return self.situation.account.held()

    @cached_property
    def frozen(self) -> frozenset[str]:
        """Return the symbols that are valued and never traded."""
        return frozenset(self.situation.mandate.frozen)

    @cached_property
    def restricted(self) -> frozenset[str]:
        """Return the symbols that are never ordered."""
        return frozenset(self.situation.mandate.limits.restricted)

    @cached_property
    def times_ordered(self) -> Mapping[str, int]:
        """Return how many of the proposal's orders each symbol has."""
        return Counter(order.symbol for order in self.orders)

    @cached_property
    def working(self) -> tuple[WorkingOrder, ...]:
        """Return the working orders of which something may still fill."""
        return tuple(order for order in self.situation.open_orders if order.remaining > 0)

    @cached_property
    def unlimited(self) -> tuple[WorkingOrder, ...]:
        """Return the working buys without a limit, which may be written as 0: only a quote can say what they cost."""
        return tuple(order for order in self.working if order.side == "buy" and not order.limit)

    @cached_property
    def buying(self) -> Mapping[str, Decimal]:
        """Return the shares that working buys may still bring."""
        return self._unfilled("buy")

    @cached_property
    def selling(self) -> Mapping[str, Decimal]:
        """Return the shares that working sells may still take."""
        return self._unfilled("sell")

    def _unfilled(self, side: Side) -> Mapping[str, Decimal]:
        shares: defaultdict[str, Decimal] = defaultdict(Decimal)
        for order in self.working:
            if order.side == side:
                shares[order.symbol] += order.remaining
        return shares

    @cached_property
    def needs(self) -> tuple[Need, ...]:
        """Return what needs a usable quote: the targeted, held or traded, and what unlimited buys are for."""
        universe = (symbol for symbol in self.targets if symbol not in self.frozen and self._is_needed(symbol))
        symbols = dict.fromkeys((*universe, *(order.symbol for order in self.unlimited)))
        return tuple(Need(symbol, self.situation.quote_of.get(symbol)) for symbol in symbols)

    def _is_needed(self, symbol: str) -> bool:
        return self.targets[symbol] > 0 or self.held.get(symbol, _ZERO) != 0 or symbol in self.times_ordered

    @cached_property
    def frozen_needs(self) -> tuple[Need, ...]:
        """Return the frozen symbols that have to be valued: those held, or with a working order."""
        involved = {order.symbol for order in self.working} | {symbol for symbol, shares in self.held.items() if shares}
        symbols = (symbol for symbol in self.targets if symbol in self.frozen and symbol in involved)
        return tuple(Need(symbol, self.situation.quote_of.get(symbol)) for symbol in symbols)

    @cached_property
    def quotes(self) -> tuple[Quote, ...]:
        """Return the quotes there are of what needs one."""
        return tuple(need.quote for need in self.needs if need.quote is not None)

    @cached_property
    def quotes_judged(self) -> tuple[list[Judged], ...]:
        """Return what each rule for quotes finds in each quote."""
        priced = [market for quote in self.quotes if (market := market_of(quote))]
        return (
            *(each(rule, self.quotes, self.situation) for rule in QUOTE_RULES),
            *(each(rule, priced, self.situation) for rule in MARKET_RULES),
        )

    @cached_property
    def markets(self) -> Mapping[str, Market]:
        """Return the usable quotes: those that keep every rule."""
        refused = {one.symbol for judged in self.quotes_judged for one in judged if one.finding.reason}
        priced = (market_of(quote) for quote in self.quotes if quote.symbol not in refused)
        return {market.symbol: market for market in priced if market}

    @cached_property
    def equity(self) -> Decimal | None:
        """Return managed equity: cash, and the universe's positions at the middle; None where one has no price."""
        worth = self.situation.account.cash.get(self.situation.mandate.base_currency, _ZERO)
        for symbol, shares in self.held.items():
            if shares and symbol in self.targets:
                price = self._value_of_one(symbol)
                if price is None:
                    return None
                worth += shares * price
        return worth

    @cached_property
    def kept_back(self) -> Decimal | None:
        """Return the cash that buys leave untouched; None without equity.

        That is the buffer, what is to be raised, and what working buys without a limit may take.
        """
        if self.equity is None:
            return None
        mandate, unlimited = self.situation.mandate, (self.cost_of(order) for order in self.unlimited)
        return mandate.policy.cash_buffer * self.equity + mandate.raise_cash + sum(filter(None, unlimited), _ZERO)

    def _value_of_one(self, symbol: str) -> Decimal | None:
        if symbol in self.frozen:
            return last_close(self.situation.quote_of.get(symbol), self.situation.mandate.base_currency)
        market = self.markets.get(symbol)
        return market.middle if market else None

    @cached_property
    def promised(self) -> Decimal | None:
        """Return the cash that working buys, of whatever symbol, may still take; None where it cannot be known."""
        costs = [self.cost_of(order) for order in self.working if order.side == "buy"]
        known = [cost for cost in costs if cost is not None]
        return sum(known, _ZERO) if len(known) == len(costs) else None

    def cost_of(self, order: WorkingOrder) -> Decimal | None:
        """Return what a working buy may still take: at its limit, or without one at the ask and the collar above."""
        if order.limit:
            return order.remaining * order.limit
        market = self.markets.get(order.symbol)
        collar = 1 + self.situation.mandate.limits.collar_bps * BASIS_POINT
        return order.remaining * market.ask * collar if market else None

    @cached_property
    def counted(self) -> tuple[Order, ...]:
        """Return the orders whose quantity is a positive number."""
        return tuple(order for order in self.orders if is_positive(order.quantity))

    @cached_property
    def limited(self) -> tuple[Order, ...]:
        """Return the orders whose limit is a positive number, in symbols with a usable quote."""
        return tuple(order for order in self.orders if is_positive(order.limit) and order.symbol in self.markets)

    @cached_property
    def summable(self) -> tuple[Order, ...]:
        """Return the orders that have a notional: quantity and limit are positive numbers."""
        return tuple(order for order in self.counted if is_positive(order.limit))

    @cached_property
    def priced(self) -> tuple[Order, ...]:
        """Return the counted orders in symbols of the universe with a usable quote."""
        return tuple(order for order in self.counted if order.symbol in self.markets and order.symbol in self.targets)

    @cached_property
    def weighable(self) -> tuple[Order, ...]:
        """Return the priced orders, once managed equity is known."""
        return () if self.equity is None else self.priced

    def position(self, symbol: str) -> Decimal:
        """Return the shares held as if every working order had filled."""
        return self.held.get(symbol, _ZERO) + self.buying.get(symbol, _ZERO) - self.selling.get(symbol, _ZERO)

    def sellable(self, symbol: str) -> Decimal:
        """Return the shares held that no working sell has claimed; a working buy cannot be sold."""
        return max(self.held.get(symbol, _ZERO) - self.selling.get(symbol, _ZERO), _ZERO)
