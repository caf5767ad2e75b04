"""Submission: intents that are durable before an order leaves, and orders that move only on the broker's evidence.

An intent is written once. What became of it is the latest `order` entry under its reference:
intended -> sent -> working | filled | partly_filled | dead | unknown.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from decimal import ROUND_DOWN, Decimal
from typing import Literal

from pydantic import Field

from blocks.brokers.port import Broker, Fill, Order, OrderReport
from blocks.canonical import digest
from blocks.errors import BrokerUnavailable, OrderRefused, StalePlan
from blocks.ledger import Ledger
from blocks.mandate import Mandate
from blocks.values import Amount, plain
from tasks.plan import Plan
from tasks.situation import Proposal, Value
from tasks.verification.gate import Inspection

OrderProgress = Literal["intended", "sent", "working", "filled", "partly_filled", "dead", "unknown"]
OPEN: frozenset[str] = frozenset({"sent", "working", "unknown"})
"""States in which an order may still be at the broker."""


class Intent(Value):
    """An order we mean to place: durable before anything leaves."""

    order_ref: str
    plan: str
    revision: int
    proposal_hash: str
    account: str
    broker: str
    symbol: str
    side: Literal["buy", "sell"]
    quantity: Amount
    limit: Amount

    def order(self, quantity: Decimal | None = None) -> Order:
        """Return the order to place, of fewer shares if so told."""
        return Order(symbol=self.symbol, side=self.side, quantity=self.quantity if quantity is None else quantity, limit=self.limit)


class Progress(Value):
    """Where an order stands."""

    state: OrderProgress
    quantity: Amount = Field(description="shares sent; the intent's until then")
    filled: Amount = Decimal(0)
    message: str = ""


def order_ref(plan: Plan, proposal: Proposal, index: int) -> str:
    """Return the reference of a proposal's order: short ASCII, the same whenever it is worked out."""
    return "tw" + digest([plan.id, plan.revision, proposal.hash, index])[:18]


def intents_of(plan: Plan, proposal: Proposal, mandate: Mandate, broker: str) -> tuple[Intent, ...]:
    """Return the intents of a proposal, sells first."""
    in_order = sorted(enumerate(proposal.orders), key=lambda item: (item[1].side == "buy", item[0]))
    return tuple(
        Intent(
            order_ref=order_ref(plan, proposal, index), plan=plan.id, revision=plan.revision, proposal_hash=proposal.hash,
            account=mandate.account, broker=broker, symbol=order.symbol, side=order.side, quantity=order.quantity, limit=order.limit,
        )
        for index, order in in_order
    )  # fmt: skip


def commit(ledger: Ledger, plan: Plan, inspection: Inspection, mandate: Mandate, broker: str, now: datetime) -> tuple[Intent, ...]:
    """Bind the revision to this proposal and make its intents durable; the approval is consumed by that.

    Raises StalePlan when the revision is bound to another proposal already, or the verdict no longer holds.
    """
    verdict, proposal = inspection.verdict, inspection.proposal
    if not inspection.passes or verdict.proposal_hash != proposal.hash or now > verdict.expires_at:
        raise StalePlan("the verdict does not approve these orders at this moment: a new revision is needed")
    key = f"{plan.id}/{plan.revision}"
    intents = intents_of(plan, proposal, mandate, broker)
    with ledger.writing() as book:
        bound = book.get("submission", key)
        if bound and bound.body["proposal_hash"] != proposal.hash:
            raise StalePlan(f"plan {plan.id} revision {plan.revision} has submitted another proposal: new sizing needs a new revision")
        if bound is None:
            body = {"proposal_hash": proposal.hash, "situation_hash": verdict.situation_hash, "targets": inspection.situation.targets}
            book.append("submission", body, key=key, subject=mandate.account)
        for intent in intents:
            book.append("intent", intent.model_dump(), key=intent.order_ref, subject=f"{broker}/{mandate.account}")
    return intents


def committed(ledger: Ledger, plan: Plan) -> tuple[Intent, ...]:
    """Return the intents that this revision has made durable, if any: a retry finishes exactly those."""
    found = (Intent.model_validate(entry.body) for entry in ledger.all("intent"))
    return tuple(intent for intent in found if (intent.plan, intent.revision) == (plan.id, plan.revision))


def progress(ledger: Ledger, intent: Intent) -> Progress:
    """Return where an order stands by what the ledger knows."""
    entry = ledger.latest("order", intent.order_ref)
    if entry is None:
        return Progress(state="intended", quantity=intent.quantity)
    return Progress.model_validate({name: entry.body[name] for name in Progress.model_fields})


def unresolved(ledger: Ledger, account: str, broker: str) -> tuple[Intent, ...]:
    """Return the account's intents that may be at the broker, or were never heard of again."""
    intents = (Intent.model_validate(entry.body) for entry in ledger.all("intent", f"{broker}/{account}"))
    return tuple(intent for intent in intents if progress(ledger, intent).state in OPEN | {"intended"})


async def reconcile(ledger: Ledger, broker: Broker, intents: Sequence[Intent], now: datetime) -> tuple[Intent, ...]:
    """Ask the broker what became of these orders and record it; return those it has never accepted.

    Raises BrokerUnavailable when there is no answer: then nothing is recorded and nothing may be sent.
    """
    if not intents:
        return ()
    reports = await broker.reports(tuple(intent.order_ref for intent in intents), now)
    fills = await broker.fills(now)
    _record_fills(ledger, intents, fills)
    for intent in intents:
        if intent.order_ref in reports:
            _move(ledger, intent, _evidence(reports[intent.order_ref], fills))
    return tuple(intent for intent in intents if intent.order_ref not in reports)


def _evidence(report: OrderReport, fills: Iterable[Fill]) -> Progress:
    """Return what a report proves. Where it and the executions disagree, nothing is proved."""
    executed = sum((fill.quantity for fill in fills if fill.order_ref == report.order_ref), Decimal(0))
    if report.filled != executed:
        text = f"the broker says {plain(report.filled)} filled, its executions add up to {plain(executed)}"
        return Progress(state="unknown", quantity=report.quantity, filled=executed, message=text)
    return Progress(state=report.state, quantity=report.quantity, filled=report.filled, message=report.reason)


def _record_fills(ledger: Ledger, intents: Sequence[Intent], fills: Iterable[Fill]) -> None:
    ours = {intent.order_ref: intent for intent in intents}
    with ledger.writing() as book:
        for fill in fills:
            if fill.order_ref in ours and book.get("fill", fill.exec_id) is None:
                intent = ours[fill.order_ref]
                book.append("fill", fill.model_dump(), key=fill.exec_id, subject=f"{intent.broker}/{intent.account}")


def _move(ledger: Ledger, intent: Intent, to: Progress) -> None:
    with ledger.writing() as book:
        last = book.latest("order", intent.order_ref)
        if last is None or any(last.body[name] != value for name, value in to.model_dump(mode="json").items()):
            book.append("order", to.model_dump(), subject=intent.order_ref)


async def submit(ledger: Ledger, broker: Broker, intents: Sequence[Intent], mandate: Mandate, now: datetime) -> None:
    """Place what the broker has not accepted yet, sells first, then buys cut to the cash that is there.

    Safe to call again at any point: what the broker knows is never sent again. Raises BrokerUnavailable when it cannot
    be asked; an order whose sending had no answer is left `unknown`, and nothing more is sent.
    """
    waiting = await reconcile(ledger, broker, intents, now)
    waiting = tuple(intent for intent in waiting if progress(ledger, intent).state in {"intended", "sent", "unknown"})
    for intent in waiting:
        if intent.side == "sell":
            await _send(ledger, broker, intent, _sent_before(ledger, intent) or intent.quantity, now)
    await reconcile(ledger, broker, intents, now)
    buys = [intent for intent in waiting if intent.side == "buy"]
    for intent, quantity in _cut_to_cash(buys, await _cash_there(broker, mandate, now), ledger, mandate):
        await _send(ledger, broker, intent, quantity, now)
    await reconcile(ledger, broker, intents, now)
    await _end_working(ledger, broker, intents, mandate, now)


async def _send(ledger: Ledger, broker: Broker, intent: Intent, quantity: Decimal, now: datetime) -> None:
    if quantity <= 0:
        _move(ledger, intent, Progress(state="dead", quantity=Decimal(0), message="not sent: the cash that is there does not pay for it"))
        return
    _move(ledger, intent, Progress(state="sent", quantity=quantity))
    try:
        await broker.place(intent.order_ref, intent.order(quantity), now)
    except OrderRefused as refusal:
        _move(ledger, intent, Progress(state="dead", quantity=quantity, message=str(refusal)))
    except BrokerUnavailable as silence:
        _move(ledger, intent, Progress(state="unknown", quantity=quantity, message=str(silence)))
        raise


def _sent_before(ledger: Ledger, intent: Intent) -> Decimal | None:
    """Return the size an earlier attempt decided on, where one was made and the broker never accepted it."""
    now = progress(ledger, intent)
    return now.quantity if now.state in {"sent", "unknown"} else None


async def _cash_there(broker: Broker, mandate: Mandate, now: datetime) -> Decimal:
    state = await broker.account(now)
    book = state.settled_cash if mandate.limits.cash_basis == "settled" else state.cash
    promised = sum(
        (order.remaining * order.limit for order in await broker.open_orders(now) if order.side == "buy" and order.limit),
        Decimal(0),
    )
    return book.get(mandate.base_currency, Decimal(0)) - promised


def _cut_to_cash(buys: Sequence[Intent], cash: Decimal, ledger: Ledger, mandate: Mandate) -> Iterator[tuple[Intent, Decimal]]:
    """Give each buy its shares while the cash lasts; one that would fall below the minimum trade is not sent."""
    grain = Decimal("0.0001") if mandate.fractional else Decimal(1)
    for intent in buys:
        wanted = _sent_before(ledger, intent) or intent.quantity
        affordable = max(min(wanted, (cash / intent.limit).quantize(grain, ROUND_DOWN)), Decimal(0))
        enough = affordable == wanted or affordable * intent.limit >= mandate.min_trade
        quantity = affordable if enough else Decimal(0)
        cash -= quantity * intent.limit
        yield intent, quantity


async def _end_working(ledger: Ledger, broker: Broker, intents: Sequence[Intent], mandate: Mandate, now: datetime) -> None:
    """End what still works, if the mandate says so; only the broker's evidence says whether it came to an end."""
    if mandate.submission.at_window_end == "leave":
        return
    working = [intent for intent in intents if progress(ledger, intent).state == "working"]
    for intent in working:
        await broker.cancel(intent.order_ref, now)
    await reconcile(ledger, broker, working, now)


async def settle_earlier(ledger: Ledger, broker: Broker, account: str, name: str, now: datetime) -> tuple[Intent, ...]:
    """Resolve what earlier runs left open; return what is still unknown, which blocks the account.

    An intent that the broker never accepted is dead: its run is over, and a new one sizes anew.
    """
    open_ones = unresolved(ledger, account, name)
    for intent in await reconcile(ledger, broker, open_ones, now):
        _move(ledger, intent, Progress(state="dead", quantity=intent.quantity, message="never reached the broker; its run is over"))
    return tuple(intent for intent in open_ones if progress(ledger, intent).state == "unknown")
