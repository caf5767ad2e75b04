"""Draft and verify are written apart: what the one returns the other approves, and nothing that was spoiled since."""

import copy
from collections.abc import Callable
from decimal import ROUND_DOWN, Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blocks.brokers.port import Order
from tasks.executors.draft import draft
from tasks.situation import Proposal, Situation
from tasks.verification.verdict import verify
from tests.examples import examples

pytestmark = pytest.mark.pure

Json = dict[str, Any]
Spoil = Callable[[Json, Json], object]

NOW = "2026-03-02T15:05:00Z"
FRESH = ["2026-03-02T14:50:00Z", "2026-03-02T15:04:50Z", NOW]
TEN_THOUSANDTH = Decimal("0.0001")


# Situations: an account somewhere near its targets, and limits of which any may bind


class Dice:
    """Choices taken from one drawn number: far cheaper than a draw for each, and all noughts is the plainest."""

    def __init__(self, drawn: bytes) -> None:
        self.rest = int.from_bytes(drawn, "little")

    def below(self, end: int) -> int:
        self.rest, number = divmod(self.rest, end)
        return number

    def one_of(self, *options: Any) -> Any:
        return options[self.below(len(options))]

    def rarely(self, usual: Any, *unusual: Any, one_in: int = 8) -> Any:
        return self.one_of(*unusual) if self.below(one_in) == one_in - 1 else usual


dice = st.binary(min_size=16, max_size=16).map(Dice)


ODD_QUOTES: list[Json] = [
    {"bid": "NaN"},
    {"ask": None},
    {"bid": "-1"},
    {"ask": "0.01"},
    {"at": None},
    {"at": "2026-03-02T14:49:59Z"},
    {"at": "2026-03-02T15:05:01Z"},
    {"previous_close": None},
    {"previous_close": "0"},
    {"previous_close": "99999"},
    {"currency": "GBP"},
    {"currency": None},
    {"tick": "0"},
    {"delayed": True},
]


def a_quote(dice: Dice, symbol: str) -> Json:
    bid = 1 + dice.below(3000) + dice.below(100) * Decimal("0.01")
    ask = bid + bid * dice.one_of(0, 1, 5, 90) * TEN_THOUSANDTH
    close = bid * (1 + (dice.below(31) - 15) * Decimal("0.01"))
    return {
        "symbol": symbol,
        "bid": str(bid),
        "ask": str(ask),
        "at": dice.one_of(*FRESH),
        "currency": "USD",
        "previous_close": str(close),
        "tick": dice.one_of("0.01", "0.01", "0.05", "0.0001", "0.25", "1"),
        "adv": dice.rarely("50000", "100", "1000000", None),
        "delayed": False,
    }


def a_position(dice: Dice, target: Decimal) -> str:
    """Return shares held: those of the target, more or less of them, none, or odd ones."""
    shares = target * dice.one_of(0, 50, 90, 99, 100, 101, 120, 200) / 100
    kept = shares.quantize(dice.one_of(Decimal(1), Decimal(1), TEN_THOUSANDTH), ROUND_DOWN)
    return str(dice.rarely(kept, kept + 7, Decimal(-2), Decimal("0.5"), Decimal("0.00000001")))


def some_limits(dice: Dice, symbols: list[str], largest: Decimal) -> Json:
    volume: Json = dice.rarely({}, {"max_adv_fraction": "0.02"}, {"max_adv_fraction": "0.3"}, one_in=4)
    return volume | {
        "max_orders": dice.rarely(100, 1, 2, 5, one_in=3),
        "max_order_notional": dice.rarely("1e9", "500", "5000.01", "20000", one_in=3),
        "max_turnover": dice.rarely("9", "0", "0.01", "0.1", "0.5", one_in=2),
        "max_weight": dice.rarely("1", str(largest), one_in=3),
        "collar_bps": dice.rarely(50, 0, 10),
        "restricted": dice.rarely([], symbols[:1], symbols[1:4], ["OTHER"]),
        "cash_basis": dice.rarely("total", "settled", one_in=3),
    }


def a_working_order(dice: Dice, symbols: list[str], *, fractional: bool) -> Json:
    size = Decimal(1 + dice.below(40)) * (TEN_THOUSANDTH if fractional and dice.below(2) else 1)
    return {
        "symbol": dice.one_of(*symbols, "OTHER"),
        "side": dice.one_of("buy", "sell"),
        "quantity": str(size),
        "filled": str(size * dice.one_of(0, 0, Decimal("0.5"), 1)),
        "limit": dice.rarely(str(1 + dice.below(3000)), None),
    }


def a_mandate(dice: Dice, symbols: list[str], weights: list[Decimal], buffer: Decimal, worth: int) -> Json:
    method = dice.rarely("fixed", "equal", one_in=4)
    content: Json = {
        symbol: str(weight) if method == "fixed" else {} for symbol, weight in zip(symbols, weights, strict=True)
    }
    return {
        "account": "DU1",
        "base_currency": "USD",
        "fractional": bool(dice.below(2)),
        "policy": {"method": method, "cash_buffer": str(buffer), "weights": content},
        "bands": dice.one_of({"absolute": 0, "relative": 0}, {}),
        "allow_delayed": bool(dice.below(2)),
        "min_trade": dice.one_of(0, 1, 100, 1500),
        "direction": dice.rarely("both", "buy_only", "sell_only"),
        "raise_cash": dice.rarely(0, worth // 50, worth // 3, worth * 2),
        "frozen": dice.rarely([], symbols[:1], symbols[2:5]),
        "limits": some_limits(dice, symbols, max(weights)),
    }


@st.composite
def situations(draw: st.DrawFn) -> Json:
    """Return a situation as a file would hold it."""
    symbols = [f"S{number:02}" for number in range(draw(st.integers(5, 30)))]
    own, each = draw(dice), [draw(dice) for _ in [*symbols, "OTHER"]]
    buffer, parts = own.one_of(Decimal(0), Decimal("0.02"), Decimal("0.3")), [dice.below(10) for dice in each[1:]]
    weights = [((1 - buffer) * part / (sum(parts) or 1)).quantize(TEN_THOUSANDTH, ROUND_DOWN) for part in parts]
    worth = own.one_of(20_000, 1_000, 100_000, 3_000_000)
    cash = str(Decimal(worth) * own.one_of(0, 1, 2, 30, 100, -1) / 100)
    quotes = [a_quote(dice, symbol) for symbol, dice in zip([*symbols, "OTHER"], each, strict=True)]
    wanted = [
        worth * weight / Decimal(quote["bid"]) for weight, quote in zip([*weights, Decimal("0.1")], quotes, strict=True)
    ]
    mandate = a_mandate(own, symbols, weights, buffer, worth)
    working = draw(st.lists(dice, max_size=3))
    account = {
        "id": own.rarely("DU1", "DU2", one_in=100),
        "as_of": own.rarely(own.one_of(*FRESH), "2026-03-02T14:00:00Z", one_in=100),
        "cash": {"USD": cash, "EUR": "700"},
        "settled_cash": {"USD": own.one_of(cash, "0", "1000")},
        "positions": [
            {"symbol": quote["symbol"], "quantity": a_position(dice, target)}
            for quote, dice, target in zip(quotes, each, wanted, strict=True)
        ],
    }
    targets = {symbol: str(weight) for symbol, weight in zip(symbols, weights, strict=True)}
    return {
        "now": NOW,
        "mandate": mandate,
        "account": account,
        "quotes": [quote | dice.rarely({}, *ODD_QUOTES, one_in=100) for quote, dice in zip(quotes, each, strict=True)],
        "targets": None if mandate["policy"]["method"] == "fixed" else targets,
        "open_orders": [a_working_order(dice, symbols, fractional=mandate["fractional"]) for dice in working],
    }


def faults(situation: Situation, orders: tuple[Order, ...]) -> list[str]:
    return [f"{reason.check} {reason.symbol}: {reason.reason}" for reason in verify(situation, orders).reasons]


@examples(300)
@given(situations())
def test_whatever_draft_returns_verify_approves(content: Json) -> None:
    situation = Situation.model_validate(content)
    proposal = draft(situation)

    assert proposal.refused or [] == faults(situation, proposal.orders)
    assert not (proposal.refused and proposal.orders)


@examples(100)
@given(situations())
def test_where_there_is_no_draft_nothing_at_all_is_approved(content: Json) -> None:
    situation = Situation.model_validate(content)

    assert draft(situation).refused == bool(faults(situation, ()))


@examples(30)
@given(situations(), st.randoms(use_true_random=False))
def test_a_draft_does_not_depend_on_the_order_things_are_told_in(content: Json, chance: Any) -> None:
    shuffled = copy.deepcopy(content)
    for things in (shuffled["quotes"], shuffled["account"]["positions"], shuffled["open_orders"]):
        chance.shuffle(things)

    assert draft(Situation.model_validate(content)).hash == draft(Situation.model_validate(shuffled)).hash


# A draft that somebody, or something, has spoiled: each change to the situation or to the largest of its orders


def order_is(key: str, change: Callable[[Decimal, Json], object]) -> Spoil:
    """Return what changes one figure of the order."""

    def spoil(content: Json, order: Json) -> None:
        order[key] = str(change(Decimal(order[key]), quote_of(content, order)))

    return spoil


def quote_is(**figures: Any) -> Spoil:
    return lambda content, order: quote_of(content, order).update(figures)


def mandate_is(**figures: Any) -> Spoil:
    return lambda content, _: content["mandate"].update(figures)


def limit_is(key: str, change: Callable[[Json, Json], object]) -> Spoil:
    return lambda content, order: content["mandate"]["limits"].update({key: change(content, order)})


def quote_of(content: Json, order: Json) -> Json:
    found: Json = next(quote for quote in content["quotes"] if quote["symbol"] == order["symbol"])
    return found


def notional(order: Json) -> Decimal:
    return Decimal(order["quantity"]) * Decimal(order["limit"])


def flip(content: Json, order: Json) -> None:
    order["side"] = "sell" if order["side"] == "buy" else "buy"


def oversell(content: Json, order: Json) -> None:
    held = {position["symbol"]: Decimal(position["quantity"]) for position in content["account"]["positions"]}
    order["side"], order["quantity"] = "sell", str(max(int(held.get(order["symbol"], 0)), 0) + 1)


def cross(content: Json, order: Json) -> None:
    quote = quote_of(content, order)
    quote["bid"] = str(Decimal(quote["ask"]) * Decimal("1.0001"))


def a_hundred_times_the_price(content: Json, order: Json) -> None:
    quote = quote_of(content, order)
    quote.update(bid=str(Decimal(quote["bid"]) * 100), ask=str(Decimal(quote["ask"]) * 100))
    order["limit"] = str(Decimal(order["limit"]) * 100)


def half_a_unit_more(content: Json, order: Json) -> None:
    unit = TEN_THOUSANDTH if content["mandate"]["fractional"] else Decimal(1)
    order["quantity"] = str(Decimal(order["quantity"]) + unit / 2)


def delay(content: Json, order: Json) -> None:
    content["mandate"]["allow_delayed"] = False
    quote_of(content, order)["delayed"] = True


def turn_the_other_way(content: Json, order: Json) -> None:
    content["mandate"]["direction"] = "sell_only" if order["side"] == "buy" else "buy_only"


def spend_the_cash(content: Json, order: Json) -> None:
    order["quantity"] = str(Decimal(order["quantity"]) * 2 + 1)  # beyond the target, even where there was cash for it


SPOILS: dict[str, Spoil] = {
    "side flipped": flip,
    "a thousand times as many": order_is("quantity", lambda quantity, _: quantity * 1000),
    "twice as many and one, which overshoots or breaks what bound it": spend_the_cash,
    "quantity zero": order_is("quantity", lambda *_: 0),
    "quantity below zero": order_is("quantity", lambda quantity, _: -quantity),
    "quantity not a number": order_is("quantity", lambda *_: "NaN"),
    "quantity without end": order_is("quantity", lambda *_: "Infinity"),
    "a fraction too fine": half_a_unit_more,
    "limit a hundred times as high": order_is("limit", lambda limit, _: limit * 100),
    "limit a hundredth": order_is("limit", lambda limit, _: limit / 100),
    "limit zero": order_is("limit", lambda *_: 0),
    "limit not a number": order_is("limit", lambda *_: "NaN"),
    "limit off the tick": order_is("limit", lambda limit, quote: limit + Decimal(quote["tick"]) / 2),
    "unknown symbol": lambda _, order: order.update(symbol="TOTDY"),
    "symbol outside the mandate": lambda _, order: order.update(symbol="OTHER"),
    "sold short": oversell,
    "quote a year old": quote_is(at="2025-03-02T15:05:00Z"),
    "quote just too old": quote_is(at="2026-03-02T14:49:59Z"),
    "quote from the future": quote_is(at="2026-03-02T15:05:01Z"),
    "quote without a moment": quote_is(at=None),
    "quote crossed": cross,
    "quote not a number": quote_is(ask="NaN"),
    "quote of minus one": quote_is(bid="-1", ask="-1"),
    "quote at a hundred times the price": a_hundred_times_the_price,
    "quote delayed": delay,
    "quote in another currency": quote_is(currency="GBP"),
    "quote without a previous close": quote_is(previous_close=None),
    "quote wide": lambda content, order: quote_of(content, order).update(
        bid=str(Decimal(quote_of(content, order)["ask"]) * Decimal("0.97"))
    ),
    "quote missing": lambda content, order: content["quotes"].remove(quote_of(content, order)),
    "another account": lambda content, _: content["account"].update(id="DU2"),
    "account an hour old": lambda content, _: content["account"].update(as_of="2026-03-02T14:05:00Z"),
    "restricted since": limit_is("restricted", lambda _, order: [order["symbol"]]),
    "frozen since": lambda content, order: content["mandate"].update(frozen=[order["symbol"]]),
    "larger than an order may be": limit_is(
        "max_order_notional", lambda _, order: str(notional(order) - TEN_THOUSANDTH)
    ),
    "no turnover allowed": limit_is("max_turnover", lambda *_: 0),
    "smaller than an order may be": lambda content, order: content["mandate"].update(
        min_trade=str(notional(order) + 1)
    ),
    "no volume known": lambda content, order: (
        content["mandate"]["limits"].update(max_adv_fraction="0.5"),
        quote_of(content, order).update(adv=None),
    ),
    "the other direction": turn_the_other_way,
    "all cash to be raised": mandate_is(raise_cash="9e12"),
}


def largest(proposal: Proposal) -> int:
    return max(range(len(proposal.orders)), key=lambda index: proposal.orders[index].notional)


@pytest.fixture(scope="module")
def drafted() -> list[tuple[Json, Proposal]]:
    """Return situations that have a draft with orders, and those drafts."""
    found: list[tuple[Json, Proposal]] = []

    @settings(examples(60), database=None, derandomize=True)
    @given(situations())
    def collect(content: Json) -> None:
        proposal = draft(Situation.model_validate(content))
        if proposal.orders:
            found.append((content, proposal))

    collect()
    return found


@pytest.mark.parametrize("name", SPOILS)
def test_a_draft_that_was_spoiled_is_refused(name: str, drafted: list[tuple[Json, Proposal]]) -> None:
    for content, proposal in drafted:
        spoiled, orders = copy.deepcopy(content), [order.model_dump(mode="json") for order in proposal.orders]
        SPOILS[name](spoiled, orders[largest(proposal)])

        assert faults(Situation.model_validate(spoiled), tuple(map(Order.model_validate, orders)))


def test_an_order_that_stands_twice_is_refused(drafted: list[tuple[Json, Proposal]]) -> None:
    for content, proposal in drafted:
        assert faults(Situation.model_validate(content), (*proposal.orders, proposal.orders[-1]))


def test_there_are_drafts_to_spoil(drafted: list[tuple[Json, Proposal]]) -> None:
    assert len(drafted) >= 5
