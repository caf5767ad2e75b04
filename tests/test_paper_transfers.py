"""Transfers at the paper account: what comes in and goes out other than by trading, and never more than is there."""

import asyncio
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from blocks.brokers.paper import PaperBroker
from blocks.brokers.paper_fills import Pace
from blocks.brokers.paper_transfers import transfer
from blocks.brokers.port import AccountState, Order
from blocks.errors import LedgerError, UnusableInput
from blocks.ledger import Ledger
from blocks.market.quotes import Quote

NOW = datetime(2026, 3, 2, 15, 5, tzinfo=UTC)
SLOW = Pace(timedelta(hours=1))


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    opened = Ledger(tmp_path / "ledger.db", lambda: datetime.now(UTC))
    yield opened
    opened.close()


def moved(ledger: Ledger, cash: str = "0", **shares: str) -> None:
    transfer(ledger, "A", "USD", Decimal(cash), {symbol: Decimal(n) for symbol, n in shares.items()}, "why", NOW)


def broker(ledger: Ledger, pace: Pace | None = None) -> PaperBroker:
    async def quotes(symbols: tuple[str, ...], now: datetime) -> tuple[Quote, ...]:
        price = Decimal(10)
        return tuple(Quote(symbol=each, bid=price, ask=price, at=now, previous_close=price) for each in symbols)

    return PaperBroker(ledger, "A", "USD", quotes, pace=pace or Pace())


def account(ledger: Ledger) -> AccountState:
    return asyncio.run(broker(ledger).account(NOW))


def bought(ledger: Ledger, quantity: int, pace: Pace | None = None) -> None:
    order = Order(symbol="KO", side="buy", quantity=Decimal(quantity), limit=Decimal(10))
    asyncio.run(broker(ledger, pace).place(f"tw{quantity}", order, NOW))


def test_an_account_that_is_opened_by_a_transfer_begins_with_nothing_else(ledger: Ledger) -> None:
    moved(ledger, "12000.50", KO="100", JNJ="2.5")

    found = account(ledger)
    assert {"USD": Decimal("12000.50")} == found.cash == found.settled_cash
    assert {"JNJ": Decimal("2.5"), "KO": Decimal(100)} == found.held()


def test_one_that_trades_already_keeps_what_it_has(ledger: Ledger) -> None:
    bought(ledger, 10)
    moved(ledger, "-899", KO="-4")
    moved(ledger, "500")

    found = account(ledger)
    assert {"USD": Decimal(100_000 - 101 - 899 + 500)} == found.cash
    assert {"KO": Decimal(6)} == found.held()


def test_positions_are_gathered_anew_after_it(ledger: Ledger) -> None:
    before = asyncio.run(broker(ledger).revision())
    moved(ledger, "1")

    assert before != asyncio.run(broker(ledger).revision())


@pytest.mark.parametrize(
    ("leaves", "said"),
    [
        (lambda ledger: moved(ledger, "-100.01"), "account A: 100 USD in cash, and no more can be taken out"),
        (lambda ledger: moved(ledger, KO="-5.1"), "account A: 5 KO held, and no more can be taken out"),
        (lambda ledger: moved(ledger, "50", JNJ="-1"), "account A: 0 JNJ held, and no more can be taken out"),
        (
            lambda ledger: transfer(ledger, "A", "EUR", Decimal(1), {}, "", NOW),
            "the paper account A is kept in USD, not in EUR",
        ),
    ],
)
def test_what_is_not_there_cannot_leave_and_nothing_of_it_is_booked(
    ledger: Ledger, leaves: Callable[[Ledger], None], said: str
) -> None:
    moved(ledger, "100", KO="5")
    pin = ledger.pin()
    with pytest.raises(UnusableInput) as refused:
        leaves(ledger)

    assert said == str(refused.value)
    assert pin == ledger.pin()


def test_while_orders_are_at_work_that_count_on_it_nothing_moves(ledger: Ledger) -> None:
    bought(ledger, 10, SLOW)

    with pytest.raises(UnusableInput, match="account A: orders are at work and count on what is there: tw10"):
        moved(ledger, "-1")
    asyncio.run(broker(ledger).cancel("tw10", NOW))
    moved(ledger, "-1")


def test_an_account_that_was_opened_in_another_currency_is_not_traded(ledger: Ledger) -> None:
    transfer(ledger, "A", "EUR", Decimal(1), {}, "", NOW)

    with pytest.raises(LedgerError, match="kept in EUR, not in USD"):
        account(ledger)
