"""Faults planted in the draft's own source are stopped by the gate, each by the rule that it breaks.

`draft` and `verify` share words but no arithmetic, so what is wrong with the one is not wrong with the other. Our code
is changed here and nowhere else in the tests: a broken draft is what is handed in. `benchmarks/mutants.py` plants over
a thousand faults by rote; these are the ones that a person would think of.
"""

import re
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tasks.executors.draft import draft
from tasks.situation import Proposal, Situation
from tasks.verification.verdict import verify

pytestmark = pytest.mark.pure

FOLDER = Path(__file__).resolve().parent.parent / "tasks" / "executors"


def in_order(module: str) -> list[str]:
    """Return the draft's modules that this one imports, and it, each after those that it needs."""
    source = (FOLDER / f"{module}.py").read_text("utf-8")
    needed = re.findall(r"^from tasks\.executors\.(\w+) import", source, re.MULTILINE)
    return list(dict.fromkeys([*(each for name in needed for each in in_order(name)), module]))


MODULES = in_order("draft")
NOW, LONG_AGO = "2026-03-02T15:05:00Z", "2026-03-02T14:49:59Z"

Json = dict[str, Any]
Draft = Callable[[Situation], Proposal]
Planting = Callable[[str, str, str], Draft]


def situation(
    weights: Json,
    held: Json,
    *,
    cash: int = 0,
    settled_cash: int | None = None,
    working: tuple[Json, ...] = (),
    quotes: Json | None = None,
    limits: Json | None = None,
    buffer: str = "0",
    **mandate: Any,
) -> Situation:
    """Return a situation of symbols at 100 without a spread, whose limits are out of the way but for those named."""
    plain = {"bid": "100", "ask": "100", "previous_close": "100", "at": NOW, "adv": "1000"}
    content: Json = {
        "now": NOW,
        "mandate": {
            "account": "PAPER", "base_currency": "USD", "policy": {"weights": weights, "cash_buffer": buffer},
            "bands": {"absolute": 0, "relative": 0}, "min_trade": 0, **mandate,
            "limits": {"max_turnover": 9, "max_order_notional": "1e9", "max_orders": 100, **(limits or {})},
        },
        "account": {
            "cash": {"USD": str(cash)}, "settled_cash": {"USD": str(cash if settled_cash is None else settled_cash)},
            "positions": [{"symbol": symbol, "quantity": shares} for symbol, shares in held.items()],
        },
        "quotes": [{"symbol": symbol, **plain, **(quotes or {}).get(symbol, {})} for symbol in weights],
        "open_orders": list(working),
    }  # fmt: skip
    return Situation.model_validate(content)


def buying(symbol: str, quantity: str) -> Json:
    return {"symbol": symbol, "side": "buy", "quantity": quantity, "limit": "100"}


@dataclass(frozen=True)
class Fault:
    """A piece of a module's source, what stands there by mistake, and where that bites."""

    module: str
    original: str
    mistaken: str
    rule: str
    situation: Situation


SHORT_OF_CASH: Json = {
    "weights": {"A": "0.8", "B": "0"},
    "held": {"B": "5"},
    "cash": 500,
    "limits": {"restricted": ["B"]},
}
"""The draft would buy 8 A and can pay for 5, as B may not be sold."""

FAULTS = {
    "a limit is not rounded to the tick": Fault(
        "sizing", "below = far // tick * tick + Decimal(0)", "below = far",
        "limit_is_on_the_tick", situation({"A": "1"}, {}, cash=1000, quotes={"A": {"ask": "100.005"}}),
    ),
    "a limit is that of the other side": Fault(
        "sizing", 'quote.ask if side == "buy" else quote.bid', 'quote.bid if side == "buy" else quote.ask',
        "limit_is_within_the_collar", situation({"A": "1"}, {}, cash=1000, quotes={"A": {"ask": "101"}}),
    ),
    "a limit may leave the collar": Fault(
        "sizing", " and abs(limit - far) * TEN_THOUSAND <= far * collar_bps", "",
        "limit_is_within_the_collar",
        situation({"A": "1"}, {}, cash=1000, quotes={"A": {"ask": "100.60", "tick": "1"}}),
    ),
    "the side is the wrong one": Fault(
        "sizing", 'return "buy" if self.gap > 0 else "sell"', 'return "sell" if self.gap > 0 else "buy"',
        "order_brings_its_symbol_nearer", situation({"A": "0.6"}, {"A": "5"}, cash=500),
    ),
    "parts of a share are ordered": Fault(
        "sizing", "return _TEN_THOUSANDTH if mandate.fractional else Decimal(1)", "return _TEN_THOUSANDTH",
        "quantity_is_in_whole_units", situation({"A": "0.55"}, {}, cash=1000),
    ),
    "a share more is sold than is held": Fault(
        "sizing", '("sellable", line.sellable)', '("sellable", line.sellable + 1)',
        "nothing_is_sold_short", situation({"A": "0"}, {"A": "5.6"}),
    ),
    "min_trade is forgotten": Fault(
        "sizing", "least = max(_up(aim.mandate.min_trade, price), 1)", "least = 1",
        "notional_reaches_min_trade", situation({"A": "0.2"}, {}, cash=1000, min_trade=300),
    ),
    "max_order_notional is forgotten": Fault(
        "sizing", '("max_order_notional", limits.max_order_notional / limit), ', "",
        "notional_is_within_max_order_notional",
        situation({"A": "1"}, {}, cash=1000, limits={"max_order_notional": 500}),
    ),
    "max_weight is forgotten": Fault(
        "sizing", "room = limits.max_weight * aim.equity", "room = aim.equity",
        "bought_weight_is_within_max_weight", situation({"A": "0.36"}, {}, cash=1000, limits={"max_weight": "0.36"}),
    ),
    "the whole volume of a day is taken": Fault(
        "sizing", "limits.max_adv_fraction * line.quote.adv", "line.quote.adv",
        "quantity_is_within_max_adv_fraction",
        situation({"A": "1"}, {}, cash=1000, limits={"max_adv_fraction": "0.005"}),
    ),
    "what is restricted is ordered": Fault(
        "sizing", "    _is_restricted,\n", "",
        "symbol_is_not_restricted", situation({"A": "1"}, {}, cash=1000, limits={"restricted": ["A"]}),
    ),
    "what is frozen is ordered": Fault(
        "sizing", "    _is_frozen,\n", "",
        "symbol_is_not_frozen", situation({"A": "1"}, {}, cash=1000, frozen=["A"], quotes={"A": {"last": "100"}}),
    ),
    "the mandate's direction is forgotten": Fault(
        "sizing", "    _is_against_the_direction,\n", "",
        "side_is_the_mandates", situation({"A": "1"}, {}, cash=1000, direction="sell_only"),
    ),
    "working orders are forgotten": Fault(
        "valuing", "return self.held + self.buying - self.selling", "return self.held",
        "order_brings_its_symbol_nearer", situation({"A": "0.5"}, {}, cash=1000, working=(buying("A", "5"),)),
    ),
    "an old quote is taken for a fresh one": Fault(
        "valuing", "elif now - quote.at > mandate.freshness.quotes:", "elif now < quote.at:",
        "quote_is_fresh", situation({"A": "1"}, {}, cash=1000, quotes={"A": {"at": LONG_AGO}}),
    ),
    "the cash is not summed up": Fault(
        "nearness", 'turnover >= 0 and (cash >= 0 or all(lot.side == "sell" for lot in traded))', "turnover >= 0",
        "buys_are_covered_by_cash", situation(**SHORT_OF_CASH),
    ),
    "the buffer is spent": Fault(
        "draft", "mandate.policy.cash_buffer * equity + mandate.raise_cash", "mandate.raise_cash",
        "buys_are_covered_by_cash", situation(**SHORT_OF_CASH, buffer="0.2"),
    ),
    "the cash to be raised is spent": Fault(
        "draft", " + mandate.raise_cash + promised(situation)", " + promised(situation)",
        "buys_are_covered_by_cash", situation(**SHORT_OF_CASH, raise_cash=200),
    ),
    "the cash of working buys is spent": Fault(
        "draft", " + promised(situation)", "",
        "buys_are_covered_by_cash", situation(**SHORT_OF_CASH, working=(buying("A", "2"),)),
    ),
    "cash is spent before it has settled": Fault(
        "draft", 'settled = mandate.limits.cash_basis == "settled"', "settled = False",
        "buys_are_covered_by_cash",
        situation({"A": "1"}, {}, cash=1000, settled_cash=300, limits={"cash_basis": "settled"}),
    ),
    "what is sold is spent twice": Fault(
        "sharing", "budgets.cash - bought + (sold if", "budgets.cash - bought + (2 * sold if",
        "buys_are_covered_by_cash",
        situation({"A": "0.9", "B": "0", "C": "0"}, {"B": "5", "C": "5"}, limits={"restricted": ["C"]}),
    ),
    "max_turnover is forgotten": Fault(
        "draft", "turnover=mandate.limits.max_turnover * equity", "turnover=9 * equity",
        "turnover_is_within_max_turnover", situation({"A": "1"}, {}, cash=1000, limits={"max_turnover": "0.3"}),
    ),
    "max_orders is forgotten": Fault(
        "nearness", "len(given) > budgets.orders or ", "",
        "orders_are_within_max_orders", situation({"A": "0.5", "B": "0.5"}, {}, cash=1000, limits={"max_orders": 1}),
    ),
}  # fmt: skip


@cache
def code_of(module: str, original: str = "", mistaken: str = "") -> types.CodeType:
    """Return a module of the draft compiled, with one piece of its source replaced."""
    source = (FOLDER / f"{module}.py").read_text("utf-8")
    if original:
        assert source.count(original) == 1
        source = source.replace(original, mistaken)
    return compile(source, f"{module}.py", "exec")


@pytest.fixture
def plant(monkeypatch: pytest.MonkeyPatch) -> Planting:
    """Return what makes a draft with a fault, all its modules executed afresh, so that none holds on to a real one."""

    def planted(module: str, original: str, mistaken: str) -> Draft:
        assert module in MODULES
        for name in MODULES:
            fresh = types.ModuleType(f"tasks.executors.{name}")
            monkeypatch.setitem(sys.modules, fresh.__name__, fresh)
            code = code_of(name, original, mistaken) if name == module else code_of(name)
            exec(code, fresh.__dict__)  # noqa: S102  our own source, but for the fault
        faulty: Draft = sys.modules["tasks.executors.draft"].__dict__["draft"]
        return faulty

    return planted


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_in_the_draft_is_refused_by_the_rule_it_breaks(name: str, plant: Planting) -> None:
    fault = FAULTS[name]
    real = draft(fault.situation)
    faulty = plant(fault.module, fault.original, fault.mistaken)(fault.situation)

    assert real.orders != faulty.orders
    assert real.refused or verify(fault.situation, real.orders).approved
    assert [fault.rule] == [reason.check for reason in verify(fault.situation, faulty.orders).reasons]


def test_a_draft_made_afresh_without_a_fault_is_the_real_one(plant: Planting) -> None:
    afresh = plant("draft", "def draft(", "def draft(")

    assert [draft(each.situation) for each in FAULTS.values()] == [afresh(each.situation) for each in FAULTS.values()]
