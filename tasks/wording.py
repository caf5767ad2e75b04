"""One line that says what a step found."""

from decimal import Decimal
from functools import singledispatch

from pydantic import BaseModel

from blocks.mandate import Mandate
from blocks.values import iso
from tasks.figures import cash_text, per_cent
from tasks.situation import Account, Bars, Drift, Proposal, Quotes, RiskReport, Targets


@singledispatch
def in_words(value: BaseModel, mandate: Mandate) -> str:  # noqa: ARG001
    """Say what a result is, in one line."""
    return type(value).__name__


@in_words.register
def _(value: Quotes, mandate: Mandate) -> str:  # noqa: ARG001
    return f"{len(value.quotes)} quotes of {iso(value.as_of)}"


@in_words.register
def _(value: Bars, mandate: Mandate) -> str:  # noqa: ARG001
    span = f" from {value.sessions[0]} to {value.sessions[-1]}" if value.sessions else ""
    return f"{len(value.sessions)} sessions of {len(value.closes)} symbols{span}"


@in_words.register
def _(value: Account, mandate: Mandate) -> str:
    cash = value.state.cash.get(mandate.base_currency, Decimal(0))
    working = f", {len(value.open_orders)} working orders" if value.open_orders else ""
    return f"{cash_text(cash, mandate.base_currency)} in cash, {len(value.state.positions)} positions{working}"


@in_words.register
def _(value: Targets, mandate: Mandate) -> str:  # noqa: ARG001
    invested = sum(value.weights.values(), Decimal(0))
    return f"{len(value.weights)} weights by {value.method}, {per_cent(invested)} % invested"


@in_words.register
def _(value: RiskReport, mandate: Mandate) -> str:  # noqa: ARG001
    if not value.volatility:
        return "no symbols to measure"
    symbol = max(value.volatility, key=lambda s: value.volatility[s])
    return f"most volatile: {symbol}, {per_cent(value.volatility[symbol])} % a year over {value.sessions} sessions"


@in_words.register
def _(value: Drift, mandate: Mandate) -> str:
    equity = f"managed equity {cash_text(value.equity, mandate.base_currency)}"
    if not value.drift:
        return equity
    symbol = max(value.drift, key=lambda s: abs(value.drift[s]))
    return f"{equity}; furthest from target: {symbol} {per_cent(value.drift[symbol], '+')} %"


@in_words.register
def _(value: Proposal, mandate: Mandate) -> str:
    if value.refused:
        return f"no draft: {value.reasons[0].symbol} {value.reasons[0].reason}".replace(":  ", ": ")
    if not value.orders:
        return "nothing to trade"
    total = sum((order.notional for order in value.orders), Decimal(0))
    return f"{len(value.orders)} orders, {cash_text(total, mandate.base_currency)} in all"
