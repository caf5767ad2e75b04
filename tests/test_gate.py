"""The gate: it looks for itself, believes no step, and says of everything it refuses why."""

import asyncio
import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from blocks.brokers.doors import read_only
from blocks.brokers.paper import PaperBroker
from blocks.brokers.port import AccountDoor, AccountState, Order, WorkingOrder
from blocks.errors import StalePlan
from blocks.ledger import Ledger
from blocks.mandate import Mandate
from blocks.market.bar_table import BarTable
from blocks.market.calendar import TradingCalendar
from blocks.market.door import StoreMarket
from blocks.market.quotes import Quote
from blocks.market.store import MarketStore
from tasks.carry_out import carry_out
from tasks.catalog import load_catalog
from tasks.desk import Desk
from tasks.freshness import Result
from tasks.halt import halt, resume
from tasks.intents import commit
from tasks.plan import Plan
from tasks.planners.rules import plan_steps
from tasks.verification.gate import Inspection, inspect

CALENDAR = TradingCalendar("XNYS")
SESSIONS = CALENDAR.sessions_between(dt.date(2022, 10, 24), dt.date(2022, 11, 28))
NOW = CALENDAR.close_of(SESSIONS[-1]) + dt.timedelta(minutes=1)
MINUTE = dt.timedelta(minutes=1)
FIXED: dict[str, Any] = {
    "account": "A",
    "base_currency": "USD",
    "policy": {"weights": {"SPY": "0.4", "AGG": "0.5"}},
    "limits": {"max_turnover": 1},
}
BY_BARS = FIXED | {"policy": {"method": "inverse_volatility", "weights": {"SPY": 1, "AGG": 1}, "lookback_days": 20}}
Results = dict[str, Result]


def bars(**closes: str) -> BarTable:
    """Return bars of all sessions, a cent dearer each day; a symbol's close is that of the last session."""
    rows = sorted((day, symbol) for symbol in closes for day in SESSIONS)
    late = {day: len(SESSIONS) - 1 - place for place, day in enumerate(SESSIONS)}
    prices = tuple(Decimal(closes[symbol]) - Decimal("0.01") * late[day] ** 2 for day, symbol in rows)
    none = (None,) * len(rows)
    return BarTable(tuple(s for _, s in rows), tuple(d for d, _ in rows), none, none, none, prices, none)


@dataclass(frozen=True)
class House:
    """A ledger, a store with a few symbols and a paper account of 100,000 USD."""

    ledger: Ledger
    store: MarketStore

    def broker(self) -> PaperBroker:
        async def quotes(symbols: tuple[str, ...], now: dt.datetime) -> tuple[Quote, ...]:
            return (await StoreMarket(self.store, CALENDAR, "USD", None).quotes(symbols, now)).quotes

        return PaperBroker(self.ledger, "A", "USD", quotes)

    def desk(self, mandate: Mapping[str, Any] = FIXED, now: dt.datetime = NOW) -> Desk:
        wanted = Mandate.model_validate(mandate)
        market = StoreMarket(self.store, CALENDAR, "USD", self.ledger.pin(), wanted.frozen)
        account = read_only(self.broker())
        return Desk("r1", wanted, "paper", load_catalog(), self.ledger, self.store, market, account, lambda: now)

    def place(self, symbol: str, side: str, quantity: int, limit: str, ref: str = "by hand") -> None:
        order = Order.model_validate({"symbol": symbol, "side": side, "quantity": quantity, "limit": limit})
        asyncio.run(self.broker().place(ref, order, NOW))


@pytest.fixture
def house(tmp_path: Path) -> House:
    ledger = Ledger(tmp_path / "ledger.db", lambda: dt.datetime.now(dt.UTC))
    house = House(ledger, MarketStore(tmp_path, ledger))
    house.store.put_bars("csv", bars(SPY="396.00", AGG="97.50"))
    return house


def drafted(desk: Desk) -> tuple[Plan, Results]:
    """Carry out the plan by rules, up to its proposal."""
    plan = Plan(id="p1", objective="", mandate_hash=desk.mandate.hash, steps=plan_steps(desk.mandate), created_at=NOW)
    results: Results = {}
    for step in plan.in_order:
        inputs = {name: results[source] for name, source in step.inputs.items()}
        results[step.id] = asyncio.run(carry_out(desk, step, inputs))
    return plan, results


def judged(desk: Desk, plan: Plan, results: Results) -> Inspection:
    return asyncio.run(inspect(desk, plan, results))


def stale(inspection: Inspection) -> list[tuple[str, str]]:
    return [(reason.check, reason.symbol) for reason in inspection.stale]


def refused(inspection: Inspection) -> list[str]:
    return [reason.check for reason in inspection.verdict.reasons]


@pytest.mark.parametrize("mandate", [FIXED, BY_BARS], ids=["fixed", "by bars"])
def test_a_proposal_that_nothing_speaks_against_passes_and_its_verdict_is_recorded(
    house: House, mandate: Mapping[str, Any]
) -> None:
    desk = house.desk(mandate)
    inspection = judged(desk, *drafted(desk))

    assert inspection.passes
    assert ([], [], 2) == (refused(inspection), stale(inspection), len(inspection.proposal.orders))
    entry = house.ledger.latest("verdict", "r1")
    assert entry
    expected = {"plan": "p1", "revision": 1, "approved": True, "proposal_hash": inspection.proposal.hash, "stale": []}
    assert expected == {name: entry.body[name] for name in expected}
    quotes, account = entry.body["snapshots"]
    assert inspection.situation.quotes == house.store.quotes(quotes)
    assert inspection.situation.account == house.store.account(account)[0]


def test_the_gate_looks_at_the_world_itself(house: House) -> None:
    plan, results = drafted(house.desk())
    inspection = judged(house.desk(now=NOW + MINUTE), plan, results)

    assert (NOW + MINUTE, NOW + MINUTE) == (inspection.situation.now, inspection.situation.account.as_of)


def test_while_everything_is_halted_nothing_passes(house: House) -> None:
    desk = house.desk()
    plan, results = drafted(desk)
    halt(house.ledger, "a strange fill")
    halted = judged(desk, plan, results)

    assert not halted.passes
    assert ["nothing_is_halted"] == refused(halted)
    assert "halted: a strange fill; `tradewright resume` lifts it" == halted.verdict.reasons[0].reason
    resume(house.ledger)
    assert judged(desk, plan, results).passes


def test_quotes_that_have_moved_too_far_since_the_draft_make_it_stale(house: House) -> None:
    plan, results = drafted(house.desk())
    house.store.put_bars("csv", bars(SPY="403.00"))
    inspection = judged(house.desk(), plan, results)

    assert not inspection.passes
    assert [("prices_have_not_moved", "SPY")] == stale(inspection)
    assert "moved 177 bps, from 396 to 403; at most 150 bps is allowed" == inspection.stale[0].reason


def test_quotes_that_have_moved_a_little_are_for_the_rules_to_judge(house: House) -> None:
    plan, results = drafted(house.desk())
    house.store.put_bars("csv", bars(SPY="396.50"))
    inspection = judged(house.desk(), plan, results)

    assert ([], True) == (stale(inspection), inspection.passes)
    house.store.put_bars("csv", bars(SPY="400.00"))  # 101 bps: not stale, but the limit is outside the collar
    assert ([], ["limit_is_within_the_collar"]) == (
        stale(judged(house.desk(), plan, results)),
        refused(judged(house.desk(), plan, results)),
    )


def test_what_is_held_and_not_traded_makes_the_plan_stale_by_its_price_too(house: House) -> None:
    house.place("SPY", "buy", 101, "396")  # its target to within the band
    plan, results = drafted(house.desk())
    house.store.put_bars("csv", bars(SPY="412.00"))
    inspection = judged(house.desk(), plan, results)

    assert ["AGG"] == [order.symbol for order in inspection.proposal.orders]
    assert ("prices_have_not_moved", "SPY") in stale(inspection)


def test_the_price_of_what_is_frozen_makes_no_plan_stale(house: House) -> None:
    house.place("SPY", "buy", 101, "396")
    frozen = FIXED | {"frozen": ["SPY"]}
    plan, results = drafted(house.desk(frozen))
    house.store.put_bars("csv", bars(SPY="412.00"))

    assert [] == stale(judged(house.desk(frozen), plan, results))


def test_a_plan_that_found_nothing_to_do_is_stale_once_prices_have_moved(house: House) -> None:
    house.place("SPY", "buy", 101, "396", "one")
    house.place("AGG", "buy", 512, "97.5", "two")
    plan, results = drafted(house.desk())
    unmoved = judged(house.desk(), plan, results)
    house.store.put_bars("csv", bars(AGG="100.00"))
    moved = judged(house.desk(), plan, results)

    assert ((), [], True) == (unmoved.proposal.orders, stale(unmoved), unmoved.passes)
    assert [("prices_have_not_moved", "AGG")] == stale(moved)


@pytest.mark.parametrize("change", [{"frozen": ["OLD"]}, {}], ids=["frozen", "without a weight"])
def test_a_symbol_that_counts_for_nothing_makes_no_plan_stale(house: House, change: dict[str, Any]) -> None:
    weights = {"SPY": "0.4", "AGG": "0.5", "OLD": 0}
    old = bars(OLD="7.00")
    gone = len(SESSIONS) // 2  # it has not traded for weeks
    house.store.put_bars("csv", BarTable(*(getattr(old, name)[:gone] for name in old.__dataclass_fields__)))
    desk = house.desk(FIXED | change | {"policy": {"weights": weights}})
    plan, results = drafted(desk)
    inspection = judged(desk, plan, results)

    assert ([], [], True) == (stale(inspection), refused(inspection), inspection.passes)


def test_a_position_that_was_changed_by_hand_makes_it_stale(house: House) -> None:
    plan, results = drafted(house.desk())
    house.place("SPY", "buy", 7, "396")
    inspection = judged(house.desk(), plan, results)

    assert not inspection.passes
    assert [("positions_have_not_changed", "SPY"), ("cash_has_not_changed", "")] == stale(inspection)
    assert "0 held when the orders were drafted, 7 now" == inspection.stale[0].reason
    assert "100000 USD in cash when the orders were drafted, 97227 now" == inspection.stale[1].reason


@dataclass(frozen=True)
class WithdrawnFrom:
    """An account from which somebody has taken money out."""

    door: AccountDoor
    taken: Decimal

    async def account(self, now: dt.datetime) -> AccountState:
        state = await self.door.account(now)
        left = {currency: cash - self.taken for currency, cash in state.cash.items()}
        return state.model_copy(update={"cash": left, "settled_cash": left})

    async def open_orders(self, now: dt.datetime) -> tuple[WorkingOrder, ...]:
        return await self.door.open_orders(now)

    async def revision(self) -> str:
        return await self.door.revision()


def test_cash_that_was_withdrawn_makes_it_stale(house: House) -> None:
    desk = house.desk()
    plan, results = drafted(desk)
    inspection = judged(replace(desk, account=WithdrawnFrom(desk.account, Decimal("5000.01"))), plan, results)

    assert [("cash_has_not_changed", "")] == stale(inspection)
    assert "100000 USD in cash when the orders were drafted, 94999.99 now" == inspection.stale[0].reason


def test_an_order_that_has_come_to_work_meanwhile_is_counted(house: House) -> None:
    plan, results = drafted(house.desk())
    house.place("SPY", "buy", 100, "380")  # does not reach the market
    inspection = judged(house.desk(), plan, results)

    assert not inspection.passes
    assert {"order_brings_its_symbol_nearer", "buys_are_covered_by_cash"} == {*refused(inspection)}


def test_a_proposal_is_stale_once_it_has_expired(house: House) -> None:
    short = FIXED | {"freshness": {"proposal": "5m"}}
    plan, results = drafted(house.desk(short))
    last, late = (judged(house.desk(short, NOW + after), plan, results) for after in (5 * MINUTE, 6 * MINUTE))

    assert [] == stale(last)
    assert [("proposal_is_fresh", "")] == stale(late)
    assert "the proposal expired at 2022-11-28T21:06:00Z; it is 2022-11-28T21:07:00Z" == late.stale[0].reason
    assert not late.passes


def test_a_proposal_does_not_outlive_the_quotes_it_was_made_of(house: House) -> None:
    plan, results = drafted(house.desk())
    inspection = judged(house.desk(now=NOW + 15 * MINUTE), plan, results)

    assert [("proposal_is_fresh", "")] == stale(inspection)
    assert "quote_is_fresh" in refused(inspection)


def tampered(house: House, result: Result, value: dict[str, Any]) -> Result:
    """Put another result into the ledger, as a step would that claims what it likes."""
    body = result.model_dump() | {"id": f"{result.id}-2", "value": value}
    wrong = Result.model_validate({name: body[name] for name in Result.model_fields})
    house.ledger.append("result", wrong.model_dump() | {"tool": "set_targets"}, key=wrong.id, subject="elsewhere")
    return wrong


@pytest.mark.parametrize("mandate", [FIXED, BY_BARS], ids=["fixed", "by bars"])
def test_targets_that_are_not_the_policys_are_refused(house: House, mandate: Mapping[str, Any]) -> None:
    desk = house.desk(mandate)
    plan, results = drafted(desk)
    claimed = tampered(house, results["targets"], {"method": "fixed", "weights": {"SPY": "0.5", "AGG": "0.4"}})
    inspection = judged(desk, plan, results | {"targets": claimed})

    assert not inspection.passes
    assert ["targets_follow_the_policy"] == refused(inspection)
    assert "the step's targets are not what the policy gives on the same bars" == inspection.verdict.reasons[0].reason
    assert Decimal("0.5") != inspection.situation.target_weights["SPY"]


def test_orders_towards_other_targets_are_refused_by_the_policys_own(house: House) -> None:
    desk = house.desk(BY_BARS)
    plan, results = drafted(desk)
    too_much = {"orders": [{"symbol": "AGG", "side": "buy", "quantity": "500", "limit": "97.5"}]}
    claimed = tampered(house, results["draft"], too_much)
    inspection = judged(desk, plan, results | {"draft": claimed})

    assert Decimal("0.2") > inspection.situation.target_weights["AGG"]
    assert ["order_brings_its_symbol_nearer"] == refused(inspection)


def test_a_draft_that_was_refused_never_passes(house: House) -> None:
    late = NOW + 16 * MINUTE
    desk = house.desk(now=late)
    inspection = judged(desk, *drafted(desk))

    assert (True, False) == (inspection.proposal.refused, inspection.passes)
    assert "quotes_are_usable" == inspection.proposal.reasons[0].check


def test_a_verdict_that_has_expired_is_not_submitted(house: House) -> None:
    desk = house.desk()
    plan, results = drafted(desk)
    inspection = judged(desk, plan, results)
    last = NOW + 14 * MINUTE  # the quotes are of a minute before

    assert last == inspection.verdict.expires_at
    with pytest.raises(StalePlan, match="does not approve these orders at this moment: a new revision is needed"):
        commit(house.ledger, plan, inspection, desk.mandate, "paper", last + dt.timedelta(microseconds=1))
    assert [] == house.ledger.all("intent")
    assert 2 == len(commit(house.ledger, plan, inspection, desk.mandate, "paper", last))


@pytest.mark.parametrize("fault", ["halted", "stale", "other orders"])
def test_what_does_not_pass_is_not_submitted(house: House, fault: str) -> None:
    desk = house.desk()
    plan, results = drafted(desk)
    good = judged(desk, plan, results)
    if fault == "halted":
        halt(house.ledger, "to see")
        bad = judged(desk, plan, results)
    elif fault == "stale":
        house.place("SPY", "buy", 7, "396")
        bad = judged(desk, plan, results)
    else:  # approved, but for other orders than these
        bad = good.model_copy(
            update={"proposal": good.proposal.model_copy(update={"orders": good.proposal.orders[:1]})}
        )
        assert bad.passes

    with pytest.raises(StalePlan):
        commit(house.ledger, plan, bad, desk.mandate, "paper", NOW)
    assert [] == house.ledger.all("intent") + house.ledger.all("submission")
