"""The lease of an account: one rebalance at a time, whoever starts it."""

import os
import socket
from datetime import datetime, timedelta

from blocks.errors import LeaseTaken
from blocks.ledger import Ledger

LENGTH = timedelta(minutes=45)
"""Longer than a submission may take; an owner whose process is gone from this machine loses it at once."""


def take(ledger: Ledger, account: str, owner: str, wall: datetime) -> None:
    """Take or renew the account's lease, by real time. Raises LeaseTaken while another run holds it."""
    with ledger.writing() as book:
        last = book.latest("lease", account)
        if last and _held_by_another(last.body, owner, wall):
            until = last.body["expires_at"]
            raise LeaseTaken(f"account {account} is being rebalanced by run {last.body['owner']}, until {until} at the latest")
        body = {"owner": owner, "host": socket.gethostname(), "process": os.getpid(), "expires_at": wall + LENGTH}
        book.append("lease", body, subject=account)


def give_back(ledger: Ledger, account: str, owner: str) -> None:
    """End the lease if this run still holds it."""
    with ledger.writing() as book:
        last = book.latest("lease", account)
        if last and last.body["owner"] == owner:
            book.append("lease", {"owner": "", "host": "", "process": 0, "expires_at": ""}, subject=account)


def _held_by_another(lease: dict[str, object], owner: str, wall: datetime) -> bool:
    if lease["owner"] in {"", owner} or datetime.fromisoformat(str(lease["expires_at"])) <= wall:
        return False
    return lease["host"] != socket.gethostname() or _lives(int(str(lease["process"])))


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
