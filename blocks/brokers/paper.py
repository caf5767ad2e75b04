"""The paper broker: an exchange that trades against quotes, and the account it keeps in the ledger.

Its entries are the broker's own book, apart from what our side records of intents, orders and fills: `paper.account`
(the opening cash), `paper.order` (as placed, with the refusal if there was one), `paper.fill` and `paper.cancel`.
Cash, positions and the state of every order are the fold of those. There is no matching engine: an order fills whole
when it is placed, or works until it is cancelled or its day (UTC) is over. There are no exchange hours either: a fresh
quote is what makes an order possible.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_UP, Decimal
from functools import cached_property
from urllib.parse import quote as escaped

from blocks.brokers.port import AccountState, Fill, Order, OrderReport, OrderState, Position, Side, Word, WorkingOrder
from blocks.canonical import canonical_json, digest
from blocks.errors import BrokerUnavailable, LedgerError, MarketError, OrderRefused, UnusableInput
from blocks.ledger import Ledger, Reading
from blocks.market.quotes import Quote
from blocks.values import Moment, iso, money, plain, short

QuoteSource = Callable[[tuple[str, ...], datetime], Awaitable[tuple[Quote, ...]]]
"""The market: symbols and now -> what is quoted; a symbol it does not know is left out."""

Commission = Callable[[Decimal, Decimal], Decimal]
"""Quantity and price -> what the broker takes for the trade."""

_SMALLEST_LOT = Decimal("0.0001")
_FINEST_TICK = Decimal("1e-8")
_NONE = Decimal(0)


def fixed_commission(quantity: Decimal, price: Decimal) -> Decimal:
    """Return what IBKR's fixed plan takes: 0.005 a share, at least 1.00, yet never over 1 % of the trade's value."""
    due = min(max(quantity * Decimal("0.005"), Decimal(1)), quantity * price / 100)
    return due.quantize(Decimal("0.01"), ROUND_HALF_UP)


def trade_price(quote: Quote, side: Side, slippage_bps: Decimal) -> Decimal:
    """Return the far side on the tick (an ask down, a bid up), moved against us by the slippage, to the tick again."""
    far, inward, outward, sign = (
        (quote.ask, ROUND_FLOOR, ROUND_CEILING, 1) if side == "buy" else (quote.bid, ROUND_CEILING, ROUND_FLOOR, -1)
    )
    on_tick = _to_tick(far or _NONE, quote.tick, inward)
    return _to_tick(on_tick * (1 + sign * slippage_bps / 10_000), quote.tick, outward)


def _to_tick(price: Decimal, tick: Decimal, rounding: str) -> Decimal:
    return (price / tick).to_integral_value(rounding) * tick


class _Placed(Word):
    """An order as the broker took it, or as it refused it."""

    order_ref: str
    order: Order
    at: Moment
    refusal: str = ""


@dataclass(frozen=True)
class _Book:
    """The account as its entries tell it; orders and fills by order reference, each reference once."""

    opening_cash: Decimal = _NONE
    orders: Mapping[str, _Placed] = field(default_factory=dict)
    fills: Mapping[str, Fill] = field(default_factory=dict)
    cancelled: frozenset[str] = frozenset()

    @cached_property
    def cash(self) -> Decimal:
        return self.opening_cash + sum((_cash_flow(fill) for fill in self.fills.values()), _NONE)

    @cached_property
    def held(self) -> dict[str, Decimal]:
        held: dict[str, Decimal] = {}
        for fill in self.fills.values():
            held[fill.symbol] = held.get(fill.symbol, _NONE) + (fill.quantity if fill.side == "buy" else -fill.quantity)
        return {symbol: quantity for symbol, quantity in sorted(held.items()) if quantity}

    def state(self, order_ref: str, now: datetime) -> tuple[OrderState, str]:
        placed = self.orders[order_ref]
        if placed.refusal:
            return "dead", placed.refusal
        if order_ref in self.fills:
            return "filled", ""
        if order_ref in self.cancelled:
            return "dead", "cancelled"
        return ("dead", "expired") if now.astimezone(UTC).date() > placed.at.date() else ("working", "")

    def working(self, now: datetime) -> list[_Placed]:
        return [placed for ref, placed in self.orders.items() if self.state(ref, now)[0] == "working"]


def _cash_flow(fill: Fill) -> Decimal:
    value = fill.quantity * fill.price
    return (value if fill.side == "sell" else -value) - fill.commission


def _folded(entries: Reading, account: str) -> _Book:
    opened = entries.get("paper.account", account)
    orders = [_Placed.model_validate(entry.body) for entry in entries.all("paper.order", account)]
    fills = [Fill.model_validate(entry.body) for entry in entries.all("paper.fill", account)]
    return _Book(
        opening_cash=Decimal(opened.body["cash"]) if opened else _NONE,
        orders={order.order_ref: order for order in orders},
        fills={fill.order_ref: fill for fill in fills},
        cancelled=frozenset(entry.body["order_ref"] for entry in entries.all("paper.cancel", account)),
    )


def _newest(entries: Reading, account: str) -> int:
    """Return the number of the account's newest change. A fill is booked with its order, ahead of it."""
    changes = (entries.latest(kind, account) for kind in ("paper.order", "paper.cancel"))
    return max((entry.seq for entry in changes if entry), default=0)


def _fault_of_quote(quote: Quote, currency: str, now: datetime, max_age: timedelta) -> str | None:
    bid, ask = quote.bid or _NONE, quote.ask or _NONE
    if not (bid.is_finite() and ask.is_finite() and 0 < bid <= ask):
        return f"no usable quote: bid {_said(quote.bid)}, ask {_said(quote.ask)}"
    if not (quote.tick.is_finite() and _FINEST_TICK <= quote.tick <= ask):
        return f"a tick of {plain(quote.tick)} does not suit an ask of {plain(ask)}"
    if quote.delayed:
        return "the quote is delayed"
    if quote.currency not in (None, currency):
        return f"quoted in {quote.currency}, the account is kept in {currency}"
    return _fault_of_age(quote, now, max_age)


def _fault_of_age(quote: Quote, now: datetime, max_age: timedelta) -> str | None:
    if quote.at is None:
        return "the quote does not say when it was made"
    if not timedelta(0) <= now - quote.at <= max_age:
        return f"the quote was made {iso(quote.at)}, at {iso(now)} it may be at most {short(max_age)} old"
    return None


def _said(price: Decimal | None) -> str:
    return "missing" if price is None else plain(price)


def _fault_of_order(order: Order, tick: Decimal) -> str | None:
    for name, figure, step in (("quantity", order.quantity, _SMALLEST_LOT), ("limit", order.limit, tick)):
        if not figure.is_finite() or figure <= 0:
            return f"{name} is {plain(figure)}, it has to be above 0"
        if figure % step:
            return f"{name} {plain(figure)} is not a multiple of {plain(step)}"
    return None


def _fault_of_cover(book: _Book, order: Order, now: datetime, commission: Commission) -> str | None:
    """Tell what the account lacks for an order at its limit; what working orders may take is gone already."""
    working = [placed.order for placed in book.working(now) if placed.order.side == order.side]
    if order.side == "sell":
        taken = sum((other.quantity for other in working if other.symbol == order.symbol), _NONE)
        held = book.held.get(order.symbol, _NONE)
        figures = f"selling {plain(order.quantity)}, holding {plain(held)}, of which working sells take {plain(taken)}"
        return figures if order.quantity > held - taken else None
    taken = sum((other.notional + commission(other.quantity, other.limit) for other in working), _NONE)
    cost = order.notional + commission(order.quantity, order.limit)
    figures = f"costs {money(cost)} with commission, cash {money(book.cash)}, of which working buys take {money(taken)}"
    return figures if cost > book.cash - taken else None


def _report(book: _Book, order_ref: str, now: datetime) -> OrderReport:
    order, fill = book.orders[order_ref].order, book.fills.get(order_ref)
    state, reason = book.state(order_ref, now)
    return OrderReport(
        order_ref=order_ref,
        symbol=order.symbol,
        side=order.side,
        quantity=_reportable(order.quantity),
        filled=fill.quantity if fill else _NONE,
        limit=_reportable(order.limit),
        state=state,
        reason=reason,
    )


def _reportable(figure: Decimal) -> Decimal:
    """Return 0 for what a report cannot hold (NaN, below zero): such an order was refused, and its reason tells."""
    return figure if figure.is_finite() and figure > 0 else _NONE


class PaperBroker:
    """A `port.Broker` on paper. Several objects and processes may share one account: the ledger keeps them in line."""

    def __init__(
        self,
        ledger: Ledger,
        account: str,
        currency: str,
        quotes: QuoteSource,
        *,
        opening_cash: Decimal = Decimal(100_000),
        slippage_bps: Decimal = _NONE,
        max_quote_age: timedelta = timedelta(minutes=15),
        commission: Commission = fixed_commission,
    ) -> None:
        """Open the account; the opening cash counts only where the ledger does not hold the account yet.

        Raises LedgerError where the ledger keeps it in another currency.
        """
        for name, figure, most in (("opening_cash", opening_cash, "1e12"), ("slippage_bps", slippage_bps, "10000")):
            if not (figure.is_finite() and 0 <= figure <= Decimal(most)):
                raise UnusableInput(f"{name}: {figure}: should be 0 to {most}")
        self._ledger, self._account, self._currency, self._quotes = ledger, account, currency, quotes
        self._slippage_bps, self._max_quote_age, self._commission = slippage_bps, max_quote_age, commission
        self._last_fold = (-1, _Book())
        self._open(opening_cash)

    async def place(self, order_ref: str, order: Order, now: datetime) -> None:
        """Fill the order at the far side, keep it working where its limit does not reach, or refuse it: once for all.

        The same reference again is answered as the first time. With another order it raises LedgerError and not
        OrderRefused: the first order stands, and nobody may take the reference for refused.
        """
        if not 1 <= len(order_ref) <= 200:
            raise OrderRefused(f"an order reference has 1 to 200 characters, this one {len(order_ref)}")
        placed = self._read().orders.get(order_ref)
        if placed is None:  # the market is asked before the transaction: its slowness must not keep others from writing
            placed = self._decided(order_ref, order, await self._quote(order.symbol, now), now)
        if canonical_json(placed.order) != canonical_json(order):
            raise LedgerError(f"{order_ref} is another order already: {canonical_json(placed.order)}")
        if placed.refusal:
            raise OrderRefused(placed.refusal)

    async def cancel(self, order_ref: str, now: datetime) -> None:
        """End a working order; any other reference is left as it is."""
        with self._ledger.writing() as entries:
            book = self._fold(entries)
            if order_ref in book.orders and book.state(order_ref, now)[0] == "working":
                body = {"order_ref": order_ref, "at": now}
                entries.append("paper.cancel", body, key=self._key(order_ref), subject=self._account)

    async def reports(self, order_refs: tuple[str, ...], now: datetime) -> dict[str, OrderReport]:
        """Return what became of each reference that was ever placed, refused ones too."""
        book = self._read()
        return {ref: _report(book, ref, now) for ref in order_refs if ref in book.orders}

    async def fills(self, now: datetime) -> tuple[Fill, ...]:  # noqa: ARG002
        """Return every execution of the account, oldest first."""
        return tuple(self._read().fills.values())

    async def open_orders(self, now: datetime) -> tuple[WorkingOrder, ...]:
        """Return the orders that work at this moment, oldest first."""
        working = self._read().working(now)
        return tuple(WorkingOrder(order_ref=placed.order_ref, **dict(placed.order)) for placed in working)

    async def account(self, now: datetime) -> AccountState:
        """Return cash and positions. Paper settles at once: settled cash is cash."""
        book = self._read()
        cash = {self._currency: book.cash}
        positions = tuple(Position(symbol=symbol, quantity=quantity) for symbol, quantity in book.held.items())
        return AccountState(id=self._account, as_of=now, cash=cash, settled_cash=cash, positions=positions)

    async def revision(self) -> str:
        """Return the ledger's number of the newest order or cancel; an order that expires leaves it as it is."""
        with self._ledger.reading() as entries:
            return str(_newest(entries, self._account))

    def _open(self, cash: Decimal) -> None:
        opened = self._ledger.get("paper.account", self._account)
        if opened is None:
            with self._ledger.writing() as entries:
                opened = entries.get("paper.account", self._account)
                body = {"currency": self._currency, "cash": cash}
                opened = opened or entries.append("paper.account", body, key=self._account, subject=self._account)
        kept_in = opened.body["currency"]
        if kept_in != self._currency:
            raise LedgerError(f"the paper account {self._account} is kept in {kept_in}, not in {self._currency}")

    def _key(self, order_ref: str) -> str:
        return f"{escaped(self._account, safe='')}/{order_ref}"  # accounts `a` and `a/b` must not share a key

    def _read(self) -> _Book:
        with self._ledger.reading() as entries:
            return self._fold(entries)

    def _fold(self, entries: Reading) -> _Book:
        """Return the book of this transaction; the last one while it holds, for a replay asks thousands of times."""
        newest = _newest(entries, self._account)
        seq, book = self._last_fold
        if seq != newest:
            book = _folded(entries, self._account)
            self._last_fold = (newest, book)
        return book

    async def _quote(self, symbol: str, now: datetime) -> Quote:
        try:
            quotes = await self._quotes((symbol,), now)
        except MarketError as error:
            raise BrokerUnavailable(f"the paper market does not answer: {error}") from error
        return next((quote for quote in quotes if quote.symbol == symbol), Quote(symbol=symbol))

    def _decided(self, order_ref: str, order: Order, quote: Quote, now: datetime) -> _Placed:
        """Decide and book in one transaction: of two who place at once, the second sees what the first did."""
        with self._ledger.writing() as entries:
            book = self._fold(entries)
            if order_ref in book.orders:
                return book.orders[order_ref]
            placed = _Placed(order_ref=order_ref, order=order, at=now, refusal=self._refusal(book, order, quote, now))
            fill = None if placed.refusal else self._fill(placed, quote)
            if fill:
                entries.append("paper.fill", fill.model_dump(), key=fill.exec_id, subject=self._account)
            last = entries.append("paper.order", placed.model_dump(), key=self._key(order_ref), subject=self._account)
        fills = {**book.fills, order_ref: fill} if fill else book.fills
        self._last_fold = (last.seq, replace(book, orders={**book.orders, order_ref: placed}, fills=fills))
        return placed

    def _refusal(self, book: _Book, order: Order, quote: Quote, now: datetime) -> str:
        fault = (
            _fault_of_quote(quote, self._currency, now, self._max_quote_age)
            or _fault_of_order(order, quote.tick)
            or _fault_of_cover(book, order, now, self._commission)
        )
        return f"{order.symbol}: {fault}" if fault else ""

    def _fill(self, placed: _Placed, quote: Quote) -> Fill | None:
        order, price = placed.order, trade_price(quote, placed.order.side, self._slippage_bps)
        if price > order.limit if order.side == "buy" else price < order.limit:
            return None
        return Fill(
            exec_id=f"paper-{digest([self._account, placed.order_ref])[:20]}",
            order_ref=placed.order_ref,
            symbol=order.symbol,
            side=order.side,
            quantity=order.quantity,
            price=price,
            commission=self._commission(order.quantity, price),
            at=placed.at,
        )
