"""Weights by method: what they sum to, the room they keep to, and what each method is about."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blocks.mandate import Mandate
from tasks.executors.weights import Room, WeightsError, spread_within, weights_of
from tests.examples import examples

GRAIN = Decimal("0.000001")
BY_RETURNS = ("inverse_volatility", "minimum_variance", "hierarchical_risk_parity")
METHODS = ("equal", *BY_RETURNS)


def mandate(method: str, weights: Mapping[str, Any], buffer: str = "0.02", max_weight: str = "1") -> Mandate:
    policy = {"method": method, "weights": weights, "cash_buffer": buffer}
    limits = {"max_weight": max_weight}
    return Mandate.model_validate({"account": "PAPER", "base_currency": "USD", "policy": policy, "limits": limits})


def returns(*deviations: float, sessions: int = 250, seed: int = 7) -> dict[str, list[float]]:
    """Return a year of returns of symbols A, B, … that move by these deviations, partly together."""
    chance = np.random.default_rng(seed)
    market = chance.standard_normal(sessions)
    own = chance.standard_normal((len(deviations), sessions))
    table = np.array(deviations)[:, None] * (0.6 * market + 0.8 * own)
    return {chr(ord("A") + index): row.tolist() for index, row in enumerate(table)}


def weighed(
    method: str, weights: Mapping[str, Any], moves: Mapping[str, list[float]], **more: str
) -> dict[str, Decimal]:
    return weights_of(mandate(method, weights, **more), moves)


FOUR: dict[str, dict[str, str]] = {"A": {}, "B": {}, "C": {}, "D": {}}
MOVES = returns(0.01, 0.02, 0.03, 0.04)


def test_fixed_weights_are_the_mandates() -> None:
    assert {"A": Decimal("0.3"), "B": Decimal(0)} == weighed("fixed", {"A": "0.3", "B": 0}, {})


def test_equal_weights_share_out_what_is_invested() -> None:
    assert dict.fromkeys("ABCD", Decimal("0.245")) == weighed("equal", FOUR, {})
    assert dict.fromkeys("ABC", Decimal("0.326666")) == weighed("equal", {"A": {}, "B": {}, "C": {}}, {})


@pytest.mark.parametrize("method", METHODS)
def test_all_but_the_buffer_is_invested_and_never_more(method: str) -> None:
    found = weighed(method, FOUR, MOVES, buffer="0.1")
    total = sum(found.values())

    assert Decimal("0.9") - 4 * GRAIN <= total <= Decimal("0.9")
    assert all(weight >= 0 and weight % GRAIN == 0 for weight in found.values())


@pytest.mark.parametrize("method", METHODS)
def test_every_weight_stays_within_its_bounds_and_max_weight(method: str) -> None:
    found = weighed(method, {"A": {"max": "0.2"}, "B": {"min": "0.3"}, "C": {}, "D": {"min": "0.1", "max": "0.15"}},
                    MOVES, max_weight="0.4")  # fmt: skip

    assert found["A"] <= Decimal("0.2")
    assert Decimal("0.3") <= found["B"] <= Decimal("0.4")
    assert found["C"] <= Decimal("0.4")
    assert Decimal("0.1") <= found["D"] <= Decimal("0.15")
    assert Decimal("0.98") - 4 * GRAIN <= sum(found.values()) <= Decimal("0.98")


@pytest.mark.parametrize("method", METHODS)
def test_a_symbol_at_nought_gets_nothing_and_needs_no_history(method: str) -> None:
    moves = {symbol: MOVES[symbol] for symbol in "ABC"}
    found = weighed(method, {"A": {}, "B": {}, "C": {}, "Z": 0}, moves)

    assert Decimal(0) == found["Z"]
    assert ["A", "B", "C", "Z"] == list(found)
    assert found == {**weighed(method, {"A": {}, "B": {}, "C": {}}, moves), "Z": Decimal(0)}


@pytest.mark.parametrize("method", METHODS)
def test_one_symbol_alone_gets_all(method: str) -> None:
    assert {"A": Decimal("0.98"), "B": Decimal(0)} == weighed(method, {"A": {}, "B": 0}, MOVES)


@pytest.mark.parametrize("method", METHODS)
def test_the_same_history_gives_the_same_weights(method: str) -> None:
    assert weighed(method, FOUR, MOVES) == weighed(method, FOUR, returns(0.01, 0.02, 0.03, 0.04))


def test_inverse_volatility_is_what_it_says() -> None:
    deviations = np.array([np.std(MOVES[symbol], ddof=1) for symbol in "ABCD"])
    shares = 0.98 / deviations / (1 / deviations).sum()
    found = weighed("inverse_volatility", FOUR, MOVES)

    assert shares == pytest.approx([float(found[symbol]) for symbol in "ABCD"], abs=2e-6)


def test_minimum_variance_has_less_variance_than_any_other() -> None:
    table = np.array([MOVES[symbol] for symbol in "ABCD"])
    variance = np.cov(table)

    def of(found: Mapping[str, Decimal]) -> float:
        weights = np.array([float(found[symbol]) for symbol in "ABCD"])
        return float(weights @ variance @ weights)

    least = of(weighed("minimum_variance", FOUR, MOVES))

    assert all(least < of(weighed(method, FOUR, MOVES)) for method in METHODS if method != "minimum_variance")
    chance = np.random.default_rng(3)
    others = chance.dirichlet(np.ones(4), 500) * 0.98
    assert least <= min(float(weights @ variance @ weights) for weights in others) + 1e-9


@pytest.mark.parametrize("method", BY_RETURNS)
def test_the_quietest_symbol_gets_most_and_the_loudest_least(method: str) -> None:
    found = weighed(method, FOUR, MOVES)

    assert ("A", "D") == (max(found, key=found.__getitem__), min(found, key=found.__getitem__))


@pytest.mark.parametrize("move", [0.0, 0.01])
@pytest.mark.parametrize("method", BY_RETURNS)
def test_a_price_that_never_moved_or_always_by_as_much_is_named(method: str, move: float) -> None:
    with pytest.raises(WeightsError, match=f"^B: its price never moved over the look-back; {method} cannot weigh it$"):
        weighed(method, FOUR, {**MOVES, "B": [move] * 250})


@pytest.mark.parametrize("method", METHODS)
def test_a_max_weight_that_leaves_too_little_room_is_told(method: str) -> None:
    with pytest.raises(WeightsError, match=r"^the bounds allow 0 to 0\.8 of the equity; the policy invests 0\.98$"):
        weighed(method, FOUR, MOVES, max_weight="0.2")


# Spreading a total over symbols that have little room

fractions = st.decimals(0, 1, places=4) | st.decimals(0, 1, places=9)


@st.composite
def rooms(draw: st.DrawFn) -> tuple[dict[str, Room], dict[str, Decimal], Decimal]:
    """Return rooms, shares of any size, and a total that the rooms allow."""
    symbols = [f"S{number}" for number in range(draw(st.integers(1, 8)))]
    pairs = {symbol: sorted([draw(fractions), draw(fractions)]) for symbol in symbols}
    if draw(st.booleans()):
        pairs = {symbol: [Decimal(0), Decimal(1)] for symbol in symbols}
    low, high = sum(pair[0] for pair in pairs.values()), sum(pair[1] for pair in pairs.values())
    total = low + (high - low) * draw(fractions)
    sizes = st.decimals(0, 1, places=6) | st.sampled_from([Decimal(0), Decimal("1e-30"), Decimal(1000)])
    shares = {symbol: draw(sizes) for symbol in symbols}
    return {symbol: Room(*pair) for symbol, pair in pairs.items()}, shares, total


@examples(150)
@given(rooms())
def test_a_spread_keeps_to_its_rooms_and_sums_to_the_total(
    case: tuple[dict[str, Room], dict[str, Decimal], Decimal],
) -> None:
    room, shares, total = case
    found = spread_within(room, shares, total)
    short = total - sum(found.values())

    assert room.keys() == found.keys()
    assert all(room[symbol].low <= weight <= room[symbol].high for symbol, weight in found.items())
    assert 0 <= short <= len(room) * GRAIN


@examples(150)
@given(rooms())
def test_a_spread_is_in_proportion_where_no_bound_binds(
    case: tuple[dict[str, Room], dict[str, Decimal], Decimal],
) -> None:
    room, shares, total = case
    found = spread_within(room, shares, total)
    free = [s for s in room if shares[s] >= GRAIN and room[s].low + GRAIN < found[s] < room[s].high - GRAIN]

    # a / b is share(a) / share(b), but for the six decimals that either is cut to
    assert all(
        abs(found[one] * shares[other] - found[other] * shares[one]) <= GRAIN * (shares[one] + shares[other])
        for one in free for other in free
    )  # fmt: skip


@examples(100)
@given(rooms())
def test_a_symbol_with_the_larger_share_never_gets_less_room_permitting(
    case: tuple[dict[str, Room], dict[str, Decimal], Decimal],
) -> None:
    _, shares, _ = case
    room = dict.fromkeys(shares, Room(Decimal(0), Decimal(1)))
    found = spread_within(room, shares, Decimal("0.98"))
    ranked = sorted(shares, key=shares.__getitem__)

    assert sorted(found.values()) == [found[symbol] for symbol in ranked]


def test_a_total_outside_the_rooms_is_told() -> None:
    room = {"A": Room(Decimal("0.2"), Decimal("0.3"))}

    for total in ("0.1", "0.4"):
        with pytest.raises(
            WeightsError, match=f"^the bounds allow 0.2 to 0.3 of the equity; the policy invests {total}$"
        ):
            spread_within(room, {"A": Decimal(1)}, Decimal(total))
