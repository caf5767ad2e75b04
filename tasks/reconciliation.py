"""Reconciliation: orders move only on the broker's evidence. Asked twice it changes nothing; no answer is no denial."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal

from blocks.brokers.port import Broker, Fill, OrderReport
from blocks.ledger import Ledger
from blocks.values import plain
from tasks.intents import ENDED, OPEN, Intent, Progress, all_of, move, progress, withdraw

_ASKED = 3
"""Times that reports and executions are asked for, where a fill has come in between the two answers."""


async def reconcile(ledger: Ledger, broker: Broker, intents: Sequence[Intent], now: datetime) -> tuple[Intent, ...]:
    """Ask the broker what became of these orders and record it; return those not ended that it has never told of.

    Raises BrokerUnavailable when there is no answer: then nothing is recorded and nothing may be sent.
    """
    if not intents:
        return ()
    reports, executed = await _answers(ledger, broker, intents, now)
    for intent in intents:
        ref = intent.order_ref
        move(ledger, intent, _evidence(progress(ledger, intent), reports.get(ref), executed.get(ref, Decimal(0))))
    return tuple(intent for intent in intents if progress(ledger, intent).undecided)


async def _answers(
    ledger: Ledger, broker: Broker, intents: Sequence[Intent], now: datetime
) -> tuple[Mapping[str, OrderReport], Mapping[str, Decimal]]:
    """Return reports and shares executed by reference, of one moment if the broker can be caught at one."""
    refs = tuple(intent.order_ref for intent in intents)
    for _ in range(_ASKED):
        reports, fills = await broker.reports(refs, now), await broker.fills(now)
        executed = _recorded(ledger, intents, fills)
        if all(report.filled == executed.get(ref, 0) for ref, report in reports.items()):
            break
    return reports, executed


def _evidence(now: Progress, report: OrderReport | None, executed: Decimal) -> Progress:
    """Return what a report proves. Where it and the executions disagree, nothing is proved."""
    if report is None:
        return _unreported(now, executed)
    if report.filled != executed:
        text = f"the broker says {plain(report.filled)} filled, its executions add up to {plain(executed)}"
        return Progress(state="unknown", quantity=report.quantity, filled=executed, message=text, known=True)
    return Progress(
        state=report.state, quantity=report.quantity, filled=report.filled, message=report.reason, known=True
    )


def _unreported(now: Progress, executed: Decimal) -> Progress:
    """Return what is proved of an order that the broker does not report: executions speak for themselves."""
    if (now.known and now.state in ENDED) or not (now.known or executed):
        return now
    if executed == now.quantity:
        return Progress(state="filled", quantity=now.quantity, filled=executed, known=True)
    text = f"the broker no longer tells of it; {plain(executed)} of {plain(now.quantity)} are known to have filled"
    return Progress(state="unknown", quantity=now.quantity, filled=executed, message=text, known=True)


def _recorded(ledger: Ledger, intents: Sequence[Intent], fills: Sequence[Fill]) -> dict[str, Decimal]:
    """Store executions, for a broker forgets them overnight; return the shares of all that are stored, by reference."""
    ours, executed = {intent.order_ref: intent for intent in intents}, dict[str, Decimal]()
    with ledger.writing() as book:
        for fill in fills:
            if fill.order_ref in ours and book.get("fill", fill.exec_id) is None:
                book.append("fill", fill.model_dump(), key=fill.exec_id, subject=ours[fill.order_ref].book)
        for subject in {intent.book for intent in intents}:
            for entry in book.all("fill", subject):
                ref, quantity = entry.body["order_ref"], Decimal(entry.body["quantity"])
                executed[ref] = executed.get(ref, Decimal(0)) + quantity
    return executed


async def settle_earlier(ledger: Ledger, broker: Broker, account: str, name: str, now: datetime) -> tuple[Intent, ...]:
    """Resolve what earlier runs left open; return what is still unknown, which blocks the account.

    An intent that the broker never accepted is dead: its run is over, and a new one sizes anew. Later runs ask for it
    again, in case it was only late.
    """
    asked = [each for each, at in all_of(ledger, account, name) if at.given_up or at.state in OPEN | {"intended"}]
    withdraw(ledger, await reconcile(ledger, broker, asked, now), "never reached the broker; its run is over")
    return tuple(intent for intent in asked if progress(ledger, intent).state == "unknown")
