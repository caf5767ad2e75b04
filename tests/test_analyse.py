"""Risk, drift and targets: figures that an independent formula gives too, and holes that are named."""

import asyncio
import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blocks.brokers.port import AccountState, Position, WorkingOrder
from blocks.mandate import Mandate
from blocks.market.port import RecordedBars, RecordedQuotes
from blocks.market.quotes import Quote
from tasks.executors.analyse import TargetsWanted, measure_drift, measure_risk, returns_of, set_targets
from tasks.executors.draft import draft
from tasks.executors.gather import BarsWanted, QuotesWanted, gather_bars, gather_positions, gather_quotes
from tasks.executors.propose import draft_orders
from tasks.executors.weights import WeightsError
from tasks.situation import Account, Bars, Drift, Proposal, Quotes, Reason, RiskReport, Situation, Targets
from tasks.wording import in_words
from tests.examples import examples

NOW = dt.datetime(2026, 3, 2, 15, 5, tzinfo=dt.UTC)
FIRST = dt.date(2025, 1, 1)


def bars(**closes: list[Any]) -> Bars:
    sessions = tuple(FIRST + dt.timedelta(days=number) for number in range(len(next(iter(closes.values())))))
    exact = {symbol: tuple(None if c is None else Decimal(str(c)) for c in column) for symbol, column in closes.items()}
    return Bars(snapshot="bars", as_of=NOW, sessions=sessions, closes=exact)


def mandate(method: str = "fixed", frozen: tuple[str, ...] = (), **policy: Any) -> Mandate:
    weights = policy.pop("weights", {"A": "0.5", "B": "0.3"})
    content = {"policy": {"method": method, "weights": weights, **policy}, "frozen": frozen}
    return Mandate.model_validate({"account": "PAPER", "base_currency": "USD", **content})


def quotes(*some: Quote) -> Quotes:
    return Quotes(snapshot="quotes", as_of=NOW, quotes=some)


def quote(symbol: str, bid: str | None, ask: str | None, close: str | None = None) -> Quote:
    return Quote.model_validate({"symbol": symbol, "bid": bid, "ask": ask, "at": NOW, "previous_close": close})


def account(cash: str, **held: str) -> Account:
    positions = tuple(Position(symbol=symbol, quantity=Decimal(quantity)) for symbol, quantity in held.items())
    state = AccountState(
        id="PAPER", as_of=NOW, cash={"USD": Decimal(cash)}, settled_cash={"USD": Decimal(cash)}, positions=positions
    )
    return Account(snapshot="account", as_of=NOW, state=state)


# Risk


@st.composite
def closes(draw: st.DrawFn) -> list[list[int]]:
    """Return closes of one to five symbols over as many sessions."""
    sessions = draw(st.integers(3, 40))
    column = st.lists(st.integers(50, 5000), min_size=sessions, max_size=sessions)
    return draw(st.lists(column, min_size=1, max_size=5))


@examples(60)
@given(closes())
def test_risk_figures_are_those_of_an_independent_formula(columns: list[list[int]]) -> None:
    report = measure_risk(bars(**{f"S{number}": column for number, column in enumerate(columns)}))
    table = np.array(columns, dtype=float)
    moves = table[:, 1:] / table[:, :-1] - 1
    off = moves - moves.mean(axis=1, keepdims=True)
    deviations = np.sqrt((off**2).sum(axis=1) / (moves.shape[1] - 1))
    moving = [index for index in range(len(columns)) if len(set(moves[index])) > 1]

    assert len(columns[0]) == report.sessions
    assert (deviations * np.sqrt(252)) == pytest.approx([float(v) for v in report.volatility.values()], abs=1e-6)
    for index, figure in enumerate(report.correlation.values()):
        others = [other for other in moving if other != index] if index in moving else []
        each = [(off[index] * off[o]).sum() / np.sqrt((off[index] ** 2).sum() * (off[o] ** 2).sum()) for o in others]
        assert (np.mean(each) if each else 0) == pytest.approx(float(figure), abs=2e-6)


def test_two_that_move_as_one_have_a_correlation_of_one_and_two_opposites_of_minus_one() -> None:
    together = measure_risk(bars(A=[10, 11, 10, 12], B=[20, 22, 20, 24]))
    against = measure_risk(bars(A=[100, 110, 99, 108.9], B=[100, 90, 99, 89.1]))

    assert {"A": 1, "B": 1} == together.correlation
    assert {"A": -1, "B": -1} == against.correlation


def test_a_price_that_never_moves_has_no_risk_and_no_correlation() -> None:
    report = measure_risk(bars(A=[10, 11, 10, 12], B=[5, 5, 5, 5]))

    assert (Decimal(0), Decimal(0), Decimal(0)) == (
        report.volatility["B"],
        report.correlation["A"],
        report.correlation["B"],
    )
    assert report.volatility["A"] > 0
    assert Decimal(0) == measure_risk(bars(B=[5, 5, 5])).volatility["B"]


def test_a_hole_in_the_history_is_named_with_its_day() -> None:
    said = r"^B: no close on 2025-01-03, and the method needs all 4 sessions$"

    with pytest.raises(WeightsError, match=said):
        returns_of(bars(A=[10, 11, 12, 13], B=[10, 11, None, 13]))
    with pytest.raises(WeightsError, match=said):
        measure_risk(bars(A=[10, 11, 12, 13], B=[10, 11, None, 13]))


@pytest.mark.parametrize("close", ["0", "-1"])
def test_a_close_that_is_no_price_is_named_with_its_day(close: str) -> None:
    with pytest.raises(WeightsError, match=f"^A: a close of {close} on 2025-01-02; should be above zero$"):
        returns_of(bars(A=[10, close, 12, 13]))


def test_too_short_a_history_is_told() -> None:
    with pytest.raises(WeightsError, match=r"^only 2 sessions of history: at least 3 are needed$"):
        returns_of(bars(A=[10, 11]))


# Targets


def test_targets_are_the_mandates_where_it_fixes_them() -> None:
    found = set_targets(TargetsWanted(), None, mandate())

    assert Targets(method="fixed", weights={"A": Decimal("0.5"), "B": Decimal("0.3")}) == found


def test_targets_by_history_weigh_the_quieter_symbol_more() -> None:
    history = bars(A=[100, 101, 100, 101, 100], B=[100, 110, 100, 110, 100])
    found = set_targets(TargetsWanted(), history, mandate("inverse_volatility", weights={"A": {}, "B": {}}))

    assert found.weights["A"] > 9 * found.weights["B"]


def test_a_hole_stops_only_the_methods_that_look_at_history() -> None:
    holed = bars(A=[100, None, 100], B=[100, 110, 100])

    assert {"A": Decimal("0.49"), "B": Decimal("0.49")} == set_targets(TargetsWanted(), holed, mandate("equal")).weights
    with pytest.raises(WeightsError, match=r"^A: no close on 2025-01-02"):
        set_targets(TargetsWanted(), holed, mandate("minimum_variance"))


# Drift

TARGETS = Targets(method="fixed", weights={"A": Decimal("0.5"), "B": Decimal("0.3")})


def test_drift_is_the_weight_at_the_middle_less_the_target() -> None:
    found = measure_drift(
        TARGETS, quotes(quote("A", "9", "11"), quote("B", "20", "20")), account("200", A="60", B="10"), mandate()
    )

    assert Drift(
        equity=Decimal(1000),
        weights={"A": Decimal("0.6"), "B": Decimal("0.2")},
        drift={"A": Decimal("0.1"), "B": Decimal("-0.1")},
    ) == found  # fmt: skip


@pytest.mark.parametrize(("bid", "ask"), [(None, "11"), ("NaN", "11"), ("9", "0"), ("9", "Infinity"), ("-9", "11")])
def test_a_symbol_without_a_price_has_no_drift(bid: str | None, ask: str) -> None:
    found = measure_drift(
        TARGETS, quotes(quote("A", bid, ask), quote("B", "20", "20")), account("200", B="10"), mandate()
    )

    assert ({"B"}, {"B"}, Decimal(400)) == (set(found.weights), set(found.drift), found.equity)


def test_a_frozen_symbol_drifts_at_its_previous_close() -> None:
    found = measure_drift(
        TARGETS,
        quotes(quote("A", None, None, "30"), quote("B", "20", "20")),
        account("100", A="10"),
        mandate(frozen=("A",)),
    )

    assert (Decimal(400), Decimal("0.75")) == (found.equity, found.weights["A"])


def test_without_equity_every_weight_is_nought() -> None:
    found = measure_drift(
        TARGETS, quotes(quote("A", "10", "10"), quote("B", "20", "20")), account("-100", A="10"), mandate()
    )

    assert {"A": Decimal("-0.5"), "B": Decimal("-0.3")} == found.drift


# Gathering and proposing


class Market:
    """A market of which one may ask three things; it remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[object, ...]] = []

    async def quotes(self, symbols: tuple[str, ...], now: dt.datetime) -> RecordedQuotes:
        self.asked.append((symbols, now))
        return RecordedQuotes("q1", NOW, tuple(quote(symbol, "10", "10", "10") for symbol in symbols))

    async def bars(self, symbols: tuple[str, ...], sessions: int, now: dt.datetime) -> RecordedBars:
        self.asked.append((symbols, sessions, now))
        return RecordedBars("b1", NOW, (FIRST,), {symbol: (Decimal(1),) for symbol in symbols})

    def revision(self) -> str:
        return "1"


class Holder:
    """An account that can be looked at."""

    async def account(self, now: dt.datetime) -> AccountState:
        return account("100", A="3").state.model_copy(update={"as_of": now})

    async def open_orders(self, now: dt.datetime) -> tuple[WorkingOrder, ...]:  # noqa: ARG002
        return (WorkingOrder(symbol="A", side="buy", quantity=Decimal(1)),)

    async def revision(self) -> str:
        return "1"


def test_quotes_are_gathered_of_the_universe_unless_told_otherwise() -> None:
    market = Market()
    every = asyncio.run(gather_quotes(QuotesWanted(), market, mandate(), NOW))
    asyncio.run(
        gather_quotes(
            QuotesWanted.model_validate({"symbols": ["B"]}, context={"universe": ["B"]}), market, mandate(), NOW
        )
    )

    assert [(("A", "B"), NOW), (("B",), NOW)] == market.asked
    assert ("q1", NOW, ["A", "B"]) == (every.snapshot, every.as_of, [each.symbol for each in every.quotes])


def test_bars_are_gathered_for_so_many_returns_as_the_policy_or_the_step_says() -> None:
    market = Market()
    asyncio.run(gather_bars(BarsWanted(), market, mandate(lookback_days=100), NOW))
    found = asyncio.run(gather_bars(BarsWanted(lookback_days=20), market, mandate(), NOW))

    assert [(("A", "B"), 101, NOW), (("A", "B"), 21, NOW)] == market.asked
    assert Bars(snapshot="b1", as_of=NOW, sessions=(FIRST,), closes={"A": (Decimal(1),), "B": (Decimal(1),)}) == found


def test_positions_come_with_the_working_orders() -> None:
    found = asyncio.run(gather_positions(Holder(), NOW))

    assert ("PAPER", 1, NOW) == (found.state.id, len(found.open_orders), found.as_of)


@pytest.mark.parametrize("method", ["fixed", "equal"])
def test_the_proposal_is_the_draft_of_what_was_gathered(method: str) -> None:
    wanted = mandate(method, weights={"A": "0.5", "B": "0.3"} if method == "fixed" else {"A": {}, "B": {}})
    targets = set_targets(TargetsWanted(), None, wanted)
    seen = quotes(quote("A", "10", "10", "10"), quote("B", "20", "20", "20"))
    situation = Situation(
        now=NOW, mandate=wanted, targets=None if method == "fixed" else targets.weights,
        account=account("10000").state, quotes=seen.quotes,
    )  # fmt: skip
    found = draft_orders(targets, seen, account("10000"), None, wanted, NOW)

    assert draft(situation) == found
    assert 2 == len(found.orders)


# In words


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (quotes(quote("A", "1", "1")), "1 quotes of 2026-03-02T15:05:00Z"),
        (bars(A=[1, 2], B=[1, 2]), "2 sessions of 2 symbols from 2025-01-01 to 2025-01-02"),
        (account("1234567.891", A="1"), "1,234,567.89 USD in cash, 1 positions"),
        (TARGETS, "2 weights by fixed, 80.00 % invested"),
        (
            RiskReport(sessions=253, volatility={"A": Decimal("0.2"), "B": Decimal("0.3012")}, correlation={}),
            "most volatile: B, 30.12 % a year over 253 sessions",
        ),
        (
            Drift(equity=Decimal(1000), weights={}, drift={"A": Decimal("0.01"), "B": Decimal("-0.02")}),
            "managed equity 1,000.00 USD; furthest from target: B -2.00 %",
        ),
        (Drift(equity=Decimal(0), weights={}, drift={}), "managed equity 0.00 USD"),
        (Proposal(), "nothing to trade"),
        (Proposal(reasons=(Reason(check="x", symbol="A", reason="no quote"),)), "no draft: A no quote"),
    ],
)
def test_each_result_is_said_in_one_line(value: Any, words: str) -> None:
    assert words == in_words(value, mandate())
