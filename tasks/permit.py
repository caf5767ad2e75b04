"""What an order may leave by: the gate's approval and the account's lease, looked at right before each is sent."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from blocks.ledger import Reading
from blocks.values import iso
from tasks.halt import halted
from tasks.intents import Intent
from tasks.lease import check_ours
from tasks.revisions import superseded_by


class ApprovalLapsed(Exception):
    """The verdict by which orders were to leave has expired."""


@dataclass(frozen=True)
class Permit:
    """The run that holds the account's lease, and until when, by its own clock, the gate's verdict is good."""

    run: str
    expires_at: datetime

    def why_not(self, book: Reading, intent: Intent, quantity: Decimal, now: datetime) -> str | None:
        """Return why an order may never leave, or None where it may leave at this moment.

        Raises LeaseTaken where that is no longer ours to decide, and ApprovalLapsed where the gate has to.
        """
        check_ours(book, intent.account, self.run)
        switch, newer = halted(book), superseded_by(book, intent.plan, intent.revision)
        if switch is not None:
            return f"halted: {switch}"
        if newer:
            return f"revision {newer} of plan {intent.plan} has replaced revision {intent.revision}"
        if now > self.expires_at:
            raise ApprovalLapsed(f"the verdict expired at {iso(self.expires_at)}; it is {iso(now)}")
        return None if quantity > 0 else "the cash that is there does not pay for it"
