"""Intents: the orders that a run means to place, durable before anything leaves, and how far each has come.

An intent is written once. What became of it is the latest `order` entry under its reference:
intended -> sent -> working | filled | partly_filled | dead | unknown.
"""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Literal

from pydantic import Field

from blocks.brokers.port import Order
from blocks.canonical import digest
from blocks.errors import StalePlan
from blocks.ledger import Ledger, Reading, Writing
from blocks.mandate import Mandate
from blocks.values import Amount, plain
from tasks.plan import Plan
from tasks.revisions import superseded_by
from tasks.situation import Proposal, Value
from tasks.verification.gate import Inspection
from tasks.verification.verdict import kept_back

OrderProgress = Literal["intended", "sent", "working", "filled", "partly_filled", "dead", "unknown"]
OPEN: frozenset[str] = frozenset({"sent", "working", "unknown"})
"""States in which an order may still be at the broker."""

ENDED: frozenset[str] = frozenset({"filled", "partly_filled", "dead"})
"""States that an order does not leave."""


def book_of(broker: str, account: str) -> str:
    """Return the name of an account at a broker, as the subject of ledger entries."""
    return f"{broker}/{account}"


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

    @property
    def book(self) -> str:
        """Return the broker's account that it is for: what its entries and fills are found by."""
        return book_of(self.broker, self.account)

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
        return self.state not in ENDED and not self.known

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
        "kept_back": plain(kept_back(inspection.situation)),
    }
    with ledger.writing() as book:
        newer = superseded_by(book, plan.id, plan.revision)
        if newer:
            raise StalePlan(f"revision {newer} of plan {plan.id} has replaced revision {plan.revision}")
        bound = book.get("submission", key)
        if bound and bound.body["proposal_hash"] != proposal.hash:
            said = f"plan {plan.id} revision {plan.revision} has submitted another proposal"
            raise StalePlan(f"{said}: new sizing needs a new revision")
        if bound is None:
            book.append("submission", body, key=key, subject=mandate.account)
        for intent in intents:
            book.append("intent", intent.model_dump(), key=intent.order_ref, subject=intent.book)
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
    return tuple(intent for intent, now in all_of(ledger, account, broker) if now.state in OPEN | {"intended"})


def accounts(ledger: Ledger) -> list[tuple[str, str]]:
    """Return the broker and account of every run there was."""
    return sorted({(entry.body["broker"], entry.body["account"]) for entry in ledger.all("run")})


def unresolved_everywhere(ledger: Ledger) -> list[Intent]:
    """Return the intents of every account that may be at its broker, or were never heard of again."""
    return [each for broker, account in accounts(ledger) for each in unresolved(ledger, account, broker)]


def all_of(ledger: Ledger, account: str, broker: str) -> list[tuple[Intent, Progress]]:
    """Return the account's intents at this broker, oldest first, and where each stands."""
    with ledger.reading() as book:
        intents = [Intent.model_validate(entry.body) for entry in book.all("intent", book_of(broker, account))]
        return [(intent, progress(book, intent)) for intent in intents]


def move(ledger: Ledger, intent: Intent, to: Progress) -> None:
    """Record that an order has come to this, unless that is where it stands."""
    with ledger.writing() as book:
        note(book, intent, to)


def note(book: Writing, intent: Intent, to: Progress) -> None:
    """Record it within a transaction, unless that is where the order stands."""
    if to != progress(book, intent):
        book.append("order", to.model_dump(), subject=intent.order_ref)


def dead(before: Progress, why: str) -> Progress:
    """Return the end of an order that the broker does not know of: what was never sent has no shares."""
    return Progress(state="dead", quantity=Decimal(0) if before.state == "intended" else before.quantity, message=why)


def withdraw(ledger: Ledger, intents: Sequence[Intent], why: str) -> None:
    """Give up on what the broker has never told of, so that nobody sends it later."""
    with ledger.writing() as book:
        for intent in intents:
            before = progress(book, intent)
            if before.undecided:
                note(book, intent, dead(before, why))
