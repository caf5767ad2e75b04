"""The paper broker: an exchange that trades against quotes, and the account it keeps in the ledger.

There is no matching engine: what an order will trade, when and at which price, is decided when it is placed. It fills
whole at once, unless the broker is given a slower pace; an order whose limit does not reach works until it is cancelled
or its day (UTC) is over. There are no exchange hours either: a fresh quote is what makes an order possible.

An execution still to come is written down with its order, and booked by whoever first asks once it is due.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from urllib.parse import quote as escaped

from blocks.brokers.commission import Commission, fixed_commission
from blocks.brokers.paper_book import Book, Placed, folded, newest_change, report_of
from blocks.brokers.paper_fills import Pace, executions
from blocks.brokers.paper_rules import fault_of, trade_price
from blocks.brokers.port import AccountState, Fill, Order, OrderReport, Position, WorkingOrder
from blocks.canonical import canonical_json
from blocks.errors import BrokerUnavailable, LedgerError, MarketError, OrderRefused, UnusableInput
from blocks.ledger import Ledger, Reading, Writing
from blocks.market.quotes import Quote

QuoteSource = Callable[[tuple[str, ...], datetime], Awaitable[tuple[Quote, ...]]]
"""The market: symbols and now -> what is quoted; a symbol it does not know is left out."""

_NONE = Decimal(0)
_AT_ONCE = Pace()


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
        pace: Pace = _AT_ONCE,
    ) -> None:
        """Open the account; the opening cash counts only where the ledger does not hold the account yet.

        Raises LedgerError where the ledger keeps it in another currency.
        """
        for name, figure, most in (("opening_cash", opening_cash, "1e12"), ("slippage_bps", slippage_bps, "10000")):
            if not (figure.is_finite() and 0 <= figure <= Decimal(most)):
                raise UnusableInput(f"{name}: {figure}: should be 0 to {most}")
        self._ledger, self._account, self._currency, self._quotes = ledger, account, currency, quotes
        self._slippage_bps, self._max_quote_age, self._commission = slippage_bps, max_quote_age, commission
        self._pace = pace
        self._last_fold = (-1, Book())
        self._open(opening_cash)

    async def place(self, order_ref: str, order: Order, now: datetime) -> None:
        """Let the order fill at the far side, work where its limit does not reach, or refuse it: decided once for all.

        The same reference again is answered as the first time. With another order it raises LedgerError and not
        OrderRefused: the first order stands, and nobody may take the reference for refused.
        """
        if not 1 <= len(order_ref) <= 200:
            raise OrderRefused(f"an order reference has 1 to 200 characters, this one {len(order_ref)}")
        placed = self._read(now).orders.get(order_ref)
        if placed is None:  # the market is asked before the transaction: its slowness must not keep others from writing
            placed = self._decided(order_ref, order, await self._quote(order.symbol, now), now)
        if canonical_json(placed.order) != canonical_json(order):
            raise LedgerError(f"{order_ref} is another order already: {canonical_json(placed.order)}")
        if placed.refusal:
            raise OrderRefused(placed.refusal)

    async def cancel(self, order_ref: str, now: datetime) -> None:
        """End a working order; what it has filled by now stays. Any other reference is left as it is."""
        with self._ledger.writing() as entries:
            book = self._brought_up_to(entries, now)
            if order_ref in book.orders and book.state(order_ref, now)[0] == "working":
                body = {"order_ref": order_ref, "at": now}
                entries.append("paper.cancel", body, key=self._key(order_ref), subject=self._account)

    async def reports(self, order_refs: tuple[str, ...], now: datetime) -> dict[str, OrderReport]:
        """Return what became of each reference that was ever placed, refused ones too."""
        book = self._read(now)
        return {ref: report_of(book, ref, now) for ref in order_refs if ref in book.orders}

    async def fills(self, now: datetime) -> tuple[Fill, ...]:
        """Return every execution of the account, oldest first."""
        return tuple(self._read(now).fills.values())

    async def open_orders(self, now: datetime) -> tuple[WorkingOrder, ...]:
        """Return the orders that work at this moment, oldest first."""
        book = self._read(now)
        return tuple(
            WorkingOrder(order_ref=placed.order_ref, filled=book.filled(placed.order_ref), **dict(placed.order))
            for placed in book.working(now)
        )

    async def account(self, now: datetime) -> AccountState:
        """Return cash and positions. Paper settles at once: settled cash is cash."""
        book = self._read(now)
        cash = {self._currency: book.cash}
        positions = tuple(Position(symbol=symbol, quantity=quantity) for symbol, quantity in book.held.items())
        return AccountState(id=self._account, as_of=now, cash=cash, settled_cash=cash, positions=positions)

    async def revision(self) -> str:
        """Return the ledger's number of the newest order, fill or cancel; an order that expires leaves it as it is.

        A fill counts once it is booked, by the first question after it was due that says what time it is.
        """
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

    def _read(self, now: datetime) -> Book:
        """Return the book with all that is due by now booked in it."""
        with self._ledger.reading() as entries:
            book = self._fold(entries)
        if not book.due(now):
            return book
        with self._ledger.writing() as entries:
            return self._brought_up_to(entries, now)

    def _brought_up_to(self, entries: Writing, now: datetime) -> Book:
        """Book what has come due: of two who do so at once, the second finds it done."""
        book = self._fold(entries)
        due = book.due(now)
        self._book(entries, due)
        return _with(book, due) if due else book

    def _book(self, entries: Writing, fills: Sequence[Fill]) -> None:
        for fill in fills:
            entries.append("paper.fill", fill.model_dump(), key=fill.exec_id, subject=self._account)

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
            book = self._brought_up_to(entries, now)
            if order_ref in book.orders:
                return book.orders[order_ref]
            placed = Placed(order_ref=order_ref, order=order, at=now, refusal=self._refusal(book, order, quote, now))
            fills = () if placed.refusal else self._executions(placed, quote)
            at_once = [fill for fill in fills if fill.at <= placed.at]
            placed = placed.model_copy(update={"to_come": fills[len(at_once) :]})
            self._book(entries, at_once)
            last = entries.append("paper.order", placed.body(), key=self._key(order_ref), subject=self._account)
        book = replace(_with(book, at_once), orders={**book.orders, order_ref: placed})
        self._last_fold = (last.seq, book)  # only now: what has not been committed may not be remembered
        return placed

    def _refusal(self, book: Book, order: Order, quote: Quote, now: datetime) -> str:
        return fault_of(book, order, quote, now, self._currency, self._max_quote_age, self._commission)

    def _executions(self, placed: Placed, quote: Quote) -> tuple[Fill, ...]:
        order, price = placed.order, trade_price(quote, placed.order.side, self._slippage_bps)
        if price > order.limit if order.side == "buy" else price < order.limit:
            return ()
        return executions(self._account, placed, price, self._pace, self._commission)


def _with(book: Book, fills: Sequence[Fill]) -> Book:
    return replace(book, fills={**book.fills, **{fill.exec_id: fill for fill in fills}})
