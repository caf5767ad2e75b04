"""Draft the orders that bring a portfolio to its targets, from one situation and nothing else."""

from collections.abc import Iterator, Sequence
from decimal import ROUND_HALF_EVEN, Context, Decimal, DivisionByZero, InvalidOperation, Overflow, localcontext

from blocks.brokers.port import Order
from blocks.mandate import Mandate
from blocks.values import iso, plain, short
from tasks.executors.optimise import distribute
from tasks.executors.sharing import Budgets, Lot, left_over
from tasks.executors.sizing import BEYOND, Aim, cents, size, step_of
from tasks.executors.valuing import Line, base_cash, fault_of, lines_of, managed_equity, promised
from tasks.situation import Proposal, Reason, Situation, Sizing, Skipped

# Products of four figures of up to 33 digits each stay exact, so no limit is met or missed by rounding.
_EXACT = Context(prec=400, rounding=ROUND_HALF_EVEN, traps=[InvalidOperation, DivisionByZero, Overflow])
_FINEST = Decimal("1e-20")


def draft(situation: Situation) -> Proposal:
    """Return orders towards the targets, or the reasons why the situation allows none."""
    with localcontext(_EXACT):
        lines = lines_of(situation)
        equity = managed_equity(situation, lines)
        reasons = tuple(_refusals(situation, lines, equity))
        if reasons:
            return _proposal(situation, (), {}, reasons)
        if equity <= 0:
            nothing = f"managed equity is {cents(equity)}: nothing to invest"
            return _proposal(situation, (), {line.symbol: nothing for line in lines})
        return _traded(situation, lines, equity)


def _refusals(situation: Situation, lines: Sequence[Line], equity: Decimal) -> Iterator[Reason]:
    yield from _account_reasons(situation)
    quotes = (*_quote_reasons(situation, lines), *_frozen_reasons(lines))
    yield from quotes
    yield from _promise_reasons(situation)
    raised = situation.mandate.raise_cash
    if not quotes and 0 < equity <= raised:
        text = f"raise_cash is {cents(raised)} and managed equity {cents(equity)}: nothing would stay invested"
        yield Reason(check="cash_to_raise_is_there", reason=text)


def _account_reasons(situation: Situation) -> Iterator[Reason]:
    account, mandate = situation.account, situation.mandate
    if account.id != mandate.account:
        text = f"account {account.id}, the mandate is for {mandate.account}"
        yield Reason(check="account_is_the_mandates", reason=text)
    if account.as_of > situation.now:
        yield Reason(check="positions_are_fresh", reason=f"positions of {iso(account.as_of)}, after now")
    elif situation.now - account.as_of > mandate.freshness.positions:
        age = f"more than {short(mandate.freshness.positions)} ago"
        yield Reason(check="positions_are_fresh", reason=f"positions of {iso(account.as_of)}, {age}")


def _quote_reasons(situation: Situation, lines: Sequence[Line]) -> Iterator[Reason]:
    targets = situation.target_weights
    for line in lines:
        if line.fault and not line.frozen and (targets[line.symbol] > 0 or line.held):
            yield Reason(check="quotes_are_usable", symbol=line.symbol, reason=line.fault)


def _frozen_reasons(lines: Sequence[Line]) -> Iterator[Reason]:
    for line in lines:
        if line.frozen and not line.price and (line.held or line.buying or line.selling):
            text = "frozen, and no previous close in the base currency to count it at"
            yield Reason(check="frozen_positions_have_a_close", symbol=line.symbol, reason=text)


def _promise_reasons(situation: Situation) -> Iterator[Reason]:
    for order in situation.open_orders:
        if order.side == "buy" and order.remaining and not order.limit:
            fault = fault_of(situation.quote_of.get(order.symbol), situation)
            if fault:
                text = f"a buy of {plain(order.remaining)} is working without a limit, its cost is not known: {fault}"
                yield Reason(check="working_buys_have_a_price", symbol=order.symbol, reason=text)


def _traded(situation: Situation, lines: Sequence[Line], equity: Decimal) -> Proposal:
    mandate, targets = situation.mandate, situation.target_weights
    invested = equity - mandate.raise_cash
    sized = {line.symbol: size(Aim(line, targets[line.symbol] * invested, equity, mandate)) for line in lines}
    lots = [lot for lot in sized.values() if isinstance(lot, Lot)]
    budgets = _budgets(situation, equity)
    shared = distribute(lots, budgets)
    given = shared.given
    step = step_of(mandate)
    orders = tuple(
        Order(symbol=lot.symbol, side=lot.side, quantity=_tidy(given[lot.symbol] * step), limit=lot.limit)
        for lot in sorted(lots, key=lambda lot: (lot.side == "buy", lot.symbol))
        if lot.symbol in given
    )
    return _proposal(
        situation, orders, _left_out(sized, given, budgets, mandate), sizing=shared.sizing if lots else None
    )


def _budgets(situation: Situation, equity: Decimal) -> Budgets:
    mandate = situation.mandate
    settled = mandate.limits.cash_basis == "settled"
    cash = situation.account.settled_cash.get(mandate.base_currency, Decimal(0)) if settled else base_cash(situation)
    kept = mandate.policy.cash_buffer * equity + mandate.raise_cash + promised(situation)
    return Budgets(
        orders=mandate.limits.max_orders,
        turnover=mandate.limits.max_turnover * equity,
        cash=cash - kept,
        recycles=not settled,
        whole=not mandate.fractional,
    )


def _left_out(sized: dict[str, Lot | str], given: dict[str, int], budgets: Budgets, mandate: Mandate) -> dict[str, str]:
    """Return symbol -> why it is not ordered."""
    traded = [lot for lot in sized.values() if isinstance(lot, Lot) and lot.symbol in given]
    turnover, cash = left_over(traded, given, budgets)
    full = len(given) >= budgets.orders
    return {
        symbol: lot if isinstance(lot, str) else _squeezed_out(lot, turnover, cash, full, mandate)
        for symbol, lot in sized.items()
        if symbol not in given
    }


def _squeezed_out(lot: Lot, turnover: Decimal, cash: Decimal, full: bool, mandate: Mandate) -> str:
    cost = lot.least * lot.price
    smallest = f"the smallest order, {plain(lot.least * step_of(mandate))} at {plain(lot.limit)}, takes {cents(cost)}"
    if full:
        return f"max_orders is {mandate.limits.max_orders}: other symbols come first"
    if cost > turnover:
        return f"max_turnover: {cents(turnover)} left, {smallest}"
    if lot.side == "buy" and cost > cash:
        return f"no cash left: {cents(cash)} for buys, {smallest}"
    return f"below min_trade: its share of cash and turnover was too small; {smallest}"


def _proposal(
    situation: Situation,
    orders: tuple[Order, ...],
    left_out: dict[str, str],
    reasons: tuple[Reason, ...] = (),
    sizing: Sizing | None = None,
) -> Proposal:
    cash = base_cash(situation)
    after = cash + sum((order.notional if order.side == "sell" else -order.notional for order in orders), Decimal(0))
    if abs(after) >= BEYOND:
        text = f"cash after the orders would be {cents(after)}, more than can be written down"
        return Proposal(reasons=(Reason(check="cash_after_can_be_written", reason=text),), cash_after=cash)
    if reasons:
        return Proposal(reasons=reasons, cash_after=cash)
    skipped = (*left_out.items(), *_outside(situation))
    return Proposal(
        orders=orders,
        skipped=tuple(Skipped(symbol=symbol, reason=reason) for symbol, reason in skipped),
        cash_after=_writable(after),
        sizing=sizing,
    )


def _tidy(quantity: Decimal) -> Decimal:
    return quantity.normalize() + Decimal(0)  # adding 0 writes 100 where `normalize` writes 1E+2


def _writable(money: Decimal) -> Decimal:
    """Round to the 20 decimals a figure may have; a fine tick times a fine fraction can have more."""
    rounded = money.quantize(_FINEST)
    return money if money == rounded else rounded


def _outside(situation: Situation) -> Iterator[tuple[str, str]]:
    universe = set(situation.mandate.universe)
    text = "outside the mandate: never traded, not counted; a weight of 0 in policy.weights would sell it"
    for position in sorted(situation.account.positions, key=lambda position: position.symbol):
        if position.quantity and position.symbol not in universe:
            yield position.symbol, text
