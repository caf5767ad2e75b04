"""Trades that compete are sized as near to their targets as can be: checked against every share-out there is."""

import ctypes
import itertools
import json
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tasks.executors import optimise, sheet
from tasks.executors.draft import draft
from tasks.executors.optimise import MIP_REL_GAP, NODE_LIMIT, ROUNDING_GAP, Distributed, distribute
from tasks.executors.sharing import Budgets, Lot, share_out
from tasks.executors.sheet import Answer, Sheet
from tasks.executors.taking_back import mended
from tasks.situation import Proposal
from tasks.verification.verdict import verify
from tests.examples import examples
from tests.situations import all_in_cash

pytestmark = pytest.mark.pure

NOW = "2026-03-02T15:05:00Z"
WIDE = Decimal(10**9)

Steps = dict[str, int]


def lot(symbol: str, side: Any, gap: str, worth: str, *, least: int = 1, most: int = 0, cost: str = "0") -> Lot:
    """Return a trade that may go to its nearest step, a sell for a little less than its worth and a buy for more."""
    money, half = Decimal(worth), Decimal(cost)
    whole, rest = divmod(Decimal(gap), money)
    price = money + half if side == "buy" else money - half
    nearest = int(whole) + (2 * rest - money > half)
    return Lot(symbol, side, price, price, money, Decimal(gap), least, most or nearest, half)


def budgets(
    *, orders: int = 99, turnover: Decimal = WIDE, cash: Decimal = WIDE, recycles: bool = True, whole: bool = True
) -> Budgets:
    return Budgets(orders=orders, turnover=turnover, cash=cash, recycles=recycles, whole=whole)


def away(lots: list[Lot], steps: Steps) -> Fraction:
    """Return tracking error and cost, in other arithmetic than the product's."""
    total = Fraction(0)
    for each in lots:
        count = steps.get(each.symbol, 0)
        total += abs(Fraction(each.gap) - count * Fraction(each.worth)) + count * Fraction(each.cost)
    return total


def allowed(lots: list[Lot], steps: Steps, limits: Budgets) -> bool:
    money = {"buy": Fraction(0), "sell": Fraction(0)}
    for each in lots:
        if each.symbol in steps:
            if not each.least <= steps[each.symbol] <= each.most:
                return False
            money[each.side] += steps[each.symbol] * Fraction(each.price)
    spendable = Fraction(limits.cash) + (money["sell"] if limits.recycles else 0)
    in_turnover = money["buy"] + money["sell"] <= Fraction(limits.turnover)
    return in_turnover and len(steps) <= limits.orders and (not money["buy"] or money["buy"] <= spendable)


def every_share_out(lots: list[Lot]) -> Iterator[Steps]:
    choices = [(0, *range(each.least, each.most + 1)) for each in lots]
    for counts in itertools.product(*choices):
        yield {each.symbol: count for each, count in zip(lots, counts, strict=True) if count}


def nearest_there_is(lots: list[Lot], limits: Budgets) -> Fraction:
    return min(away(lots, steps) for steps in every_share_out(lots) if allowed(lots, steps, limits))


def plainly_rounded(lots: list[Lot], limits: Budgets) -> Steps | None:
    """Return each trade at its nearest step, with one taken back from the dearest buys until they can be paid."""
    steps = {each.symbol: each.most for each in lots}
    for each in sorted(lots, key=lambda one: -one.price):
        if each.side == "buy" and not allowed(lots, steps, limits):
            steps[each.symbol] -= 1
    steps = {symbol: count for symbol, count in steps.items() if count}
    return steps if allowed(lots, steps, limits) else None


@st.composite
def contests(draw: st.DrawFn, most_lots: int = 4, dearest: int = 90) -> tuple[list[Lot], Budgets]:
    """Trades of a few steps each, and budgets that mostly bind."""
    lots = []
    for number in range(draw(st.integers(1, most_lots))):
        worth = Decimal(draw(st.integers(10, dearest))) / draw(st.sampled_from([1, 1, 3]))
        worth = worth.quantize(Decimal("0.01"))
        gap = (worth * draw(st.integers(6, 50)) / 10).quantize(Decimal("0.01"))
        cost = (worth * draw(st.sampled_from([0, 0, 1, 30])) / 1000).quantize(Decimal("0.001"))
        one = lot(f"S{number}", draw(st.sampled_from(["buy", "buy", "sell"])), str(gap), str(worth), cost=str(cost))
        least = draw(st.integers(1, 2))
        if one.most >= least:
            lots.append(Lot(*(getattr(one, name) for name in Lot.__slots__[:6]), least, one.most, one.cost))
    assume(lots)
    wanted = sum((each.price * each.most for each in lots), Decimal(0))
    part = st.integers(0, 110).map(lambda hundredth: wanted * hundredth / 100)
    limits = budgets(
        orders=draw(st.sampled_from([1, 2, 99])),
        turnover=draw(st.just(WIDE) | part),
        cash=draw(part | part.map(lambda money: -money / 4)),
        recycles=draw(st.booleans()),
    )
    return lots, limits


# Which way it was found


def test_where_no_budget_binds_every_trade_goes_to_its_nearest_step() -> None:
    lots = [lot("A", "buy", "74", "10"), lot("B", "sell", "76", "10")]

    found = distribute(lots, budgets())

    assert {"A": 7, "B": 8} == found.given
    assert ("nearest", Decimal(0), None, None, "") == tuple(dict(found.sizing).values())


def test_a_share_in_proportion_that_uses_up_what_is_scarce_is_taken_as_it_is() -> None:
    lots = [lot("A", "buy", "100", "10"), lot("B", "buy", "100", "10")]

    found = distribute(lots, budgets(cash=Decimal(100)))

    assert {"A": 5, "B": 5} == found.given
    assert ("greedy", Decimal(0), None) == (found.sizing.method, found.sizing.gap, found.sizing.node_limit)


def test_what_is_left_of_the_cash_goes_where_it_brings_most() -> None:
    lots = [lot("A", "buy", "96", "60"), lot("B", "buy", "97", "50"), lot("C", "buy", "97", "50")]
    cash = budgets(cash=Decimal(210))

    found = distribute(lots, cash)

    assert {"A": 1, "B": 2, "C": 1} == found.given
    assert nearest_there_is(lots, cash) == away(lots, found.given)


TIGHT = [lot("A", "buy", "80", "50"), lot("B", "buy", "64", "40"), lot("C", "buy", "182", "70")]
TIGHT_CASH = budgets(cash=Decimal(320))


def test_a_programme_says_how_it_was_bounded_and_that_it_was_proved() -> None:
    found = distribute(TIGHT, TIGHT_CASH)

    assert {"A": 2, "B": 2, "C": 2} == found.given
    assert away(TIGHT, found.given) < away(TIGHT, share_out(TIGHT, TIGHT_CASH))
    told = ("milp", Decimal(0), NODE_LIMIT, ROUNDING_GAP, "proved within mip_rel_gap")
    assert told == tuple(dict(found.sizing).values())


def test_more_trades_than_the_solver_is_asked_for_are_shared_out_in_proportion(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optimise, "LARGEST", 2)

    found = distribute(TIGHT, TIGHT_CASH)

    assert share_out(TIGHT, TIGHT_CASH) == found.given
    assert ("greedy", None) == (found.sizing.method, found.sizing.node_limit)
    assert Decimal("0.048780") == found.sizing.gap
    assert "3 trades compete, the solver is asked for up to 2" == found.sizing.note


def test_a_step_goes_beyond_the_target_only_if_it_brings_nearer_by_more_than_it_costs() -> None:
    assert 8 == lot("A", "buy", "76", "10", cost="1.9").most
    assert 7 == lot("A", "buy", "76", "10", cost="2").most


def test_scarce_turnover_is_not_spent_on_sells_alone_because_they_cost_a_spread_less(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sells = [lot(f"A{number}", "sell", "1000", "100", cost="0.5") for number in range(5)]
    buys = [lot(f"B{number}", "buy", "1000", "100", cost="0.5") for number in range(5)]
    monkeypatch.setattr(optimise._Contest, "_is_near_enough", lambda _: False)

    found = distribute([*sells, *buys], budgets(turnover=Decimal(5000), cash=Decimal(0)))

    sold, bought = (sum(found.given.get(each.symbol, 0) for each in side) for side in (sells, buys))
    assert NODE_LIMIT == found.sizing.node_limit
    assert 50 == sold + bought
    assert bought >= 23


# Never worse, and how good


@examples(300)
@given(contests())
def test_no_share_out_is_nearer_than_the_gap_says(contest: tuple[list[Lot], Budgets]) -> None:
    lots, limits = contest

    found = distribute(lots, limits)

    assert allowed(lots, found.given, limits)
    said = Fraction(found.sizing.gap) + 2 * Fraction(MIP_REL_GAP)
    assert nearest_there_is(lots, limits) >= away(lots, found.given) * (1 - said)


@examples(300)
@given(contests(most_lots=30, dearest=2000))
def test_a_distribution_is_never_worse_than_a_share_in_proportion_or_plain_rounding(
    contest: tuple[list[Lot], Budgets],
) -> None:
    lots, limits = contest

    found = distribute(lots, limits)

    assert allowed(lots, found.given, limits)
    assert away(lots, found.given) <= away(lots, share_out(lots, limits))
    rounded = plainly_rounded(lots, limits)
    assert rounded is None or not rounding_alone(lots, limits) or away(lots, found.given) <= away(lots, rounded)


def rounding_alone(lots: list[Lot], limits: Budgets) -> bool:
    """Tell whether the trades compete for no more than what rounding up takes."""
    return len(lots) <= limits.orders and limits.turnover == WIDE


@examples(100)
@given(contests(most_lots=12), st.randoms(use_true_random=False))
def test_whatever_the_solver_answers_the_budgets_hold_and_nothing_gets_worse(
    contest: tuple[list[Lot], Budgets], random: Any
) -> None:
    lots, limits = contest

    def nonsense(written: Sheet, *_: Any) -> Answer:
        spans = zip(written.lows, written.highs, strict=True)
        values = [random.choice([low, high, (low + high) / 2, high + 3.7]) for low, high in spans]
        return Answer(random.choice([[], values, values]), random.choice([float("-inf"), -1e300, 0.0]), "nonsense")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Sheet, "least", nonsense)
        found = distribute(lots, limits)

    assert allowed(lots, found.given, limits)
    assert away(lots, found.given) <= away(lots, share_out(lots, limits))


def test_a_suggestion_over_a_budget_gives_back_the_cheapest_step_that_is_enough() -> None:
    lots = [lot("A", "buy", "500", "100"), lot("B", "buy", "500", "10"), lot("C", "sell", "500", "5")]
    steps = {"A": 2, "B": 3, "C": 4}

    assert {"A": 2, "B": 2, "C": 4} == mended(lots, steps, budgets(cash=Decimal(202)))
    assert {"A": 1, "B": 3, "C": 4} == mended(lots, steps, budgets(cash=Decimal(150)))
    assert {"C": 4} == mended(lots, steps, budgets(cash=Decimal(-19)))
    assert mended(lots, steps, budgets(orders=2)) is None


# The draft


def test_a_proposal_tells_how_it_was_sized_and_the_gate_approves_it() -> None:
    asked = all_in_cash(40, unsettled=900)
    proposal = draft(asked)

    assert proposal.sizing is not None
    assert "milp" == proposal.sizing.method
    assert verify(asked, proposal.orders).approved
    assert proposal == Proposal.model_validate(json.loads(proposal.model_dump_json()))


def test_a_proposal_with_nothing_to_size_says_nothing_of_it() -> None:
    proposal = draft(all_in_cash(3, restricted=["S000", "S001", "S002"]))

    assert ((), None) == (proposal.orders, proposal.sizing)


def test_a_fractional_account_has_nothing_to_round() -> None:
    asked = all_in_cash(5, fractional=True, max_turnover="0.5")
    proposal = draft(asked)

    assert proposal.sizing is not None
    assert ("greedy", None) == (proposal.sizing.method, proposal.sizing.node_limit)
    assert proposal.sizing.gap <= MIP_REL_GAP
    assert verify(asked, proposal.orders).approved


def test_what_the_solver_prints_by_itself_stays_off_standard_output(capfd: pytest.CaptureFixture[str]) -> None:
    with sheet._standard_output_kept_clean():
        ctypes.CDLL(None).puts(b"a line left in")
    ctypes.CDLL(None).puts(b"said after")
    ctypes.CDLL(None).fflush(None)

    said = capfd.readouterr()
    assert ("said after\n", "a line left in\n") == (said.out, said.err)


def test_the_distribution_of_nothing_is_nothing() -> None:
    assert {} == distribute([], budgets()).given
    assert isinstance(distribute([], budgets()), Distributed)
