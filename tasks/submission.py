"""Submission: sells first, then buys cut to the cash that is there, each recorded as sent before it is.

Orders have until the end of the submission window to fill. Buys are sent once the sells have ended, so that all of
their money is there, or when half the window is over. What works at its end is cancelled or left, as the mandate says.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from decimal import ROUND_DOWN, Decimal

from blocks.brokers.commission import fixed_commission
from blocks.brokers.doors import at_rest
from blocks.brokers.port import Broker
from blocks.errors import BrokerUnavailable, OrderRefused
from blocks.ledger import Ledger
from blocks.mandate import Mandate
from blocks.values import iso
from tasks.intents import Intent, Progress, dead, move, note, progress, withdraw
from tasks.permit import ApprovalLapsed, Permit
from tasks.reconciliation import reconcile
from tasks.window import Wait, Window, open_window, still_open, until_ended, window_of

_CANCELLING = timedelta(seconds=10)
"""How long a broker is given to confirm that orders have come to their end."""


async def submit(
    ledger: Ledger,
    broker: Broker,
    intents: Sequence[Intent],
    mandate: Mandate,
    permit: Permit,
    now: Callable[[], datetime],
    wait: Wait = asyncio.sleep,
    tell: Callable[[str], None] = lambda _: None,
) -> bool:
    """Place what the broker has not accepted yet, and see all of it through to the end of the submission window.

    Returns False as soon as the approval has lapsed with orders still to be sent: then the gate is to look again.
    Safe to call again at any point: what the broker knows is never sent again, and the window is the same. Raises
    BrokerUnavailable when it cannot be asked; an order whose sending had no answer is left `unknown`, and nothing more
    is sent. Raises LeaseTaken once the account is in another process's hands.
    """

    async def see_through(orders: Sequence[Intent], until: Callable[[Window], datetime]) -> None:
        end = until(window_of(ledger, intents, mandate.submission.submit_window, now()))
        working = still_open(ledger, orders)
        if working and now() < end:
            tell(f"submit: orders still open: {len(working)}; waiting for them until {end:%H:%M:%S} UTC")
        await until_ended(ledger, broker, orders, end, now, wait)

    async def send(orders: Iterable[tuple[Intent, Decimal]]) -> None:
        for intent, quantity in orders:
            await _send(ledger, broker, intent, quantity, permit, now)
        await reconcile(ledger, broker, intents, now())

    unsent = await _still_to_send(ledger, broker, intents, mandate, now())
    sells, buys = ([intent for intent in unsent if intent.side == side] for side in ("sell", "buy"))
    try:
        await send((intent, progress(ledger, intent).quantity) for intent in sells)
        if buys:
            await see_through([intent for intent in intents if intent.side == "sell"], lambda window: window.half)
            cash, kept_back = await _cash_there(broker, mandate, now()), _kept_back(ledger, intents)
            await send(_cut_to_cash(buys, cash, kept_back, ledger, mandate))
    except ApprovalLapsed as lapsed:
        tell(f"submit: {lapsed}")
        return False
    await see_through(intents, lambda window: window.end)
    await _end_working(ledger, broker, intents, mandate, now, wait)
    return True


async def _still_to_send(
    ledger: Ledger, broker: Broker, intents: Sequence[Intent], mandate: Mandate, now: datetime
) -> tuple[Intent, ...]:
    """Return the orders that the broker has not accepted; a retry after the window's end gives them up."""
    unsent = await reconcile(ledger, broker, intents, now)
    window = window_of(ledger, intents, mandate.submission.submit_window, now)
    if now < window.end:
        return unsent
    withdraw(ledger, unsent, f"not sent: the submission window ended at {iso(window.end)}")
    return ()


async def _send(
    ledger: Ledger, broker: Broker, intent: Intent, quantity: Decimal, permit: Permit, now: Callable[[], datetime]
) -> None:
    if not _claimed(ledger, intent, quantity, permit, now()):
        return
    try:
        await broker.place(intent.order_ref, intent.order(quantity), now())
    except OrderRefused as refusal:
        move(ledger, intent, Progress(state="dead", quantity=quantity, message=str(refusal), known=True))
    except BrokerUnavailable as silence:
        move(ledger, intent, Progress(state="unknown", quantity=quantity, message=str(silence)))
        raise


def _claimed(ledger: Ledger, intent: Intent, quantity: Decimal, permit: Permit, now: datetime) -> bool:
    """Record an order as sent before it is; not one that is decided on already, and none that may no longer leave."""
    with ledger.writing() as book:
        before = progress(book, intent)
        if not before.undecided:
            return False
        why = permit.why_not(book, intent, quantity, now)
        if why is None:
            open_window(book, intent, now)
            note(book, intent, Progress(state="sent", quantity=quantity))
            return True
        note(book, intent, dead(before, f"not sent: {why}"))
        return False


async def _cash_there(broker: Broker, mandate: Mandate, now: datetime) -> Decimal:
    state, open_orders = await at_rest(broker, now)
    book = state.settled_cash if mandate.limits.cash_basis == "settled" else state.cash
    promised = sum(
        (order.remaining * order.limit for order in open_orders if order.side == "buy" and order.limit), Decimal(0)
    )
    return book.get(mandate.base_currency, Decimal(0)) - promised


def _kept_back(ledger: Ledger, intents: Sequence[Intent]) -> Decimal:
    """Return what of the cash there is not for buys: what the verdict kept back, less the commissions paid since.

    By DESIGN the buffer is reckoned before commissions: they come out of it, not out of the next buy.
    """
    with ledger.reading() as book:
        bound = [book.get("submission", f"{intent.plan}/{intent.revision}") for intent in intents]
        fills = [entry.body for name in {intent.book for intent in intents} for entry in book.all("fill", name)]
    ours = {intent.order_ref for intent in intents}
    paid = sum((Decimal(fill["commission"]) for fill in fills if fill["order_ref"] in ours), Decimal(0))
    kept = max((Decimal(entry.body.get("kept_back", "0")) for entry in bound if entry), default=Decimal(0))
    return kept - paid


def _cut_to_cash(
    buys: Sequence[Intent], cash: Decimal, kept_back: Decimal, ledger: Ledger, mandate: Mandate
) -> Iterator[tuple[Intent, Decimal]]:
    """Give each buy its shares while the cash lasts; one that would fall below the minimum trade is not sent."""
    grain = Decimal("0.0001") if mandate.fractional else Decimal(1)
    for intent in buys:
        wanted = progress(ledger, intent).quantity
        affordable = max(min(wanted, _shares(cash, kept_back, intent.limit, grain)), Decimal(0))
        enough = affordable == wanted or affordable * intent.limit >= mandate.min_trade
        quantity = affordable if enough else Decimal(0)
        cash -= quantity * intent.limit
        kept_back -= fixed_commission(quantity, intent.limit)
        cash -= fixed_commission(quantity, intent.limit)
        yield intent, quantity


def _shares(cash: Decimal, kept_back: Decimal, limit: Decimal, grain: Decimal) -> Decimal:
    """Return the shares that cash pays for without what is kept back, and with their commission."""
    most = (min(cash - kept_back, cash) / limit).quantize(grain, ROUND_DOWN)
    with_commission = ((cash - fixed_commission(most, limit)) / limit).quantize(grain, ROUND_DOWN)
    return min(most, with_commission)


async def _end_working(
    ledger: Ledger,
    broker: Broker,
    intents: Sequence[Intent],
    mandate: Mandate,
    now: Callable[[], datetime],
    wait: Wait,
) -> None:
    """End what may still work, if the mandate says so; only the broker's evidence says whether it came to an end."""
    working = still_open(ledger, intents)
    if mandate.submission.at_window_end == "leave":
        await reconcile(ledger, broker, working, now())
        return
    for intent in working:
        await broker.cancel(intent.order_ref, now())
    await reconcile(ledger, broker, working, now())
    await until_ended(ledger, broker, working, now() + _CANCELLING, now, wait)
