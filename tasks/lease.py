"""The lease of an account: one rebalance at a time, whoever starts it."""

import os
import socket
import subprocess
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from blocks.errors import LeaseTaken
from blocks.ledger import Ledger, Reading, Writing

LENGTH = timedelta(minutes=45)
"""How long another machine's process is believed to be at work. One of this machine can be looked up: it has the lease
as long as it lives, however long it was stopped, and loses it at once when it is gone."""


def take(ledger: Ledger, account: str, owner: str, wall: datetime, instead_of: str = "") -> None:
    """Take or renew the account's lease, by real time; a replan takes it `instead_of` the run that it replaces.

    Raises LeaseTaken while another run holds it, or another process that carries out this one.
    """
    with ledger.writing() as book:
        last = book.latest("lease", account)
        if last and _held_by_another(last.body, owner, wall) and last.body["owner"] != instead_of:
            raise LeaseTaken(f"account {account} is being rebalanced by {holder(last.body)}")
        _write(book, account, owner, wall)


def renew(ledger: Ledger, account: str, owner: str, wall: datetime) -> None:
    """Prolong a lease right before orders are committed. Raises LeaseTaken if it has left our hands since."""
    with ledger.writing() as book:
        check_ours(book, account, owner)
        _write(book, account, owner, wall)


def check_ours(book: Reading, account: str, owner: str) -> None:
    """Make sure that this process may act for this run. Raises LeaseTaken."""
    last = book.latest("lease", account)
    if last is None or not _is_ours(last.body, owner):
        raise LeaseTaken(f"account {account} was taken over from run {owner}")


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


def holder(lease: Mapping[str, Any]) -> str:
    """Say who has a lease, and for how long."""
    if lease["host"] == socket.gethostname():
        return f"run {lease['owner']}, in process {lease['process']} of this machine"
    return f"run {lease['owner']}, on {lease['host']}, until {lease['expires_at']} at the latest"


def _is_ours(lease: Mapping[str, Any], owner: str) -> bool:
    return {"owner": owner, **_this_process()}.items() <= lease.items()


def _held_by_another(lease: Mapping[str, Any], owner: str, wall: datetime) -> bool:
    return not _is_ours(lease, owner) and _alive(lease, wall)


def _alive(lease: Mapping[str, Any], wall: datetime) -> bool:
    """Tell whether a lease holds: it names an owner, and its process lives; its time counts where that is not known."""
    if not lease["owner"]:
        return False
    here, began = lease["host"] == socket.gethostname(), lease["began"]
    in_time = datetime.fromisoformat(lease["expires_at"]) > wall
    return (in_time or bool(here and began)) and (not here or _lives(lease["process"], began))


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
    """Return a process's state and when it began, nothing where that cannot be known; ticks count from the boot."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("utf-8").strip()
    except OSError:
        return _told_by_ps(process)
    return fields[0], f"{boot}/{fields[19]}"


def _told_by_ps(process: int) -> tuple[str, str]:
    """Ask as POSIX has it, where there is no /proc."""
    try:
        command = ["ps", "-o", "stat=", "-o", "lstart=", "-p", str(process)]
        asked = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    except OSError:
        return "", ""
    state, _, began = asked.stdout.strip().partition(" ")
    return state[:1], began.strip()
