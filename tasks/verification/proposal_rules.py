"""Rules for the whole: the account, what has to be priced, and the sums over all orders."""

from datetime import timedelta
from decimal import Decimal

from blocks.brokers.port import WorkingOrder
from blocks.values import iso, short
from tasks.verification.book import Book, Need
from tasks.verification.findings import Finding, found, ratio, shown
from tasks.verification.quote_rules import last_close

_ZERO = Decimal(0)
_NO_SUM = "the orders cannot be summed: a quantity or a limit is no positive number"
_NO_EQUITY = "managed equity is unknown: a position has no usable price"
_NO_PROMISE = "the cash that working buys still take is unknown"


def account_is_the_mandates(book: Book) -> Finding:
    """Require that the account that answered is the one the mandate names."""
    answered, named = book.situation.account.id, book.situation.mandate.account
    return found(answered == named, answered, named, f"account {answered!r} answered, the mandate is for {named!r}")


def account_is_fresh(book: Book) -> Finding:
    """Require an account state that is not from after now, and no older than freshness.positions."""
    as_of, now = book.situation.account.as_of, book.situation.now
    most, age = book.situation.mandate.freshness.positions, now - as_of
    what = "is from after now," if age < timedelta(0) else f"is older than {short(most)} at"
    reason = f"the account's state of {iso(as_of)} {what} {iso(now)}"
    return found(timedelta(0) <= age <= most, short(age), short(most), reason)


def needed_symbol_has_a_quote(need: Need, _: Book) -> Finding:
    """Require a quote of whatever has a target above zero, is held, is traded, or is being bought without a limit."""
    reason = "no quote, and the symbol is targeted, held, traded or being bought"
    return found(need.quote is not None, "none" if need.quote is None else "a quote", "a quote", reason)


def frozen_symbol_has_a_last_close(need: Need, book: Book) -> Finding:
    """Require a previous close above zero, in the base currency, of a frozen symbol held or with a working order."""
    base = book.situation.mandate.base_currency
    close = last_close(need.quote, base)
    limit = f"above 0 {base}"
    return found(close is not None, shown(close), limit, f"frozen, and no previous close in {base} to value it at")


def working_buy_has_a_known_cost(order: WorkingOrder, book: Book) -> Finding:
    """Require a usable quote of what is being bought without a limit: only it can say what cash that may take."""
    cost = book.cost_of(order)
    reason = f"{shown(order.remaining)} shares are being bought without a limit, and without a usable quote"
    return found(cost is not None, shown(cost), "known", reason)


def managed_equity_is_positive(book: Book) -> Finding:
    """Require managed equity to be known, and above zero if anything is ordered."""
    equity = book.equity
    if equity is None:
        return Finding("unknown", "known", _NO_EQUITY)
    if not book.orders:
        return Finding(shown(equity), "no orders")
    return found(equity > 0, shown(equity), "above 0", f"managed equity is {shown(equity)}: orders need it above 0")


def raise_cash_is_within_equity(book: Book) -> Finding:
    """Require raise_cash to be below managed equity, unless there is neither equity nor an order."""
    raised, equity = book.situation.mandate.raise_cash, book.equity
    if equity is None:
        return found(raised == 0, shown(raised), "unknown", _NO_EQUITY)
    nothing_to_do = equity <= 0 and not book.orders
    reason = f"raise_cash {shown(raised)} is not below managed equity {shown(equity)}"
    return found(raised == 0 or raised < equity or nothing_to_do, shown(raised), f"below {shown(equity)}", reason)


def orders_are_within_max_orders(book: Book) -> Finding:
    """Allow at most max_orders orders."""
    count, most = len(book.orders), book.situation.mandate.limits.max_orders
    return found(count <= most, str(count), str(most), f"{count} orders are more than max_orders {most}")


def turnover_is_within_max_turnover(book: Book) -> Finding:
    """Require the notionals of all orders to be at most max_turnover of managed equity."""
    most, equity = book.situation.mandate.limits.max_turnover, book.equity
    if not book.orders:
        return Finding("0", shown(most))
    if len(book.summable) < len(book.orders):
        return Finding("unknown", shown(most), _NO_SUM)
    if equity is None:
        return Finding("unknown", shown(most), _NO_EQUITY)
    total = _notional(book, "buy") + _notional(book, "sell")
    reason = (
        f"orders of {shown(total)} are above {shown(most * equity)}: {shown(most)} of managed equity {shown(equity)}"
    )
    return found(total <= most * equity, shown(ratio(total, equity)), shown(most), reason)


def _notional(book: Book, side: str) -> Decimal:
    return sum((order.notional for order in book.summable if order.side == side), _ZERO)


def buys_are_covered_by_cash(book: Book) -> Finding:
    """Require buys to fit in cash less buffer, raise_cash and working buys, plus own sells on the basis total."""
    if not any(order.side == "buy" for order in book.orders):
        return Finding("no buys", "binds buys")
    if len(book.summable) < len(book.orders):
        return Finding("unknown", "unknown", _NO_SUM)
    if book.equity is None or book.promised is None:
        return Finding("unknown", "unknown", _NO_EQUITY if book.equity is None else _NO_PROMISE)
    return _cover(book, book.equity, book.promised)


def _cover(book: Book, equity: Decimal, promised: Decimal) -> Finding:
    mandate, account = book.situation.mandate, book.situation.account
    settled = mandate.limits.cash_basis == "settled"
    cash = (account.settled_cash if settled else account.cash).get(mandate.base_currency, _ZERO)
    sells = _ZERO if settled else _notional(book, "sell")
    buffer = mandate.policy.cash_buffer * equity
    available, buys = cash - buffer - mandate.raise_cash - promised + sells, _notional(book, "buy")
    reason = (
        f"buys of {shown(buys)} are above {shown(available)}: {'settled ' if settled else ''}cash {shown(cash)}, "
        f"less buffer {shown(buffer)}, raise_cash {shown(mandate.raise_cash)} and working buys {shown(promised)}, "
        f"plus sells {shown(sells)}"
    )
    return found(buys <= available, shown(buys), shown(available), reason)


ACCOUNT_RULES = (account_is_the_mandates, account_is_fresh)
TOTAL_RULES = (
    managed_equity_is_positive,
    raise_cash_is_within_equity,
    orders_are_within_max_orders,
    turnover_is_within_max_turnover,
    buys_are_covered_by_cash,
)
