"""Executors that think: targets, risk and drift, from what was gathered."""

import math
from decimal import Decimal
from itertools import pairwise

from blocks.mandate import METHODS_WITHOUT_BARS, Mandate, Method
from tasks.executors.weights import WeightsError, weights_of
from tasks.situation import Account, Bars, Drift, Quotes, RiskReport, Targets
from tasks.tool import Params, Problems, tool

_SESSIONS_A_YEAR = 252
_SIX = Decimal("0.000001")


class TargetsWanted(Params):
    """By which method to weigh; none said means the policy's, and no other is allowed."""

    method: Method | None = None


def _method_is_the_mandates(params: TargetsWanted, inputs: frozenset[str], mandate: Mandate) -> Problems:
    method = mandate.policy.method
    if params.method not in {None, method}:
        yield "bad-params", f"params of set_targets: method: {params.method!r}: the mandate says {method!r}"
    if method not in METHODS_WITHOUT_BARS and "bars" not in inputs:
        yield "missing-input", f"inputs.bars: method {method!r} needs Bars"


@tool(freshness="analysis", check=_method_is_the_mandates)
def set_targets(params: TargetsWanted, bars: Bars | None, mandate: Mandate) -> Targets:  # noqa: ARG001  checked above
    """Work out the weight to hold of each symbol, by the policy's method and within its bounds."""
    needs_bars = mandate.policy.method not in METHODS_WITHOUT_BARS
    returns = returns_of(bars) if bars and needs_bars else {}
    return Targets(method=mandate.policy.method, weights=weights_of(mandate, returns))


@tool(freshness="analysis")
def measure_risk(bars: Bars) -> RiskReport:
    """Measure how much each symbol moves, and how much together with the others."""
    import numpy as np  # noqa: PLC0415  heavy, and only risk needs it

    returns = returns_of(bars)
    table = np.array(list(returns.values()))
    deviations = table.std(axis=1, ddof=1) * math.sqrt(_SESSIONS_A_YEAR)
    moving = [index for index, deviation in enumerate(deviations) if deviation > 0]
    together = np.atleast_2d(np.corrcoef(table[moving])) if moving else np.empty((0, 0))
    mean = {moving[i]: (together[i].sum() - 1) / max(len(moving) - 1, 1) for i in range(len(moving))}
    symbols = list(returns)
    return RiskReport(
        sessions=len(bars.sessions),
        volatility={symbol: _rounded(deviations[i]) for i, symbol in enumerate(symbols)},
        correlation={symbol: _rounded(mean.get(i, 0.0)) for i, symbol in enumerate(symbols)},
    )


@tool(freshness="quotes")
def measure_drift(targets: Targets, quotes: Quotes, positions: Account, mandate: Mandate) -> Drift:
    """Measure how far each symbol's weight is from its target, at the middle of its quote."""
    held = positions.state.held()
    values = {symbol: held.get(symbol, Decimal(0)) * price for symbol, price in _prices(quotes, mandate).items()}
    cash = positions.state.cash.get(mandate.base_currency, Decimal(0))
    equity = cash + sum(values.values(), Decimal(0))
    share = {symbol: (value / equity).quantize(_SIX) if equity > 0 else Decimal(0) for symbol, value in values.items()}
    return Drift(equity=equity, weights=share, drift={s: share[s] - targets.weights.get(s, Decimal(0)) for s in share})


def _prices(quotes: Quotes, mandate: Mandate) -> dict[str, Decimal]:
    """Return a price for each symbol that has one; whether it can be traded on is the draft's and the gate's to say."""
    found = {}
    for quote in quotes.quotes:
        sides = (quote.previous_close,) if quote.symbol in mandate.frozen else (quote.bid, quote.ask)
        known = [side for side in sides if side is not None and side.is_finite() and side > 0]
        if len(known) == len(sides):
            found[quote.symbol] = sum(known, Decimal(0)) / len(known)
    return found


def returns_of(bars: Bars) -> dict[str, list[float]]:
    """Return symbol -> daily simple returns. Raises WeightsError naming the symbol whose history has a hole."""
    if len(bars.sessions) < 3:
        raise WeightsError(f"only {len(bars.sessions)} sessions of history: at least 3 are needed")
    return {symbol: _returns(symbol, closes, bars) for symbol, closes in bars.closes.items()}


def _returns(symbol: str, closes: tuple[Decimal | None, ...], bars: Bars) -> list[float]:
    for session, close in zip(bars.sessions, closes, strict=True):
        if close is None:
            needed = f"the method needs all {len(bars.sessions)} sessions"
            raise WeightsError(f"{symbol}: no close on {session}, and {needed}")
        if not close.is_finite() or close <= 0:
            raise WeightsError(f"{symbol}: a close of {close} on {session}; should be above zero")
    known = [float(close) for close in closes if close is not None]
    return [later / earlier - 1 for earlier, later in pairwise(known)]


def _rounded(value: float) -> Decimal:
    return Decimal(repr(float(value))).quantize(_SIX)
