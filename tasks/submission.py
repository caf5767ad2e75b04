"""Submission: sells first, then buys cut to the cash that is there, each recorded as sent before it is."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from decimal import ROUND_DOWN, Decimal

from blocks.brokers.commission import fixed_commission
from blocks.brokers.doors import at_rest
from blocks.brokers.port import Broker
from blocks.errors import BrokerUnavailable, OrderRefused
from blocks.ledger import Ledger
from blocks.mandate import Mandate
from tasks.halt import halted
from tasks.intents import OPEN, Intent, Progress, dead, move, note, progress
from tasks.reconciliation import reconcile


async def submit(ledger: Ledger, broker: Broker, intents: Sequence[Intent], mandate: Mandate, now: datetime) -> None:
    """Place what the broker has not accepted yet, sells first, then buys cut to the cash that is there.

    Safe to call again at any point: what the broker knows is never sent again. Raises BrokerUnavailable when it cannot
    be asked; an order whose sending had no answer is left `unknown`, and nothing more is sent.
    """
    waiting = await reconcile(ledger, broker, intents, now)
    for intent in waiting:
        if intent.side == "sell":
            await _send(ledger, broker, intent, progress(ledger, intent).quantity, now)
    await reconcile(ledger, broker, intents, now)
    buys = [intent for intent in waiting if intent.side == "buy"]
    cash, kept_back = await _cash_there(broker, mandate, now), _kept_back(ledger, intents)
    for intent, quantity in _cut_to_cash(buys, cash, kept_back, ledger, mandate):
        await _send(ledger, broker, intent, quantity, now)
    await reconcile(ledger, broker, intents, now)
    await _end_working(ledger, broker, intents, mandate, now)


async def _send(ledger: Ledger, broker: Broker, intent: Intent, quantity: Decimal, now: datetime) -> None:
    if not _claimed(ledger, intent, quantity):
        return
    try:
        await broker.place(intent.order_ref, intent.order(quantity), now)
    except OrderRefused as refusal:
        move(ledger, intent, Progress(state="dead", quantity=quantity, message=str(refusal), known=True))
    except BrokerUnavailable as silence:
        move(ledger, intent, Progress(state="unknown", quantity=quantity, message=str(silence)))
        raise


def _claimed(ledger: Ledger, intent: Intent, quantity: Decimal) -> bool:
    """Record an order as sent before it is; not one that is decided on already, and none while the switch is thrown."""
    with ledger.writing() as book:
        before, switch = progress(book, intent), halted(book)
        if not before.undecided:
            return False
        if switch is None and quantity > 0:
            note(book, intent, Progress(state="sent", quantity=quantity))
            return True
        why = "the cash that is there does not pay for it" if switch is None else f"halted: {switch}"
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
    ledger: Ledger, broker: Broker, intents: Sequence[Intent], mandate: Mandate, now: datetime
) -> None:
    """End what may still work, if the mandate says so; only the broker's evidence says whether it came to an end."""
    if mandate.submission.at_window_end == "leave":
        return
    working = [intent for intent in intents if progress(ledger, intent).state in OPEN]
    for intent in working:
        await broker.cancel(intent.order_ref, now)
    await reconcile(ledger, broker, working, now)
