"""Rules for one order, grouped by what has to be known before they can be asked."""

from decimal import Decimal

from blocks.brokers.port import Order
from tasks.verification.book import Book
from tasks.verification.findings import BASIS_POINT, Finding, found, ratio, shown
from tasks.verification.quote_rules import is_positive

_WHOLE = Decimal(1)
_FRACTION = Decimal("0.0001")
_ZERO = Decimal(0)


def quantity_is_a_positive_number(order: Order, _: Book) -> Finding:
    """Require a quantity that is finite and above zero."""
    quantity = shown(order.quantity)
    return found(is_positive(order.quantity), quantity, "above 0", f"the quantity is {quantity}: should be above 0")


def limit_is_a_positive_number(order: Order, _: Book) -> Finding:
    """Require a limit that is finite and above zero."""
    limit = shown(order.limit)
    return found(is_positive(order.limit), limit, "above 0", f"the limit is {limit}: should be above 0")


def symbol_is_in_the_universe(order: Order, book: Book) -> Finding:
    """Require a symbol that is a key of policy.weights."""
    reason = f"{order.symbol!r} is not in the mandate's universe"
    return found(order.symbol in book.targets, order.symbol, f"{len(book.targets)} symbols", reason)


def symbol_is_not_frozen(order: Order, book: Book) -> Finding:
    """Refuse a symbol listed in frozen: it is valued and never traded."""
    limit = f"{len(book.frozen)} frozen"
    return found(order.symbol not in book.frozen, order.symbol, limit, f"{order.symbol!r} is frozen: never traded")


def symbol_is_not_restricted(order: Order, book: Book) -> Finding:
    """Refuse a symbol listed in limits.restricted."""
    limit = f"{len(book.restricted)} restricted"
    reason = f"{order.symbol!r} is restricted: never ordered"
    return found(order.symbol not in book.restricted, order.symbol, limit, reason)


def symbol_is_ordered_once(order: Order, book: Book) -> Finding:
    """Require that the proposal has one order for the symbol."""
    times = book.times_ordered[order.symbol]
    return found(times == 1, str(times), "1", f"{times} orders for one symbol: at most 1 is allowed")


def side_is_the_mandates(order: Order, book: Book) -> Finding:
    """Require a side that the mandate's direction allows: buy_only knows no sells, sell_only no buys."""
    direction = book.situation.mandate.direction
    held = direction in {"both", f"{order.side}_only"}
    return found(held, order.side, direction, f"a {order.side}, and the mandate's direction is {direction}")


def quantity_is_in_whole_units(order: Order, book: Book) -> Finding:
    """Require whole shares, or multiples of 0.0001 share if the mandate is fractional."""
    unit = _FRACTION if book.situation.mandate.fractional else _WHOLE
    quantity = shown(order.quantity)
    reason = f"{quantity} shares are no multiple of {shown(unit)}"
    return found(order.quantity % unit == 0, quantity, shown(unit), reason)


def nothing_is_sold_short(order: Order, book: Book) -> Finding:
    """Refuse to sell more than is held, less what working sells may still take; working buys do not count."""
    if order.side == "buy":
        return Finding("a buy", "binds sells")
    sellable, held, selling = (
        book.sellable(order.symbol),
        book.held.get(order.symbol, _ZERO),
        book.selling.get(order.symbol, _ZERO),
    )
    reason = f"selling {shown(order.quantity)}, holding {shown(held)}, of which {shown(selling)} in working sells"
    return found(order.quantity <= sellable, shown(order.quantity), shown(sellable), reason)


def limit_is_on_the_tick(order: Order, book: Book) -> Finding:
    """Require a limit that is a multiple of the instrument's tick."""
    limit, tick = order.limit, book.markets[order.symbol].quote.tick
    return found(limit % tick == 0, shown(limit), shown(tick), f"limit {shown(limit)} is off the tick of {shown(tick)}")


def limit_is_within_the_collar(order: Order, book: Book) -> Finding:
    """Require a limit at most collar_bps away from the far side: the ask for a buy, the bid for a sell."""
    market, collar = book.markets[order.symbol], book.situation.mandate.limits.collar_bps
    name, far = ("ask", market.ask) if order.side == "buy" else ("bid", market.bid)
    away = abs(order.limit - far)
    figure, most = f"{shown(ratio(away, far * BASIS_POINT))} bps", f"{shown(collar)} bps"
    reason = f"limit {shown(order.limit)} is {figure} away from the {name} {shown(far)}, more than {most}"
    return found(away <= far * collar * BASIS_POINT, figure, most, reason)


def notional_reaches_min_trade(order: Order, book: Book) -> Finding:
    """Require quantity x limit to be at least min_trade."""
    least, notional = book.situation.mandate.min_trade, order.notional
    reason = f"{shown(notional)} is below min_trade {shown(least)}"
    return found(notional >= least, shown(notional), shown(least), reason)


def notional_is_within_max_order_notional(order: Order, book: Book) -> Finding:
    """Require quantity x limit to be at most max_order_notional."""
    most, notional = book.situation.mandate.limits.max_order_notional, order.notional
    reason = f"{shown(notional)} is above max_order_notional {shown(most)}"
    return found(notional <= most, shown(notional), shown(most), reason)


def _change(order: Order) -> Decimal:
    return order.quantity if order.side == "buy" else -order.quantity


def order_brings_its_symbol_nearer(order: Order, book: Book) -> Finding:
    """Require a value nearer to target x (equity - raise_cash) after the order than before, working orders done."""
    middle, before = book.markets[order.symbol].middle, book.position(order.symbol)
    equity = book.equity or _ZERO
    invested = max(equity - book.situation.mandate.raise_cash, _ZERO)
    target = book.targets[order.symbol] * invested
    value_before, value_after = before * middle, (before + _change(order)) * middle
    off_before, off_after = abs(value_before - target), abs(value_after - target)
    reason = (
        f"{order.side} {shown(order.quantity)} takes {shown(value_before)} to {shown(value_after)}, "
        f"no nearer to the target of {shown(target)}"
    )
    return found(off_after < off_before, f"{shown(off_after)} off", f"below {shown(off_before)} off", reason)


def bought_weight_is_within_max_weight(order: Order, book: Book) -> Finding:
    """Require that a buy, with working orders done, leaves its symbol at most max_weight of managed equity."""
    if order.side == "sell":
        return Finding("a sell", "binds buys")
    most, equity = book.situation.mandate.limits.max_weight, book.equity or _ZERO
    value = (book.position(order.symbol) + order.quantity) * book.markets[order.symbol].middle
    weight = shown(ratio(value, equity))
    reason = f"{shown(value)} would be {weight} of managed equity {shown(equity)}, above max_weight {shown(most)}"
    return found(value <= most * equity, weight, shown(most), reason)


def quantity_is_within_max_adv_fraction(order: Order, book: Book) -> Finding:
    """Require a quantity of at most max_adv_fraction, where one is set, of a known average daily volume."""
    most, adv = book.situation.mandate.limits.max_adv_fraction, book.markets[order.symbol].quote.adv
    if most is None:
        return Finding(shown(order.quantity), "no limit set")
    if not is_positive(adv):
        return Finding(
            shown(adv), shown(most), f"max_adv_fraction is set, and the average daily volume is {shown(adv)}"
        )
    allowed = shown(most * adv)
    reason = f"{shown(order.quantity)} shares are more than {shown(most)} of the {shown(adv)} traded a day: {allowed}"
    return found(order.quantity <= most * adv, shown(order.quantity), allowed, reason)


FORM_RULES = (
    quantity_is_a_positive_number,
    limit_is_a_positive_number,
    symbol_is_in_the_universe,
    symbol_is_not_frozen,
    symbol_is_not_restricted,
    symbol_is_ordered_once,
    side_is_the_mandates,
)
QUANTITY_RULES = (quantity_is_in_whole_units, nothing_is_sold_short)
LIMIT_RULES = (limit_is_on_the_tick, limit_is_within_the_collar)
NOTIONAL_RULES = (notional_reaches_min_trade, notional_is_within_max_order_notional)
WEIGHT_RULES = (order_brings_its_symbol_nearer, bought_weight_is_within_max_weight)
VOLUME_RULES = (quantity_is_within_max_adv_fraction,)
