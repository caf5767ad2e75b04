"""The gate: each rule says yes once and no once, and nothing it is handed makes it raise."""

import copy
import json
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st
from pydantic import ValidationError

from blocks.brokers.port import Order
from tasks.situation import Proposal, Situation
from tasks.verification.checks import RULES
from tasks.verification.verdict import Check, Verdict, verify
from tests.examples import examples

pytestmark = pytest.mark.pure

Json = dict[str, Any]
Change = Callable[[Json], object]

NOW = "2026-03-02T15:05:00Z"
RULE_NAMES = [rule.__name__ for rule in RULES]


def quote(symbol: str, bid: str, ask: str, previous_close: str) -> Json:
    return {
        "symbol": symbol,
        "bid": bid,
        "ask": ask,
        "at": "2026-03-02T15:04:50Z",
        "currency": "USD",
        "previous_close": previous_close,
        "tick": "0.01",
        "adv": "6000000",
    }


def order(symbol: str, side: str, quantity: str, limit: str) -> Json:
    return {"symbol": symbol, "side": side, "quantity": quantity, "limit": limit}


def working(symbol: str, side: str, quantity: str, limit: str | None, filled: str = "0") -> Json:
    return {"symbol": symbol, "side": side, "quantity": quantity, "limit": limit, "filled": filled}


def plain() -> Json:
    """Return an ordinary case: equity 86900, SPY 55000 against 52140, AGG 29400 against 33022."""
    return {
        "now": NOW,
        "mandate": {
            "account": "DU1234567",
            "base_currency": "USD",
            "policy": {"weights": {"SPY": "0.60", "AGG": "0.38"}, "cash_buffer": "0.02"},
            "limits": {"max_weight": "0.70", "max_adv_fraction": "0.02"},
        },
        "account": {
            "id": "DU1234567",
            "as_of": "2026-03-02T15:04:30Z",
            "cash": {"USD": "2500.00"},
            "settled_cash": {"USD": "2500.00"},
            "positions": [{"symbol": "SPY", "quantity": "110"}, {"symbol": "AGG", "quantity": "300"}],
        },
        "quotes": [quote("SPY", "499.98", "500.02", "498.10"), quote("AGG", "97.99", "98.01", "97.95")],
        "open_orders": [],
        "orders": [order("SPY", "sell", "5", "499.90"), order("AGG", "buy", "33", "98.05")],
    }


def full() -> Json:
    """Return a case in which every rule has something to judge: also a frozen symbol and a buy without a limit."""
    case = plain()
    case["mandate"]["policy"]["weights"]["OLD"] = "0"
    case["mandate"]["frozen"] = ["OLD"]
    case["mandate"]["raise_cash"] = "100"
    case["account"]["positions"].append({"symbol": "OLD", "quantity": "10"})
    case["quotes"].append({"symbol": "OLD", "previous_close": "20"})
    case["open_orders"].append(working("AGG", "buy", "1", None))
    case["orders"] = [order("SPY", "sell", "5", "499.90"), order("AGG", "buy", "20", "98.05")]
    return case


def judged(case: Json) -> Verdict:
    content = copy.deepcopy(case)
    orders = tuple(Order.model_validate(one) for one in content.pop("orders"))
    return verify(Situation.model_validate(content), orders)


def after(change: Change, case: Json) -> Verdict:
    change(case)
    return judged(case)


def failed(verdict: Verdict) -> list[tuple[str, str]]:
    return [(reason.check, reason.symbol) for reason in verdict.reasons]


def put(*path: Any) -> Change:
    """Return a change that puts the last of `path` where the others lead."""
    *way, last, value = path

    def change(case: Json) -> None:
        here: Any = case
        for key in way:
            here = here[key]
        here[last] = value

    return change


def add(*path: Any) -> Change:
    *way, value = path

    def change(case: Json) -> None:
        here: Any = case
        for key in way:
            here = here[key]
        here.append(value)

    return change


# Each rule broken in the full case: the rule, the symbol it should name, and the change.
BREAKS: list[tuple[str, str, Change]] = [
    ("account_is_the_mandates", "", put("account", "id", "U7654321")),
    ("account_is_fresh", "", put("account", "as_of", "2026-03-02T14:49:59Z")),
    ("account_is_fresh", "", put("account", "as_of", "2026-03-02T15:05:01Z")),
    ("needed_symbol_has_a_quote", "SPY", lambda case: case["quotes"].pop(0)),
    ("bid_and_ask_are_prices", "SPY", put("quotes", 0, "bid", "NaN")),
    ("bid_and_ask_are_prices", "SPY", put("quotes", 0, "ask", "Infinity")),
    ("bid_and_ask_are_prices", "SPY", put("quotes", 0, "ask", None)),
    ("bid_and_ask_are_prices", "SPY", put("quotes", 0, "bid", "0")),
    ("quote_is_fresh", "SPY", put("quotes", 0, "at", "2026-03-02T14:49:59.999Z")),
    ("quote_is_fresh", "SPY", put("quotes", 0, "at", "2026-03-02T15:05:00.001Z")),
    ("quote_is_fresh", "SPY", put("quotes", 0, "at", None)),
    ("quote_is_not_delayed", "SPY", put("quotes", 0, "delayed", True)),
    ("quote_is_in_the_base_currency", "SPY", put("quotes", 0, "currency", "GBP")),
    ("tick_is_a_price_step", "SPY", put("quotes", 0, "tick", "0")),
    ("tick_is_a_price_step", "SPY", put("quotes", 0, "tick", "-0.01")),
    ("tick_is_a_price_step", "SPY", put("quotes", 0, "tick", "NaN")),
    ("tick_is_a_price_step", "SPY", put("quotes", 0, "tick", "Infinity")),
    ("tick_is_a_price_step", "SPY", put("quotes", 0, "tick", "0.0000000099")),
    ("quote_is_not_crossed", "SPY", put("quotes", 0, "bid", "500.03")),
    ("spread_is_within_max_spread", "SPY", put("quotes", 0, "bid", "480")),
    ("middle_is_near_the_previous_close", "SPY", put("quotes", 0, "previous_close", "4.981")),
    ("middle_is_near_the_previous_close", "SPY", put("quotes", 0, "previous_close", "700")),
    ("middle_is_near_the_previous_close", "SPY", put("quotes", 0, "previous_close", None)),
    ("middle_is_near_the_previous_close", "SPY", put("quotes", 0, "previous_close", "NaN")),
    ("frozen_symbol_has_a_last_close", "OLD", put("quotes", 2, "previous_close", "0")),
    ("frozen_symbol_has_a_last_close", "OLD", put("quotes", 2, "currency", "GBP")),
    ("frozen_symbol_has_a_last_close", "OLD", lambda case: case["quotes"].pop()),
    ("working_buy_has_a_known_cost", "TLT", add("open_orders", working("TLT", "buy", "1", None))),
    ("quantity_is_a_positive_number", "SPY", put("orders", 0, "quantity", "0")),
    ("quantity_is_a_positive_number", "SPY", put("orders", 0, "quantity", "-5")),
    ("quantity_is_a_positive_number", "SPY", put("orders", 0, "quantity", "NaN")),
    ("quantity_is_a_positive_number", "SPY", put("orders", 0, "quantity", "Infinity")),
    ("limit_is_a_positive_number", "SPY", put("orders", 0, "limit", "0.00")),
    ("limit_is_a_positive_number", "SPY", put("orders", 0, "limit", "-499.90")),
    ("limit_is_a_positive_number", "SPY", put("orders", 0, "limit", "NaN")),
    ("limit_is_a_positive_number", "SPY", put("orders", 0, "limit", "-Infinity")),
    ("symbol_is_in_the_universe", "TOTDY", put("orders", 0, "symbol", "TOTDY")),
    ("symbol_is_not_frozen", "OLD", put("orders", 0, "symbol", "OLD")),
    ("symbol_is_not_restricted", "SPY", put("mandate", "limits", "restricted", ["SPY"])),
    ("symbol_is_ordered_once", "SPY", add("orders", order("SPY", "sell", "5", "499.90"))),
    ("side_is_the_mandates", "SPY", put("mandate", "direction", "buy_only")),
    ("side_is_the_mandates", "AGG", put("mandate", "direction", "sell_only")),
    ("quantity_is_in_whole_units", "SPY", put("orders", 0, "quantity", "4.5")),
    ("nothing_is_sold_short", "SPY", put("orders", 0, "quantity", "111")),
    ("limit_is_on_the_tick", "SPY", put("orders", 0, "limit", "499.905")),
    ("limit_is_within_the_collar", "SPY", put("orders", 0, "limit", "497.48")),
    ("limit_is_within_the_collar", "AGG", put("orders", 1, "limit", "102.90")),
    ("notional_reaches_min_trade", "SPY", put("mandate", "min_trade", "2499.51")),
    ("notional_is_within_max_order_notional", "SPY", put("mandate", "limits", "max_order_notional", "2499.49")),
    ("order_brings_its_symbol_nearer", "SPY", put("orders", 0, "side", "buy")),
    ("order_brings_its_symbol_nearer", "SPY", put("orders", 0, "quantity", "50")),
    ("order_brings_its_symbol_nearer", "AGG", add("open_orders", working("AGG", "buy", "30", "97.90"))),
    ("bought_weight_is_within_max_weight", "AGG", put("orders", 1, "quantity", "400")),
    ("quantity_is_within_max_adv_fraction", "SPY", put("quotes", 0, "adv", "249")),
    ("quantity_is_within_max_adv_fraction", "SPY", put("quotes", 0, "adv", None)),
    ("quantity_is_within_max_adv_fraction", "SPY", put("quotes", 0, "adv", "NaN")),
    ("managed_equity_is_positive", "", put("account", "cash", {"USD": "-84600"})),
    ("managed_equity_is_positive", "", put("quotes", 0, "ask", "NaN")),
    ("raise_cash_is_within_equity", "", put("mandate", "raise_cash", "87100")),
    ("orders_are_within_max_orders", "", put("mandate", "limits", "max_orders", 1)),
    ("turnover_is_within_max_turnover", "", put("mandate", "limits", "max_turnover", "0.05")),
    ("turnover_is_within_max_turnover", "", put("orders", 1, "quantity", "NaN")),
    ("buys_are_covered_by_cash", "", put("orders", 1, "quantity", "33")),
    ("buys_are_covered_by_cash", "", put("orders", 0, "limit", "NaN")),
]


def test_an_ordinary_sell_and_buy_are_approved() -> None:
    verdict = judged(plain())

    assert ([], True) == (failed(verdict), verdict.approved)


@pytest.mark.parametrize("name", RULE_NAMES)
def test_each_rule_holds_where_all_is_well(name: str) -> None:
    checks = [check for check in judged(full()).checks if check.check == name]

    assert checks
    assert all(check.held and check.figure and check.limit and not check.reason for check in checks if check.symbol)
    assert "nothing to judge" not in [check.figure for check in checks]


@pytest.mark.parametrize(("name", "symbol", "change"), BREAKS)
def test_each_rule_says_no_and_names_whom(name: str, symbol: str, change: Change) -> None:
    verdict = after(change, full())

    assert (name, symbol) in failed(verdict)
    assert not verdict.approved


def test_no_rule_goes_untested() -> None:
    assert set(RULE_NAMES) == {name for name, _, _ in BREAKS}


def test_every_rule_leaves_its_name_even_without_orders_or_quotes() -> None:
    case = plain() | {"quotes": [], "orders": []}
    verdict = judged(case)

    assert set(RULE_NAMES) == {check.check for check in verdict.checks}


# Scenarios that have gone wrong elsewhere, on the ordinary case: all that is said, no more and no less.
REFUSED: list[tuple[str, list[tuple[str, str]], Change]] = [
    (
        "a thousand times as many",
        [
            ("nothing_is_sold_short", "SPY"),
            ("notional_is_within_max_order_notional", "SPY"),
            ("order_brings_its_symbol_nearer", "SPY"),
            ("turnover_is_within_max_turnover", ""),
        ],
        put("orders", 0, "quantity", "5000"),
    ),
    (
        "a limit a hundred times as high",
        [
            ("limit_is_within_the_collar", "SPY"),
            ("notional_is_within_max_order_notional", "SPY"),
            ("turnover_is_within_max_turnover", ""),
        ],
        put("orders", 0, "limit", "49990"),
    ),
    (
        "the side reversed",
        [("order_brings_its_symbol_nearer", "AGG")],
        put("orders", [order("AGG", "sell", "7", "97.90")]),
    ),
    (
        "overshooting the target by more than it was off",
        [("order_brings_its_symbol_nearer", "SPY")],
        put("orders", [order("SPY", "sell", "12", "499.90")]),
    ),
    (
        "a limit of zero",
        [
            ("limit_is_a_positive_number", "SPY"),
            ("turnover_is_within_max_turnover", ""),
            ("buys_are_covered_by_cash", ""),
        ],
        put("orders", 0, "limit", "0.00"),
    ),
    (
        "a symbol from nowhere",
        [("symbol_is_in_the_universe", "TOTDY"), ("nothing_is_sold_short", "TOTDY")],
        put("orders", 0, "symbol", "TOTDY"),
    ),
    (
        "the same order twice",
        [("symbol_is_ordered_once", "SPY"), ("symbol_is_ordered_once", "SPY")],
        add("orders", order("SPY", "sell", "5", "499.90")),
    ),
    (
        "both sides of -1 after hours",
        [
            ("bid_and_ask_are_prices", "SPY"),
            ("managed_equity_is_positive", ""),
            ("turnover_is_within_max_turnover", ""),
            ("buys_are_covered_by_cash", ""),
        ],
        lambda case: case["quotes"][0].update(bid="-1", ask="-1"),
    ),
    (
        "a quote a year old",
        [
            ("quote_is_fresh", "SPY"),
            ("managed_equity_is_positive", ""),
            ("turnover_is_within_max_turnover", ""),
            ("buys_are_covered_by_cash", ""),
        ],
        put("quotes", 0, "at", "2025-03-02T15:04:50Z"),
    ),
    ("another account", [("account_is_the_mandates", "")], put("account", "id", "U7654321")),
    (
        "57.68 held, shown as 58, and 58 sold",
        [("nothing_is_sold_short", "SPY")],
        lambda case: (
            put("account", "positions", 0, "quantity", "57.68")(case),
            put("mandate", "policy", "weights", {"SPY": "0", "AGG": "0.98"})(case),
            put("mandate", "limits", "max_weight", "1")(case),
            put("orders", [order("SPY", "sell", "58", "499.90")])(case),
        ),
    ),
    (
        "buying beyond the cash",
        [("buys_are_covered_by_cash", "")],
        put("orders", [order("AGG", "buy", "33", "98.05")]),
    ),
    (
        "the same sell already working",
        [("order_brings_its_symbol_nearer", "SPY")],
        lambda case: (
            add("open_orders", working("SPY", "sell", "5", "499.80"))(case),
            put("orders", [order("SPY", "sell", "5", "499.90")])(case),
        ),
    ),
    (
        "the book flattened",
        [
            ("notional_is_within_max_order_notional", "SPY"),
            ("order_brings_its_symbol_nearer", "SPY"),
            ("order_brings_its_symbol_nearer", "AGG"),
            ("turnover_is_within_max_turnover", ""),
        ],
        put("orders", [order("SPY", "sell", "110", "499.90"), order("AGG", "sell", "300", "97.90")]),
    ),
]


@pytest.mark.parametrize(("reasons", "change"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_a_spoiled_proposal_is_refused_with_every_reason(reasons: list[tuple[str, str]], change: Change) -> None:
    verdict = after(change, plain())

    assert (reasons, False) == (failed(verdict), verdict.approved)


def approve_only_sells(case: Json) -> None:
    case["account"]["cash"] = case["account"]["settled_cash"] = {"USD": "-700"}
    case["orders"] = case["orders"][:1]


def approve_a_stranger(case: Json) -> None:
    case["account"]["positions"].append({"symbol": "GME", "quantity": "40"})


def approve_a_counted_buy(case: Json) -> None:
    case["open_orders"].append(working("AGG", "buy", "5", "97.90"))
    case["orders"] = case["orders"][:1]


def turn_over_all_that_is_allowed(case: Json) -> None:
    case["account"]["cash"]["USD"] = "15600"  # equity 100000
    case["mandate"]["limits"]["max_turnover"] = "0.0323565"
    case["orders"] = case["orders"][1:]


def spend_the_last_cent(case: Json) -> None:
    case["account"]["cash"]["USD"] = "736.15"  # and 2499.50 of sells are 3235.65
    case["mandate"]["policy"]["cash_buffer"] = "0"


def buy_to_the_largest_weight(case: Json) -> None:
    case["account"]["cash"] = {"USD": "-2815"}  # equity 81585, of which 333 x 98 are 0.40
    case["mandate"] |= {"policy": {"weights": {"SPY": "0", "AGG": "0.40"}}, "limits": {"max_weight": "0.40"}}
    case["orders"][0]["quantity"] = "20"


APPROVED: list[tuple[str, Change]] = [
    ("only sells while cash is under the buffer", approve_only_sells),
    ("a holding outside the mandate has no quote", approve_a_stranger),
    ("an open buy counts", approve_a_counted_buy),
    ("nothing is ordered", put("orders", [])),
    ("a quote exactly as old as allowed", put("quotes", 0, "at", "2026-03-02T14:50:00Z")),
    ("an account exactly as old as allowed", put("account", "as_of", "2026-03-02T14:50:00Z")),
    ("a quote that names no currency", put("quotes", 0, "currency", None)),
    ("a quote without a tick has one of 0.01", lambda case: case["quotes"][0].pop("tick")),
    ("the smallest tick there can be", put("quotes", 0, "tick", "0.00000001")),
    ("bid and ask alike", put("quotes", 0, "bid", "500.02")),
    (
        "a delayed quote that the mandate allows",
        lambda case: (put("quotes", 0, "delayed", True)(case), put("mandate", "allow_delayed", True)(case)),
    ),
    (
        "no volume where no limit of it is set",
        lambda case: (put("quotes", 0, "adv", None)(case), put("mandate", "limits", "max_adv_fraction", None)(case)),
    ),
    (
        "an unusable quote of what is neither wanted, held nor traded",
        lambda case: (
            put("mandate", "policy", "weights", "TLT", "0")(case),
            add("quotes", quote("TLT", "NaN", "-1", "0") | {"at": None})(case),
        ),
    ),
    ("a quote of this very moment", put("quotes", 0, "at", NOW)),
    ("an account of this very moment", put("account", "as_of", NOW)),
    (
        "a limit exactly at the collar",
        lambda case: (put("quotes", 0, "bid", "500")(case), put("orders", 0, "limit", "497.50")(case)),
    ),
    ("turnover exactly at its limit", turn_over_all_that_is_allowed),
    ("buys of exactly the cash there is", spend_the_last_cent),
    ("a notional exactly at its limit", put("mandate", "limits", "max_order_notional", "3235.65")),
    ("a notional of exactly the minimum trade", put("mandate", "min_trade", "2499.50")),
    ("exactly as many orders as allowed", put("mandate", "limits", "max_orders", 2)),
    ("exactly the volume allowed", put("quotes", 0, "adv", "250")),
    ("a price exactly as far from the previous close as allowed", put("quotes", 0, "previous_close", "400")),
    (
        "a spread exactly as wide as allowed",
        lambda case: (
            put("mandate", "limits", "max_spread_bps", "0.8")(case),
            put("quotes", 1, "bid", "98.01")(case),
        ),
    ),
    ("a buy to exactly the largest weight", buy_to_the_largest_weight),
    ("a buy without a limit that has filled", add("open_orders", working("GME", "buy", "9", None, filled="9"))),
    ("a dead order at the broker", add("open_orders", working("SPY", "sell", "110", "499.80", filled="110"))),
]


@pytest.mark.parametrize("change", [row[1] for row in APPROVED], ids=[row[0] for row in APPROVED])
def test_what_is_in_order_is_approved(change: Change) -> None:
    verdict = after(change, plain())

    assert ([], True) == (failed(verdict), verdict.approved)


@pytest.mark.parametrize(
    ("weight", "reasons"),
    [
        ("0.825", [("order_brings_its_symbol_nearer", "SPY")]),
        ("0.825000000000000001", [("order_brings_its_symbol_nearer", "SPY")]),
        ("0.824999999999999999", []),
    ],
)
def test_ending_as_far_from_the_target_as_before_is_not_nearer_to_the_last_digit(
    weight: str, reasons: list[tuple[str, str]]
) -> None:
    case = plain()
    case["account"] |= {"cash": {"USD": "10000"}, "positions": [{"symbol": "SPY", "quantity": "100"}]}
    case["mandate"] |= {"policy": {"weights": {"SPY": weight}}, "limits": {}}
    case["orders"] = [order("SPY", "sell", "2", "499.90")]  # from 50000 to 49000, 0.825 of 60000 being 49500

    assert reasons == failed(judged(case))


def test_a_target_of_more_than_28_digits_is_compared_exactly() -> None:
    case = plain()
    case["account"] |= {"cash": {"USD": "-499.99999999995"}, "positions": [{"symbol": "SPY", "quantity": "1001"}]}
    case["mandate"] |= {"policy": {"weights": {"SPY": "0.9999999999999999"}, "cash_buffer": "0"}, "limits": {}}
    case["orders"] = [order("SPY", "sell", "2", "499.90")]
    # From 500500 to 499500, where (1 - 1e-16) of 500000 x (1 + 1e-16) is 5e-27 below the middle of the two.

    assert failed(judged(case)) == []


@pytest.mark.parametrize(("filled", "reasons"), [("5", []), ("4", [("nothing_is_sold_short", "SPY")])])
def test_a_working_sell_lowers_what_may_still_be_sold(filled: str, reasons: list[tuple[str, str]]) -> None:
    case = plain()
    case["mandate"]["policy"]["weights"] = {"SPY": "0", "AGG": "0.90"}
    case["mandate"]["limits"] |= {"max_weight": "1", "max_turnover": "1", "max_order_notional": "60000"}
    case["open_orders"] = [working("SPY", "sell", "5", None, filled=filled)]
    case["orders"] = [order("SPY", "sell", "110", "499.90")]

    assert reasons == failed(judged(case))


def test_a_working_buy_cannot_be_sold() -> None:
    case = plain()
    case["mandate"]["policy"]["weights"] = {"SPY": "0", "AGG": "0.90"}
    case["mandate"]["limits"] |= {"max_weight": "1", "max_turnover": "1", "max_order_notional": "60000"}
    case["open_orders"] = [working("SPY", "buy", "10", "499.00")]
    case["orders"] = [order("SPY", "sell", "111", "499.90")]

    assert [("nothing_is_sold_short", "SPY")] == failed(judged(case))


@pytest.mark.parametrize("frozen_price", ["20", "1000"])
def test_a_frozen_symbol_counts_at_its_last_close(frozen_price: str) -> None:
    case = full()
    case["quotes"][2]["previous_close"] = frozen_price
    check = next(check for check in judged(case).checks if check.check == "managed_equity_is_positive")

    assert str(86900 + 10 * int(frozen_price)) == check.figure


def test_a_frozen_symbol_without_shares_or_working_orders_needs_no_price() -> None:
    case = full()
    case["account"]["positions"].pop()
    case["quotes"].pop()
    assert judged(case).approved

    case["open_orders"].append(working("OLD", "sell", "1", "20"))
    assert [("frozen_symbol_has_a_last_close", "OLD")] == failed(judged(case))


def settle_short_of_a_cent(case: Json) -> None:
    case["mandate"]["limits"]["cash_basis"] = "settled"
    case["account"]["settled_cash"] = {"USD": "2499.99"}


def cash_for_buys(case: Json) -> str:
    return next(check.limit for check in judged(case).checks if check.check == "buys_are_covered_by_cash")


@pytest.mark.parametrize(
    ("available", "change"),
    [
        # 2500 cash - 0.02 x 86900 buffer + 5 x 499.90 own sells
        ("3261.5", put("mandate", "limits", "cash_basis", "total")),
        ("761.99", settle_short_of_a_cent),
        ("3161.5", put("mandate", "raise_cash", "100")),
        ("2772", add("open_orders", working("AGG", "buy", "6", "97.90", filled="1"))),
        ("2861.5", add("open_orders", working("GME", "buy", "20", "20"))),
        ("3261.5", add("open_orders", working("SPY", "sell", "20", "499.80"))),
        ("3162.99995", add("open_orders", working("AGG", "buy", "1", None))),
        ("3261.5", put("account", "cash", {"USD": "2500", "EUR": "1000000"})),
        ("811.5", put("account", "cash", {})),
    ],
)
def test_cash_for_buys_is_counted_to_the_cent(available: str, change: Change) -> None:
    case = plain()
    change(case)

    assert available == cash_for_buys(case)


def test_a_buy_may_use_the_last_cent_and_no_more() -> None:
    case = plain()
    case["account"]["cash"]["USD"] = "2473.63"  # 0.98 of it, less 0.02 x 84400, plus 2499.50 is 3235.6574

    assert judged(case).approved
    assert [("buys_are_covered_by_cash", "")] == failed(after(put("account", "cash", {"USD": "2473.62"}), case))


@pytest.mark.parametrize(("quantity", "reasons"), [("4.0001", []), ("4.00005", ["quantity_is_in_whole_units"])])
def test_a_fractional_mandate_trades_in_ten_thousandths(quantity: str, reasons: list[str]) -> None:
    case = plain()
    case["mandate"]["fractional"] = True
    case["orders"][0]["quantity"] = quantity
    case["orders"] = case["orders"][:1]

    assert reasons == [name for name, _ in failed(judged(case))]


@pytest.mark.parametrize(("raised", "approved"), [("0", True), ("86899.99", True), ("86900", False), ("90000", False)])
def test_no_more_can_be_raised_than_there_is(raised: str, approved: bool) -> None:
    case = plain()
    case["mandate"]["raise_cash"] = raised
    case["orders"] = []

    assert approved == judged(case).approved


def test_raising_cash_lowers_the_targets() -> None:
    case = plain()
    case["mandate"]["raise_cash"] = "20000"  # AGG's target is then 0.38 x 66900 = 25422, below its 29400
    case["orders"] = [order("AGG", "sell", "33", "97.95")]

    assert judged(case).approved


@pytest.mark.parametrize("cash", ["-84400", "-90000"])
def test_without_equity_only_doing_nothing_is_approved(cash: str) -> None:
    case = plain()
    case["account"]["cash"] = {"USD": cash}
    assert ("managed_equity_is_positive", "") in failed(judged(case))

    case["orders"] = []
    case["mandate"]["raise_cash"] = "100"
    assert judged(case).approved


def test_max_weight_binds_buys_only() -> None:
    case = plain()
    case["mandate"]["limits"]["max_weight"] = "0.60"  # SPY stands at 0.63
    case["account"]["positions"][0]["quantity"] = "120"
    case["orders"][1]["quantity"] = "20"

    assert [] == failed(judged(case))


def test_nothing_at_all_is_approved() -> None:
    case = plain()
    case["mandate"]["policy"]["weights"] = {"SPY": "0"}
    case["account"] |= {"cash": {}, "settled_cash": {}, "positions": []}
    case |= {"quotes": [], "orders": []}

    assert judged(case).approved


def test_a_symbol_with_a_target_needs_a_usable_quote_though_it_is_neither_held_nor_traded() -> None:
    case = plain()
    case["mandate"]["policy"]["weights"] = {"SPY": "0.60", "AGG": "0.37", "TLT": "0.01"}

    assert [("needed_symbol_has_a_quote", "TLT")] == failed(judged(case))


def test_orders_that_cannot_be_summed_never_count_as_nothing() -> None:
    case = plain()
    case["orders"].append(order("SPY", "sell", "NaN", "NaN"))
    names = [name for name, _ in failed(judged(case))]

    assert {"turnover_is_within_max_turnover", "buys_are_covered_by_cash"} <= set(names)


def test_a_verdict_is_bound_to_orders_and_situation_and_ends_with_the_first_to_be_stale() -> None:
    case = plain()
    orders = tuple(Order.model_validate(one) for one in case["orders"])
    situation = Situation.model_validate({key: value for key, value in case.items() if key != "orders"})
    verdict = verify(situation, orders)

    assert Proposal(orders=orders).hash == verdict.proposal_hash
    assert situation.hash == verdict.situation_hash
    assert "2026-03-02T15:19:30+00:00" == verdict.expires_at.isoformat()


@pytest.mark.parametrize(
    ("expires_at", "change"),
    [
        ("2026-03-02T15:19:30+00:00", put("quotes", 0, "at", "2026-03-02T15:05:00Z")),
        ("2026-03-02T15:10:00+00:00", put("quotes", 0, "at", "2026-03-02T14:55:00Z")),
        ("2026-03-02T15:05:30+00:00", put("mandate", "freshness", {"positions": "1m"})),
        ("2026-03-02T15:19:30+00:00", add("quotes", quote("GME", "1", "1", "1") | {"at": "2020-01-01T00:00:00Z"})),
        ("9999-12-31T23:59:59.999999+00:00", put("account", "as_of", "9999-12-31T23:59:00Z")),
    ],
)
def test_a_verdict_expires_with_the_first_that_was_used(expires_at: str, change: Change) -> None:
    case = plain()
    if expires_at.startswith("9999"):
        case["quotes"] = []
    change(case)

    assert expires_at == judged(case).expires_at.isoformat()


def test_a_verdict_cannot_say_yes_against_its_checks() -> None:
    no = Check(check="account_is_fresh", held=False, reason="old")
    hashes = {"proposal_hash": "p", "situation_hash": "s", "expires_at": NOW}

    assert not Verdict.model_validate({"approved": False, "checks": [no], **hashes}).approved
    for checks in ([], [no]):
        with pytest.raises(ValidationError, match="approved should be"):
            Verdict.model_validate({"approved": True, "checks": checks, **hashes})


def test_a_verdict_survives_json() -> None:
    verdict = judged(full())

    assert verdict == Verdict.model_validate_json(verdict.model_dump_json())


def broad(symbols: int, orders: int) -> Json:
    names = [f"S{number}" for number in range(symbols)]
    weights = dict.fromkeys(names, str(Decimal("0.98") / symbols))
    case = plain() | {
        "quotes": [quote(name, "99.99", "100.01", "99") for name in names],
        "open_orders": [working(name, "buy", "1", "100") for name in names],
        "orders": [order(name, "buy", "2", "100") for name in names[:orders]],
    }
    case["account"]["positions"] = [{"symbol": name, "quantity": "100"} for name in names]
    case["account"]["cash"] = {"USD": str(symbols * 1000)}
    case["mandate"]["policy"]["weights"] = weights
    return case


def test_the_quote_nearest_to_a_limit_speaks_for_all_that_hold() -> None:
    verdict = after(put("quotes", 1, "at", "2026-03-02T14:55:00Z"), plain())

    assert [("AGG", "10m", "15m")] == [
        (check.symbol, check.figure, check.limit) for check in verdict.checks if check.check == "quote_is_fresh"
    ]


def test_a_verdict_of_many_symbols_that_hold_stays_small() -> None:
    small, large = judged(broad(symbols=10, orders=5)), judged(broad(symbols=500, orders=5))

    assert len(small.checks) == len(large.checks)


ODD = [
    "NaN", "-NaN", "sNaN", "Infinity", "-Infinity", "0", "-0", "-1", "1", "5", "0.5", "33", "98.05", "499.90",
    "0.00000000000000000001", "0.00000001", "9999999999999.99999999999999999999", "9999999999999.9", "-9999999999999.9",
    "0e9999", "0e-9999", "123456789.333333333333333333333333333333333333333",
]  # fmt: skip
odd = st.sampled_from(ODD)
finite = st.sampled_from([one for one in ODD if "n" not in one.lower()])
amount = st.sampled_from([one for one in ODD if "n" not in one.lower() and not one.startswith("-")])
symbol = st.sampled_from(["SPY", "AGG", "OLD", "GME"])
side = st.sampled_from(["buy", "sell"])
moment = st.sampled_from([NOW, "2026-03-02T14:50:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z"])
fraction = st.sampled_from(["0", "0.3", "0.00000000000000000001", "0.33333333333333333333"])


@st.composite
def odd_cases(draw: st.DrawFn) -> Json:
    """Draw whatever the models let through, mostly nonsense."""
    either = st.one_of
    quotes = st.fixed_dictionaries(
        {"symbol": symbol},
        optional={
            "bid": either(odd, st.none()),
            "ask": either(odd, st.none()),
            "at": either(moment, st.none()),
            "previous_close": either(odd, st.none()),
            "tick": odd,
            "adv": either(odd, st.none()),
            "currency": st.sampled_from(["USD", "EUR", None]),
            "delayed": st.booleans(),
        },
    )
    working_orders = st.fixed_dictionaries(
        {"symbol": symbol, "side": side, "quantity": amount, "filled": amount, "limit": either(amount, st.none())}
    )
    orders = st.fixed_dictionaries({"symbol": symbol, "side": side, "quantity": odd, "limit": odd})
    case = plain()
    case["mandate"] |= {
        "policy": {"weights": {"SPY": draw(fraction), "AGG": draw(fraction), "OLD": draw(fraction)}},
        "frozen": draw(st.sampled_from([[], ["OLD"], ["OLD", "SPY"]])),
        "raise_cash": draw(amount),
        "min_trade": draw(amount),
        "fractional": draw(st.booleans()),
        "allow_delayed": draw(st.booleans()),
        "direction": draw(st.sampled_from(["both", "buy_only", "sell_only"])),
        "limits": {
            "max_turnover": draw(amount),
            "max_price_jump": draw(amount),
            "max_adv_fraction": draw(either(fraction, st.none())),
            "cash_basis": draw(st.sampled_from(["total", "settled"])),
        },
    }
    case["now"] = draw(moment)
    positions = draw(st.dictionaries(symbol, finite))
    case["account"] |= {
        "as_of": draw(moment),
        "cash": draw(st.dictionaries(st.just("USD"), finite)),
        "settled_cash": draw(st.dictionaries(st.just("USD"), finite)),
        "positions": [{"symbol": name, "quantity": shares} for name, shares in positions.items()],
    }
    ordinary = {one["symbol"]: one for one in plain()["quotes"]}
    drawn = {one["symbol"]: one for one in draw(st.lists(quotes, max_size=4))}
    case["quotes"] = list((ordinary | drawn if draw(st.booleans()) else drawn).values())
    case["open_orders"] = draw(st.lists(working_orders, max_size=3))
    case["orders"] = draw(st.lists(orders, max_size=3))
    return case


@examples(300)
@given(odd_cases())
def test_whatever_the_models_accept_gets_a_verdict_and_nothing_odd_a_yes(case: Json) -> None:
    try:
        verdict = judged(case)
    except ValidationError:
        reject()

    assert set(RULE_NAMES) == {check.check for check in verdict.checks}
    assert verdict.approved == (not verdict.reasons)
    assert all(check.held == (not check.reason) for check in verdict.checks)
    numbers = [Decimal(one[key]) for one in case["orders"] for key in ("quantity", "limit")]
    assert not verdict.approved or all(number.is_finite() and number > 0 for number in numbers)
    assert json.loads(verdict.model_dump_json())["approved"] == verdict.approved


shares = st.decimals("0.0001", "9999999", places=4)
price = st.decimals("0.01", "9999999", places=2)


@examples(300)
@given(st.tuples(shares, shares, price, price, st.decimals("0", "1", places=20)), side)
def test_nearer_and_turnover_agree_with_fractions(figures: tuple[Decimal, ...], side: str) -> None:
    held, traded, middle, cash, weight = figures
    case = plain()
    case["account"] |= {"cash": {"USD": str(cash)}, "positions": [{"symbol": "SPY", "quantity": str(held)}]}
    case["mandate"] |= {
        "fractional": True,
        "policy": {"weights": {"SPY": str(weight)}, "cash_buffer": "0"},
        "limits": {"max_turnover": "0.3"},
    }
    case["quotes"] = [quote("SPY", str(middle), str(middle), str(middle))]
    case["orders"] = [order("SPY", side, str(traded), str(middle))]
    names = {name for name, _ in failed(judged(case))}

    value, change = Fraction(held) * Fraction(middle), Fraction(traded) * Fraction(middle)
    equity = Fraction(cash) + value
    off = value - Fraction(weight) * equity
    nearer = abs(off + (change if side == "buy" else -change)) < abs(off)
    assert nearer == ("order_brings_its_symbol_nearer" not in names)
    assert (change <= Fraction(3, 10) * equity) == ("turnover_is_within_max_turnover" not in names)


@pytest.mark.parametrize("limit", [None, "0", "0.00"])
def test_a_working_buy_without_a_limit_takes_the_ask_and_the_collar_above(limit: str | None) -> None:
    """Some brokers write that there is no limit as 0."""
    ample, short = plain(), plain()
    for case, cash in ((ample, "1000000"), (short, "10")):
        case["open_orders"] = [working("AGG", "buy", "3", limit)]
        case["account"]["cash"] = {"USD": cash}
        case["mandate"]["policy"]["cash_buffer"] = "0"
        case["quotes"] = [quote("SPY", "10", "10", "10"), quote("AGG", "100", "100", "100")]
        case["orders"] = [order("SPY", "buy", "1", "10")]

    said = [check for check in judged(short).checks if check.check == "buys_are_covered_by_cash"]
    assert "working buys 301.5, " in said[0].reason
    assert "buys_are_covered_by_cash" not in {name for name, _ in failed(judged(ample))}
