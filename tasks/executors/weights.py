"""Weights by method: what share of managed equity each symbol should be, within its bounds."""

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_DOWN, Decimal
from typing import Any

from blocks.errors import TradewrightError
from blocks.mandate import Mandate

_GRAIN = Decimal("0.000001")
_TINY = Decimal("1e-12")
_STILL = 1e-7  # a daily deviation so small is rounding, and skfolio refuses it without a name


class WeightsError(TradewrightError):
    """The method cannot work out weights from what it was given."""


@dataclass(frozen=True)
class Room:
    """How small and how large a weight may be, as shares of managed equity."""

    low: Decimal
    high: Decimal


def rooms(mandate: Mandate) -> dict[str, Room]:
    """Return each symbol's room: its bounds in the policy, and never above `max_weight`."""
    most = mandate.limits.max_weight
    return {symbol: Room(bounds.min, min(bounds.max, most)) for symbol, bounds in mandate.policy.bounds.items()}


def weights_of(mandate: Mandate, returns: Mapping[str, list[float]]) -> dict[str, Decimal]:
    """Return symbol -> weight by the mandate's method, summing to 1 - cash_buffer as nearly as six decimals allow.

    `returns` holds each symbol's daily returns; `fixed` and `equal` look at none. Raises WeightsError.
    """
    policy = mandate.policy
    if policy.method == "fixed":
        return policy.fixed_weights
    room = rooms(mandate)
    open_to = [symbol for symbol in policy.weights if room[symbol].high > 0]
    _check_room({symbol: room[symbol] for symbol in open_to}, 1 - policy.cash_buffer)
    shares = _shares(policy.method, open_to, returns, room, 1 - policy.cash_buffer)
    spread = spread_within({symbol: room[symbol] for symbol in open_to}, shares, 1 - policy.cash_buffer)
    return {symbol: spread.get(symbol, Decimal(0)) for symbol in policy.weights}


def spread_within(room: Mapping[str, Room], shares: Mapping[str, Decimal], total: Decimal) -> dict[str, Decimal]:
    """Return weights in proportion to `shares`, within `room`, that sum to `total`, or just below for six decimals.

    The weight of s is k x share(s), cut to its room; the sum grows with k in straight pieces, so k is found exactly.
    Raises WeightsError where the room does not allow the total.
    """
    _check_room(room, total)
    share = {symbol: max(value, _TINY) for symbol, value in shares.items()}

    def cut(k: Decimal) -> dict[str, Decimal]:
        return {symbol: min(max(k * share[symbol], r.low), r.high) for symbol, r in room.items()}

    def invested(k: Decimal) -> Decimal:
        return sum(cut(k).values(), Decimal(0))

    bends = sorted({bound / share[symbol] for symbol, r in room.items() for bound in (r.low, r.high)})
    place = min(bisect_left(bends, total, key=invested), len(bends) - 1)
    right, left = bends[place], bends[max(place - 1, 0)]
    at_left, at_right = invested(left), invested(right)
    k = right if at_right == at_left else left + (right - left) * (total - at_left) / (at_right - at_left)
    return {symbol: max(weight.quantize(_GRAIN, ROUND_DOWN), room[symbol].low) for symbol, weight in cut(k).items()}


def _check_room(room: Mapping[str, Room], total: Decimal) -> None:
    low, high = sum(r.low for r in room.values()), sum(r.high for r in room.values())
    if not low <= total <= high:
        raise WeightsError(f"the bounds allow {low} to {high} of the equity; the policy invests {total}")


def _shares(
    method: str, symbols: list[str], returns: Mapping[str, list[float]], room: Mapping[str, Room], invested: Decimal
) -> dict[str, Decimal]:
    if method == "equal" or len(symbols) == 1:
        return {symbol: Decimal(1) for symbol in symbols}
    import numpy as np  # noqa: PLC0415  heavy, and not needed for fixed or equal weights
    from skfolio.exceptions import SkfolioError  # noqa: PLC0415  3 s to import

    table = np.array([returns[symbol] for symbol in symbols]).T
    flat = [symbol for symbol, deviation in zip(symbols, table.std(axis=0), strict=True) if not deviation > _STILL]
    if flat:
        raise WeightsError(f"{flat[0]}: its price never moved over the look-back; {method} cannot weigh it")
    model = _model(method, [room[symbol] for symbol in symbols], invested)
    try:
        model.fit(table)
    except SkfolioError as error:
        raise WeightsError(f"{method} finds no weights: {str(error).partition(chr(10))[0]}") from error
    return {symbol: Decimal(repr(float(weight))) for symbol, weight in zip(symbols, model.weights_, strict=True)}


def _model(method: str, room: list[Room], invested: Decimal) -> Any:
    """Return skfolio's model of a method; it spreads a budget of 1, so bounds are scaled to the share invested."""
    from skfolio.optimization import HierarchicalRiskParity, InverseVolatility, MeanRisk  # noqa: PLC0415  3 s to import

    bounds = {
        "min_weights": [float(min(r.low / invested, Decimal(1))) for r in room],
        "max_weights": [float(min(r.high / invested, Decimal(1))) for r in room],
    }
    if method == "inverse_volatility":
        return InverseVolatility()
    if method == "hierarchical_risk_parity":
        return HierarchicalRiskParity(**bounds)
    return MeanRisk(**bounds)
