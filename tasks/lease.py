"""The lease of an account: one rebalance at a time, whoever starts it."""

import os
import socket
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from blocks.errors import LeaseTaken
from blocks.ledger import Ledger, Reading, Writing

LENGTH = timedelta(minutes=45)
"""Longer than a submission may take; an owner whose process is gone from this machine loses it at once."""


def take(ledger: Ledger, account: str, owner: str, wall: datetime, instead_of: str = "") -> None:
    """Take or renew the account's lease, by real time; a replan takes it `instead_of` the run that it replaces.

    Raises LeaseTaken while another run holds it, or another process that carries out this one.
    """
    with ledger.writing() as book:
        last = book.latest("lease", account)
        if last and _held_by_another(last.body, owner, wall) and last.body["owner"] != instead_of:
            holder, until = last.body["owner"], last.body["expires_at"]
            raise LeaseTaken(f"account {account} is being rebalanced by run {holder}, until {until} at the latest")
        _write(book, account, owner, wall)


def renew(ledger: Ledger, account: str, owner: str, wall: datetime) -> None:
    """Prolong a lease right before orders are committed. Raises LeaseTaken if it has left our hands since."""
    with ledger.writing() as book:
        last = book.latest("lease", account)
        if last is None or not _is_ours(last.body, owner):
            raise LeaseTaken(f"account {account} was taken over from run {owner}, which had let its lease expire")
        _write(book, account, owner, wall)


def is_held(book: Ledger | Reading, account: str, owner: str, wall: datetime) -> bool:
    """Tell whether a run holds the account's lease, in a process that lives."""
    last = book.latest("lease", account)
    return last is not None and last.body["owner"] == owner and _alive(last.body, wall)


def give_back(ledger: Ledger, account: str, owner: str) -> None:
    """End the lease if this process still holds it for this run."""
    with ledger.writing() as book:
        last = book.latest("lease", account)
        if last and _is_ours(last.body, owner):
            body = {"owner": "", "host": "", "process": 0, "began": "", "expires_at": ""}
            book.append("lease", body, subject=account)


def _write(book: Writing, account: str, owner: str, wall: datetime) -> None:
    book.append("lease", {"owner": owner, **_this_process(), "expires_at": wall + LENGTH}, subject=account)


def _this_process() -> dict[str, Any]:
    process = os.getpid()
    return {"host": socket.gethostname(), "process": process, "began": _told_of(process)[1]}


def _is_ours(lease: Mapping[str, Any], owner: str) -> bool:
    return {"owner": owner, **_this_process()}.items() <= lease.items()


def _held_by_another(lease: Mapping[str, Any], owner: str, wall: datetime) -> bool:
    return not _is_ours(lease, owner) and _alive(lease, wall)


def _alive(lease: Mapping[str, Any], wall: datetime) -> bool:
    """Tell whether a lease holds: it names an owner, has not expired, and its process lives as far as can be known."""
    if not lease["owner"] or datetime.fromisoformat(lease["expires_at"]) <= wall:
        return False
    return lease["host"] != socket.gethostname() or _lives(lease["process"], lease.get("began", ""))


def _lives(process: int, began: str) -> bool:
    """Tell whether a process of this machine still runs, and is not a later one to which its number was given."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # somebody else's, and it lives
    state, start = _told_of(process)
    same = start == began or not (start and began)
    return same and state != "Z"  # a zombie is dead, though its parent has not asked yet


def _told_of(process: int) -> tuple[str, str]:
    """Return a process's state and when it began, as Linux tells them; nothing elsewhere."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return "", ""
    return fields[0], fields[19]
