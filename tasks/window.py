"""The submission window: how long orders may work, from the first one sent, and the waiting within it."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from blocks.brokers.port import Broker
from blocks.errors import BrokerUnavailable
from blocks.ledger import Ledger, Writing
from tasks.intents import OPEN, Intent, progress
from tasks.reconciliation import reconcile

Wait = Callable[[float], Awaitable[None]]
"""Lets so many seconds go by."""

_BETWEEN_QUESTIONS = 1.0
_KIND = "window"


@dataclass(frozen=True)
class Window:
    """From the moment the first order of a revision was sent, by the run's own clock."""

    opened: datetime
    length: timedelta

    @property
    def half(self) -> datetime:
        """Return until when buys wait for the money of sells that have not ended."""
        return self.opened + self.length / 2

    @property
    def end(self) -> datetime:
        """Return when what still works is ended or left."""
        return self.opened + self.length


def open_window(book: Writing, intent: Intent, now: datetime) -> None:
    """Let the window of an intent's revision begin, unless it has: a retry goes on within the one there is."""
    if book.get(_KIND, _key(intent)) is None:
        book.append(_KIND, {"opened_at": now}, key=_key(intent), subject=intent.account)


def window_of(ledger: Ledger, intents: Sequence[Intent], length: timedelta, now: datetime) -> Window:
    """Return the window of a revision's intents; where none is on record it begins now."""
    entry = ledger.get(_KIND, _key(intents[0])) if intents else None
    return Window(datetime.fromisoformat(entry.body["opened_at"]) if entry else now, length)


def still_open(ledger: Ledger, intents: Sequence[Intent]) -> tuple[Intent, ...]:
    """Return the orders that may still be at the broker."""
    with ledger.reading() as book:
        return tuple(intent for intent in intents if progress(book, intent).state in OPEN)


async def until_ended(
    ledger: Ledger, broker: Broker, intents: Sequence[Intent], until: datetime, now: Callable[[], datetime], wait: Wait
) -> None:
    """Ask what becomes of orders, about each second, until all have ended or the time is over.

    A broker that does not answer is asked again: its silence moves no order, and whoever goes on from here asks too.
    """
    while (asked := still_open(ledger, intents)) and (left := (until - now()).total_seconds()) > 0:
        await wait(min(_BETWEEN_QUESTIONS, left))
        with suppress(BrokerUnavailable):
            await reconcile(ledger, broker, asked, now())


def _key(intent: Intent) -> str:
    return f"{intent.plan}/{intent.revision}"
