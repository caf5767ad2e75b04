"""What the paper broker trades at, and what it refuses."""

from datetime import datetime, timedelta
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from blocks.brokers.commission import Commission
from blocks.brokers.paper_book import Book, Placed
from blocks.brokers.paper_fills import SMALLEST_LOT
from blocks.brokers.port import Order, Side
from blocks.market.quotes import Quote
from blocks.values import iso, money, plain, short

_FINEST_TICK = Decimal("1e-8")
_NONE = Decimal(0)


def trade_price(quote: Quote, side: Side, slippage_bps: Decimal) -> Decimal:
    """Return the far side on the tick (an ask down, a bid up), moved against us by the slippage, to the tick again."""
    far, inward, outward, sign = (
        (quote.ask, ROUND_FLOOR, ROUND_CEILING, 1) if side == "buy" else (quote.bid, ROUND_CEILING, ROUND_FLOOR, -1)
    )
    on_tick = _to_tick(far or _NONE, quote.tick, inward)
    return _to_tick(on_tick * (1 + sign * slippage_bps / 10_000), quote.tick, outward)


def _to_tick(price: Decimal, tick: Decimal, rounding: str) -> Decimal:
    return (price / tick).to_integral_value(rounding) * tick


def fault_of(
    book: Book,
    order: Order,
    quote: Quote,
    now: datetime,
    currency: str,
    max_quote_age: timedelta,
    commission: Commission,
) -> str:
    """Tell why the order is refused, by the first rule that says no; empty where it is taken."""
    fault = (
        _fault_of_quote(quote, currency, now, max_quote_age)
        or _fault_of_order(order, quote.tick)
        or _fault_of_cover(book, order, now, commission)
    )
    return f"{order.symbol}: {fault}" if fault else ""


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
    for name, figure, step in (("quantity", order.quantity, SMALLEST_LOT), ("limit", order.limit, tick)):
        if not figure.is_finite() or figure <= 0:
            return f"{name} is {plain(figure)}, it has to be above 0"
        if figure % step:
            return f"{name} {plain(figure)} is not a multiple of {plain(step)}"
    return None


def _fault_of_cover(book: Book, order: Order, now: datetime, commission: Commission) -> str | None:
    """Tell what the account lacks for an order at its limit; what working orders may still take is gone already."""
    working = [placed for placed in book.working(now) if placed.order.side == order.side]
    if order.side == "sell":
        alike = [placed for placed in working if placed.order.symbol == order.symbol]
        taken = sum((placed.order.quantity - book.filled(placed.order_ref) for placed in alike), _NONE)
        held = book.held.get(order.symbol, _NONE)
        figures = f"selling {plain(order.quantity)}, holding {plain(held)}, of which working sells take {plain(taken)}"
        return figures if order.quantity > held - taken else None
    taken = sum((_still_takes(book, placed, commission) for placed in working), _NONE)
    cost = order.notional + commission(order.quantity, order.limit)
    figures = f"costs {money(cost)} with commission, cash {money(book.cash)}, of which working buys take {money(taken)}"
    return figures if cost > book.cash - taken else None


def _still_takes(book: Book, placed: Placed, commission: Commission) -> Decimal:
    """Return the cash that a working buy may still take: the rest at its limit, and what is left of its commission."""
    order, ref = placed.order, placed.order_ref
    rest = order.quantity - book.filled(ref)
    return rest * order.limit + commission(order.quantity, order.limit) - book.paid(ref)
