"""Submission: intents that are durable before an order leaves, and orders that move only on the broker's evidence.

An intent is written once. What became of it is the latest `order` entry under its reference:
intended -> sent -> working | filled | partly_filled | dead | unknown.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from decimal import ROUND_DOWN, Decimal
from typing import Literal

from pydantic import Field

from blocks.brokers.doors import at_rest
from blocks.brokers.port import Broker, Fill, Order, OrderReport
from blocks.canonical import digest
from blocks.errors import BrokerUnavailable, OrderRefused, StalePlan
from blocks.ledger import Ledger, Reading, Writing
from blocks.mandate import Mandate
from blocks.values import Amount, plain
from tasks.halt import halted
from tasks.plan import Plan
from tasks.situation import Proposal, Value
from tasks.verification.gate import Inspection

OrderProgress = Literal["intended", "sent", "working", "filled", "partly_filled", "dead", "unknown"]
OPEN: frozenset[str] = frozenset({"sent", "working", "unknown"})
"""States in which an order may still be at the broker."""

_ENDED: frozenset[str] = frozenset({"filled", "partly_filled", "dead"})
_ASKED = 3
"""Times that reports and executions are asked for, where a fill has come in between the two answers."""


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

    def order(self, quantity: Decimal) -> Order:
        """Return the order to place, of so many shares."""
        return Order(symbol=self.symbol, side=self.side, quantity=quantity, limit=self.limit)


class Progress(Value):
    """Where an order stands."""

    state: OrderProgress
    quantity: Amount = Field(description="shares sent; the intent's until then")
    filled: Amount = Decimal(0)
    message: str = ""
    known: bool = Field(False, description="whether the broker has ever told of it; if so, silence is no denial")

    @property
    def undecided(self) -> bool:
        """Tell whether it may have to be sent: not ended, and the broker has never told of it."""
        return self.state not in _ENDED and not self.known

    @property
    def given_up(self) -> bool:
        """Tell whether it was sent, and is dead only because the broker did not know of it."""
        return self.state == "dead" and not self.known and self.quantity > 0


def order_ref(plan: Plan, proposal: Proposal, index: int) -> str:
    """Return the reference of a proposal's order: short ASCII, the same whenever it is worked out."""
    return "tw" + digest([plan.id, plan.revision, proposal.hash, index])[:18]


def intents_of(plan: Plan, proposal: Proposal, mandate: Mandate, broker: str) -> tuple[Intent, ...]:
    """Return the intents of a proposal, sells first."""
    in_order = sorted(enumerate(proposal.orders), key=lambda item: (item[1].side == "buy", item[0]))
    common = {
        "plan": plan.id,
        "revision": plan.revision,
        "proposal_hash": proposal.hash,
        "account": mandate.account,
        "broker": broker,
    }
    return tuple(
        Intent.model_validate(common | dict(order) | {"order_ref": order_ref(plan, proposal, index)})
        for index, order in in_order
    )


def commit(
    ledger: Ledger, plan: Plan, inspection: Inspection, mandate: Mandate, broker: str, now: datetime
) -> tuple[Intent, ...]:
    """Bind the revision to this proposal and make its intents durable; the approval is consumed by that.

    Raises StalePlan when the revision is bound to another proposal already, or the verdict no longer holds.
    """
    verdict, proposal = inspection.verdict, inspection.proposal
    if not inspection.passes or verdict.proposal_hash != proposal.hash or now > verdict.expires_at:
        raise StalePlan("the verdict does not approve these orders at this moment: a new revision is needed")
    key, intents = f"{plan.id}/{plan.revision}", intents_of(plan, proposal, mandate, broker)
    body = {
        "proposal_hash": proposal.hash,
        "situation_hash": verdict.situation_hash,
        "targets": inspection.situation.targets,
    }
    with ledger.writing() as book:
        bound = book.get("submission", key)
        if bound and bound.body["proposal_hash"] != proposal.hash:
            said = f"plan {plan.id} revision {plan.revision} has submitted another proposal"
            raise StalePlan(f"{said}: new sizing needs a new revision")
        if bound is None:
            book.append("submission", body, key=key, subject=mandate.account)
        for intent in intents:
            book.append("intent", intent.model_dump(), key=intent.order_ref, subject=f"{broker}/{mandate.account}")
    return intents


def committed(ledger: Ledger, plan: Plan) -> tuple[Intent, ...]:
    """Return the intents that this revision has made durable, if any: a retry finishes exactly those."""
    found = (Intent.model_validate(entry.body) for entry in ledger.all("intent"))
    return tuple(intent for intent in found if (intent.plan, intent.revision) == (plan.id, plan.revision))


def progress(ledger: Ledger | Reading, intent: Intent) -> Progress:
    """Return where an order stands by what the ledger knows."""
    entry = ledger.latest("order", intent.order_ref)
    if entry is None:
        return Progress(state="intended", quantity=intent.quantity)
    return Progress.model_validate({name: entry.body[name] for name in Progress.model_fields if name in entry.body})


def unresolved(ledger: Ledger, account: str, broker: str) -> tuple[Intent, ...]:
    """Return the account's intents that may be at the broker, or were never heard of again."""
    return tuple(intent for intent, now in _all(ledger, account, broker) if now.state in OPEN | {"intended"})


def _all(ledger: Ledger, account: str, broker: str) -> list[tuple[Intent, Progress]]:
    with ledger.reading() as book:
        intents = [Intent.model_validate(entry.body) for entry in book.all("intent", f"{broker}/{account}")]
        return [(intent, progress(book, intent)) for intent in intents]


async def reconcile(ledger: Ledger, broker: Broker, intents: Sequence[Intent], now: datetime) -> tuple[Intent, ...]:
    """Ask the broker what became of these orders and record it; return those not ended that it has never told of.

    Raises BrokerUnavailable when there is no answer: then nothing is recorded and nothing may be sent.
    """
    if not intents:
        return ()
    reports, executed = await _answers(ledger, broker, intents, now)
    for intent in intents:
        ref = intent.order_ref
        _move(ledger, intent, _evidence(progress(ledger, intent), reports.get(ref), executed.get(ref, Decimal(0))))
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
    if (now.known and now.state in _ENDED) or not (now.known or executed):
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
                book.append("fill", fill.model_dump(), key=fill.exec_id, subject=_subject(ours[fill.order_ref]))
        for subject in {_subject(intent) for intent in intents}:
            for entry in book.all("fill", subject):
                ref, quantity = entry.body["order_ref"], Decimal(entry.body["quantity"])
                executed[ref] = executed.get(ref, Decimal(0)) + quantity
    return executed


def _subject(intent: Intent) -> str:
    return f"{intent.broker}/{intent.account}"


def _move(ledger: Ledger, intent: Intent, to: Progress) -> None:
    with ledger.writing() as book:
        _note(book, intent, to)


def _note(book: Writing, intent: Intent, to: Progress) -> None:
    if to != progress(book, intent):
        book.append("order", to.model_dump(), subject=intent.order_ref)


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
    for intent, quantity in _cut_to_cash(buys, await _cash_there(broker, mandate, now), ledger, mandate):
        await _send(ledger, broker, intent, quantity, now)
    await reconcile(ledger, broker, intents, now)
    await _end_working(ledger, broker, intents, mandate, now)


async def _send(ledger: Ledger, broker: Broker, intent: Intent, quantity: Decimal, now: datetime) -> None:
    if not _claimed(ledger, intent, quantity):
        return
    try:
        await broker.place(intent.order_ref, intent.order(quantity), now)
    except OrderRefused as refusal:
        _move(ledger, intent, Progress(state="dead", quantity=quantity, message=str(refusal), known=True))
    except BrokerUnavailable as silence:
        _move(ledger, intent, Progress(state="unknown", quantity=quantity, message=str(silence)))
        raise


def _claimed(ledger: Ledger, intent: Intent, quantity: Decimal) -> bool:
    """Record an order as sent before it is; not one that is decided on already, and none while the switch is thrown."""
    with ledger.writing() as book:
        before, switch = progress(book, intent), halted(book)
        if not before.undecided:
            return False
        if switch is None and quantity > 0:
            _note(book, intent, Progress(state="sent", quantity=quantity))
            return True
        why = "the cash that is there does not pay for it" if switch is None else f"halted: {switch}"
        _note(book, intent, _dead(before, f"not sent: {why}"))
        return False


def _dead(before: Progress, why: str) -> Progress:
    """Return the end of an order that the broker does not know of: what was never sent has no shares."""
    return Progress(state="dead", quantity=Decimal(0) if before.state == "intended" else before.quantity, message=why)


async def _cash_there(broker: Broker, mandate: Mandate, now: datetime) -> Decimal:
    state, open_orders = await at_rest(broker, now)
    book = state.settled_cash if mandate.limits.cash_basis == "settled" else state.cash
    promised = sum(
        (order.remaining * order.limit for order in open_orders if order.side == "buy" and order.limit), Decimal(0)
    )
    return book.get(mandate.base_currency, Decimal(0)) - promised


def _cut_to_cash(
    buys: Sequence[Intent], cash: Decimal, ledger: Ledger, mandate: Mandate
) -> Iterator[tuple[Intent, Decimal]]:
    """Give each buy its shares while the cash lasts; one that would fall below the minimum trade is not sent."""
    grain = Decimal("0.0001") if mandate.fractional else Decimal(1)
    for intent in buys:
        wanted = progress(ledger, intent).quantity
        affordable = max(min(wanted, (cash / intent.limit).quantize(grain, ROUND_DOWN)), Decimal(0))
        enough = affordable == wanted or affordable * intent.limit >= mandate.min_trade
        quantity = affordable if enough else Decimal(0)
        cash -= quantity * intent.limit
        yield intent, quantity


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


def withdraw(ledger: Ledger, intents: Sequence[Intent], why: str) -> None:
    """Give up on what the broker has never told of, so that nobody sends it later."""
    with ledger.writing() as book:
        for intent in intents:
            before = progress(book, intent)
            if before.undecided:
                _note(book, intent, _dead(before, why))


async def settle_earlier(ledger: Ledger, broker: Broker, account: str, name: str, now: datetime) -> tuple[Intent, ...]:
    """Resolve what earlier runs left open; return what is still unknown, which blocks the account.

    An intent that the broker never accepted is dead: its run is over, and a new one sizes anew. Later runs ask for it
    again, in case it was only late.
    """
    asked = [each for each, at in _all(ledger, account, name) if at.given_up or at.state in OPEN | {"intended"}]
    withdraw(ledger, await reconcile(ledger, broker, asked, now), "never reached the broker; its run is over")
    return tuple(intent for intent in asked if progress(ledger, intent).state == "unknown")
