"""Submission: whatever dies, falls silent or lies on the way to the broker, no order is sent twice or lost sight of."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from blocks.brokers.doors import read_only
from blocks.brokers.paper import PaperBroker
from blocks.brokers.paper_fills import Pace
from blocks.brokers.port import AccountState, Broker, Fill, Order, OrderReport, WorkingOrder
from blocks.clock import wall
from blocks.errors import BrokerUnavailable, LeaseTaken, StalePlan
from blocks.ledger import Ledger
from blocks.mandate import Mandate
from blocks.market.port import RecordedBars, RecordedQuotes
from blocks.market.quotes import Quote
from blocks.market.store import MarketStore
from tasks.catalog import Catalog
from tasks.desk import Desk
from tasks.finishing import inspect_rest, see_through
from tasks.halt import halt
from tasks.intents import Intent, commit, committed, order_ref, progress, unresolved, withdraw
from tasks.lease import is_held, take
from tasks.permit import Permit
from tasks.plan import Plan
from tasks.reconciliation import reconcile, settle_earlier
from tasks.situation import Proposal, Situation
from tasks.submission import submit
from tasks.summing_up import ending, submitted_lines
from tasks.verification.gate import Inspection
from tasks.verification.verdict import verify

NOW = datetime(2026, 3, 2, 15, 5, tzinfo=UTC)
PRICES = {"OLD": "100", "BIG": "50", "NEW": "20", "FEW": "40", "LOW": "10"}
MANDATE: dict[str, Any] = {
    "account": "A",
    "base_currency": "USD",
    "policy": {"weights": {"OLD": "0.2", "BIG": "0.1", "NEW": "0.2", "FEW": "0.2", "LOW": "0.2"}, "cash_buffer": 0},
    "limits": {"max_turnover": 2},
    "submission": {"submit_window": "4s"},
}
LEAVE = {"submit_window": "4s", "at_window_end": "leave"}
PLAN = Plan(id="p1", objective="", mandate_hash="m", steps=(), created_at=NOW)
PERMIT = Permit("the run", NOW + timedelta(days=1))
HELD = (("OLD", 100), ("BIG", 100))
ORDERS = (("NEW", "buy", 200), ("OLD", "sell", 60), ("FEW", "buy", 100), ("BIG", "sell", 60), ("LOW", "buy", 400))
SENT = ["OLD", "BIG", "NEW", "FEW", "LOW"]
CASH = Decimal(20_000 - 10_001 - 5_001 + 5_999 + 2_999 - 4_001 - 4_001 - 4_002)
"""What is left once all orders have filled: everything at its price, and a commission of 1 or 2."""


class Market:
    """Quotes that a test can change: a price for each symbol, bid and asked."""

    def __init__(self) -> None:
        self.prices = {symbol: Decimal(price) for symbol, price in PRICES.items()}
        self.at: Callable[[], datetime] = lambda: NOW

    async def __call__(self, symbols: tuple[str, ...], now: datetime) -> tuple[Quote, ...]:  # noqa: ARG002
        return tuple(self.quote(symbol) for symbol in symbols)

    def quote(self, symbol: str) -> Quote:
        price = self.prices[symbol]
        return Quote(symbol=symbol, bid=price, ask=price, at=self.at(), previous_close=price)


def order(symbol: str, side: str, quantity: Decimal | int) -> Order:
    return Order.model_validate({"symbol": symbol, "side": side, "quantity": quantity, "limit": PRICES[symbol]})


AT_ONCE = Pace()


def mandate(**changes: Any) -> Mandate:
    return Mandate.model_validate(MANDATE | changes)


def ledger_at(path: Path) -> Ledger:
    return Ledger(path, lambda: datetime.now(UTC))


def paper(ledger: Ledger, market: Market, pace: Pace) -> PaperBroker:
    return PaperBroker(ledger, "A", "USD", market, opening_cash=Decimal(20_000), pace=pace)


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


@dataclass
class Clock:
    """A clock that stands still unless somebody waits; at a certain wait the whole process may be killed."""

    at: datetime = NOW
    waits: list[float] = field(default_factory=list)
    killed_at: int = 0

    def now(self) -> datetime:
        return self.at

    async def wait(self, seconds: float) -> None:
        self.waits.append(seconds)
        if len(self.waits) == self.killed_at:
            os.kill(os.getpid(), signal.SIGKILL)
        self.at += timedelta(seconds=seconds)


class Through:
    """A broker at the other end of a line: it passes everything on to a paper account. Who inherits breaks the line."""

    def __init__(self, inner: Broker) -> None:
        self.inner = inner
        self.asked_for: list[str] = []

    async def place(self, order_ref: str, order: Order, now: datetime) -> None:
        self.asked_for.append(order.symbol)
        await self.inner.place(order_ref, order, now)

    async def cancel(self, order_ref: str, now: datetime) -> None:
        await self.inner.cancel(order_ref, now)

    async def reports(self, order_refs: tuple[str, ...], now: datetime) -> dict[str, OrderReport]:
        return await self.inner.reports(order_refs, now)

    async def fills(self, now: datetime) -> tuple[Fill, ...]:
        return await self.inner.fills(now)

    async def account(self, now: datetime) -> AccountState:
        return await self.inner.account(now)

    async def open_orders(self, now: datetime) -> tuple[WorkingOrder, ...]:
        return await self.inner.open_orders(now)

    async def revision(self) -> str:
        return await self.inner.revision()


class DiesAt(Through):
    """The whole process is killed at a certain order, before or after the broker has booked it."""

    def __init__(self, inner: Broker, place: int, when: str) -> None:
        super().__init__(inner)
        self.left, self.when = place, when

    async def place(self, order_ref: str, order: Order, now: datetime) -> None:
        self.left -= 1
        if self.left == 0 and self.when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        await super().place(order_ref, order, now)
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


class LosesTheAnswer(Through):
    """The answer to one symbol's order is lost; the order may have been booked, or come in only later."""

    def __init__(self, inner: Broker, symbol: str, *, booked: bool) -> None:
        super().__init__(inner)
        self.symbol, self.booked = symbol, booked
        self.on_its_way: list[tuple[str, Order]] = []

    async def place(self, order_ref: str, order: Order, now: datetime) -> None:
        if order.symbol != self.symbol:
            return await super().place(order_ref, order, now)
        self.asked_for.append(order.symbol)
        if self.booked:
            await self.inner.place(order_ref, order, now)
        else:
            self.on_its_way.append((order_ref, order))
        raise BrokerUnavailable("no answer within 10 s")

    async def arrive(self) -> None:
        for ref, late in self.on_its_way:
            await self.inner.place(ref, late, NOW)


class Mute(Through):
    """Nothing is answered."""

    async def reports(self, order_refs: tuple[str, ...], now: datetime) -> dict[str, OrderReport]:  # noqa: ARG002
        raise BrokerUnavailable("no answer within 10 s")


class TellsNoExecutions(Through):
    """As after midnight: reports say how much has filled, executions are no longer told of."""

    async def fills(self, now: datetime) -> tuple[Fill, ...]:  # noqa: ARG002
        return ()


class TellsNothing(TellsNoExecutions):
    """As days later: what became of an order is no longer told at all."""

    async def reports(self, order_refs: tuple[str, ...], now: datetime) -> dict[str, OrderReport]:  # noqa: ARG002
        return {}


class TellsExecutionsOnly(Through):
    """Reports never come, though executions do."""

    async def reports(self, order_refs: tuple[str, ...], now: datetime) -> dict[str, OrderReport]:  # noqa: ARG002
        return {}


class SilentFor(Through):
    """At certain questions, by their number, there is no answer."""

    def __init__(self, inner: Broker, silent: range) -> None:
        super().__init__(inner)
        self.silent, self.asked = silent, 0

    async def reports(self, order_refs: tuple[str, ...], now: datetime) -> dict[str, OrderReport]:
        self.asked += 1
        if self.asked in self.silent:
            raise BrokerUnavailable("no answer within 10 s")
        return await super().reports(order_refs, now)


class CancelsLater(Through):
    """A cancel takes effect only three seconds after it was asked for."""

    def __init__(self, inner: Broker) -> None:
        super().__init__(inner)
        self.wanted: dict[str, datetime] = {}

    async def cancel(self, order_ref: str, now: datetime) -> None:
        self.wanted[order_ref] = now

    async def reports(self, order_refs: tuple[str, ...], now: datetime) -> dict[str, OrderReport]:
        for ref, asked_at in self.wanted.items():
            if now >= asked_at + timedelta(seconds=3):
                await super().cancel(ref, now)
        return await super().reports(order_refs, now)


class FillsBetweenTwoAnswers(Through):
    """A report is written before an order fills, and the executions are told after it."""

    def __init__(self, inner: Broker) -> None:
        super().__init__(inner)
        self.first = True

    async def reports(self, order_refs: tuple[str, ...], now: datetime) -> dict[str, OrderReport]:
        found = await super().reports(order_refs, now)
        if not (self.first and found):
            return found
        self.first = False
        return {ref: each.model_copy(update={"state": "working", "filled": Decimal(0)}) for ref, each in found.items()}


class HasLess(Through):
    """Somebody has taken cash out of the account, or has it settled only later."""

    def __init__(self, inner: Broker, **left: Decimal) -> None:
        super().__init__(inner)
        self.left = left

    async def account(self, now: datetime) -> AccountState:
        state = await super().account(now)
        return state.model_copy(update={kind: {"USD": cash} for kind, cash in self.left.items()})


class Interrupted(Through):
    """While the first order is on its way, something else happens."""

    def __init__(self, inner: Broker, event: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        super().__init__(inner)
        self.event = event

    async def place(self, order_ref: str, order: Order, now: datetime) -> None:
        if not self.asked_for:
            await self.event()
        await super().place(order_ref, order, now)


@dataclass(frozen=True)
class Story:
    """An account that holds two symbols, and a proposal for it that the gate has approved and nobody has sent."""

    ledger: Ledger
    market: Market
    broker: PaperBroker

    def inspection(self, rules: Mandate | None = None, orders: tuple[Order, ...] | None = None) -> Inspection:
        account = run(self.broker.account(NOW))
        quotes = tuple(self.market.quote(symbol) for symbol in PRICES)
        situation = Situation(now=NOW, mandate=rules or mandate(), account=account, quotes=quotes)
        proposal = Proposal(orders=tuple(order(*each) for each in ORDERS) if orders is None else orders)
        return Inspection(situation=situation, proposal=proposal, verdict=verify(situation, proposal.orders))

    def committed(self, plan: Plan = PLAN) -> tuple[Intent, ...]:
        return commit(self.ledger, plan, self.inspection(), mandate(), "paper", NOW)

    def submitted(
        self, broker: Broker, intents: tuple[Intent, ...], rules: Mandate | None = None, clock: Clock | None = None
    ) -> Clock:
        """Submit, by a clock of no real time; return it as it stands then."""
        clock = clock or Clock()
        self.sent_by(intents, broker, rules or mandate(), clock)
        return clock

    def sent_by(
        self,
        intents: tuple[Intent, ...],
        broker: Broker,
        rules: Mandate,
        clock: Clock,
        until: datetime = NOW + timedelta(days=1),
        tell: Callable[[str], None] = lambda _: None,
    ) -> bool:
        """Submit with the account's lease in our hands and an approval that is good for a day, unless it says."""
        if not is_held(self.ledger, "A", "the run", wall()):
            take(self.ledger, "A", "the run", wall())
        return bool(
            run(submit(self.ledger, broker, intents, rules, Permit("the run", until), clock.now, clock.wait, tell))
        )

    def settled(self, broker: Broker) -> list[str]:
        return [intent.symbol for intent in run(settle_earlier(self.ledger, broker, "A", "paper", NOW))]

    def states(self, intents: tuple[Intent, ...]) -> dict[str, str]:
        return {intent.symbol: progress(self.ledger, intent).state for intent in intents}

    def said(self, intents: tuple[Intent, ...], symbol: str) -> str:
        return next(progress(self.ledger, intent).message for intent in intents if intent.symbol == symbol)

    def ended(self, intents: tuple[Intent, ...]) -> str:
        """Return the state in which a run ends that has nothing left to send."""
        return ending(self.inspection(orders=()), submitted_lines(self.ledger, intents), dry_run=False)[0]


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(coroutine)


def story_at(path: Path, pace: Pace = AT_ONCE) -> Story:
    ledger, market = ledger_at(path), Market()
    for symbol, quantity in HELD:
        run(paper(ledger, market, AT_ONCE).place(f"held {symbol}", order(symbol, "buy", quantity), NOW))
    return Story(ledger, market, paper(ledger, market, pace))


@pytest.fixture
def story(tmp_path: Path) -> Story:
    return story_at(tmp_path / "ledger.db")


ALL_FILLED = dict.fromkeys(SENT, "filled")


def assert_each_order_was_booked_once(story: Story, intents: tuple[Intent, ...]) -> None:
    """Find the account as if nothing had happened, and our ledger telling the same of it as the broker's book."""
    booked = [entry.body["order_ref"] for entry in story.ledger.all("paper.order", "A")][len(HELD) :]
    theirs = sorted(run(story.broker.fills(after(60)))[len(HELD) :], key=lambda fill: fill.exec_id)
    ours = sorted(
        (Fill.model_validate(entry.body) for entry in story.ledger.all("fill")), key=lambda fill: fill.exec_id
    )

    assert [intent.order_ref for intent in intents] == booked
    assert theirs == ours
    assert ALL_FILLED == story.states(intents)
    assert CASH == run(story.broker.account(after(60))).cash["USD"]
    assert [] == story.ledger.faults()


def test_an_undisturbed_submission_fills_every_order(story: Story) -> None:
    intents = story.committed()
    story.submitted(story.broker, intents)

    assert_each_order_was_booked_once(story, intents)
    assert "completed" == story.ended(intents)
    assert () == unresolved(story.ledger, "A", "paper")


def test_all_intents_are_durable_before_the_first_order_leaves(story: Story) -> None:
    seen: list[tuple[int, dict[str, str]]] = []

    async def look() -> None:
        another = Story(ledger_at(story.ledger.path), story.market, story.broker)
        found = committed(another.ledger, PLAN)
        seen.append((len(found), another.states(found)))

    intents = story.committed()
    story.submitted(Interrupted(story.broker, look), intents)

    assert [(5, dict.fromkeys(SENT, "intended") | {"OLD": "sent"})] == seen


SLOWLY = Pace(timedelta(seconds=2), Decimal("0.5"))
"""All of an order has filled after four seconds."""

IN_TIME = mandate(submission={"submit_window": "20s"})


def killed(path: Path, place: str, when: str) -> int:
    """Commit and submit in a process of its own, which is killed at the order of that number; return how it ended."""
    return subprocess.run([sys.executable, __file__, str(path), place, when], check=False, timeout=120).returncode


def main(path: str, place: str, when: str) -> None:
    """Be that process."""
    if when == "waiting":
        story = story_at(Path(path), SLOWLY)
        story.submitted(story.broker, story.committed(), IN_TIME, Clock(killed_at=int(place)))
    story = story_at(Path(path))
    story.submitted(DiesAt(story.broker, int(place), when), story.committed())


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("place", ["1", "2", "3", "4", "5"])
def test_a_process_that_is_killed_while_sending_is_finished_by_another(tmp_path: Path, place: str, when: str) -> None:
    path = tmp_path / "ledger.db"

    assert -signal.SIGKILL == killed(path, place, when)

    story = story_at(path)
    intents = committed(story.ledger, PLAN)
    booked = [entry.body["order"]["symbol"] for entry in story.ledger.all("paper.order", "A")][len(HELD) :]
    assert SENT[: int(place) - (when == "before")] == booked
    second = Through(story.broker)
    story.submitted(second, intents)

    assert SENT[int(place) - (when == "before") :] == second.asked_for
    assert_each_order_was_booked_once(story, intents)
    assert "completed" == story.ended(intents)


def test_a_process_that_is_killed_while_sending_and_not_retried_is_settled_by_the_next_run(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    killed(path, "3", "after")
    story = story_at(path)
    intents = committed(story.ledger, PLAN)

    assert dict.fromkeys(SENT, "intended") | {"OLD": "filled", "BIG": "filled", "NEW": "sent"} == story.states(intents)
    assert [] == story.settled(story.broker)
    expected = {"OLD": "filled", "BIG": "filled", "NEW": "filled", "FEW": "dead", "LOW": "dead"}
    assert expected == story.states(intents)
    assert "never reached the broker; its run is over" == story.said(intents, "LOW")
    late = Through(story.broker)
    story.submitted(late, intents)  # the run is retried after all
    assert [] == late.asked_for
    assert "partial" == story.ended(intents)


def test_sells_go_first_and_buys_in_the_order_of_the_proposal(story: Story) -> None:
    broker = Through(story.broker)
    story.submitted(broker, story.committed())

    assert SENT == broker.asked_for


@pytest.mark.parametrize(
    ("cash", "shares"),
    [
        ("12004", ["200", "100", "400"]),  # 4,000 three times, and commissions of 1, 1 and 2
        ("12003.99", ["200", "100", "399"]),
        ("8103", ["200", "100", "10"]),
        ("8102.99", ["200", "100", "0"]),  # 9 shares would be below the minimum trade of 100
        ("4001", ["200", "0", "0"]),
        ("4000.99", ["199", "0", "0"]),
        ("0", ["0", "0", "0"]),
        ("-500", ["0", "0", "0"]),
    ],
)
def test_buys_are_cut_to_the_cash_that_is_there(story: Story, cash: str, shares: list[str]) -> None:
    intents = story.committed()
    story.submitted(HasLess(story.broker, cash=Decimal(cash)), intents)

    assert shares == [str(progress(story.ledger, intent).quantity) for intent in intents if intent.side == "buy"]
    unsent = [symbol for symbol, count in zip(SENT[2:], shares, strict=True) if count == "0"]
    assert unsent == [symbol for symbol, state in story.states(intents).items() if state == "dead"]
    told = {story.said(intents, symbol) for symbol in unsent}
    assert told <= {"not sent: the cash that is there does not pay for it"}
    assert ("completed" if cash == "12004" else "partial") == story.ended(intents)


def test_a_small_buy_that_the_cash_pays_for_whole_is_sent_though_below_the_minimum(story: Story) -> None:
    rules = mandate(min_trade=5000)
    intents = story.committed()
    story.submitted(story.broker, intents, rules)

    assert ALL_FILLED == story.states(intents)


def test_fractions_of_shares_are_cut_to_what_can_be_traded(story: Story) -> None:
    intents = story.committed()
    story.submitted(HasLess(story.broker, cash=Decimal("8123.4567")), intents, mandate(fractional=True))

    assert Decimal("12.0456") == progress(story.ledger, intents[-1]).quantity


def test_cash_that_a_working_buy_may_still_take_is_not_there(story: Story) -> None:
    intents = story.committed()
    run(story.broker.place("by hand", Order(symbol="LOW", side="buy", quantity=Decimal(300), limit=Decimal(9)), NOW))
    story.submitted(HasLess(story.broker, cash=Decimal(12_000)), intents)

    assert Decimal(129) == progress(story.ledger, intents[-1]).quantity


@pytest.mark.parametrize(("less", "shares"), [(0, [200, 100, 400]), (1, [200, 100, 399]), (3990, [200, 100, 0])])
def test_the_buffer_stays_though_less_has_come_in_and_pays_the_commissions(
    story: Story, less: int, shares: list[int]
) -> None:
    """Of 4,998 and 9,000 from sells, 12,000 is for buys: a buffer of 1,799.82 and 198.18 to be raised stay."""
    rules = mandate(policy=MANDATE["policy"] | {"cash_buffer": "0.09"}, raise_cash="198.18")
    intents = commit(story.ledger, PLAN, story.inspection(rules), rules, "paper", NOW)
    there = Decimal(4_998 + 9_000 - 2 - less)
    story.submitted(HasLess(story.broker, cash=there), intents, rules)

    assert shares == [progress(story.ledger, intent).quantity for intent in intents if intent.side == "buy"]


def test_settled_cash_is_what_counts_if_the_mandate_says_so(story: Story) -> None:
    rules = mandate(limits=MANDATE["limits"] | {"cash_basis": "settled"})
    intents = story.committed()
    story.submitted(HasLess(story.broker, settled_cash=Decimal(4105)), intents, rules)

    assert [200, 0, 10] == [progress(story.ledger, intent).quantity for intent in intents if intent.side == "buy"]


def test_a_revision_is_bound_to_one_proposal(story: Story) -> None:
    first = story.committed()
    pin = story.ledger.pin()

    assert first == story.committed()
    assert pin == story.ledger.pin()
    other = story.inspection(orders=(order("OLD", "sell", 59),))
    with pytest.raises(StalePlan, match="plan p1 revision 1 has submitted another proposal: new sizing needs a new"):
        commit(story.ledger, PLAN, other, mandate(), "paper", NOW)
    assert first == committed(story.ledger, PLAN)
    second = PLAN.model_copy(update={"revision": 2})
    assert 1 == len(commit(story.ledger, second, other, mandate(), "paper", NOW))
    assert first == committed(story.ledger, PLAN)


@pytest.mark.parametrize("symbol", SENT)
@pytest.mark.parametrize("booked", [True, False])
def test_after_a_lost_answer_nothing_more_is_sent_until_the_next_run_has_asked(
    story: Story, symbol: str, *, booked: bool
) -> None:
    intents, broker = story.committed(), LosesTheAnswer(story.broker, symbol, booked=booked)
    place = SENT.index(symbol)

    with pytest.raises(BrokerUnavailable):
        story.submitted(broker, intents)

    states = story.states(intents)
    assert SENT[: place + 1] == broker.asked_for
    assert ("unknown", "no answer within 10 s") == (states[symbol], story.said(intents, symbol))
    assert {"intended"} >= {states[later] for later in SENT[place + 1 :]}
    assert "partial" == story.ended(intents)
    assert [] == story.settled(broker)
    expected = (
        dict.fromkeys(SENT, "dead") | dict.fromkeys(SENT[:place], "filled") | ({symbol: "filled"} if booked else {})
    )
    assert expected == story.states(intents)
    assert () == unresolved(story.ledger, "A", "paper")


@pytest.mark.parametrize("booked", [True, False])
def test_after_a_lost_answer_a_retry_of_the_run_finishes_it(story: Story, *, booked: bool) -> None:
    intents = story.committed()
    with pytest.raises(BrokerUnavailable):
        story.submitted(LosesTheAnswer(story.broker, "NEW", booked=booked), intents)
    retry = Through(story.broker)
    story.submitted(retry, intents)

    assert (SENT[3:] if booked else SENT[2:]) == retry.asked_for
    assert_each_order_was_booked_once(story, intents)


def test_an_order_that_comes_in_after_it_was_given_up_is_seen_by_the_next_run(story: Story) -> None:
    intents, broker = story.committed(), LosesTheAnswer(story.broker, "NEW", booked=False)
    with pytest.raises(BrokerUnavailable):
        story.submitted(broker, intents)
    story.settled(broker)

    assert "dead" == story.states(intents)["NEW"]
    run(broker.arrive())
    assert [] == story.settled(broker)
    assert {"NEW": "filled", "FEW": "dead"}.items() <= story.states(intents).items()
    assert len(run(story.broker.fills(NOW))) - len(HELD) == len(story.ledger.all("fill"))


def test_a_broker_that_cannot_be_asked_moves_nothing(story: Story) -> None:
    intents = story.committed()
    with pytest.raises(BrokerUnavailable):
        story.submitted(LosesTheAnswer(story.broker, "NEW", booked=True), intents)
    pin, mute = story.ledger.pin(), Mute(story.broker)

    for ask in (story.settled, lambda broker: story.submitted(broker, intents)):
        with pytest.raises(BrokerUnavailable):
            ask(mute)
    assert (pin, []) == (story.ledger.pin(), mute.asked_for)


def test_where_report_and_executions_disagree_nothing_is_proved_and_the_next_run_is_blocked(story: Story) -> None:
    intents, broker = story.committed(), TellsNoExecutions(story.broker)
    story.submitted(broker, intents)

    assert dict.fromkeys(SENT, "unknown") == story.states(intents)
    assert "the broker says 60 filled, its executions add up to 0" == story.said(intents, "OLD")
    assert "partial" == story.ended(intents)
    assert SENT == story.settled(broker)
    assert [] == story.settled(story.broker)  # once it tells
    assert_each_order_was_booked_once(story, intents)


def test_an_order_that_fills_while_the_broker_is_being_asked_is_no_disagreement(story: Story) -> None:
    intents = story.committed()
    story.submitted(FillsBetweenTwoAnswers(story.broker), intents)

    assert_each_order_was_booked_once(story, intents)
    assert not any("unknown" == entry.body["state"] for entry in story.ledger.all("order"))


def test_executions_that_the_broker_has_forgotten_overnight_still_count(story: Story) -> None:
    intents = story.committed()
    story.submitted(story.broker, intents)
    pin = story.ledger.pin()
    run(reconcile(story.ledger, TellsNoExecutions(story.broker), intents, NOW + timedelta(days=1)))

    assert (ALL_FILLED, pin) == (story.states(intents), story.ledger.pin())


def test_an_order_of_which_only_executions_are_told_is_done_by_them(story: Story) -> None:
    intents, broker = story.committed(), TellsExecutionsOnly(story.broker)
    story.submitted(broker, intents)
    story.submitted(broker, intents)

    assert SENT == broker.asked_for
    assert_each_order_was_booked_once(story, intents)


def test_an_order_the_broker_once_told_of_is_never_sent_again_and_never_taken_for_nothing(story: Story) -> None:
    intents = story.committed()
    story.market.prices["OLD"] = Decimal(99)  # its sell will work at 100
    story.submitted(story.broker, intents, mandate(submission=LEAVE))
    silent = TellsNothing(story.broker)

    assert "working" == story.states(intents)["OLD"]
    story.submitted(silent, intents)
    assert [] == silent.asked_for
    assert ["OLD"] == story.settled(silent)
    assert "the broker no longer tells of it; 0 of 60 are known to have filled" == story.said(intents, "OLD")
    assert {"NEW": "filled", "OLD": "unknown"}.items() <= story.states(intents).items()


def test_a_refused_order_is_dead_with_its_reason_and_the_run_is_not_completed(story: Story) -> None:
    intents = story.committed()
    story.market.prices["FEW"] = Decimal("NaN")
    story.submitted(story.broker, intents)

    assert ALL_FILLED | {"FEW": "dead"} == story.states(intents)
    assert "FEW: no usable quote" in story.said(intents, "FEW")
    assert "partial" == story.ended(intents)
    again = Through(story.broker)
    story.market.prices["FEW"] = Decimal(40)
    story.submitted(again, intents)
    assert [] == again.asked_for


def test_a_run_whose_orders_were_all_refused_has_failed(story: Story) -> None:
    intents = story.committed()
    story.market.prices = dict.fromkeys(PRICES, Decimal("NaN"))
    story.submitted(story.broker, intents)
    story.market.prices = Market().prices

    assert dict.fromkeys(SENT, "dead") == story.states(intents)
    assert "failed" == story.ended(intents)


def test_what_does_not_fill_is_ended_with_the_window_and_the_run_is_partial(story: Story) -> None:
    intents = story.committed()
    story.market.prices["LOW"] = Decimal(11)
    story.submitted(story.broker, intents)

    assert ALL_FILLED | {"LOW": "dead"} == story.states(intents)
    assert "cancelled" == story.said(intents, "LOW")
    assert "partial" == story.ended(intents)


def test_what_does_not_fill_is_left_working_if_the_mandate_says_so(story: Story) -> None:
    intents = story.committed()
    story.market.prices["LOW"] = Decimal(11)
    story.submitted(story.broker, intents, mandate(submission=LEAVE))

    assert ALL_FILLED | {"LOW": "working"} == story.states(intents)
    assert "partial" == story.ended(intents)
    assert ["LOW"] == [intent.symbol for intent in unresolved(story.ledger, "A", "paper")]
    assert [] == story.settled(story.broker)  # known to work, so it does not block


def test_where_all_fills_at_once_nobody_waits(story: Story) -> None:
    clock = story.submitted(story.broker, story.committed())

    assert [] == clock.waits


def test_sells_that_fill_late_pay_for_the_buys(tmp_path: Path) -> None:
    story = story_at(tmp_path / "ledger.db", SLOWLY)
    intents = story.committed()
    clock = story.submitted(story.broker, intents, IN_TIME)

    assert_each_order_was_booked_once(story, intents)
    booked = [entry.body["at"] for entry in story.ledger.all("paper.order", "A")][len(HELD) :]
    assert [NOW] * 2 + [after(4)] * 3 == [datetime.fromisoformat(moment) for moment in booked]
    assert ([1] * 8, after(8)) == (clock.waits, clock.at)
    assert "completed" == story.ended(intents)


def test_what_has_filled_in_part_by_the_end_of_the_window_is_partly_filled_and_the_run_partial(tmp_path: Path) -> None:
    story = story_at(tmp_path / "ledger.db", Pace(timedelta(seconds=4), Decimal("0.5")))
    intents = story.committed()
    clock = story.submitted(story.broker, intents, mandate(submission={"submit_window": "10s"}))

    # After 5 s, half the window, buys share the money of half the sells; another 5 s is too short for all of them.
    assert {"OLD": "filled", "BIG": "filled", "NEW": "partly_filled", "FEW": "partly_filled"}.items() <= (
        story.states(intents).items()
    )
    at = [progress(story.ledger, intent) for intent in intents]
    assert [(60, 60), (60, 60), (200, 100), (100, 50), (149, 75)] == [(each.quantity, each.filled) for each in at]
    assert "cancelled" == story.said(intents, "LOW")
    assert after(10) == clock.at
    assert "partial" == story.ended(intents)
    assert () == unresolved(story.ledger, "A", "paper")
    assert [60, 60, 100, 50, 75] == [line.filled for line in submitted_lines(story.ledger, intents)]


def test_nothing_leaves_once_the_approval_has_lapsed(story: Story) -> None:
    intents, said = story.committed(), list[str]()
    late = Clock(after(1))

    assert not story.sent_by(intents, story.broker, mandate(), late, until=NOW, tell=said.append)
    assert dict.fromkeys(SENT, "intended") == story.states(intents)
    assert ["submit: the verdict expired at 2026-03-02T15:05:00Z; it is 2026-03-02T15:05:01Z"] == said
    assert story.sent_by(intents, story.broker, mandate(), late, until=after(1))
    assert ALL_FILLED == story.states(intents)


def test_buys_that_wait_for_their_sells_need_an_approval_that_still_holds(story: Story) -> None:
    intents = story.committed()
    story.market.prices["OLD"] = Decimal(99)  # its sell works until half the window is over

    assert not story.sent_by(intents, story.broker, mandate(), Clock(), until=after(1))
    assert {"OLD": "working", "BIG": "filled"} | dict.fromkeys(SENT[2:], "intended") == story.states(intents)


def test_nothing_leaves_once_another_process_has_the_account(story: Story) -> None:
    intents = story.committed()
    take(story.ledger, "A", "another run", wall())

    with pytest.raises(LeaseTaken, match="account A was taken over from run the run"):
        run(submit(story.ledger, story.broker, intents, mandate(), PERMIT, Clock().now))
    assert dict.fromkeys(SENT, "intended") == story.states(intents)


def test_a_lapsed_approval_is_given_anew_where_every_rule_still_holds(tmp_path: Path) -> None:
    story = story_at(tmp_path / "ledger.db", Pace(timedelta(seconds=1.5)))
    rules = mandate(freshness={"quotes": "1s"}, submission={"submit_window": "10s"})
    intents, said = story.committed(), list[str]()
    seen = seen_through(story, intents, rules, Clock(), said)

    assert seen.passes, said
    assert "submit: the gate looked again: approved" in said
    assert ALL_FILLED == story.states(intents)


def test_what_the_gate_refuses_when_it_looks_again_is_not_sent(story: Story) -> None:
    rules = mandate(freshness={"quotes": "1s"})
    intents, clock, said = story.committed(), Clock(), list[str]()
    story.market.prices["OLD"] = Decimal(99)

    def dearer() -> None:
        story.market.prices["NEW"] = Decimal(21)

    seen = seen_through(story, intents, rules, clock, said, dearer)

    assert not seen.passes
    assert any("submit: the gate looked again: refused, " in line for line in said)
    assert {"BIG": "filled"} | dict.fromkeys(SENT[2:], "dead") == {
        s: w for s, w in story.states(intents).items() if s != "OLD"
    }
    assert "not sent: the gate refused it when it looked again" == story.said(intents, "NEW")
    assert "stale" == ending(seen, submitted_lines(story.ledger, intents), dry_run=False)[0]


def test_what_has_filled_in_part_works_on_if_the_mandate_says_so(tmp_path: Path) -> None:
    story = story_at(tmp_path / "ledger.db", Pace(timedelta(seconds=4), Decimal("0.5")))
    intents = story.committed()
    story.submitted(story.broker, intents, mandate(submission={"submit_window": "10s", "at_window_end": "leave"}))

    assert ("working", 75) == ((last := progress(story.ledger, intents[-1])).state, last.filled)
    assert "partial" == story.ended(intents)
    run(settle_earlier(story.ledger, story.broker, "A", "paper", after(13)))
    assert ALL_FILLED == story.states(intents)


def test_buys_do_not_wait_for_sells_longer_than_half_the_window(story: Story) -> None:
    intents = story.committed()
    story.market.prices["OLD"] = Decimal(99)  # its sell will work at 100
    clock = story.submitted(story.broker, intents)

    sent = {entry.body["order"]["symbol"]: entry.body["at"] for entry in story.ledger.all("paper.order", "A")}
    assert [NOW, after(2)] == [datetime.fromisoformat(sent[symbol]) for symbol in ("BIG", "NEW")]
    assert after(4) == clock.at
    assert {"OLD": "dead", "BIG": "filled", "NEW": "filled"}.items() <= story.states(intents).items()


def test_it_is_told_what_is_waited_for(story: Story) -> None:
    intents, clock, said = story.committed(), Clock(), list[str]()
    story.market.prices["OLD"] = Decimal(99)
    story.sent_by(intents, story.broker, mandate(), clock, tell=said.append)

    assert [f"submit: orders still open: 1; waiting for them until 15:05:0{second} UTC" for second in (2, 4)] == said


@pytest.mark.parametrize("wait", ["1", "3", "5", "7"])
@pytest.mark.parametrize("gone", [0, 3])
def test_a_process_that_is_killed_while_waiting_is_continued_by_another(tmp_path: Path, wait: str, gone: int) -> None:
    path = tmp_path / "ledger.db"

    assert -signal.SIGKILL == killed(path, wait, "waiting")

    story = story_at(path, SLOWLY)
    intents, clock = committed(story.ledger, PLAN), Clock(after(int(wait) - 1 + gone))
    inspection = rest_of(story, intents, rules=IN_TIME, clock=clock)
    story.submitted(second := Through(story.broker), intents, IN_TIME, clock)

    assert (SENT[2:] if int(wait) <= 4 else []) == second.asked_for
    assert inspection.passes
    assert_each_order_was_booked_once(story, intents)
    assert 1 == len(story.ledger.all("window"))
    assert "completed" == ending(inspection, submitted_lines(story.ledger, intents), dry_run=False)[0]


def test_a_retry_goes_on_within_the_window_that_the_first_order_has_opened(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    killed(path, "2", "waiting")
    story = story_at(path, SLOWLY)
    intents, clock = committed(story.ledger, PLAN), Clock(after(8))
    story.submitted(story.broker, intents, mandate(submission={"submit_window": "11s"}), clock)

    assert ("filled", "partly_filled") == (story.states(intents)["OLD"], story.states(intents)["LOW"])
    assert after(11) == clock.at


def test_a_retry_after_the_window_ends_what_works_and_sends_nothing_more(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    killed(path, "3", "waiting")
    story = story_at(path, Pace(timedelta(hours=1)))
    intents, clock, late = committed(story.ledger, PLAN), Clock(after(60)), Through(story.broker)
    story.submitted(late, intents, IN_TIME, clock)

    assert ([], after(60)) == (late.asked_for, clock.at)
    assert {"OLD": "filled", "BIG": "filled", **dict.fromkeys(SENT[2:], "dead")} == story.states(intents)
    assert "not sent: the submission window ended at 2026-03-02T15:05:20Z" == story.said(intents, "NEW")
    assert "partial" == story.ended(intents)


def test_a_broker_that_falls_silent_while_orders_work_is_asked_again(tmp_path: Path) -> None:
    story = story_at(tmp_path / "ledger.db", SLOWLY)
    intents, broker = story.committed(), SilentFor(story.broker, range(4, 7))
    story.submitted(broker, intents, IN_TIME)

    assert broker.asked > 6
    assert_each_order_was_booked_once(story, intents)


def test_a_broker_that_stays_silent_until_the_window_ends_leaves_its_orders_to_the_next_run(tmp_path: Path) -> None:
    story, clock = story_at(tmp_path / "ledger.db", SLOWLY), Clock()
    intents, broker = story.committed(), SilentFor(story.broker, range(9, 1000))

    with pytest.raises(BrokerUnavailable):
        story.submitted(broker, intents, IN_TIME, clock)
    assert after(20) == clock.at
    assert "working" == story.states(intents)["LOW"]
    run(settle_earlier(story.ledger, story.broker, "A", "paper", after(60)))
    assert_each_order_was_booked_once(story, intents)


def test_a_cancel_that_takes_its_time_is_seen_to_its_end(story: Story) -> None:
    intents = story.committed()
    story.market.prices["LOW"] = Decimal(11)
    clock = story.submitted(CancelsLater(story.broker), intents)

    assert ("dead", after(7)) == (story.states(intents)["LOW"], clock.at)


def test_a_newer_revision_stops_a_submission_that_is_under_way(story: Story) -> None:
    intents = story.committed()

    async def replace() -> None:
        story.ledger.append("plan", {"id": "p1", "revision": 2}, key="p1/2", subject="p1")

    broker = Interrupted(story.broker, replace)
    story.submitted(broker, intents)

    assert SENT[:1] == broker.asked_for
    assert dict.fromkeys(SENT, "dead") | {"OLD": "filled"} == story.states(intents)
    assert "not sent: revision 2 of plan p1 has replaced revision 1" == story.said(intents, "LOW")


def test_asking_twice_changes_nothing(story: Story) -> None:
    intents = story.committed()
    story.market.prices["LOW"], story.market.prices["FEW"] = Decimal(11), Decimal("NaN")
    story.submitted(story.broker, intents, mandate(submission=LEAVE))
    pin = story.ledger.pin()
    for _ in range(2):
        assert () == run(reconcile(story.ledger, story.broker, intents, NOW))

    assert pin == story.ledger.pin()


def test_submitting_twice_changes_nothing(story: Story) -> None:
    intents, broker = story.committed(), Through(story.broker)
    story.submitted(broker, intents)
    pin = story.ledger.pin()
    story.submitted(broker, intents)

    assert (pin, SENT) == (story.ledger.pin(), broker.asked_for)


def test_the_kill_switch_stops_a_submission_that_is_under_way(story: Story) -> None:
    intents = story.committed()

    async def throw_the_switch() -> None:
        halt(story.ledger, "a strange fill")

    broker = Interrupted(story.broker, throw_the_switch)
    story.submitted(broker, intents)

    assert SENT[:1] == broker.asked_for
    assert dict.fromkeys(SENT, "dead") | {"OLD": "filled"} == story.states(intents)
    assert "not sent: halted: a strange fill" == story.said(intents, "LOW")
    assert "partial" == story.ended(intents)


def test_a_process_that_was_long_asleep_does_not_send_what_others_have_given_up(story: Story) -> None:
    intents = story.committed()
    asleep = Interrupted(story.broker, lambda: settle_earlier(story.ledger, story.broker, "A", "paper", NOW))
    story.submitted(asleep, intents)

    assert SENT[:1] == asleep.asked_for
    assert dict.fromkeys(SENT, "dead") | {"OLD": "filled"} == story.states(intents)


def test_a_process_that_was_long_asleep_does_not_send_what_another_has_sent(story: Story) -> None:
    intents = story.committed()
    asleep = Interrupted(
        story.broker, lambda: submit(story.ledger, story.broker, intents, mandate(), PERMIT, lambda: NOW)
    )
    story.submitted(asleep, intents)

    assert SENT[:1] == asleep.asked_for
    assert_each_order_was_booked_once(story, intents)


def test_accounts_and_brokers_are_settled_apart(story: Story) -> None:
    story.committed()

    assert () == run(settle_earlier(story.ledger, story.broker, "B", "paper", NOW))
    assert () == run(settle_earlier(story.ledger, story.broker, "A", "ib", NOW))
    assert 5 == len(unresolved(story.ledger, "A", "paper"))


def test_a_reference_is_short_ascii_and_the_same_whenever_it_is_worked_out(story: Story) -> None:
    proposal = story.inspection().proposal
    refs = [order_ref(PLAN, proposal, index) for index in range(5)]

    assert "twa8b51947689856cd94" == refs[0]
    assert all(ref.isascii() and ref.isalnum() and len(ref) == 20 for ref in refs)
    others = [
        order_ref(PLAN.model_copy(update={"id": "p2"}), proposal, 0),
        order_ref(PLAN.model_copy(update={"revision": 2}), proposal, 0),
        order_ref(PLAN, Proposal(orders=proposal.orders[:4]), 0),
    ]
    assert 8 == len({*refs, *others})
    assert {*refs} == {intent.order_ref for intent in story.committed()}


def test_the_order_of_a_proposal_is_part_of_its_references(story: Story) -> None:
    orders = story.inspection().proposal.orders[:2]
    refs = [order_ref(PLAN, Proposal(orders=each), 0) for each in permutations(orders)]

    assert 2 == len(set(refs))


@dataclass(frozen=True)
class QuotesOf:
    """The market of a desk, at the same prices as the broker's."""

    market: Market
    store: MarketStore

    async def quotes(self, symbols: tuple[str, ...], now: datetime) -> RecordedQuotes:
        found = await self.market(symbols, now)
        return RecordedQuotes(self.store.put_quotes("test", now, found), now, found)

    async def bars(self, symbols: tuple[str, ...], sessions: int, now: datetime) -> RecordedBars:
        raise NotImplementedError

    def revision(self) -> str:
        return "1"


def rest_of(
    story: Story,
    intents: tuple[Intent, ...],
    broker: Broker | None = None,
    rules: Mandate | None = None,
    clock: Clock | None = None,
) -> Inspection:
    """Inspect, as a retry does, what an earlier attempt has left."""
    clock = clock or Clock()
    desk = desk_of(story, rules or mandate(), clock)
    inspection = run(inspect_rest(desk, broker or story.broker, PLAN, intents, clock.wait))
    assert isinstance(inspection, Inspection)
    return inspection


def seen_through(
    story: Story,
    intents: tuple[Intent, ...],
    rules: Mandate,
    clock: Clock,
    said: list[str],
    meanwhile: Callable[[], None] = lambda: None,
) -> Inspection:
    """See orders through whose approval lapses after a second, while buys wait for a sell that does not fill."""
    story.market.at = clock.now  # from here on quotes are of the moment at which they are asked for
    approved = story.inspection(rules)
    take(story.ledger, "A", "the run", wall())

    def look_again() -> Desk:
        if said:
            meanwhile()
        return desk_of(story, rules, clock)

    found = run(see_through(look_again, story.broker, PLAN, intents, approved, clock.wait, said.append))
    assert isinstance(found, Inspection)
    return found


def desk_of(story: Story, rules: Mandate, clock: Clock) -> Desk:
    store = MarketStore(story.ledger.path.parent, story.ledger)
    door, account = QuotesOf(story.market, store), read_only(story.broker)
    return Desk("the run", rules, "paper", Catalog({}), story.ledger, store, door, account, clock.now)


def half_done(story: Story) -> tuple[Intent, ...]:
    """Commit to five orders and send the first two and a third, of which no answer comes and nothing arrives."""
    intents = story.committed()
    with pytest.raises(BrokerUnavailable):
        story.submitted(LosesTheAnswer(story.broker, "NEW", booked=False), intents)
    return intents


def test_a_retry_judges_exactly_the_orders_that_are_left(story: Story) -> None:
    intents = half_done(story)
    inspection = rest_of(story, intents)

    assert SENT[2:] == [order.symbol for order in inspection.proposal.orders]
    assert (True, ()) == (inspection.passes, inspection.stale)
    assert [fill.exec_id for fill in run(story.broker.fills(NOW))[len(HELD) :]] == list(inspection.counted)
    story.submitted(story.broker, intents)
    assert_each_order_was_booked_once(story, intents)
    state, message = ending(inspection, submitted_lines(story.ledger, intents), dry_run=False)
    assert ("completed", "5 orders filled, 21,000.00 USD traded") == (state, message)


def test_a_retry_that_finds_all_filled_has_completed_whatever_the_gate_would_say(story: Story) -> None:
    intents = story.committed()
    story.submitted(story.broker, intents)
    story.market.prices["NEW"] = Decimal("NaN")
    halt(story.ledger, "to see")
    inspection = rest_of(story, intents)

    assert ((), False) == (inspection.proposal.orders, inspection.passes)
    state, message = ending(inspection, submitted_lines(story.ledger, intents), dry_run=False)
    assert ("completed", "5 orders filled, 21,000.00 USD traded") == (state, message)


def test_a_retry_does_not_take_up_what_was_refused_or_had_no_cash(story: Story) -> None:
    intents = story.committed()
    story.market.prices["FEW"] = Decimal("NaN")
    story.submitted(HasLess(story.broker, cash=Decimal(8000)), intents)
    story.market.prices["FEW"] = Decimal(40)

    assert ("dead", "dead") == (story.states(intents)["FEW"], story.states(intents)["LOW"])
    assert () == rest_of(story, intents).proposal.orders


def test_a_retry_whose_orders_the_gate_no_longer_allows_ends_stale_and_they_are_never_sent(story: Story) -> None:
    intents = half_done(story)
    story.market.prices["NEW"] = Decimal(21)
    inspection = rest_of(story, intents)

    assert not inspection.passes
    state, message = ending(inspection, submitted_lines(story.ledger, intents), dry_run=False)
    assert "stale" == state
    assert "the gate no longer allows the 3 orders that are still unsent" in message
    assert {"OLD": "filled", "BIG": "filled", **dict.fromkeys(SENT[2:], "dead")} == story.states(intents)
    assert () == unresolved(story.ledger, "A", "paper")
    later = Through(story.broker)
    story.market.prices["NEW"] = Decimal(20)
    story.submitted(later, intents)
    assert [] == later.asked_for


def test_a_retry_while_everything_is_halted_ends_rejected(story: Story) -> None:
    intents = half_done(story)
    halt(story.ledger, "to see")
    inspection = rest_of(story, intents)

    assert not inspection.passes
    state, message = ending(inspection, submitted_lines(story.ledger, intents), dry_run=False)
    assert "rejected" == state
    assert "halted: to see" in message


def test_giving_up_touches_nothing_that_the_broker_has(story: Story) -> None:
    intents = story.committed()
    story.market.prices["LOW"] = Decimal(11)
    story.submitted(story.broker, intents, mandate(submission=LEAVE))
    pin = story.ledger.pin()
    withdraw(story.ledger, intents, "to see")

    assert pin == story.ledger.pin()


if __name__ == "__main__":
    main(*sys.argv[1:])
