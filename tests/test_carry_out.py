"""Carrying out a step: what is still true is found again, and nothing else is ever taken for it."""

import asyncio
import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from blocks.brokers.doors import read_only
from blocks.brokers.paper import PaperBroker
from blocks.brokers.port import AccountDoor, AccountState, Order, Position, WorkingOrder
from blocks.errors import BrokerUnavailable, MarketError
from blocks.ledger import Ledger
from blocks.mandate import Mandate
from blocks.market.bar_table import BarTable
from blocks.market.calendar import TradingCalendar
from blocks.market.door import StoreMarket
from blocks.market.port import MarketDoor
from blocks.market.quotes import Quote
from blocks.market.store import MarketStore
from tasks.carry_out import StepResult, carry_out
from tasks.catalog import Catalog, built_in
from tasks.desk import Desk
from tasks.freshness import Result
from tasks.plan import Step
from tasks.results import alive, fresh_result, keep
from tasks.situation import Account, Bars, Drift, Proposal, Quotes, Reason, RiskReport, Skipped, Targets
from tasks.tool import RESULTS, tool

CALENDAR = TradingCalendar("XNYS")
SESSIONS = CALENDAR.sessions_between(dt.date(2022, 10, 24), dt.date(2022, 11, 28))
NOW = CALENDAR.close_of(SESSIONS[-1]) + dt.timedelta(minutes=1)
MINUTE = dt.timedelta(minutes=1)
MANDATE: dict[str, Any] = {
    "account": "A",
    "base_currency": "USD",
    "policy": {"method": "inverse_volatility", "weights": {"SPY": 1, "AGG": 1}, "lookback_days": 20},
}


def bars(**closes: str) -> BarTable:
    """Return bars of all sessions, a cent dearer each day; a symbol's close is that of the last session."""
    rows = sorted((day, symbol) for symbol in closes for day in SESSIONS)
    late = {day: len(SESSIONS) - 1 - place for place, day in enumerate(SESSIONS)}
    prices = tuple(Decimal(closes[symbol]) - Decimal("0.01") * late[day] ** 2 for day, symbol in rows)
    none = (None,) * len(rows)
    return BarTable(tuple(s for _, s in rows), tuple(d for d, _ in rows), none, none, none, prices, none)


@dataclass(frozen=True)
class House:
    """A ledger, a store with two symbols and a paper account."""

    ledger: Ledger
    store: MarketStore

    def market(self, until: int | None = None) -> StoreMarket:
        return StoreMarket(self.store, CALENDAR, "USD", until)

    def broker(self, account: str = "A") -> PaperBroker:
        async def quotes(symbols: tuple[str, ...], now: dt.datetime) -> tuple[Quote, ...]:
            return (await self.market().quotes(symbols, now)).quotes

        return PaperBroker(self.ledger, account, "USD", quotes)

    def desk(self, now: dt.datetime = NOW, **changes: Any) -> Desk:
        mandate = Mandate.model_validate(MANDATE)
        catalog = Catalog({each.name: each for each in (*built_in(), *OWN)})
        account = read_only(self.broker())
        desk = Desk("r1", mandate, "paper", catalog, self.ledger, self.store, self.market(), account, lambda: now)
        return replace(desk, **changes)


@pytest.fixture
def house(tmp_path: Path) -> House:
    ledger = Ledger(tmp_path / "ledger.db", lambda: dt.datetime.now(dt.UTC))
    house = House(ledger, MarketStore(tmp_path, ledger))
    house.store.put_bars("csv", bars(SPY="396.00", AGG="97.50"))
    return house


GIVEN: list[object] = []
"""What the tools below were given, the latest last."""


@tool(freshness="quotes")
def ask_nobody(mandate: Mandate) -> Targets:
    """Ask nobody."""
    raise MarketError(f"there is no market for {mandate.account}")


@tool(freshness="quotes")
async def ask_the_market(market: MarketDoor) -> Targets:
    """Ask the market."""
    GIVEN.append(market)
    return Targets(method="fixed", weights={})


@tool(freshness="quotes")
async def ask_the_broker(account: AccountDoor) -> Targets:
    """Ask the broker."""
    GIVEN.append(account)
    return Targets(method="fixed", weights={})


OWN = tuple(vars(each)["__tool__"] for each in (ask_nobody, ask_the_market, ask_the_broker))


def carried_out(desk: Desk, name: str, inputs: Mapping[str, Result] | None = None, **params: Any) -> StepResult:
    step = Step(id="one", tool=name, params=params, inputs={}, why="to see")
    return asyncio.run(carry_out(desk, step, inputs or {}))


def test_a_result_is_found_again_while_it_is_fresh(house: House) -> None:
    first = carried_out(house.desk(), "gather_positions")
    last = carried_out(house.desk(NOW + 15 * MINUTE, run="r2"), "gather_positions")

    assert (False, True) == (first.reused, last.reused)
    assert (first.id, first.snapshot, NOW, NOW + 15 * MINUTE) == (last.id, last.snapshot, last.as_of, last.expires_at)
    assert ["done", "reused"] == [entry.body["state"] for entry in house.ledger.all("step")]
    assert 1 == len(house.ledger.all("result"))


def test_a_result_is_not_found_again_once_it_has_expired(house: House) -> None:
    first = carried_out(house.desk(), "gather_positions")
    later = carried_out(house.desk(NOW + 15 * MINUTE + dt.timedelta(microseconds=1)), "gather_positions")

    assert not later.reused
    assert first.id != later.id


def test_quotes_are_as_old_as_the_close_they_come_from(house: House) -> None:
    quotes = carried_out(house.desk(), "gather_quotes")

    assert (NOW - MINUTE, NOW + 14 * MINUTE) == (quotes.as_of, quotes.expires_at)
    assert carried_out(house.desk(NOW + 14 * MINUTE), "gather_quotes").reused
    assert not carried_out(house.desk(NOW + 15 * MINUTE), "gather_quotes").reused


def test_a_result_whose_data_was_lost_is_worked_out_again_and_the_data_is_back(house: House) -> None:
    first = carried_out(house.desk(), "gather_quotes")
    blobs = {path: path.read_bytes() for path in (house.store.home / "blobs").rglob("*.parquet")}
    for path in blobs:
        path.unlink()
    house.store.put_bars("csv", bars(SPY="396.00", AGG="97.50"))
    again = carried_out(house.desk(run="r2"), "gather_quotes")

    assert (first.snapshot, False) == (again.snapshot, again.reused)
    assert blobs == {path: path.read_bytes() for path in (house.store.home / "blobs").rglob("*.parquet")}


def test_a_result_from_after_the_runs_clock_is_never_used(house: House) -> None:
    for name in ("gather_positions", "gather_quotes", "gather_bars", "ask_the_market"):
        later = carried_out(house.desk(), name)
        earlier = carried_out(house.desk(CALENDAR.close_of(SESSIONS[-2]) + MINUTE), name)

        assert not earlier.reused, name
        assert earlier.as_of < later.as_of, name


def test_a_result_from_yesterday_that_is_fresh_by_its_class_is_used_today(house: House) -> None:
    yesterday = carried_out(house.desk(CALENDAR.close_of(SESSIONS[-2]) + MINUTE), "gather_bars")
    today = carried_out(house.desk(), "gather_bars")

    assert (True, yesterday.id) == (today.reused, today.id)


def test_other_params_find_nothing(house: House) -> None:
    carried_out(house.desk(), "gather_quotes")

    assert not carried_out(house.desk(), "gather_quotes", symbols=["SPY"]).reused
    assert not carried_out(house.desk(), "gather_quotes", symbols=["AGG"]).reused
    assert carried_out(house.desk(), "gather_quotes", symbols=["SPY"]).reused


@pytest.mark.parametrize("name", ["gather_quotes", "gather_positions", "ask_the_market"])
def test_another_mandate_account_or_broker_finds_nothing(house: House, name: str) -> None:
    carried_out(house.desk(), name)
    buffer = {"policy": MANDATE["policy"] | {"cash_buffer": "0.03"}}
    others: list[dict[str, Any]] = [
        {"mandate": Mandate.model_validate(MANDATE | buffer)},
        {"mandate": Mandate.model_validate(MANDATE | {"account": "B"}), "account": read_only(house.broker("B"))},
        {"broker": "ib"},
    ]

    assert [False] * 3 == [carried_out(house.desk(**other), name).reused for other in others]
    assert carried_out(house.desk(), name).reused


def test_prices_are_gathered_anew_once_there_are_new_bars(house: House) -> None:
    pinned = house.market(house.ledger.pin())
    quotes, closes = carried_out(house.desk(), "gather_quotes"), carried_out(house.desk(), "gather_bars")
    house.store.put_bars("csv", bars(SPY="398.00"))
    new = carried_out(house.desk(), "gather_quotes")

    assert not new.reused
    assert not carried_out(house.desk(), "gather_bars").reused
    found = alive(house.store, new)
    assert isinstance(found, Quotes)
    assert [Decimal("97.5"), Decimal(398)] == [quote.last for quote in found.quotes]
    for old, name in ((quotes, "gather_quotes"), (closes, "gather_bars")):  # a run goes on as it began
        assert old.id == carried_out(house.desk(market=pinned), name).id


def test_positions_are_gathered_anew_after_every_fill_and_every_change_of_orders(house: House) -> None:
    broker = house.broker()
    before = carried_out(house.desk(), "gather_positions")
    steps = (
        broker.place("f", Order(symbol="SPY", side="buy", quantity=Decimal(3), limit=Decimal(396)), NOW),
        broker.place("w", Order(symbol="SPY", side="buy", quantity=Decimal(1), limit=Decimal(300)), NOW),
        broker.cancel("w", NOW),
    )
    seen = [before.id]
    for step in steps:
        asyncio.run(step)
        found = carried_out(house.desk(), "gather_positions")
        assert not found.reused
        seen.append(found.id)

    assert 4 == len(set(seen))
    assert carried_out(house.desk(), "gather_positions").reused
    held = alive(house.store, found)
    assert isinstance(held, Account)
    assert {"SPY": Decimal(3)} == held.state.held()


class FillsBetweenTwoAnswers:
    """An account whose working buy fills after its positions were told, and before its open orders are."""

    def __init__(self, fills: int) -> None:
        self.fills_to_come, self.filled = fills, 0

    async def account(self, now: dt.datetime) -> AccountState:
        state = AccountState(id="A", as_of=now, positions=(Position(symbol="SPY", quantity=Decimal(self.filled)),))
        if self.filled < self.fills_to_come:
            self.filled += 1
        return state

    async def open_orders(self, now: dt.datetime) -> tuple[WorkingOrder, ...]:  # noqa: ARG002
        left = Decimal(self.fills_to_come - self.filled)
        order = WorkingOrder(symbol="SPY", side="buy", quantity=left, limit=Decimal(396))
        return (order,) if left else ()

    async def revision(self) -> str:
        return str(self.filled)


def test_positions_and_working_orders_are_of_one_moment(house: House) -> None:
    found = carried_out(house.desk(account=FillsBetweenTwoAnswers(1)), "gather_positions")
    account = alive(house.store, found)

    assert isinstance(account, Account)
    assert ({"SPY": Decimal(1)}, ()) == (account.state.held(), account.open_orders)


def test_an_account_that_never_comes_to_rest_is_not_guessed_at(house: House) -> None:
    with pytest.raises(BrokerUnavailable, match="no two answers belong together"):
        carried_out(house.desk(account=FillsBetweenTwoAnswers(1000)), "gather_positions")


def test_what_was_made_of_other_results_finds_nothing(house: House) -> None:
    weights = carried_out(house.desk(), "set_targets", {"bars": carried_out(house.desk(), "gather_bars")})
    house.store.put_bars("csv", bars(SPY="398.00"))
    new = carried_out(house.desk(), "gather_bars")

    assert not carried_out(house.desk(), "set_targets", {"bars": new}).reused
    assert weights.provenance != carried_out(house.desk(), "set_targets", {"bars": new}).provenance


def test_a_result_expires_no_later_than_what_it_was_made_of(house: House) -> None:
    desk = house.desk()
    given: dict[str, Result] = {name: carried_out(desk, f"gather_{name}") for name in ("quotes", "positions")}
    given["targets"] = carried_out(desk, "set_targets", {"bars": carried_out(desk, "gather_bars")})
    proposal = carried_out(desk, "draft_orders", given)

    assert given["quotes"].expires_at == min(source.expires_at for source in given.values()) == proposal.expires_at
    assert {name: source.id for name, source in given.items()} == proposal.provenance
    assert NOW + dt.timedelta(days=1) == given["targets"].expires_at


def test_a_tool_that_fails_is_recorded_and_its_error_goes_on(house: House) -> None:
    with pytest.raises(MarketError, match="there is no market for A"):
        carried_out(house.desk(), "ask_nobody")

    [entry] = house.ledger.all("step", "r1")
    expected = {"state": "failed", "message": "MarketError: there is no market for A", "result": None}
    assert expected == {name: entry.body[name] for name in expected}
    assert [] == house.ledger.all("result")


def test_bad_params_fail_the_step_before_its_tool_is_called(house: House) -> None:
    with pytest.raises(ValueError, match="lookback_days"):
        carried_out(house.desk(), "gather_bars", lookback_days=7)

    assert ["failed"] == [entry.body["state"] for entry in house.ledger.all("step", "r1")]
    assert ["bars"] == [snapshot.kind for snapshot in house.store.snapshots()]


def test_a_tool_is_handed_the_doors_of_its_capability_and_no_way_past_them(house: House) -> None:
    GIVEN.clear()
    for name in ("ask_the_market", "ask_the_broker"):
        carried_out(house.desk(), name)

    market, account = ({name for name in dir(door) if not name.startswith("_")} for door in GIVEN)
    assert {"quotes", "bars", "revision"} == market
    assert {"account", "open_orders", "revision"} == account
    assert [False, False] == [hasattr(door, "__dict__") for door in GIVEN]


def test_doors_are_kept_out_of_tools_that_do_not_name_them(house: House) -> None:
    wanted = {each.name: dict(each.doors) for each in OWN}

    assert {
        "ask_nobody": {},
        "ask_the_market": {"market": "market.read"},
        "ask_the_broker": {"account": "account.read"},
    } == wanted
    assert {"market.read", "account.read"} == set(house.desk().doors)


QUOTE = Quote(symbol="SPY", bid=Decimal("NaN"), ask=None, last=Decimal("396.1234567"), at=NOW, adv=Decimal("1E+3"))
STATE = AccountState(
    id="A",
    as_of=NOW,
    cash={"USD": Decimal("-0.10")},
    settled_cash={},
    positions=(Position(symbol="X", quantity=Decimal("0.0001")),),
)
WORKING = WorkingOrder(order_ref="w", symbol="SPY", side="sell", quantity=Decimal(2), filled=Decimal("0.5"))
SOME_DAYS = SESSIONS[:3]
CLOSES = {"SPY": (Decimal("1.00000001"), None, Decimal(3)), "AGG": (None, None, None)}
KEPT_IN_THE_LEDGER: tuple[BaseModel, ...] = (
    Targets(method="equal", weights={"SPY": Decimal("0.333333"), "BRK B": Decimal(0)}),
    RiskReport(sessions=3, volatility={"SPY": Decimal("0.1")}, correlation={"SPY": Decimal("-1E-6")}),
    Drift(equity=Decimal("-0.01"), weights={"SPY": Decimal(1)}, drift={"SPY": Decimal("0.4")}),
    Proposal(
        orders=(Order(symbol="SPY", side="buy", quantity=Decimal("0.0001"), limit=Decimal("396.10")),),
        skipped=(Skipped(symbol="AGG", reason="within"),),
        cash_after=Decimal("12.3"),
    ),
    Proposal(reasons=(Reason(check="quotes_are_usable", symbol="SPY", reason="no quote"),)),
)


def kept(house: House, value: BaseModel, as_of: dt.datetime = NOW) -> BaseModel:
    """Keep a value, open ledger and store again as a later process would, and return what they hold."""
    gather = built_in()[0]
    keep(house.ledger, value, tool=gather, key="k", expires_at=NOW + MINUTE, as_of=as_of, sources={"bars": "b1"})
    ledger = Ledger(house.ledger.path, lambda: NOW)
    found = fresh_result(ledger, house.store, "k", NOW)
    assert found
    return alive(MarketStore(house.store.home, ledger), found)


@pytest.mark.parametrize("value", KEPT_IN_THE_LEDGER, ids=lambda value: type(value).__name__)
def test_a_result_comes_back_from_the_ledger_as_it_was(house: House, value: BaseModel) -> None:
    assert value == kept(house, value)


def test_quotes_come_back_from_the_store_as_they_were(house: House) -> None:
    snapshot = house.store.put_quotes("closes", NOW, [QUOTE])
    back = kept(house, Quotes(snapshot=snapshot, as_of=NOW, quotes=(QUOTE,)))

    assert isinstance(back, Quotes)
    assert repr((QUOTE.model_dump(mode="json"),)) == repr(tuple(quote.model_dump(mode="json") for quote in back.quotes))
    assert (snapshot, NOW) == (back.snapshot, back.as_of)


def test_an_account_comes_back_from_the_store_as_it_was(house: House) -> None:
    value = Account(
        snapshot=house.store.put_account("paper", STATE, [WORKING]), as_of=NOW, state=STATE, open_orders=(WORKING,)
    )

    assert value == kept(house, value)


def test_bars_come_back_from_the_store_as_they_were(house: House) -> None:
    value = Bars(
        snapshot=house.store.put_closes("bars", NOW, SOME_DAYS, CLOSES), as_of=NOW, sessions=SOME_DAYS, closes=CLOSES
    )

    assert value == kept(house, value)


def test_every_kind_of_result_is_tried_above() -> None:
    assert set(RESULTS) == {*(type(value) for value in KEPT_IN_THE_LEDGER), Quotes, Account, Bars}


def test_each_tool_that_comes_with_us_finds_its_own_result_again(house: House) -> None:
    def whole_plan(run: str) -> list[StepResult]:
        desk = house.desk(run=run)
        quotes, positions, history = (carried_out(desk, f"gather_{name}") for name in ("quotes", "positions", "bars"))
        risk = carried_out(desk, "measure_risk", {"bars": history})
        targets = carried_out(desk, "set_targets", {"bars": history})
        given = {"quotes": quotes, "positions": positions, "targets": targets}
        drift = carried_out(desk, "measure_drift", given)
        proposal = carried_out(desk, "draft_orders", {**given, "drift": drift})
        return [quotes, positions, history, risk, targets, drift, proposal]

    first, second = whole_plan("r1"), whole_plan("r2")

    assert len(built_in()) == len(first)
    assert [(each.id, True, each.message) for each in first] == [
        (each.id, each.reused, each.message) for each in second
    ]
    assert [alive(house.store, each) for each in first] == [alive(house.store, each) for each in second]
    assert "2 orders" in second[-1].message
