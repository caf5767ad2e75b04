"""Orders go to the targets, within every limit, from usable figures only."""

import json
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tasks.executors import sharing
from tasks.executors.draft import draft
from tasks.executors.sharing import Budgets, Lot, share_out
from tasks.situation import Proposal, Situation
from tasks.verification.verdict import verify
from tests.examples import examples

pytestmark = pytest.mark.pure

NOW = "2026-03-02T15:05:00Z"
LONG_AGO = "2026-03-02T14:49:59Z"
JUST_FRESH = "2026-03-02T14:50:00Z"

Figures = dict[str, Any]


def quote(symbol: str, price: str, **more: Any) -> Figures:
    """Quote without a spread, so that sums can be done in the head."""
    figures = {"bid": price, "ask": price, "previous_close": price, "at": NOW, "currency": "USD", "adv": "1000"}
    return {"symbol": symbol, **figures, **more}


def working(symbol: str, side: str, quantity: str, **more: Any) -> Figures:
    return {"symbol": symbol, "side": side, "quantity": quantity, **more}


def content(
    weights: Figures,
    held: Figures,
    quotes: list[Figures],
    *,
    cash: str = "0",
    open_orders: tuple[Figures, ...] = (),
    limits: Figures | None = None,
    account: Figures | None = None,
    buffer: str = "0",
    **mandate: Any,
) -> Figures:
    """Return a situation whose limits are all out of the way, but for those named."""
    wide = {"max_turnover": 9, "max_order_notional": "1e9", "max_orders": 100}
    return {
        "now": NOW,
        "mandate": {
            "account": "PAPER",
            "base_currency": "USD",
            "policy": {"weights": weights, "cash_buffer": buffer},
            "bands": {"absolute": 0, "relative": 0},
            "min_trade": 0,
            "limits": {**wide, **(limits or {})},
            **mandate,
        },
        "account": {
            "cash": {"USD": cash},
            "positions": [{"symbol": symbol, "quantity": shares} for symbol, shares in held.items()],
            **(account or {}),
        },
        "quotes": quotes,
        "open_orders": list(open_orders),
    }


def drafted(*args: Any, **kwargs: Any) -> Proposal:
    return draft(Situation.model_validate(content(*args, **kwargs)))


def ordered(proposal: Proposal) -> list[str]:
    return [f"{order.side} {order.quantity} {order.symbol} at {order.limit}" for order in proposal.orders]


def why(proposal: Proposal, symbol: str) -> str:
    [reason] = [skipped.reason for skipped in proposal.skipped if skipped.symbol == symbol]
    return reason


def refusals(proposal: Proposal) -> list[tuple[str, str]]:
    assert not proposal.orders
    return [(reason.check, reason.symbol) for reason in proposal.reasons]


A, B = quote("A", "100"), quote("B", "10")


# To the target


def test_a_portfolio_in_cash_buys_its_targets() -> None:
    proposal = drafted({"A": "0.6", "B": "0.4"}, {}, [A, B], cash="1000")

    assert ordered(proposal) == ["buy 6 A at 100.00", "buy 40 B at 10.00"]
    assert proposal.cash_after == Decimal(0)
    assert proposal.skipped == ()


def test_sells_come_first_then_buys_each_by_symbol() -> None:
    quotes = [quote(symbol, "10") for symbol in "DCBA"]
    proposal = drafted({"D": "0.25", "C": "0.25", "B": "0.25", "A": "0.25"}, {"D": "80", "B": "80"}, quotes, cash="0")

    assert ordered(proposal) == [
        "sell 40 B at 10.00", "sell 40 D at 10.00", "buy 40 A at 10.00", "buy 40 C at 10.00",
    ]  # fmt: skip


def test_a_symbol_within_its_band_is_left_alone_and_one_at_its_edge_too() -> None:
    bands = {"absolute": "0.01", "relative": "0.1"}
    proposal = drafted({"A": "0.5", "B": "0.05"}, {"A": "55", "B": "60"}, [A, B], cash="3900", bands=bands)

    assert ordered(proposal) == []
    assert why(proposal, "A") == "within its band: weight 0.55, target 0.5"
    assert why(proposal, "B") == "within its band: weight 0.06, target 0.05"


def test_outside_its_band_a_symbol_goes_to_its_target_and_not_to_the_edge() -> None:
    bands = {"absolute": "0.01", "relative": "0.1"}
    proposal = drafted({"A": "0.5"}, {"A": "56"}, [A], cash="4400", bands=bands)

    assert ordered(proposal) == ["sell 6 A at 100.00"]


@pytest.mark.parametrize(("cash", "shares"), [("249", 2), ("250", 2), ("251", 3)])
def test_of_two_equally_near_counts_the_smaller_trade_is_taken(cash: str, shares: int) -> None:
    proposal = drafted({"A": "0.1"}, {}, [A], cash=f"{cash}0")

    assert ordered(proposal) == [f"buy {shares} A at 100.00"]


def test_a_trade_that_would_bring_the_symbol_no_nearer_is_not_made() -> None:
    proposal = drafted({"A": "0.05"}, {}, [A], cash="1000")

    assert ordered(proposal) == []
    assert why(proposal, "A") == "below min_trade: 0 at 100 would go to the target, 1 make the 0 needed"


def test_a_fraction_held_is_never_rounded_up_into_a_short_position() -> None:
    proposal = drafted({"A": "0", "B": "0.5"}, {"A": "57.68"}, [A, B])

    assert ordered(proposal) == ["sell 57 A at 100.00", "buy 288 B at 10.00"]


def test_a_fractional_account_goes_to_the_last_ten_thousandth_of_a_share() -> None:
    proposal = drafted({"A": "0.33333", "B": "0"}, {"B": "57.680049"}, [A, B], cash="423.19951", fractional=True)

    assert ordered(proposal) == ["sell 57.68 B at 10.00", "buy 3.3333 A at 100.00"]


def test_a_short_position_is_bought_back_and_no_more_of_it_is_sold() -> None:
    proposal = drafted({"A": "0", "B": "0.1"}, {"A": "-3"}, [A, B], cash="1300")

    assert ordered(proposal) == ["buy 3 A at 100.00", "buy 10 B at 10.00"]


def test_targets_that_a_method_worked_out_take_the_place_of_the_weights() -> None:
    figures = content({"A": {"min": 0, "max": 1}, "B": {"min": 0, "max": 1}}, {}, [A, B], cash="1000")
    figures["mandate"]["policy"]["method"] = "equal"
    figures["targets"] = {"A": "0.5", "B": "0.5"}

    assert ordered(draft(Situation.model_validate(figures))) == ["buy 5 A at 100.00", "buy 50 B at 10.00"]


def test_the_figures_of_the_design_come_out_in_full() -> None:
    quotes = [quote("SPY", "500", bid="499.98", ask="500.02"), quote("AGG", "98", bid="97.99", ask="98.01")]
    limits = {"max_turnover": "0.5", "max_weight": "0.7"}
    proposal = drafted(
        {"SPY": "0.60", "AGG": "0.38"}, {"SPY": "110", "AGG": "300"}, quotes,
        cash="2500", buffer="0.02", min_trade=100, limits=limits,
    )  # fmt: skip

    assert ordered(proposal) == ["sell 6 SPY at 499.98", "buy 37 AGG at 98.01"]
    assert proposal.cash_after == Decimal("1873.51")


# What does not count, and what is not traded


def test_a_position_outside_the_mandate_is_reported_and_does_not_count() -> None:
    proposal = drafted({"A": "1"}, {"GME": "1000"}, [A, quote("GME", "20")], cash="1000")

    assert ordered(proposal) == ["buy 10 A at 100.00"]
    assert why(proposal, "GME") == (
        "outside the mandate: never traded, not counted; a weight of 0 in policy.weights would sell it"
    )


def test_an_outside_position_of_no_shares_is_not_worth_a_word() -> None:
    assert drafted({"A": "1"}, {"GME": "0"}, [A], cash="1000").skipped == ()


def test_cash_in_another_currency_buys_nothing() -> None:
    proposal = drafted({"A": "1"}, {}, [A], cash="1000", account={"cash": {"USD": "200", "EUR": "800"}})

    assert ordered(proposal) == ["buy 2 A at 100.00"]


def test_without_equity_there_are_no_orders_and_no_refusal() -> None:
    proposal = drafted({"A": "0.5", "B": "0.5"}, {"A": "5"}, [A, B], cash="-500")

    assert (proposal.orders, proposal.reasons) == ((), ())
    assert [skipped.symbol for skipped in proposal.skipped] == ["A", "B"]
    assert why(proposal, "A") == "managed equity is 0.00: nothing to invest"


def test_a_frozen_symbol_counts_at_its_last_close_and_is_never_traded() -> None:
    dark = {"symbol": "A", "previous_close": "100"}
    proposal = drafted({"A": "0.1", "B": "0.5"}, {"A": "5"}, [dark, B], cash="500", frozen=["A"])

    assert ordered(proposal) == ["buy 50 B at 10.00"]
    assert why(proposal, "A") == "frozen: counted at its last close and never traded; weight 0.5, target 0.1"


def test_a_restricted_symbol_is_counted_and_never_ordered() -> None:
    proposal = drafted({"A": "0.1", "B": "0.5"}, {"A": "5"}, [A, B], cash="500", limits={"restricted": ["A"]})

    assert ordered(proposal) == ["buy 50 B at 10.00"]
    assert why(proposal, "A") == "restricted: weight 0.5, target 0.1"


def test_a_symbol_not_wanted_and_not_held_needs_no_quote() -> None:
    proposal = drafted({"A": "1", "B": "0"}, {}, [A], cash="1000")

    assert ordered(proposal) == ["buy 10 A at 100.00"]
    assert why(proposal, "B") == "no usable quote: no quote"


@pytest.mark.parametrize(
    ("direction", "orders"), [("buy_only", ["buy 20 B at 10.00"]), ("sell_only", ["sell 2 A at 100.00"])]
)
def test_a_direction_allows_one_side_only(direction: str, orders: list[str]) -> None:
    proposal = drafted({"A": "0.3", "B": "0.5"}, {"A": "5", "B": "30"}, [A, B], cash="200", direction=direction)

    assert ordered(proposal) == orders
    assert len(proposal.skipped) == 1
    assert proposal.skipped[0].reason.startswith(f"direction is {direction}: weight")


# Working orders


def test_a_working_buy_is_not_bought_again() -> None:
    order = working("A", "buy", "6", filled="2", limit="100")
    proposal = drafted({"A": "0.5"}, {"A": "2"}, [A], cash="1000", open_orders=(order,))

    assert ordered(proposal) == []
    assert why(proposal, "A") == "within its band: weight 0.5, target 0.5"


def test_a_working_sell_lowers_what_may_still_be_sold() -> None:
    order = working("A", "sell", "7", limit="100")
    proposal = drafted({"A": "0"}, {"A": "10"}, [A], open_orders=(order,))

    assert ordered(proposal) == ["sell 3 A at 100.00"]


@pytest.mark.parametrize(("side", "weight", "mine"), [("buy", "0", "sell"), ("sell", "1", "buy")])
def test_nothing_is_drafted_against_a_working_order(side: str, weight: str, mine: str) -> None:
    order = working("A", side, "1", limit="100")
    proposal = drafted({"A": weight}, {"A": "5"}, [A], cash="500", open_orders=(order,))

    assert ordered(proposal) == []
    assert f"a {side} of 1 is working, a {mine} would go against it" in why(proposal, "A")


def test_an_order_that_has_filled_is_not_in_the_way() -> None:
    order = working("A", "buy", "1", filled="1", limit="100")
    proposal = drafted({"A": "0"}, {"A": "5"}, [A], open_orders=(order,))

    assert ordered(proposal) == ["sell 5 A at 100.00"]


@pytest.mark.parametrize(
    ("order", "shares"),
    [
        (working("B", "buy", "20", limit="10"), 6),
        (working("GME", "buy", "20", limit="10"), 8),
        (working("GME", "buy", "20"), 7),
        (working("GME", "buy", "20", limit="0"), 7),
        (working("GME", "sell", "20", limit="10"), 10),
    ],
)
def test_working_buys_promise_cash_and_working_sells_bring_none(order: Figures, shares: int) -> None:
    quotes = [A, B, quote("GME", "10")]
    weights = {"A": "0.6", "B": "0.4"} if order["symbol"] == "B" else {"A": "1", "B": "0"}
    proposal = drafted(
        weights, {}, quotes, cash="1000", open_orders=(order,), limits={"restricted": ["B"], "collar_bps": 500}
    )

    assert ordered(proposal) == [f"buy {shares} A at 100.00"]


# Each limit alone


@pytest.mark.parametrize(
    ("limits", "shares"),
    [
        ({"max_order_notional": "399"}, 3),
        ({"max_order_notional": "400"}, 4),
        ({"max_turnover": "0.5"}, 5),
        ({"max_adv_fraction": "0.0025"}, 2),
    ],
)
def test_an_order_stops_at_the_nearest_limit(limits: Figures, shares: int) -> None:
    assert ordered(drafted({"A": "1"}, {}, [A], cash="1000", limits=limits)) == [f"buy {shares} A at 100.00"]


@pytest.mark.parametrize("adv", [None, "0", "NaN", "Infinity"])
def test_where_volume_is_limited_and_not_known_nothing_is_ordered(adv: str | None) -> None:
    proposal = drafted({"A": "1"}, {}, [quote("A", "100", adv=adv)], cash="1000", limits={"max_adv_fraction": "0.1"})

    assert ordered(proposal) == []
    assert why(proposal, "A") == "max_adv_fraction is 0.1 and the average daily volume is not known"


def test_max_weight_keeps_a_buy_from_rounding_up_beyond_it_and_leaves_sells_alone() -> None:
    limits = {"max_weight": "0.37"}
    bought = drafted({"A": "0.37"}, {}, [A], cash="1000", limits=limits)
    sold = drafted({"A": "0.37"}, {"A": "10"}, [A], limits=limits)

    assert ordered(bought) == ["buy 3 A at 100.00"]
    assert ordered(sold) == ["sell 6 A at 100.00"]


def test_a_trade_below_the_minimum_is_skipped_with_its_figures() -> None:
    proposal = drafted({"A": "0.5", "B": "0.31"}, {"A": "4", "B": "30"}, [A, B], cash="300", min_trade=100)

    assert ordered(proposal) == ["buy 1 A at 100.00"]
    assert why(proposal, "B") == "below min_trade: 1 at 10 would go to the target, 10 make the 100 needed"


def test_a_limit_that_leaves_less_than_the_minimum_is_named() -> None:
    proposal = drafted({"A": "1"}, {}, [A], cash="1000", min_trade=500, limits={"max_order_notional": "450"})

    assert why(proposal, "A") == "max_order_notional: at most 4 of 10 at 100, an order takes 5"


def test_the_largest_drifts_take_the_orders_there_are_and_ties_go_by_symbol() -> None:
    weights = {"D": "0.2", "C": "0.3", "B": "0.2", "A": "0.2"}
    proposal = drafted(weights, {}, [quote(each, "10") for each in weights], cash="1000", limits={"max_orders": 2})

    assert ordered(proposal) == ["buy 20 A at 10.00", "buy 30 C at 10.00"]
    assert why(proposal, "D") == "max_orders is 2: other symbols come first"


def test_turnover_scales_every_trade() -> None:
    weights = {"A": "0.2", "B": "0.8"}
    proposal = drafted(weights, {"A": "10"}, [A, B], limits={"max_turnover": "0.8"})

    assert ordered(proposal) == ["sell 4 A at 100.00", "buy 40 B at 10.00"]


def test_no_turnover_means_no_orders() -> None:
    proposal = drafted({"A": "1"}, {}, [A], cash="1000", limits={"max_turnover": 0})

    assert why(proposal, "A") == "max_turnover: 0.00 left, the smallest order, 1 at 100, takes 100.00"


@pytest.mark.parametrize(
    ("figures", "shares"),
    [
        ({"buffer": "0.2"}, 8),
        ({"raise_cash": "250"}, 7),
        ({"buffer": "0.2", "raise_cash": "250"}, 5),
        ({"account": {"settled_cash": {"USD": "300"}}, "limits": {"cash_basis": "settled"}}, 3),
        ({"account": {"settled_cash": {"EUR": "900"}}, "limits": {"cash_basis": "settled"}}, 0),
        ({"account": {"settled_cash": {"USD": "300"}}}, 10),
    ],
)
def test_buys_leave_the_cash_that_is_to_be_kept(figures: Figures, shares: int) -> None:
    weight = "0.8" if "buffer" in figures else "1"
    proposal = drafted({"A": weight}, {}, [A], cash="1000", **figures)

    assert ordered(proposal) == ([f"buy {shares} A at 100.00"] if shares else [])


def test_cash_to_raise_lowers_every_target() -> None:
    proposal = drafted({"A": "0.5", "B": "0.5"}, {"A": "5", "B": "50"}, [A, B], raise_cash=400)

    assert ordered(proposal) == ["sell 2 A at 100.00", "sell 20 B at 10.00"]
    assert proposal.cash_after == Decimal(400)


@pytest.mark.parametrize(("basis", "orders"), [("total", 2), ("settled", 1)])
def test_own_sells_pay_for_buys_only_where_cash_need_not_be_settled(basis: str, orders: int) -> None:
    proposal = drafted({"A": "0", "B": "1"}, {"A": "5"}, [A, B], limits={"cash_basis": basis})

    assert ordered(proposal) == ["sell 5 A at 100.00", "buy 50 B at 10.00"][:orders]


def test_a_symbol_that_finds_no_cash_says_so() -> None:
    proposal = drafted({"A": "0", "B": "1"}, {"A": "5"}, [A, B], limits={"cash_basis": "settled"})

    assert why(proposal, "B") == "no cash left: 0.00 for buys, the smallest order, 1 at 10, takes 10.00"


def test_sells_fill_a_hole_in_the_cash_before_they_pay_for_buys() -> None:
    proposal = drafted({"A": "0", "B": "1"}, {"A": "10"}, [A, B], cash="-400")

    assert ordered(proposal) == ["sell 10 A at 100.00", "buy 60 B at 10.00"]
    assert proposal.cash_after == Decimal(0)


# When limits meet


def test_scarce_cash_is_shared_in_proportion() -> None:
    weights = {"A": "0.6", "B": "0.3"}
    proposal = drafted(weights, {"C": "100"}, [A, B], cash="1000", account={"settled_cash": {"USD": "450"}},
                       limits={"cash_basis": "settled"})  # fmt: skip

    assert ordered(proposal) == ["buy 3 A at 100.00", "buy 15 B at 10.00"]


def test_what_rounding_leaves_goes_to_the_largest_gap() -> None:
    weights = {"A": "0.36", "B": "0.32", "C": "0.32"}
    quotes = [quote(symbol, "40") for symbol in weights]
    proposal = drafted(weights, {}, quotes, cash="1000", limits={"max_turnover": "0.8"})

    assert ordered(proposal) == ["buy 8 A at 40.00", "buy 6 B at 40.00", "buy 6 C at 40.00"]


def test_a_trade_squeezed_below_the_minimum_leaves_its_cash_to_the_others() -> None:
    weights = {"A": "0.5", "B": "0.5"}
    proposal = drafted(weights, {}, [A, quote("B", "100")], cash="1000", min_trade=300, limits={"max_turnover": "0.5"})

    assert ordered(proposal) == ["buy 5 A at 100.00"]
    assert why(proposal, "B") == "max_turnover: 0.00 left, the smallest order, 3 at 100, takes 300.00"


def test_where_cash_stops_the_buys_the_turnover_left_goes_to_the_sells() -> None:
    weights = {"A": "0", "B": "1"}
    proposal = drafted(
        weights, {"A": "10"}, [A, B], account={"settled_cash": {"USD": "100"}},
        limits={"cash_basis": "settled", "max_turnover": "0.5"},
    )  # fmt: skip

    assert ordered(proposal) == ["sell 4 A at 100.00", "buy 10 B at 10.00"]


def test_a_whole_share_sold_comes_before_half_of_one_with_some_of_the_other() -> None:
    proposal = drafted(
        {"A": "0", "B": "1"}, {"A": "10"}, [A, B], account={"settled_cash": {"USD": "50"}},
        limits={"cash_basis": "settled", "max_turnover": "0.5"},
    )  # fmt: skip

    assert ordered(proposal) == ["sell 5 A at 100.00"]


def test_buys_count_on_what_whole_shares_sold_bring_and_not_on_the_part_that_turnover_allows() -> None:
    quotes = [quote("A", "1", bid="0.9996", ask="1.0004", tick="0.0001"), quote("B", "1")]
    proposal = drafted({"A": "0", "B": "1"}, {"A": "7"}, quotes, limits={"max_turnover": "0.3"})

    assert ordered(proposal) == ["sell 2 A at 0.9996"]


def test_sells_move_up_when_larger_buys_find_no_cash() -> None:
    quotes = [A, B, quote("C", "10")]
    proposal = drafted({"A": "0.1", "B": "0.45", "C": "0.45"}, {"A": "10"}, quotes, limits={"max_orders": 1})

    assert ordered(proposal) == ["sell 9 A at 100.00"]


def test_buys_with_no_cash_make_room_for_the_sells_that_pay_for_them() -> None:
    weights = {"A": "0.5", "B": "0.2", "C": "0.3", "D": "0", "E": "0", "F": "0"}
    held = {"D": "40", "E": "30", "F": "30"}
    proposal = drafted(weights, held, [quote(symbol, "10") for symbol in weights], limits={"max_orders": 2})

    assert ordered(proposal) == ["sell 40 D at 10.00", "buy 40 A at 10.00"]


# Limit prices


@pytest.mark.parametrize(
    ("figures", "weight", "limit"),
    [
        ({"bid": "99.991", "ask": "100.006"}, "1", "100.00"),
        ({"bid": "99.991", "ask": "100.006"}, "0", "100.00"),
        ({"bid": "99.9", "ask": "100", "tick": "0.05"}, "0", "99.90"),
        ({"bid": "99.98", "ask": "100.24", "tick": "0.25"}, "1", "100.00"),
        ({"bid": "98.98", "ask": "99.99", "tick": "1"}, "1", "100"),
        ({"bid": "101.01", "ask": "101.3", "tick": "1"}, "0", "101"),
        ({"bid": "99", "ask": "100", "tick": "1E+2"}, "1", "100"),
    ],
)
def test_a_limit_is_the_far_side_on_the_tick(figures: Figures, weight: str, limit: str) -> None:
    proposal = drafted({"A": weight}, {"A": "5"}, [quote("A", "100", **figures)], cash="600")

    assert [str(order.limit) for order in proposal.orders] == [limit]


@pytest.mark.parametrize(("tick", "collar"), [("7", 50), ("0.01", 0), ("1000", 10_000)])
def test_a_symbol_without_a_limit_in_the_collar_is_skipped(tick: str, collar: int) -> None:
    figures = quote("A", "100", ask="100.006", tick=tick)
    proposal = drafted({"A": "0.9"}, {}, [figures], cash="1000", limits={"collar_bps": collar})

    assert ordered(proposal) == []
    assert why(proposal, "A") == "no limit price: no multiple of the tick lies within the collar"


# Refusals


@pytest.mark.parametrize(
    "fault",
    [
        {"bid": None}, {"ask": None}, {"bid": "NaN"}, {"ask": "Infinity"}, {"bid": "-1", "ask": "-1"}, {"bid": "0"},
        {"bid": "100.01"}, {"bid": "97", "ask": "103"}, {"at": None}, {"at": LONG_AGO}, {"at": "2026-03-02T15:05:01Z"},
        {"delayed": True}, {"currency": "EUR"}, {"previous_close": None}, {"previous_close": "NaN"},
        {"previous_close": "0"}, {"previous_close": "79.99"}, {"previous_close": "133.34"}, {"tick": "0"},
        {"tick": "NaN"}, {"tick": "Infinity"}, {"tick": "0.000000009"},
    ],
)  # fmt: skip
@pytest.mark.parametrize(("weight", "held"), [("0.5", {}), ("0", {"A": "1"}), ("0", {"A": "-1"})])
def test_an_unusable_quote_of_a_symbol_that_counts_refuses_the_draft(
    fault: Figures, weight: str, held: Figures
) -> None:
    proposal = drafted({"A": weight, "B": "0.5"}, held, [quote("A", "100", **fault), B], cash="1000")

    assert refusals(proposal) == [("quotes_are_usable", "A")]


@pytest.mark.parametrize(
    "odd",
    [
        {"at": JUST_FRESH}, {"currency": None}, {"last": "NaN"}, {"adv": None}, {"bid": "99", "ask": "101"},
        {"previous_close": "80"}, {"tick": "0.00000001"},
    ],
)  # fmt: skip
def test_a_quote_may_be_odd_and_still_usable(odd: Figures) -> None:
    proposal = drafted({"A": "0.5"}, {}, [quote("A", "100", **odd)], cash="1000")

    assert [order.symbol for order in proposal.orders] == ["A"]


def test_delayed_quotes_are_used_where_the_mandate_allows_them() -> None:
    proposal = drafted({"A": "1"}, {}, [quote("A", "100", delayed=True)], cash="1000", allow_delayed=True)

    assert ordered(proposal) == ["buy 10 A at 100.00"]


@pytest.mark.parametrize(
    ("account", "check"),
    [
        ({"id": "LIVE"}, "account_is_the_mandates"),
        ({"as_of": LONG_AGO}, "positions_are_fresh"),
        ({"as_of": "2026-03-02T15:05:01Z"}, "positions_are_fresh"),
    ],
)
def test_the_account_should_be_the_right_one_and_fresh(account: Figures, check: str) -> None:
    assert refusals(drafted({"A": "1"}, {}, [A], cash="1000", account=account)) == [(check, "")]


def test_positions_of_exactly_the_age_allowed_are_fresh() -> None:
    assert not drafted({"A": "1"}, {}, [A], cash="1000", account={"as_of": JUST_FRESH}).refused


@pytest.mark.parametrize("close", [None, "NaN", "0", "-5"])
@pytest.mark.parametrize("held", [{"A": "1"}, {}])
def test_a_frozen_position_needs_a_close_to_count_at(close: str | None, held: Figures) -> None:
    orders = () if held else (working("A", "sell", "1", limit="100"),)
    frozen = {"symbol": "A", "previous_close": close}
    proposal = drafted({"A": "0", "B": "1"}, held, [frozen, B], cash="1000", frozen=["A"], open_orders=orders)

    assert refusals(proposal) == [("frozen_positions_have_a_close", "A")]


def test_a_frozen_close_in_another_currency_counts_for_nothing() -> None:
    frozen = {"symbol": "A", "previous_close": "100", "currency": "EUR"}

    assert refusals(drafted({"A": "1"}, {"A": "1"}, [frozen], frozen=["A"])) == [("frozen_positions_have_a_close", "A")]


def test_a_frozen_symbol_that_is_not_there_needs_no_close() -> None:
    assert ordered(drafted({"A": "0.5", "B": "0.5"}, {}, [B], cash="1000", frozen=["A"])) == ["buy 50 B at 10.00"]


def test_a_working_buy_of_unknown_cost_refuses_the_draft() -> None:
    proposal = drafted({"A": "1"}, {}, [A], cash="1000", open_orders=(working("GME", "buy", "1"),))

    assert refusals(proposal) == [("working_buys_have_a_price", "GME")]


@pytest.mark.parametrize(("raised", "refused"), [("999", False), ("1000", True), ("1001", True)])
def test_no_more_cash_can_be_raised_than_there_is(raised: str, refused: bool) -> None:
    proposal = drafted({"A": "1"}, {"A": "10"}, [A], raise_cash=raised)

    assert refusals(proposal) == [("cash_to_raise_is_there", "")] if refused else not proposal.refused


def test_every_reason_for_a_refusal_is_told_at_once() -> None:
    proposal = drafted(
        {"A": "0.5", "B": "0.5"}, {}, [quote("A", "100", at=None, delayed=True)], cash="7",
        account={"id": "LIVE", "as_of": LONG_AGO}, open_orders=(working("GME", "buy", "1"),),
    )  # fmt: skip

    assert refusals(proposal) == [
        ("account_is_the_mandates", ""),
        ("positions_are_fresh", ""),
        ("quotes_are_usable", "A"),
        ("quotes_are_usable", "B"),
        ("working_buys_have_a_price", "GME"),
    ]
    assert proposal.reasons[2].reason == "the quote does not say when it was made; delayed"
    assert (proposal.skipped, proposal.cash_after) == ((), Decimal(7))


def test_a_tick_too_fine_for_a_limit_to_be_written_cannot_be_read() -> None:
    with pytest.raises(ValidationError, match=r"quotes\.0\.tick"):
        drafted({"A": "1"}, {}, [quote("A", "100", tick=FINE)], cash="1000")


def test_the_precision_the_caller_works_with_changes_nothing() -> None:
    situation = Situation.model_validate(content({"A": "1"}, {}, [quote("A", "1.2345678")], cash="123456.7890123"))
    expected = draft(situation)
    with localcontext(prec=3):
        proposal = draft(situation)

    assert proposal == expected
    assert len(proposal.orders) == 1


def test_figures_too_large_to_be_written_down_refuse_the_draft() -> None:
    limits = {"max_order_notional": "9e12"}
    proposal = drafted({"A": "0"}, {"A": "9e12"}, [quote("A", "1")], cash="9e12", limits=limits)

    assert refusals(proposal) == [("cash_after_can_be_written", "")]


# Sharing out, on its own


def lot(symbol: str, side: str, most: int, least: int = 1, price: str = "10") -> Lot:
    money = Decimal(price)
    return Lot(symbol, side, money, money, money, money * most, least, most)  # type: ignore[arg-type]


def test_when_the_rounds_run_out_uncovered_buys_go_and_what_fits_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "_ROUNDS", 1)
    lots = [lot("A", "sell", 20, least=15), lot("B", "buy", 8), lot("C", "buy", 7)]
    budgets = Budgets(orders=9, turnover=Decimal(200), cash=Decimal(50), recycles=True, whole=True)

    assert share_out(lots, budgets) == {"A": 16, "B": 4}


def test_a_trade_dropped_early_takes_what_the_others_could_not_use() -> None:
    lots = [lot("A", "buy", 30, least=30), lot("B", "buy", 20, least=5)]
    budgets = Budgets(orders=9, turnover=Decimal(250), cash=Decimal(999), recycles=True, whole=True)

    assert share_out(lots, budgets) == {"B": 20}


def test_one_large_step_that_does_not_fit_leaves_its_money_to_the_small_ones() -> None:
    lots = [lot("A", "buy", 2, price="700000"), lot("B", "buy", 50_000)]
    budgets = Budgets(orders=9, turnover=Decimal(1_000_000), cash=Decimal(1_000_000), recycles=True, whole=True)

    assert share_out(lots, budgets) == {"A": 1, "B": 30_000}


# Properties


@st.composite
def situations(drawn: st.DrawFn) -> Situation:
    """Accounts of 5 to 40 symbols, with each limit now wide, now binding."""
    draw = drawn
    count = draw(st.integers(5, 40))
    symbols = [f"S{number}" for number in range(count)]
    raw = draw(st.lists(st.integers(0, 100), min_size=count, max_size=count))
    buffer = draw(st.sampled_from(["0", "0.02", "0.1"]))
    scale = (1 - Fraction(buffer)) / max(sum(raw), 1)
    weights = {symbol: f"{int(part * scale * 10**6)}e-6" for symbol, part in zip(symbols, raw, strict=True)}
    fractional = draw(st.booleans())
    shares = st.decimals("0", "300", places=4) if fractional else st.integers(-5, 300).map(Decimal)
    sides, dust = st.sampled_from(["buy", "sell"]), st.decimals("0", "0.9999", places=4)
    held = {
        symbol: draw(shares) + draw(st.just(Decimal(0)) | dust) for symbol in draw(st.sets(st.sampled_from(symbols)))
    }
    quotes = []
    for symbol in symbols:
        price = draw(st.decimals("0.5", "5000", places=draw(st.integers(0, 4))))
        spread = price * draw(st.sampled_from([Decimal(0), Decimal("0.0004"), Decimal("0.01")]))
        tick = draw(st.sampled_from(["0.01", "0.05", "0.0001"]))
        quotes.append(quote(symbol, str(price), bid=price - spread, ask=price + spread, tick=tick, adv=draw(shares)))
    orders = [
        working(symbol, draw(sides), str(draw(st.integers(1, 50))), limit=draw(st.none() | st.integers(1, 500)))
        for symbol in draw(st.lists(st.sampled_from(symbols), max_size=4))
    ]
    some = st.sets(st.sampled_from(symbols), max_size=2).map(sorted)
    figures = content(
        weights, held, quotes, cash=str(draw(st.integers(-20_000, 300_000))), open_orders=tuple(orders), buffer=buffer,
        bands={"absolute": draw(st.sampled_from(["0", "0.005"])), "relative": draw(st.sampled_from(["0", "0.1"]))},
        min_trade=draw(st.sampled_from([0, 100, 2500])), raise_cash=draw(st.sampled_from([0, 0, 5000])),
        fractional=fractional, direction=draw(st.sampled_from(["both", "both", "buy_only", "sell_only"])),
        frozen=draw(some), account={"settled_cash": {"USD": str(draw(st.integers(-5000, 50_000)))}},
        limits={
            "max_orders": draw(st.sampled_from([1, 3, 100])),
            "max_turnover": draw(st.sampled_from(["0.02", "0.3", "5"])),
            "max_order_notional": draw(st.sampled_from(["3000", "50000"])), "restricted": draw(some),
            "max_adv_fraction": draw(st.sampled_from([None, "0.1"])),
            "cash_basis": draw(st.sampled_from(["total", "settled"])),
        },
    )  # fmt: skip
    return Situation.model_validate(figures)


def unfilled(situation: Situation, symbol: str, side: str) -> Fraction:
    orders = [order for order in situation.open_orders if (order.symbol, order.side) == (symbol, side)]
    return sum((Fraction(order.remaining) for order in orders), Fraction(0))


def middle(situation: Situation, symbol: str) -> Fraction:
    each = situation.quote_of[symbol]
    if symbol in situation.mandate.frozen:
        return Fraction(each.previous_close or 0)
    return (Fraction(each.bid or 0) + Fraction(each.ask or 0)) / 2


def equity_of(situation: Situation) -> Fraction:
    held = situation.account.held()
    value = sum((Fraction(shares) * middle(situation, symbol) for symbol, shares in held.items()), Fraction(0))
    return Fraction(situation.account.cash["USD"]) + value


def broken_by_one(situation: Situation, order: Any, equity: Fraction) -> list[str]:
    """Return which rule for a single order does not hold."""
    mandate, limits, symbol = situation.mandate, situation.mandate.limits, order.symbol
    each, quantity, limit = situation.quote_of[symbol], Fraction(order.quantity), Fraction(order.limit)
    buys = order.side == "buy"
    far = Fraction((each.ask if buys else each.bid) or 0)
    held = Fraction(situation.account.held().get(symbol, 0))
    buying, selling = unfilled(situation, symbol, "buy"), unfilled(situation, symbol, "sell")
    target = Fraction(situation.target_weights[symbol]) * (equity - Fraction(mandate.raise_cash))
    before = (held + buying - selling) * middle(situation, symbol)
    after = before + (quantity if buys else -quantity) * middle(situation, symbol)
    band = max(Fraction(mandate.bands.absolute) * equity, Fraction(mandate.bands.relative) * target)
    rules = {
        "positive": quantity > 0 and limit > 0,
        "whole": (quantity * (10_000 if mandate.fractional else 1)).denominator == 1,
        "on the tick": (limit / Fraction(each.tick)).denominator == 1,
        "in the collar": abs(limit - far) * 10_000 <= far * Fraction(limits.collar_bps),
        "min_trade": quantity * limit >= Fraction(mandate.min_trade),
        "max_order_notional": quantity * limit <= Fraction(limits.max_order_notional),
        "nearer": abs(after - target) < abs(before - target),
        "outside its band": abs(before - target) > band,
        "sellable": buys or quantity <= held - selling,
        "max_weight": not buys or after <= Fraction(limits.max_weight) * equity,
        "volume": limits.max_adv_fraction is None
        or quantity <= Fraction(limits.max_adv_fraction) * Fraction(each.adv or 0),
        "direction": mandate.direction in {"both", f"{order.side}_only"},
        "not opposed": not (selling if buys else buying),
        "not kept out": symbol not in (*limits.restricted, *mandate.frozen),
    }
    return [f"{symbol}: {rule}" for rule, holds in rules.items() if not holds]


def money_of(proposal: Proposal, side: str) -> Fraction:
    return sum((Fraction(each.notional) for each in proposal.orders if each.side == side), Fraction(0))


def broken_by_all(situation: Situation, proposal: Proposal, equity: Fraction) -> list[str]:
    """Return which rule for the orders together does not hold."""
    mandate, limits = situation.mandate, situation.mandate.limits
    sold, bought = money_of(proposal, "sell"), money_of(proposal, "buy")
    settled = limits.cash_basis == "settled"
    spendable = Fraction((situation.account.settled_cash if settled else situation.account.cash)["USD"])
    spendable += 0 if settled else sold
    for order in situation.open_orders:
        dearest = Fraction(situation.quote_of[order.symbol].ask or 0) * (1 + Fraction(limits.collar_bps) / 10_000)
        price = dearest if order.limit is None else Fraction(order.limit)
        spendable -= Fraction(order.remaining) * price if order.side == "buy" else 0
    spendable -= Fraction(mandate.policy.cash_buffer) * equity + Fraction(mandate.raise_cash)
    order_keys = [(order.side == "buy", order.symbol) for order in proposal.orders]
    named = [order.symbol for order in proposal.orders] + [skipped.symbol for skipped in proposal.skipped]
    rules = {
        "turnover": sold + bought <= Fraction(limits.max_turnover) * equity,
        "cash": not bought or bought <= spendable,
        "max_orders": len(proposal.orders) <= limits.max_orders,
        "sorted": order_keys == sorted(order_keys),
        "each symbol once": sorted(named) == sorted(mandate.universe),
        "cash_after": Fraction(proposal.cash_after) == Fraction(situation.account.cash["USD"]) + sold - bought,
    }
    return [rule for rule, holds in rules.items() if not holds]


@examples(100)
@given(situations())
def test_every_draft_keeps_every_rule(situation: Situation) -> None:
    proposal, equity = draft(situation), equity_of(situation)

    if equity <= 0 or proposal.refused:
        assert proposal.orders == ()
        assert not proposal.refused or equity <= situation.mandate.raise_cash
    else:
        broken = [rule for order in proposal.orders for rule in broken_by_one(situation, order, equity)]
        assert broken + broken_by_all(situation, proposal, equity) == []
    assert draft(situation) == proposal


@examples(100)
@given(situations())
def test_whatever_draft_returns_verify_approves(situation: Situation) -> None:
    proposal = draft(situation)
    verdict = verify(situation, proposal.orders)

    assert proposal.refused or verdict.approved, verdict.reasons


EXTREMES = [
    "0", "1", "1e-20", "0.00000001", "9999999999999.99", "999999999999.99999999999999999999", "1e12",
    "0.33333333333333333333", "100", "0.01", "0E+9000", "0E-9000", "1.00000000000000000001",
]  # fmt: skip
FINE = f"0.01{'0' * 30}1"  # more decimals than a figure may have
extreme = st.sampled_from(EXTREMES)
signed = extreme | extreme.map(lambda text: f"-{text}")
odd = signed | st.sampled_from(["NaN", "-Infinity", "Infinity", "sNaN"]) | st.none()
part = st.sampled_from(["0", "1e-20", "0.49999999999999999999", "0.1", "0.3"])
ticks = st.sampled_from(["0.00000001", "0.00000001000000000001", "1", "0.01000", "1e12", FINE])


def mostly(usual: str | None, unusual: st.SearchStrategy[str | None]) -> st.SearchStrategy[str | None]:
    return st.integers(0, 11).flatmap(lambda number: unusual if number == 0 else st.just(usual))


@st.composite
def extremes(draw: st.DrawFn) -> Situation | None:
    """Figures at the ends of what a situation may hold; None where that is not a situation."""
    quotes = [
        {"symbol": symbol, "at": NOW, "bid": price, "ask": draw(mostly(price, odd)),
         "previous_close": draw(mostly(price, odd)), "tick": draw(ticks | mostly("0.01", extreme)), "adv": draw(odd)}
        for symbol in "AB" for price in [draw(mostly(draw(st.sampled_from(EXTREMES[1:10])), odd))]
    ]  # fmt: skip
    orders = st.builds(
        working, st.sampled_from("ABC"), st.sampled_from(["buy", "sell"]), extreme, limit=extreme | st.none()
    )
    figures = content(
        {"A": draw(part), "B": draw(part)}, {"A": draw(signed), "B": draw(signed)}, quotes, cash=draw(signed),
        open_orders=tuple(draw(st.lists(orders, max_size=2))), min_trade=draw(mostly("0", extreme)),
        raise_cash=draw(mostly("0", extreme)),
        fractional=draw(st.booleans()), frozen=draw(st.sampled_from([[], ["A"]])),
        limits={
            "max_turnover": draw(extreme), "max_order_notional": draw(extreme),
            "collar_bps": draw(st.sampled_from([0, 10_000])),
            "max_adv_fraction": draw(part | st.none()), "max_price_jump": draw(extreme),
        },
    )  # fmt: skip
    try:
        return Situation.model_validate(figures)
    except ValidationError:
        return None


@examples(200)
@given(extremes())
def test_no_situation_however_extreme_raises(situation: Situation | None) -> None:
    proposal = draft(situation) if situation else Proposal()

    assert Proposal.model_validate(json.loads(proposal.model_dump_json())) == proposal
