"""What is special to the paper broker: its grid, slippage, day and pace, and the quotes it does not trade against."""

import asyncio
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blocks.brokers.commission import fixed_commission
from blocks.brokers.paper import PaperBroker
from blocks.brokers.paper_fills import Pace
from blocks.brokers.paper_rules import trade_price
from blocks.brokers.port import Fill, Order, OrderReport
from blocks.errors import BrokerUnavailable, LedgerError, MarketError, OrderRefused, UnusableInput
from blocks.ledger import Ledger
from blocks.market.quotes import Quote
from tests.examples import examples

NOW = datetime(2026, 3, 2, 15, 5, tzinfo=UTC)
GOOD = Quote(symbol="SPY", bid=Decimal("499.98"), ask=Decimal("500.02"), at=NOW, currency="USD")
LATE = Pace(timedelta(seconds=2))
IN_PARTS = Pace(timedelta(seconds=2), Decimal("0.4"))


class Market:
    """Quotes that a test can change while the broker trades against them."""

    def __init__(self, *quotes: Quote) -> None:
        self.quotes = quotes

    async def __call__(self, symbols: tuple[str, ...], now: datetime) -> tuple[Quote, ...]:  # noqa: ARG002
        return tuple(quote for quote in self.quotes if quote.symbol in symbols)


def ledger_in(folder: Path) -> Ledger:
    return Ledger(folder / "ledger.db", lambda: datetime.now(UTC))


@pytest.fixture
def open_paper(tmp_path: Path) -> Callable[..., PaperBroker]:
    ledger = ledger_in(tmp_path)

    def opened(*quotes: Quote, account: str = "DU1", currency: str = "USD", **rules: Any) -> PaperBroker:
        return PaperBroker(ledger, account, currency, Market(*(quotes or (GOOD,))), **rules)

    return opened


def placed(
    broker: PaperBroker, side: str, quantity: str, limit: str, ref: str = "ref-1", *, now: datetime = NOW
) -> OrderReport:
    """Place an order and return what the broker reports of it."""
    order = Order(symbol="SPY", side=side, quantity=Decimal(quantity), limit=Decimal(limit))

    async def story() -> OrderReport:
        await broker.place(ref, order, now)
        return (await broker.reports((ref,), now))[ref]

    return asyncio.run(story())


def fills(broker: PaperBroker) -> tuple[Fill, ...]:
    return asyncio.run(broker.fills(NOW))


def like_good(**changes: Any) -> Quote:
    return Quote.model_validate({**GOOD.model_dump(), **changes})


@pytest.mark.parametrize(
    ("side", "bid", "ask", "tick", "slippage_bps", "price"),
    [
        ("buy", "98.123", "98.127", "0.01", "0", "98.12"),  # an ask comes down to the tick
        ("sell", "98.123", "98.127", "0.01", "0", "98.13"),  # a bid goes up to it
        ("buy", "98.12", "98.13", "0.01", "0", "98.13"),
        ("buy", "98.12", "98.13", "0.05", "0", "98.10"),
        ("sell", "98.12", "98.13", "0.05", "0", "98.15"),
        ("buy", "99.99", "100.00", "0.01", "10", "100.10"),
        ("buy", "99.99", "100.00", "0.01", "1.5", "100.02"),  # 100.015: up, against the buyer
        ("sell", "100.00", "100.01", "0.01", "10", "99.90"),
        ("sell", "100.00", "100.01", "0.01", "1.5", "99.98"),  # 99.985: down, against the seller
        ("sell", "100.00", "100.01", "0.01", "10000", "0"),
    ],
)
def test_the_price_is_the_far_side_on_the_tick_moved_against_us(
    *, side: Any, bid: str, ask: str, tick: str, slippage_bps: str, price: str
) -> None:
    quote = Quote(symbol="SPY", bid=Decimal(bid), ask=Decimal(ask), tick=Decimal(tick))

    assert trade_price(quote, side, Decimal(slippage_bps)) == Decimal(price)


def test_a_limit_beyond_the_far_side_fills_at_the_far_side(open_paper: Callable[..., PaperBroker]) -> None:
    broker = open_paper()
    placed(broker, "buy", "10", "501.00", "ref-1")
    placed(broker, "sell", "10", "499.00", "ref-2")

    assert [fill.price for fill in fills(broker)] == [Decimal("500.02"), Decimal("499.98")]


def test_a_sample_close_of_three_decimals_fills_at_the_limit_that_draft_would_give(
    open_paper: Callable[..., PaperBroker],
) -> None:
    broker = open_paper(like_good(bid="498.127", ask="498.127"))

    assert placed(broker, "buy", "10", "498.12", "ref-1").state == "filled"
    assert placed(broker, "sell", "10", "498.13", "ref-2").state == "filled"


def test_slippage_past_the_limit_leaves_the_order_working(open_paper: Callable[..., PaperBroker]) -> None:
    broker = open_paper(slippage_bps=Decimal(1))

    assert placed(broker, "buy", "10", "500.02", "ref-1").state == "working"
    assert placed(broker, "buy", "10", "500.08", "ref-2").state == "filled"  # 500.070002, up to the tick
    assert placed(broker, "sell", "5", "499.98", "ref-3").state == "working"
    assert placed(broker, "sell", "5", "499.93", "ref-4").state == "filled"
    assert [fill.price for fill in fills(broker)] == [Decimal("500.08"), Decimal("499.93")]


def test_a_working_order_expires_with_its_day(open_paper: Callable[..., PaperBroker]) -> None:
    broker = open_paper()
    placed(broker, "buy", "10", "499.00")
    last, first = NOW.replace(hour=23, minute=59), NOW.replace(hour=0, minute=0) + timedelta(days=1)
    before = asyncio.run(broker.reports(("ref-1",), last))["ref-1"]
    after = asyncio.run(broker.reports(("ref-1",), first))["ref-1"]

    assert (before.state, before.reason) == ("working", "")
    assert (after.state, after.reason, after.filled) == ("dead", "expired", 0)
    assert len(asyncio.run(broker.open_orders(last))) == 1
    assert asyncio.run(broker.open_orders(first)) == ()


def test_the_day_is_counted_in_utc(open_paper: Callable[..., PaperBroker]) -> None:
    broker = open_paper()
    placed(broker, "buy", "10", "499.00")
    tomorrow_in_tokyo = datetime.fromisoformat("2026-03-03T08:00:00+09:00")

    assert len(asyncio.run(broker.open_orders(tomorrow_in_tokyo))) == 1


def test_an_expired_order_gives_back_what_it_promised_and_stays_dead(open_paper: Callable[..., PaperBroker]) -> None:
    tomorrow = NOW + timedelta(days=1)
    placed(open_paper(), "buy", "200", "499.00", "ref-1")
    broker = open_paper(like_good(at=tomorrow))
    filled = placed(broker, "buy", "199", "500.02", "ref-2", now=tomorrow)
    again = placed(broker, "buy", "200", "499.00", "ref-1", now=tomorrow)
    asyncio.run(broker.cancel("ref-1", now=tomorrow))

    assert filled.state == "filled"
    assert (again.state, again.reason) == ("dead", "expired")
    assert asyncio.run(broker.reports(("ref-1",), tomorrow))["ref-1"] == again


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"symbol": "AGG"}, "no usable quote"),
        ({"bid": None}, "bid missing"),
        ({"ask": None}, "ask missing"),
        ({"bid": "NaN"}, "bid NaN"),
        ({"ask": "NaN"}, "ask NaN"),
        ({"ask": "Infinity"}, "ask Infinity"),
        ({"bid": "-1", "ask": "-1"}, "bid -1"),
        ({"bid": "0"}, "bid 0"),
        ({"bid": "500.03"}, "bid 500.03, ask 500.02"),
        ({"bid": "0.003", "ask": "0.004"}, "tick of 0.01"),
        ({"tick": "0"}, "tick of 0"),
        ({"tick": "NaN"}, "tick of NaN"),
        ({"tick": "1e-20"}, "tick of"),
        ({"delayed": True}, "delayed"),
        ({"currency": "EUR"}, "EUR.*USD"),
        ({"at": None}, "when"),
        ({"at": NOW - timedelta(minutes=15, microseconds=1)}, "at most 15m"),
        ({"at": NOW + timedelta(microseconds=1)}, "at most 15m"),
    ],
)
@pytest.mark.parametrize("side", ["buy", "sell"])
def test_no_order_trades_against_an_unusable_quote(
    open_paper: Callable[..., PaperBroker], changes: dict[str, Any], reason: str, side: str
) -> None:
    placed(open_paper(), "buy", "10", "500.02", "held")
    broker = open_paper(like_good(**changes))
    for _ in range(2):
        with pytest.raises(OrderRefused, match=f"SPY: .*{reason}"):
            placed(broker, side, "1", "500.00")

    assert len(fills(broker)) == 1


@pytest.mark.parametrize("changes", [{"currency": None}, {"at": NOW - timedelta(minutes=15)}, {"bid": "500.02"}])
def test_a_quote_at_the_edge_is_traded_against(open_paper: Callable[..., PaperBroker], changes: dict[str, Any]) -> None:
    assert placed(open_paper(like_good(**changes)), "buy", "1", "500.02").state == "filled"


def test_a_market_that_does_not_answer_leaves_no_order_behind(tmp_path: Path) -> None:
    async def silent(symbols: tuple[str, ...], now: datetime) -> tuple[Quote, ...]:
        raise MarketError("the store is empty")

    broker = PaperBroker(ledger_in(tmp_path), "DU1", "USD", silent)
    with pytest.raises(BrokerUnavailable, match="the store is empty"):
        placed(broker, "buy", "1", "500.02")

    assert asyncio.run(broker.reports(("ref-1",), NOW)) == {}


@pytest.mark.parametrize("reference", ["", "x" * 201])
def test_a_reference_has_one_to_two_hundred_characters(open_paper: Callable[..., PaperBroker], reference: str) -> None:
    with pytest.raises(OrderRefused, match=f"this one {len(reference)}"):
        placed(open_paper(), "buy", "1", "500.02", reference)


def test_an_account_keeps_the_cash_it_was_opened_with(open_paper: Callable[..., PaperBroker]) -> None:
    open_paper(opening_cash=Decimal("5000.50"))
    state = asyncio.run(open_paper(opening_cash=Decimal(9)).account(NOW))

    assert state.cash == {"USD": Decimal("5000.50")}


def test_an_account_is_not_reopened_in_another_currency(open_paper: Callable[..., PaperBroker]) -> None:
    open_paper()
    with pytest.raises(LedgerError, match="USD, not in EUR"):
        open_paper(currency="EUR")


def test_accounts_of_one_ledger_do_not_touch_each_other(open_paper: Callable[..., PaperBroker]) -> None:
    outer, inner = open_paper(account="A"), open_paper(account="A/B")
    placed(outer, "buy", "1", "500.02", "B/ref")
    placed(inner, "buy", "2", "500.02", "ref")
    placed(outer, "buy", "3", "500.02", "ref")

    assert [fill.quantity for fill in fills(outer)] == [1, 3]
    assert [fill.quantity for fill in fills(inner)] == [2]


@pytest.mark.parametrize(
    "rules",
    [{"opening_cash": Decimal(-1)}, {"opening_cash": Decimal("NaN")}, {"slippage_bps": Decimal(-1)}],
)
def test_senseless_rules_are_refused(open_paper: Callable[..., PaperBroker], rules: dict[str, Decimal]) -> None:
    with pytest.raises(UnusableInput):
        open_paper(**rules)


def test_commission_can_be_another_plan(open_paper: Callable[..., PaperBroker]) -> None:
    broker = open_paper(commission=lambda *_: Decimal(0))
    placed(broker, "buy", "1", "500.02")

    assert asyncio.run(broker.account(NOW)).cash == {"USD": Decimal("99499.98")}


def test_what_the_exchange_books_is_a_whole_chain(tmp_path: Path) -> None:
    ledger = ledger_in(tmp_path)
    broker = PaperBroker(ledger, "DU1", "USD", Market(GOOD))
    placed(broker, "buy", "1", "500.02")

    assert ledger.faults() == []
    assert ledger.all("intent") == ledger.all("order") == ledger.all("fill") == []


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def reported(broker: PaperBroker, seconds: float, ref: str = "ref-1") -> tuple[str, Decimal, str]:
    """Return state, shares filled and reason of an order so many seconds after it was placed."""
    found = asyncio.run(broker.reports((ref,), after(seconds)))[ref]
    return found.state, found.filled, found.reason


def test_an_order_works_for_the_latency_and_then_fills_at_the_price_there_was(tmp_path: Path) -> None:
    market = Market(GOOD)
    broker = PaperBroker(ledger_in(tmp_path), "DU1", "USD", market, pace=LATE)
    placed(broker, "buy", "10", "500.02")
    market.quotes = (like_good(bid="600", ask="600"),)

    assert ("working", 0, "") == reported(broker, 1.999999)
    assert ("filled", 10, "") == reported(broker, 2)
    (fill,) = fills(broker)
    assert (Decimal("500.02"), after(2), Decimal("1.00")) == (fill.price, fill.at, fill.commission)


def test_only_what_has_filled_counts_and_the_rest_works_on(open_paper: Callable[..., PaperBroker]) -> None:
    broker = open_paper(pace=IN_PARTS)
    placed(broker, "buy", "10", "500.02")
    seen = []
    for seconds in (0, 2, 3.9, 4):
        account = asyncio.run(broker.account(after(seconds)))
        working = [(order.filled, order.remaining) for order in asyncio.run(broker.open_orders(after(seconds)))]
        seen.append((account.cash["USD"], account.held().get("SPY", 0), working))

    assert [
        (100_000, 0, [(0, 10)]),
        (Decimal("97998.92"), 4, [(4, 6)]),
        (Decimal("97998.92"), 4, [(4, 6)]),
        (Decimal("94998.80"), 10, []),
    ] == seen
    assert ("filled", 10, "") == reported(broker, 4)
    assert [after(2), after(4)] == [fill.at for fill in fills(broker)]


def test_parts_pay_the_commission_of_the_whole_and_have_executions_of_their_own(
    open_paper: Callable[..., PaperBroker],
) -> None:
    broker = open_paper(like_good(bid="1", ask="1"), pace=Pace(first_fill=Decimal("0.1")))
    placed(broker, "buy", "1000", "1.00")
    first, rest = fills(broker)

    assert (1, 4) == (first.commission, rest.commission)
    assert first.exec_id != rest.exec_id
    assert NOW == first.at == rest.at  # no latency: both at once


@pytest.mark.parametrize(
    ("quantity", "first_fill", "parts"),
    [
        ("10", "0.25", ["3", "7"]),
        ("10", "0.3", ["3", "7"]),
        ("1", "0.5", ["1"]),
        ("2", "0.99", ["2"]),
        ("2", "0.0001", ["1", "1"]),
        ("10.0", "0.25", ["3", "7"]),
        ("1.5", "0.25", ["0.375", "1.125"]),
        ("0.0003", "0.5", ["0.0002", "0.0001"]),
        ("0.0001", "0.5", ["0.0001"]),
        ("10", "1", ["10"]),
    ],
)
def test_a_part_is_of_whole_shares_unless_the_order_is_of_a_fraction(
    open_paper: Callable[..., PaperBroker], quantity: str, first_fill: str, parts: list[str]
) -> None:
    broker = open_paper(pace=Pace(first_fill=Decimal(first_fill)))
    placed(broker, "buy", quantity, "500.02")

    assert [Decimal(part) for part in parts] == [fill.quantity for fill in fills(broker)]


@pytest.mark.parametrize(
    ("seconds", "ended"),
    [(1, ("dead", 0, "cancelled")), (2, ("partly_filled", 4, "cancelled")), (4, ("filled", 10, ""))],
)
def test_a_cancel_leaves_what_has_filled_by_then_and_ends_the_rest(
    open_paper: Callable[..., PaperBroker], seconds: float, ended: tuple[str, int, str]
) -> None:
    broker = open_paper(pace=IN_PARTS)
    placed(broker, "buy", "10", "500.02")
    asyncio.run(broker.cancel("ref-1", after(seconds)))

    assert ended == reported(broker, seconds) == reported(broker, 3600) == reported(broker, 100_000)
    assert () == asyncio.run(broker.open_orders(after(seconds)))
    assert {"SPY": ended[1]} == {"SPY": 0} | asyncio.run(broker.account(after(3600))).held()


def test_what_is_due_is_booked_once_whoever_asks_and_changes_the_revision(tmp_path: Path) -> None:
    ledger = ledger_in(tmp_path)
    broker, at_once = (PaperBroker(ledger, "DU1", "USD", Market(GOOD), pace=pace) for pace in (IN_PARTS, Pace()))
    placed(broker, "buy", "10", "500.02")
    marks = [asyncio.run(broker.revision())]
    for seconds in (1, 2, 3, 4, 5):
        states = [asyncio.run(one.account(after(seconds))) for one in (at_once, broker)]
        assert states[0] == states[1]
        marks.append(asyncio.run(broker.revision()))

    assert [0, 0, 1, 1, 2, 2] == [sorted(set(marks), key=int).index(mark) for mark in marks]
    assert 2 == len(ledger.all("paper.fill"))
    assert [] == ledger.faults()


def test_many_who_ask_at_the_same_moment_book_once(tmp_path: Path) -> None:
    placed(PaperBroker(ledger_in(tmp_path), "DU1", "USD", Market(GOOD), pace=IN_PARTS), "buy", "10", "500.02")
    brokers = [PaperBroker(ledger_in(tmp_path), "DU1", "USD", Market(GOOD)) for _ in range(4)]
    with ThreadPoolExecutor(4) as threads:
        states = list(threads.map(lambda broker: asyncio.run(broker.account(after(9))), brokers))

    assert [states[0]] * 4 == states
    assert [4, 6] == [fill.quantity for fill in fills(brokers[0])]


def test_an_execution_that_would_come_after_the_day_does_not_come(open_paper: Callable[..., PaperBroker]) -> None:
    evening = NOW.replace(hour=23, minute=59, second=57)
    broker = open_paper(like_good(at=evening), pace=IN_PARTS)
    placed(broker, "buy", "10", "500.02", now=evening)
    report = asyncio.run(broker.reports(("ref-1",), evening + timedelta(days=3)))["ref-1"]

    assert ("partly_filled", 4, "expired") == (report.state, report.filled, report.reason)
    assert [evening + timedelta(seconds=2)] == [fill.at for fill in fills(broker)]


def test_what_a_partly_filled_order_may_still_take_is_kept_for_it(open_paper: Callable[..., PaperBroker]) -> None:
    broker = open_paper(pace=IN_PARTS, opening_cash=Decimal("10001.40"))
    placed(broker, "buy", "10", "500.02", "first")  # 4 fill for 2,000.08 and 1.00, 6 may still cost 3,000.12
    with pytest.raises(OrderRefused, match=r"cash 8000\.32, of which working buys take 3000\.12"):
        placed(broker, "buy", "10", "500.02", "too much", now=after(2))
    placed(broker, "buy", "9", "500.02", "second", now=after(2))
    with pytest.raises(OrderRefused, match="holding 4, of which working sells take 0"):
        placed(broker, "sell", "5", "499.98", "not there yet", now=after(3))
    placed(broker, "sell", "19", "499.98", "third", now=after(9))
    with pytest.raises(OrderRefused, match="selling 12, holding 11, of which working sells take 11"):
        placed(broker, "sell", "12", "499.98", "sold already", now=after(11))

    assert {} == asyncio.run(broker.account(after(60))).held()


def test_without_a_pace_the_ledger_reads_as_it_always_did(tmp_path: Path) -> None:
    ledger = ledger_in(tmp_path)
    placed(PaperBroker(ledger, "DU1", "USD", Market(GOOD)), "buy", "10", "501.00")
    written = [(kind, *ledger.all(kind)) for kind in ("paper.account", "paper.fill", "paper.order")]

    assert [
        ("paper.account", 1, "DU1", {"cash": "100000", "currency": "USD"}),
        (
            "paper.fill",
            2,
            "paper-09c0bc9bf1e6fbe7413c",
            {
                "at": "2026-03-02T15:05:00Z",
                "commission": "1",
                "exec_id": "paper-09c0bc9bf1e6fbe7413c",
                "order_ref": "ref-1",
                "price": "500.02",
                "quantity": "10",
                "side": "buy",
                "symbol": "SPY",
            },
        ),
        (
            "paper.order",
            3,
            "DU1/ref-1",
            {
                "at": "2026-03-02T15:05:00Z",
                "order": {"limit": "501", "quantity": "10", "side": "buy", "symbol": "SPY"},
                "order_ref": "ref-1",
                "refusal": "",
            },
        ),
    ] == [(kind, entry.seq, entry.key, entry.body) for kind, entry in written]


@pytest.mark.parametrize("pace", [(-1, "1"), (0, "0"), (0, "1.1"), (0, "NaN")])
def test_a_senseless_pace_is_refused(pace: tuple[int, str]) -> None:
    with pytest.raises(UnusableInput, match="should be"):
        Pace(timedelta(seconds=pace[0]), Decimal(pace[1]))


_prices = st.integers(1, 60_000).map(lambda thousandths: Decimal(thousandths) / 1000)
_acts = st.lists(
    st.fixed_dictionaries(
        {
            "act": st.sampled_from(["place", "place", "place", "place", "cancel", "wait", "look", "next day"]),
            "ref": st.integers(0, 12).map(str),
            "symbol": st.sampled_from(["AAA", "BBB"]),
            "side": st.sampled_from(["buy", "sell"]),
            "quantity": st.decimals(0, 400, places=4) | st.integers(0, 400).map(Decimal),
            "limit": st.integers(0, 6_500).map(lambda cents: Decimal(cents) / 100),
            "bid": _prices,
            "spread": st.integers(0, 30).map(lambda thousandths: Decimal(thousandths) / 1000),
            "seconds": st.integers(1, 90),
        }
    ),
    max_size=25,
)
_paces = st.builds(
    Pace,
    st.sampled_from([0, 1, 30, 40_000]).map(lambda seconds: timedelta(seconds=seconds)),
    st.integers(1, 20).map(lambda twentieths: Decimal(twentieths) / 20),
)


async def _lived(broker: PaperBroker, other: PaperBroker, market: Market, acts: list[dict[str, Any]]) -> datetime:
    """Let a random life happen to an account that two objects share; return the moment it ended."""
    now = NOW
    for act, turn in zip(acts, count()):
        at_work = (broker, other)[turn % 3 == 0]
        if act["act"] == "next day":
            now += timedelta(days=1)
        elif act["act"] == "wait":
            now += timedelta(seconds=act["seconds"])
        elif act["act"] == "look":
            await at_work.open_orders(now)
        elif act["act"] == "cancel":
            await at_work.cancel(act["ref"], now)
        else:
            ask = act["bid"] + act["spread"]
            market.quotes = (Quote(symbol=act["symbol"], bid=act["bid"], ask=ask, at=now),)
            order = Order(**{name: act[name] for name in ("symbol", "side", "quantity", "limit")})
            try:
                await at_work.place(act["ref"], order, now)
            except (OrderRefused, LedgerError):
                continue
    return now


def _agrees(report: OrderReport, fills: list[Fill], *, works: bool) -> bool:
    """Tell whether a report says of an order what its executions say, and whether it is among the working."""
    whole = 0 < report.filled == report.quantity
    ended = "filled" if whole else "partly_filled" if report.filled else "dead"
    in_whole_shares = report.quantity % 1 or all(fill.quantity % 1 == 0 for fill in fills)
    total = sum((fill.commission for fill in fills), Decimal(0))
    one_plan = not fills or total == fixed_commission(report.filled, fills[0].price)
    added_up = sum((fill.quantity for fill in fills), Decimal(0)) == report.filled
    return bool(report.state == ("working" if works else ended) and in_whole_shares and one_plan and added_up)


@examples(60)
@given(acts=_acts, slippage=st.integers(0, 50).map(Decimal), opening=st.integers(0, 20_000).map(Decimal), pace=_paces)
def test_after_any_life_the_account_is_what_its_fills_say(
    acts: list[dict[str, Any]], slippage: Decimal, opening: Decimal, pace: Pace
) -> None:
    market, refs = Market(), tuple(map(str, range(13)))
    with tempfile.TemporaryDirectory() as folder:
        ledger = ledger_in(Path(folder))
        broker, other, fresh = (
            PaperBroker(ledger, "DU1", "USD", market, opening_cash=opening, slippage_bps=slippage, pace=each)
            for each in (pace, pace, Pace())
        )
        now = asyncio.run(_lived(broker, other, market, acts))
        states = [asyncio.run(one.account(now)) for one in (broker, other, fresh)]
        orders = [asyncio.run(one.open_orders(now)) for one in (broker, other, fresh)]
        reports = [asyncio.run(one.reports(refs, now)) for one in (broker, other, fresh)]
        done = asyncio.run(fresh.fills(now))
        ledger.close()

    money, shares = opening, {"AAA": Decimal(0), "BBB": Decimal(0)}
    for fill in done:
        sign = 1 if fill.side == "buy" else -1
        shares[fill.symbol] += sign * fill.quantity
        money -= sign * fill.quantity * fill.price + fill.commission
        assert money >= 0
        assert min(shares.values()) >= 0
    assert states[0] == states[1] == states[2]
    assert orders[0] == orders[1] == orders[2]
    assert reports[0] == reports[1] == reports[2]
    assert states[0].cash == {"USD": money}
    assert states[0].held() == {symbol: quantity for symbol, quantity in shares.items() if quantity}
    assert len({fill.exec_id for fill in done}) == len(done)
    assert all(fill.at <= now for fill in done)
    working = {order.order_ref: order.filled for order in orders[0]}
    assert working == {ref: report.filled for ref, report in reports[0].items() if report.state == "working"}
    for ref, report in reports[0].items():
        assert _agrees(report, [fill for fill in done if fill.order_ref == ref], works=ref in working)
