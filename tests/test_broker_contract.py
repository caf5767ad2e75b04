"""What every broker adapter has to do, whoever is behind it; `desk` is parametrised over the adapters."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Protocol

import pytest

from blocks.brokers.doors import read_only
from blocks.brokers.paper import PaperBroker
from blocks.brokers.paper_fills import Pace
from blocks.brokers.port import AccountState, Broker, Fill, Order, OrderReport, WorkingOrder
from blocks.errors import LedgerError, OrderRefused
from blocks.ledger import Ledger
from blocks.market.quotes import Quote

NOW = datetime(2026, 3, 2, 15, 5, tzinfo=UTC)
ROOT = Path(__file__).parents[1]
CASH = Decimal(100_000)

PLACE_ON_PAPER = """
import asyncio, sys
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from blocks.brokers.paper import PaperBroker
from blocks.brokers.paper_fills import Pace
from blocks.brokers.port import Order
from blocks.errors import OrderRefused
from blocks.ledger import Ledger
from blocks.market.quotes import Quote

path, seconds, first_fill, now, ref, symbol, side, quantity, limit, bid, ask = sys.argv[1:]
now = datetime.fromisoformat(now)

async def quotes(symbols, now):
    return (Quote(symbol=symbol, bid=Decimal(bid), ask=Decimal(ask), at=now, currency="USD"),)

pace = Pace(timedelta(seconds=int(seconds)), Decimal(first_fill))
broker = PaperBroker(Ledger(Path(path), lambda: datetime.now(UTC)), "DU1", "USD", quotes, pace=pace)
order = Order(symbol=symbol, side=side, quantity=Decimal(quantity), limit=Decimal(limit))
print("ready", flush=True)
sys.stdin.readline()
try:
    asyncio.run(broker.place(ref, order, now))
    print("placed")
except OrderRefused as refusal:
    print("refused", refusal)
"""


class Desk(Protocol):
    """One adapter with an account of 100,000 USD, and the market it trades against."""

    def broker(self) -> AbstractAsyncContextManager[Broker]:
        """Return a new adapter object over the same account."""
        ...

    def quote(self, symbol: str, bid: str, ask: str) -> None:
        """Let the market quote a symbol, as of NOW."""
        ...

    def elsewhere(self, order_ref: str, order: Order) -> list[str]:
        """Return a command that says ready, waits for a line, places the order, and says placed or refused."""
        ...


class PaperDesk:
    """The paper broker on a real ledger file."""

    pace = Pace()

    def __init__(self, folder: Path) -> None:
        self.path = folder / "ledger.db"
        self.market: dict[str, Quote] = {}

    @asynccontextmanager
    async def broker(self) -> AsyncIterator[Broker]:
        ledger = Ledger(self.path, lambda: datetime.now(UTC))
        yield PaperBroker(ledger, "DU1", "USD", self._quotes, pace=self.pace)
        ledger.close()

    def quote(self, symbol: str, bid: str, ask: str) -> None:
        self.market[symbol] = Quote(symbol=symbol, bid=Decimal(bid), ask=Decimal(ask), at=NOW, currency="USD")

    def elsewhere(self, order_ref: str, order: Order) -> list[str]:
        quote = self.market[order.symbol]
        figures = (order.symbol, order.side, order.quantity, order.limit, quote.bid, quote.ask)
        pace = (str(int(self.pace.latency.total_seconds())), str(self.pace.first_fill))
        where = (str(self.path), *pace, NOW.isoformat(), order_ref)
        return [sys.executable, "-c", PLACE_ON_PAPER, *where, *(str(figure) for figure in figures)]

    async def _quotes(self, symbols: tuple[str, ...], now: datetime) -> tuple[Quote, ...]:  # noqa: ARG002
        await asyncio.sleep(0)  # a market takes its time: meanwhile others may place
        return tuple(self.market[symbol] for symbol in symbols if symbol in self.market)


class LateDesk(PaperDesk):
    """The paper broker where orders fill late and in parts, asked only once what was placed before has filled."""

    pace = Pace(timedelta(seconds=1), Decimal("0.4"))
    gone_by = timedelta(0)

    @asynccontextmanager
    async def broker(self) -> AsyncIterator[Broker]:
        async with super().broker() as broker:
            yield Later(broker, self)

    def later(self, now: datetime) -> datetime:
        """Return the moment at which all that was placed up to now has filled."""
        self.gone_by += 2 * self.pace.latency
        return now + self.gone_by


class Later:
    """A broker to whom every question and every order comes a little later than the one before."""

    def __init__(self, inner: Broker, desk: LateDesk) -> None:
        self.inner, self.desk = inner, desk

    async def place(self, order_ref: str, order: Order, now: datetime) -> None:
        await self.inner.place(order_ref, order, self.desk.later(now))

    async def cancel(self, order_ref: str, now: datetime) -> None:
        await self.inner.cancel(order_ref, self.desk.later(now))

    async def reports(self, order_refs: tuple[str, ...], now: datetime) -> dict[str, OrderReport]:
        return await self.inner.reports(order_refs, self.desk.later(now))

    async def fills(self, now: datetime) -> tuple[Fill, ...]:
        return await self.inner.fills(self.desk.later(now))

    async def account(self, now: datetime) -> AccountState:
        state = await self.inner.account(self.desk.later(now))
        return state.model_copy(update={"as_of": now})

    async def open_orders(self, now: datetime) -> tuple[WorkingOrder, ...]:
        return await self.inner.open_orders(self.desk.later(now))

    async def revision(self) -> str:
        return await self.inner.revision()


@pytest.fixture(params=[PaperDesk, LateDesk], ids=["paper", "paper-late-and-in-parts"])
def desk(request: pytest.FixtureRequest, tmp_path: Path) -> Desk:
    made: Desk = request.param(tmp_path)
    made.quote("SPY", "499.98", "500.02")
    return made


def told(desk: Desk, story: Callable[[Broker], Coroutine[Any, Any, None]]) -> None:
    """Let a story happen at an adapter of the desk."""

    async def tell() -> None:
        async with desk.broker() as broker:
            await story(broker)

    asyncio.run(tell())


def buy(quantity: str, limit: str = "500.02", symbol: str = "SPY") -> Order:
    return Order(symbol=symbol, side="buy", quantity=Decimal(quantity), limit=Decimal(limit))


def sell(quantity: str, limit: str = "499.98", symbol: str = "SPY") -> Order:
    return Order(symbol=symbol, side="sell", quantity=Decimal(quantity), limit=Decimal(limit))


async def cash(broker: Broker) -> Decimal:
    return (await broker.account(NOW)).cash["USD"]


async def held(broker: Broker) -> dict[str, Decimal]:
    return (await broker.account(NOW)).held()


async def executed(broker: Broker) -> dict[str, Decimal]:
    """Return order reference -> shares that its executions add up to, in the order of the first."""
    shares: dict[str, Decimal] = {}
    for fill in await broker.fills(NOW):
        shares[fill.order_ref] = shares.get(fill.order_ref, Decimal(0)) + fill.quantity
    return shares


async def report(broker: Broker, order_ref: str) -> OrderReport | None:
    return (await broker.reports((order_ref,), NOW)).get(order_ref)


def test_an_account_begins_with_its_cash_and_nothing_else(desk: Desk) -> None:
    async def story(broker: Broker) -> None:
        account = await broker.account(NOW)

        assert (account.id, account.as_of, account.positions) == ("DU1", NOW, ())
        assert {"USD": CASH} == account.cash == account.settled_cash
        assert await broker.fills(NOW) == ()
        assert await broker.open_orders(NOW) == ()

    told(desk, story)


def test_placing_twice_buys_once(desk: Desk) -> None:
    async def story(broker: Broker) -> None:
        await broker.place("ref-1", buy("10"), NOW)
        await broker.place("ref-1", buy("10.0"), NOW)

        assert await held(broker) == {"SPY": Decimal(10)}
        assert await executed(broker) == {"ref-1": Decimal(10)}

    told(desk, story)


def test_placing_twice_at_once_buys_once(desk: Desk) -> None:
    async def story(broker: Broker) -> None:
        moments = [NOW + timedelta(seconds=second) for second in range(3)]
        await asyncio.gather(*(broker.place("ref-1", buy("10"), moment) for moment in moments))

        assert await held(broker) == {"SPY": Decimal(10)}
        assert await executed(broker) == {"ref-1": Decimal(10)}

    told(desk, story)


def test_placing_again_changes_nothing_even_when_the_market_is_gone(desk: Desk) -> None:
    async def story(broker: Broker) -> None:
        await broker.place("ref-1", buy("10"), NOW)
        await broker.place("ref-2", buy("10", limit="400.00"), NOW)
        await broker.cancel("ref-2", NOW)
        desk.quote("SPY", "NaN", "NaN")
        await broker.place("ref-1", buy("10"), NOW)
        await broker.place("ref-2", buy("10", limit="400.00"), NOW)

        assert await held(broker) == {"SPY": Decimal(10)}
        assert await broker.open_orders(NOW) == ()

    told(desk, story)


def test_a_reference_cannot_be_used_for_another_order(desk: Desk) -> None:
    async def story(broker: Broker) -> None:
        await broker.place("ref-1", buy("10"), NOW)
        for other in (buy("11"), buy("10", limit="500.03"), sell("10"), buy("10", symbol="AGG")):
            with pytest.raises((LedgerError, OrderRefused)):
                await broker.place("ref-1", other, NOW)

        assert await held(broker) == {"SPY": Decimal(10)}
        assert (found := await report(broker, "ref-1")) is not None
        assert found.state == "filled"

    told(desk, story)


def test_a_sell_beyond_what_is_held_is_refused(desk: Desk) -> None:
    async def story(broker: Broker) -> None:
        await broker.place("ref-1", buy("10"), NOW)
        with pytest.raises(OrderRefused, match=r"11.*10"):
            await broker.place("ref-2", sell("11"), NOW)
        await broker.place("ref-3", sell("10"), NOW)

        assert await held(broker) == {}

    told(desk, story)


def test_what_working_sells_may_take_cannot_be_sold_again(desk: Desk) -> None:
    async def story(broker: Broker) -> None:
        await broker.place("ref-1", buy("10"), NOW)
        await broker.place("ref-2", sell("7", limit="600.00"), NOW)
        with pytest.raises(OrderRefused, match=r"4.*10.*7"):
            await broker.place("ref-3", sell("4"), NOW)
        await broker.place("ref-4", sell("3"), NOW)
        await broker.cancel("ref-2", NOW)
        await broker.place("ref-5", sell("7"), NOW)

        assert await held(broker) == {}

    told(desk, story)


def test_working_sells_of_one_symbol_leave_another_free(desk: Desk) -> None:
    desk.quote("AGG", "98.10", "98.12")

    async def story(broker: Broker) -> None:
        await broker.place("ref-1", buy("10"), NOW)
        await broker.place("ref-2", buy("10", limit="98.12", symbol="AGG"), NOW)
        await broker.place("ref-3", sell("10", limit="600.00"), NOW)
        await broker.place("ref-4", sell("10", limit="98.10", symbol="AGG"), NOW)

        assert await held(broker) == {"SPY": Decimal(10)}

    told(desk, story)


def test_a_working_buy_cannot_be_sold(desk: Desk) -> None:
    async def story(broker: Broker) -> None:
        await broker.place("ref-1", buy("10", limit="400.00"), NOW)
        with pytest.raises(OrderRefused, match="holding 0"):
            await broker.place("ref-2", sell("1"), NOW)

    told(desk, story)


def test_a_buy_beyond_cash_is_refused_and_one_that_takes_all_of_it_is_not(desk: Desk) -> None:
    desk.quote("BIG", "99998.00", "99999.00")

    async def story(broker: Broker) -> None:
        with pytest.raises(OrderRefused, match=r"100005\.00.*100000\.00"):
            await broker.place("ref-1", buy("200", limit="500.02"), NOW)
        with pytest.raises(OrderRefused, match=r"100000\.01"):  # at its limit, wherever it might have filled
            await broker.place("ref-2", buy("1", limit="99999.01", symbol="BIG"), NOW)
        await broker.place("ref-3", buy("1", limit="99999.00", symbol="BIG"), NOW)

        assert await cash(broker) == 0

    told(desk, story)


def test_what_working_buys_promise_cannot_be_spent_again(desk: Desk) -> None:
    async def story(broker: Broker) -> None:
        await broker.place("ref-1", buy("200", limit="499.00"), NOW)
        with pytest.raises(OrderRefused, match=r"99801\.00"):
            await broker.place("ref-2", buy("1"), NOW)
        await broker.cancel("ref-1", NOW)
        await broker.place("ref-3", buy("1"), NOW)

        assert await held(broker) == {"SPY": Decimal(1)}

    told(desk, story)


def test_open_orders_are_told(desk: Desk) -> None:
    async def story(broker: Broker) -> None:
        await broker.place("ref-1", buy("5", limit="499.00"), NOW)
        await broker.place("ref-2", buy("5"), NOW)

        (order,) = await broker.open_orders(NOW)
        assert (order.order_ref, order.symbol, order.side) == ("ref-1", "SPY", "buy")
        assert (order.quantity, order.filled, order.limit) == (5, 0, Decimal("499.00"))
        assert (found := await report(broker, "ref-1")) is not None
        assert (found.state, found.filled) == ("working", 0)

    told(desk, story)


def test_fills_add_up_to_positions_and_cash(desk: Desk) -> None:
    desk.quote("AGG", "98.10", "98.12")

    async def story(broker: Broker) -> None:
        await broker.place("ref-1", buy("30"), NOW)
        await broker.place("ref-2", buy("100", limit="98.12", symbol="AGG"), NOW)
        await broker.place("ref-3", sell("12"), NOW)
        fills = await broker.fills(NOW)
        shares = {"SPY": Decimal(0), "AGG": Decimal(0)}
        money = CASH
        for fill in fills:
            sign = 1 if fill.side == "buy" else -1
            shares[fill.symbol] += sign * fill.quantity
            money -= sign * fill.quantity * fill.price + fill.commission

        assert list((await executed(broker)).items()) == [("ref-1", 30), ("ref-2", 100), ("ref-3", 12)]
        assert len({fill.exec_id for fill in fills}) == len(fills)
        assert await held(broker) == shares == {"SPY": Decimal(18), "AGG": Decimal(100)}
        assert await cash(broker) == money

    told(desk, story)


@pytest.mark.parametrize(
    ("quantity", "price", "commission"),
    [
        ("1", "100.00", "1.00"),  # the minimum
        ("100", "100.00", "1.00"),
        ("200", "100.00", "1.00"),
        ("201", "100.00", "1.01"),  # 1.005, half up
        ("1000", "50.00", "5.00"),
        ("1", "50.00", "0.50"),  # 1 % wins over the minimum
        ("10000", "0.05", "5.00"),  # a penny stock: 50.00 by the share, 5.00 by the cap
        ("0.5", "60.00", "0.30"),
    ],
)
def test_commission_is_per_share_with_a_minimum_and_a_cap(
    desk: Desk, quantity: str, price: str, commission: str
) -> None:
    desk.quote("ODD", price, price)

    async def story(broker: Broker) -> None:
        await broker.place("ref-1", buy(quantity, limit=price, symbol="ODD"), NOW)
        fills = await broker.fills(NOW)

        assert sum(fill.commission for fill in fills) == Decimal(commission)
        assert await cash(broker) == CASH - Decimal(quantity) * Decimal(price) - Decimal(commission)

    told(desk, story)


def test_a_refusal_is_remembered(desk: Desk) -> None:
    async def story(broker: Broker) -> None:
        with pytest.raises(OrderRefused) as first:
            await broker.place("ref-1", sell("5"), NOW)
        await broker.place("ref-2", buy("5"), NOW)  # now it could be sold
        with pytest.raises(OrderRefused) as again:
            await broker.place("ref-1", sell("5"), NOW)
        found = await report(broker, "ref-1")

        assert str(first.value) == str(again.value)
        assert found is not None
        assert (found.state, found.filled, found.reason) == ("dead", 0, str(first.value))
        assert await held(broker) == {"SPY": Decimal(5)}

    told(desk, story)


@pytest.mark.parametrize("figure", ["0", "-1", "NaN", "Infinity", "0.00005"])
def test_an_order_without_a_sound_quantity_is_refused(desk: Desk, figure: str) -> None:
    async def story(broker: Broker) -> None:
        for _ in range(2):
            with pytest.raises(OrderRefused, match="quantity"):
                await broker.place("ref-1", buy(figure), NOW)

        assert (found := await report(broker, "ref-1")) is not None
        assert found.state == "dead"

    told(desk, story)


@pytest.mark.parametrize("figure", ["0", "-500", "NaN", "Infinity", "500.025"])
def test_an_order_without_a_sound_limit_is_refused(desk: Desk, figure: str) -> None:
    async def story(broker: Broker) -> None:
        for _ in range(2):
            with pytest.raises(OrderRefused, match="limit"):
                await broker.place("ref-1", buy("1", limit=figure), NOW)

        assert await broker.open_orders(NOW) == ()

    told(desk, story)


def test_a_cancelled_order_is_reported_dead(desk: Desk) -> None:
    async def story(broker: Broker) -> None:
        await broker.place("ref-1", buy("5", limit="499.00"), NOW)
        await broker.cancel("ref-1", NOW)
        await broker.cancel("ref-1", NOW)

        assert (found := await report(broker, "ref-1")) is not None
        assert (found.state, found.filled) == ("dead", 0)
        assert await broker.open_orders(NOW) == ()

    told(desk, story)


def test_cancelling_what_is_not_working_changes_nothing(desk: Desk) -> None:
    async def story(broker: Broker) -> None:
        await broker.place("filled", buy("5"), NOW)
        with pytest.raises(OrderRefused):
            await broker.place("refused", sell("6"), NOW)
        before = await broker.reports(("filled", "refused"), NOW)
        for order_ref in ("filled", "refused", "unknown"):
            await broker.cancel(order_ref, NOW)

        assert await broker.reports(("filled", "refused", "unknown"), NOW) == before
        assert await held(broker) == {"SPY": Decimal(5)}

    told(desk, story)


def test_a_reference_never_placed_is_absent_from_the_reports(desk: Desk) -> None:
    async def story(broker: Broker) -> None:
        await broker.place("ref-1", buy("5"), NOW)

        assert set(await broker.reports(("ref-1", "ref-2"), NOW)) == {"ref-1"}
        assert await broker.reports((), NOW) == {}

    told(desk, story)


def test_another_object_over_the_same_account_tells_the_same(desk: Desk) -> None:
    seen: list[object] = []

    async def look(broker: Broker) -> None:
        state, fills = await broker.account(NOW), await broker.fills(NOW)
        refs = ("filled", "working", "cancelled", "refused")
        orders, reports = await broker.open_orders(NOW), await broker.reports(refs, NOW)
        seen.append((state, fills, orders, reports, await broker.revision()))

    async def trade(broker: Broker) -> None:
        await broker.place("filled", buy("5"), NOW)
        await broker.place("working", buy("5", limit="499.00"), NOW)
        await broker.place("cancelled", buy("5", limit="499.00"), NOW)
        await broker.cancel("cancelled", NOW)
        with pytest.raises(OrderRefused):
            await broker.place("refused", sell("6"), NOW)
        await look(broker)

    told(desk, trade)
    told(desk, look)

    assert seen[0] == seen[1]


def test_two_objects_at_work_on_one_account_see_each_other(desk: Desk) -> None:
    async def story(broker: Broker) -> None:
        async with desk.broker() as other:
            await broker.place("ref-1", buy("5"), NOW)
            await other.place("ref-1", buy("5"), NOW)
            await other.place("ref-2", sell("2"), NOW)
            with pytest.raises(OrderRefused):
                await broker.place("ref-3", sell("4"), NOW)

            assert await held(broker) == await held(other) == {"SPY": Decimal(3)}

    told(desk, story)


async def opened(broker: Broker) -> None:
    """Have the account there before anybody races for it."""
    await broker.account(NOW)


def all_at_once(commands: list[list[str]]) -> list[str]:
    """Run commands that say ready and wait for a line; return what each says after it."""
    pipe = subprocess.PIPE
    processes = [subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=ROOT) for command in commands]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    return [process.communicate(timeout=60)[0].strip() for process in processes]


def test_processes_that_place_one_reference_at_once_buy_once(desk: Desk) -> None:
    told(desk, opened)
    said = all_at_once([desk.elsewhere("ref-1", buy("10"))] * 4)

    async def story(broker: Broker) -> None:
        assert said == ["placed"] * 4
        assert await held(broker) == {"SPY": Decimal(10)}
        assert await executed(broker) == {"ref-1": Decimal(10)}

    told(desk, story)


def test_processes_that_place_at_once_cannot_overdraw_the_account(desk: Desk) -> None:
    told(desk, opened)
    said = all_at_once([desk.elsewhere(f"ref-{number}", buy("120")) for number in range(4)])

    async def story(broker: Broker) -> None:
        assert sorted(answer.split()[0] for answer in said) == ["placed", "refused", "refused", "refused"]
        assert await held(broker) == {"SPY": Decimal(120)}

    told(desk, story)


def test_the_revision_changes_with_the_account_and_only_then(desk: Desk) -> None:
    async def story(broker: Broker) -> None:
        marks = [await broker.revision()]
        await broker.place("ref-1", buy("5"), NOW)
        marks.append(await broker.revision())
        await broker.place("ref-2", buy("5", limit="499.00"), NOW)
        marks.append(await broker.revision())
        await broker.cancel("ref-2", NOW)
        marks.append(await broker.revision())
        await broker.place("ref-1", buy("5"), NOW)
        await broker.cancel("ref-1", NOW)
        await broker.cancel("unknown", NOW)
        await broker.account(NOW)

        assert len(set(marks)) == 4
        assert await broker.revision() == marks[-1]

    told(desk, story)


def test_a_read_only_door_tells_the_same_and_can_do_nothing(desk: Desk) -> None:
    async def story(broker: Broker) -> None:
        await broker.place("ref-1", buy("5"), NOW)
        await broker.place("ref-2", buy("5", limit="499.00"), NOW)
        door = read_only(broker)
        reachable = {name for name in dir(door) if not name.startswith("_")}

        assert reachable == {"account", "open_orders", "revision"}
        assert not any(getattr(door, name, None) is broker for name in dir(door))
        assert all(getattr(door, name).__self__ is door for name in reachable)
        assert await door.account(NOW) == await broker.account(NOW)
        assert await door.open_orders(NOW) == await broker.open_orders(NOW)
        assert await door.revision() == await broker.revision()
        with pytest.raises(AttributeError):
            door.place = broker.place  # type: ignore[attr-defined]

    told(desk, story)
