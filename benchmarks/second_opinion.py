"""A second opinion on orders: the rules of DESIGN written down once more, in fractions, and how far is left to go.

Neither `draft` nor `verify` has a part in it, so that it can be told which of the two is wrong.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from functools import cached_property

from blocks.brokers.port import Order, WorkingOrder
from blocks.market.quotes import Quote
from tasks.situation import Situation


def _price(value: Decimal | None) -> Fraction | None:
    return Fraction(value) if value is not None and value.is_finite() and value > 0 else None


def _fraction(value: Decimal | int | None) -> Fraction:
    return Fraction(value or 0)


@dataclass(frozen=True)
class Opinion:
    """What is true of a situation, and so which orders may be there."""

    situation: Situation

    def broken(self, orders: Sequence[Order]) -> list[str]:
        """Return every rule that these orders break in this situation."""
        return [*self._by_the_situation(orders), *self._by_all(orders), *(b for o in orders for b in self._by_one(o))]

    def away(self, orders: Sequence[Order]) -> Fraction:
        """Return the tracking error in money, plus half the spreads and what limits are away from the far side."""
        by_symbol, total = {order.symbol: order for order in orders}, Fraction(0)
        for symbol in (each for each in self._targets if each in self._market):
            change, cost = Fraction(0), Fraction(0)
            if order := by_symbol.get(symbol):
                bid, ask = self._market[symbol]
                change = Fraction(order.quantity) * (1 if order.side == "buy" else -1)
                missed = abs(Fraction(order.limit) - (ask if order.side == "buy" else bid))
                cost = abs(change) * ((ask - bid) / 2 + missed)
            total += self._off(symbol, change) + cost
        return total

    @cached_property
    def _targets(self) -> dict[str, Fraction]:
        return {symbol: Fraction(weight) for symbol, weight in self.situation.target_weights.items()}

    @cached_property
    def _market(self) -> dict[str, tuple[Fraction, Fraction]]:
        """Return symbol -> bid and ask of every usable quote."""
        usable = {quote.symbol: self._usable(quote) for quote in self.situation.quotes}
        return {symbol: market for symbol, market in usable.items() if market}

    def _usable(self, quote: Quote) -> tuple[Fraction, Fraction] | None:
        mandate, limits, now = self.situation.mandate, self.situation.mandate.limits, self.situation.now
        bid, ask, close, tick = map(_price, (quote.bid, quote.ask, quote.previous_close, quote.tick))
        if bid is None or ask is None or close is None or tick is None or quote.at is None:
            return None
        middle = (bid + ask) / 2
        usable = (
            bid <= ask <= bid + middle * Fraction(limits.max_spread_bps) / 10_000
            and abs(middle / close - 1) <= Fraction(limits.max_price_jump)
            and quote.at <= now <= quote.at + mandate.freshness.quotes
            and (mandate.allow_delayed or not quote.delayed)
            and quote.currency in {None, mandate.base_currency}
            and tick >= Fraction(1, 10**8)
        )
        return (bid, ask) if usable else None

    def _middle(self, symbol: str) -> Fraction:
        return sum(self._market[symbol], Fraction(0)) / 2

    @cached_property
    def _held(self) -> dict[str, Fraction]:
        return {each.symbol: Fraction(each.quantity) for each in self.situation.account.positions}

    def _unfilled(self, symbol: str, side: str) -> Fraction:
        working = (each for each in self.situation.open_orders if (each.symbol, each.side) == (symbol, side))
        return sum((max(Fraction(each.quantity) - Fraction(each.filled), Fraction(0)) for each in working), Fraction(0))

    @cached_property
    def _unlimited(self) -> list[WorkingOrder]:
        """Return the working buys whose cost only a quote can say; a broker may write 0 where there is no limit."""
        orders = self.situation.open_orders
        return [each for each in orders if each.side == "buy" and each.quantity > each.filled and not each.limit]

    def _close(self, symbol: str) -> Fraction | None:
        quote = self.situation.quote_of.get(symbol)
        base = self.situation.mandate.base_currency
        return _price(quote.previous_close) if quote and quote.currency in {None, base} else None

    @cached_property
    def _equity(self) -> Fraction:
        total = _fraction(self.situation.account.cash.get(self.situation.mandate.base_currency))
        for symbol in self._targets:
            frozen = symbol in self.situation.mandate.frozen
            if held := self._held.get(symbol, 0):
                total += held * (self._close(symbol) or 0 if frozen else self._middle(symbol))
        return total

    def _off(self, symbol: str, change: Fraction) -> Fraction:
        """Return |value - target| once all working orders and the change are done."""
        target = self._targets[symbol] * (self._equity - Fraction(self.situation.mandate.raise_cash))
        shares = self._held.get(symbol, 0) + self._unfilled(symbol, "buy") - self._unfilled(symbol, "sell")
        return abs((shares + change) * self._middle(symbol) - target)

    def _by_the_situation(self, orders: Sequence[Order]) -> Iterator[str]:
        account, mandate = self.situation.account, self.situation.mandate
        if account.id != mandate.account:
            yield "account"
        if not timedelta(0) <= self.situation.now - account.as_of <= mandate.freshness.positions:
            yield "age of positions"
        if not self._is_priced(orders):
            yield "prices"
        elif mandate.raise_cash >= self._equity > 0 and mandate.raise_cash:
            yield "cash to raise"

    def _is_priced(self, orders: Sequence[Order]) -> bool:
        """Tell whether all that is needed has a price; without that there is no equity."""
        frozen, traded = set(self.situation.mandate.frozen), {order.symbol for order in orders}
        weighs = {s for s, target in self._targets.items() if target or self._held.get(s) or s in traded} - frozen
        counted = {s for s in frozen if self._held.get(s) or self._unfilled(s, "buy") or self._unfilled(s, "sell")}
        needed = weighs | {order.symbol for order in self._unlimited}
        return needed <= self._market.keys() and all(map(self._close, counted))

    def _by_all(self, orders: Sequence[Order]) -> Iterator[str]:
        mandate, limits = self.situation.mandate, self.situation.mandate.limits
        if len(orders) > limits.max_orders:
            yield "max_orders"
        if len({order.symbol for order in orders}) < len(orders):
            yield "one order a symbol"
        if not orders or not self._is_priced(orders):
            return
        if self._equity <= 0:
            yield "equity"
        sides = {s: sum((Fraction(o.notional) for o in orders if o.side == s), Fraction(0)) for s in ("buy", "sell")}
        if sum(sides.values()) > Fraction(limits.max_turnover) * self._equity:
            yield "max_turnover"
        settled = limits.cash_basis == "settled"
        account = self.situation.account
        cash = _fraction((account.settled_cash if settled else account.cash).get(mandate.base_currency))
        kept = Fraction(mandate.policy.cash_buffer) * self._equity + Fraction(mandate.raise_cash) + self._promised()
        if any(o.side == "buy" for o in orders) and sides["buy"] > cash - kept + (0 if settled else sides["sell"]):
            yield "cash"

    def _promised(self) -> Fraction:
        dearest, total = 1 + Fraction(self.situation.mandate.limits.collar_bps) / 10_000, Fraction(0)
        for order in self.situation.open_orders:
            if order.side == "buy" and order.quantity > order.filled:
                price = _price(order.limit) or self._market[order.symbol][1] * dearest
                total += (Fraction(order.quantity) - Fraction(order.filled)) * price
        return total

    def _by_one(self, order: Order) -> list[str]:
        """Return the rules that one order breaks; of one that is no order at all, just that."""
        symbol, mandate, limits = order.symbol, self.situation.mandate, self.situation.mandate.limits
        quantity, limit = _price(order.quantity), _price(order.limit)
        if quantity is None or limit is None or symbol not in self._targets:
            return ["no order"]
        if symbol in (*mandate.frozen, *limits.restricted):
            return ["never ordered"]
        if symbol not in self._market or not self._is_priced([order]):
            return ["no price"]
        buys, quote, notional = order.side == "buy", self.situation.quote_of[symbol], quantity * limit
        far, change = self._market[symbol][1 if buys else 0], quantity if buys else -quantity
        working = self._unfilled(symbol, "buy") - self._unfilled(symbol, "sell")
        weighs = (self._held.get(symbol, 0) + working + quantity) * self._middle(symbol)
        adv, share = _price(quote.adv), limits.max_adv_fraction
        kept = {
            "direction": mandate.direction in {"both", f"{order.side}_only"},
            "whole": (quantity * (10_000 if mandate.fractional else 1)).denominator == 1,
            "sellable": buys or quantity <= self._held.get(symbol, 0) - self._unfilled(symbol, "sell"),
            "tick": (limit / Fraction(quote.tick)).denominator == 1,
            "collar": abs(limit - far) <= far * Fraction(limits.collar_bps) / 10_000,
            "min_trade": notional >= Fraction(mandate.min_trade),
            "max_order_notional": notional <= Fraction(limits.max_order_notional),
            "nearer": self._off(symbol, change) < self._off(symbol, Fraction(0)),
            "max_weight": not buys or weighs <= Fraction(limits.max_weight) * self._equity,
            "volume": share is None or (adv is not None and quantity <= Fraction(share) * adv),
        }
        return [rule for rule, holds in kept.items() if not holds]
