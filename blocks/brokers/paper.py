"""The paper broker: an exchange that trades against quotes, and the account it keeps in the ledger.

There is no matching engine: an order fills whole when it is placed, or works until it is cancelled or its day (UTC) is
over. There are no exchange hours either: a fresh quote is what makes an order possible.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from urllib.parse import quote as escaped

from blocks.brokers.commission import Commission, fixed_commission
from blocks.brokers.paper_book import Book, Placed, folded, newest_change, report_of
from blocks.brokers.paper_rules import fault_of, trade_price
from blocks.brokers.port import AccountState, Fill, Order, OrderReport, Position, WorkingOrder
from blocks.canonical import canonical_json, digest
from blocks.errors import BrokerUnavailable, LedgerError, MarketError, OrderRefused, UnusableInput
from blocks.ledger import Ledger, Reading
from blocks.market.quotes import Quote

QuoteSource = Callable[[tuple[str, ...], datetime], Awaitable[tuple[Quote, ...]]]
"""The market: symbols and now -> what is quoted; a symbol it does not know is left out."""

_NONE = Decimal(0)


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
        self._last_fold = (-1, Book())
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
        return {ref: report_of(book, ref, now) for ref in order_refs if ref in book.orders}

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
            return str(newest_change(entries, self._account))

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

    def _read(self) -> Book:
        with self._ledger.reading() as entries:
            return self._fold(entries)

    def _fold(self, entries: Reading) -> Book:
        """Return the book of this transaction; the last one while it holds, for a replay asks thousands of times."""
        newest = newest_change(entries, self._account)
        seq, book = self._last_fold
        if seq != newest:
            book = folded(entries, self._account)
            self._last_fold = (newest, book)
        return book

    async def _quote(self, symbol: str, now: datetime) -> Quote:
        try:
            quotes = await self._quotes((symbol,), now)
        except MarketError as error:
            raise BrokerUnavailable(f"the paper market does not answer: {error}") from error
        return next((quote for quote in quotes if quote.symbol == symbol), Quote(symbol=symbol))

    def _decided(self, order_ref: str, order: Order, quote: Quote, now: datetime) -> Placed:
        """Decide and book in one transaction: of two who place at once, the second sees what the first did."""
        with self._ledger.writing() as entries:
            book = self._fold(entries)
            if order_ref in book.orders:
                return book.orders[order_ref]
            placed = Placed(order_ref=order_ref, order=order, at=now, refusal=self._refusal(book, order, quote, now))
            fill = None if placed.refusal else self._fill(placed, quote)
            if fill:
                entries.append("paper.fill", fill.model_dump(), key=fill.exec_id, subject=self._account)
            last = entries.append("paper.order", placed.model_dump(), key=self._key(order_ref), subject=self._account)
        fills = {**book.fills, order_ref: fill} if fill else book.fills
        self._last_fold = (last.seq, replace(book, orders={**book.orders, order_ref: placed}, fills=fills))
        return placed

    def _refusal(self, book: Book, order: Order, quote: Quote, now: datetime) -> str:
        return fault_of(book, order, quote, now, self._currency, self._max_quote_age, self._commission)

    def _fill(self, placed: Placed, quote: Quote) -> Fill | None:
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
