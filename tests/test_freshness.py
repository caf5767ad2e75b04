"""Freshness: a result expires with its age, and never later than what it was made from."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blocks.brokers.port import AccountState, Fill
from blocks.mandate import Freshness
from blocks.market.quotes import Quote
from tasks.freshness import Result, account_changes, expiry, is_fresh, moves
from tests.examples import examples

pytestmark = pytest.mark.pure

NOW = datetime(2026, 3, 2, 15, 5, tzinfo=UTC)
AGES = Freshness()
CLASSES = ("quotes", "positions", "bars", "analysis", "notes", "proposal")
moments = st.datetimes(datetime(1990, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
ages = st.timedeltas(timedelta(seconds=1), timedelta(days=3660))


def result(as_of: datetime = NOW, expires_at: datetime = NOW + timedelta(minutes=15)) -> Result:
    return Result(id="r", kind="Quotes", as_of=as_of, expires_at=expires_at, provenance={})


@pytest.mark.parametrize(
    ("name", "age"),
    [
        ("quotes", timedelta(minutes=15)),
        ("positions", timedelta(minutes=15)),
        ("bars", timedelta(days=4)),
        ("analysis", timedelta(days=1)),
        ("notes", timedelta(days=7)),
        ("proposal", timedelta(minutes=30)),
    ],
)
def test_each_class_has_an_age_counted_from_the_data(name: str, age: timedelta) -> None:
    assert NOW + age == expiry(AGES, name, NOW)


def test_an_input_that_expires_sooner_decides() -> None:
    soon, late = result(expires_at=NOW + timedelta(minutes=3)), result(expires_at=NOW + timedelta(days=9))

    assert NOW + timedelta(minutes=3) == expiry(AGES, "analysis", NOW, [late, soon])
    assert NOW + timedelta(days=1) == expiry(AGES, "analysis", NOW, [late])


@examples(100)
@given(st.sampled_from(CLASSES), ages, moments, st.lists(moments, max_size=5))
def test_a_result_never_outlives_its_class_or_its_inputs(
    name: str, age: timedelta, as_of: datetime, ends: list[datetime]
) -> None:
    expires_at = expiry(Freshness(**{name: age}), name, as_of, [result(expires_at=end) for end in ends])

    assert min([as_of + age, *ends]) == expires_at


@examples(100)
@given(ages, moments, st.lists(st.tuples(st.sampled_from(CLASSES), moments), min_size=1, max_size=6))
def test_a_chain_of_results_expires_no_later_than_any_link_before(
    age: timedelta, start: datetime, chain: list[tuple[str, datetime]]
) -> None:
    kept = Freshness(quotes=age)
    links = [result(start, expiry(kept, "quotes", start))]
    for name, as_of in chain:
        links.append(result(as_of, expiry(kept, name, as_of, links[-1:])))
    ends = [link.expires_at for link in links]

    assert sorted(ends, reverse=True) == ends


@pytest.mark.parametrize(
    ("now", "fresh"),
    [
        (NOW - timedelta(microseconds=1), False),
        (NOW, True),
        (NOW + timedelta(minutes=15), True),
        (NOW + timedelta(minutes=15, microseconds=1), False),
    ],
)
def test_a_result_is_true_from_its_data_to_its_end_both_included(now: datetime, fresh: bool) -> None:
    assert fresh == is_fresh(result(), now)


@pytest.mark.parametrize("change", [{"as_of": "2026-03-02T15:05:00"}, {"expires_at": "soon"}, {"more": 1}])
def test_a_result_without_true_moments_is_none(change: dict[str, Any]) -> None:
    content = result().model_dump(mode="json")

    assert result() == Result.model_validate(content)
    with pytest.raises(ValueError, match="validation error"):
        Result.model_validate(content | change)


# Prices that moved


def quote(symbol: str, bid: Any, ask: Any) -> Quote:
    return Quote(symbol=symbol, bid=bid, ask=ask, at=NOW)


prices = st.decimals("0.0001", "99999", places=4)


@examples(200)
@given(prices, prices, st.integers(0, 2000))
def test_a_move_is_told_of_once_the_middle_is_further_off_than_allowed(was: Decimal, now: Decimal, most: int) -> None:
    told = list(moves([quote("SPY", was, was)], [quote("SPY", now, now)], Decimal(most)))

    moved = abs(Fraction(now) - Fraction(was)) / Fraction(was) * 10_000
    assert ([("prices_have_not_moved", "SPY")] if moved > most else []) == [(each.check, each.symbol) for each in told]


def test_the_middle_of_bid_and_ask_is_what_moves() -> None:
    used = [quote("SPY", Decimal(99), Decimal(101))]

    assert [] == list(moves(used, [quote("SPY", Decimal("98.6"), Decimal("104.3"))], Decimal(150)))
    (told,) = moves(used, [quote("SPY", Decimal(99), Decimal("104.02"))], Decimal(150))
    assert "moved 151 bps, from 100 to 101.51; at most 150 bps is allowed" == told.reason


@pytest.mark.parametrize("bid", [None, Decimal("NaN"), Decimal("Infinity"), Decimal(-1)])
def test_a_price_that_is_none_has_not_moved(bid: Decimal | None) -> None:
    """The gate's rules name a quote that cannot be used; there is no figure to give here."""
    good = quote("SPY", Decimal(1), Decimal(1))

    assert [] == list(moves([good], [quote("SPY", bid, bid)], Decimal(1)))
    assert [] == list(moves([quote("SPY", bid, bid)], [good], Decimal(1)))
    assert [] == list(moves([good], [], Decimal(1)))


# An account that changed

symbols = st.sampled_from(["AGG", "GLD", "SPY"])
fills = st.builds(
    Fill,
    exec_id=st.just("e"),
    order_ref=st.just("o"),
    symbol=symbols,
    side=st.sampled_from(["buy", "sell"]),
    quantity=st.decimals("0.0001", "9999", places=4),
    price=st.decimals("0.01", "9999", places=2),
    commission=st.decimals("0", "99", places=2),
    at=st.just(NOW),
)


def account(held: dict[str, Decimal], cash: Decimal) -> AccountState:
    positions = [{"symbol": symbol, "quantity": quantity} for symbol, quantity in held.items()]
    return AccountState.model_validate({"id": "A", "as_of": NOW, "cash": {"USD": cash}, "positions": positions})


@examples(200)
@given(
    st.dictionaries(symbols, st.decimals("-999", "9999", places=4)),
    st.lists(fills, max_size=5),
    symbols,
    st.decimals("-99", "99", places=2),
    st.decimals("-99", "99", places=2),
)
def test_our_own_fills_explain_a_change_and_nothing_else_does(
    held: dict[str, Decimal], ours: list[Fill], symbol: str, shares: Decimal, deposit: Decimal
) -> None:
    before, after, cash = account(held, Decimal(1000)), dict(held), Decimal(1000)
    for fill in ours:
        sign = {"buy": 1, "sell": -1}[fill.side]
        after[fill.symbol] = after.get(fill.symbol, Decimal(0)) + sign * fill.quantity
        cash -= sign * fill.quantity * fill.price + fill.commission
    after[symbol] = after.get(symbol, Decimal(0)) + shares

    told = {(each.check, each.symbol) for each in account_changes(before, account(after, cash + deposit), ours, "USD")}
    expected = {("positions_have_not_changed", symbol)} if shares else set()
    assert told == expected | ({("cash_has_not_changed", "")} if deposit else set())
