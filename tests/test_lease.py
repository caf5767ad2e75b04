"""The lease of an account: one run at a time, and none that is held by the dead."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from blocks.errors import LeaseTaken
from blocks.ledger import Ledger
from tasks.lease import LENGTH, give_back, renew, take

NOW = datetime(2026, 3, 2, 15, 5, tzinfo=UTC)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    opened = Ledger(tmp_path / "ledger.db", lambda: datetime.now(UTC))
    yield opened
    opened.close()


OPENING = """
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path
from blocks.errors import LeaseTaken
from blocks.ledger import Ledger
from tasks.lease import give_back, renew, take
now = datetime.fromisoformat({now!r})
ledger = Ledger(Path("{path}"), lambda: datetime.now(timezone.utc))
"""


def in_another_process(ledger: Ledger, story: str) -> "subprocess.Popen[str]":
    """Start a process that opens the ledger and then does as told; it ends when its standard input does."""
    opening = OPENING.format(now=NOW.isoformat(), path=ledger.path)
    command = [sys.executable, "-c", opening + story]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


RACE = """
import os
print("ready", flush=True)
sys.stdin.readline()
try:
    take(ledger, "A", f"run {os.getpid()}", now)
    print("won", flush=True)
except LeaseTaken as lost:
    print("lost to", str(lost).split("by run ")[1].split(",")[0], flush=True)
sys.stdin.read()
"""
HOLD = "take(ledger, 'A', 'other', now); print('taken', flush=True); sys.stdin.read()"


def first_line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout
    return process.stdout.readline().strip()


def ended(process: "subprocess.Popen[str]") -> int:
    process.communicate()
    return process.returncode


def holder(ledger: Ledger) -> str:
    entry = ledger.latest("lease", "A")
    return str(entry.body["owner"]) if entry else ""


def held_elsewhere(ledger: Ledger, **changes: Any) -> None:
    """Let another machine take the lease."""
    body = {"owner": "other", "host": "elsewhere", "process": 1, "began": "", "expires_at": NOW + LENGTH}
    ledger.append("lease", body | changes, subject="A")


def test_an_account_is_held_by_one_run_at_a_time(ledger: Ledger) -> None:
    take(ledger, "A", "first", NOW)

    with pytest.raises(LeaseTaken, match=f"run first, in process {os.getpid()} of this machine"):
        take(ledger, "A", "second", NOW)

    assert "first" == holder(ledger)


def test_accounts_do_not_stand_in_each_others_way(ledger: Ledger) -> None:
    take(ledger, "A", "first", NOW)
    take(ledger, "B", "second", NOW)

    assert "first" == holder(ledger)


def test_taking_it_again_prolongs_it(ledger: Ledger) -> None:
    take(ledger, "A", "first", NOW)
    take(ledger, "A", "first", NOW + timedelta(minutes=40))

    with pytest.raises(LeaseTaken):
        take(ledger, "A", "second", NOW + timedelta(minutes=80))


def test_a_process_that_is_stopped_keeps_it_however_long(ledger: Ledger) -> None:
    other = in_another_process(ledger, HOLD)
    assert "taken" == first_line(other)
    other.send_signal(signal.SIGSTOP)

    with pytest.raises(LeaseTaken, match=f"run other, in process {other.pid} of this machine"):
        take(ledger, "A", "mine", NOW + 100 * LENGTH)

    other.send_signal(signal.SIGCONT)
    assert 0 == ended(other)


def test_it_expires_where_nobody_can_tell_whether_its_process_is_the_same(ledger: Ledger) -> None:
    held_elsewhere(ledger, host=socket.gethostname(), process=os.getpid())

    with pytest.raises(LeaseTaken):
        take(ledger, "A", "second", NOW + LENGTH - timedelta(microseconds=1))
    take(ledger, "A", "second", NOW + LENGTH)

    assert "second" == holder(ledger)


def test_it_is_free_once_it_was_given_back(ledger: Ledger) -> None:
    take(ledger, "A", "first", NOW)
    give_back(ledger, "A", "first")
    take(ledger, "A", "second", NOW)

    assert "second" == holder(ledger)


def test_only_the_owner_gives_it_back(ledger: Ledger) -> None:
    take(ledger, "A", "first", NOW)
    give_back(ledger, "A", "second")
    give_back(ledger, "B", "first")

    assert "first" == holder(ledger)


def test_a_process_that_has_lost_it_does_not_give_back_what_another_of_the_same_run_holds(ledger: Ledger) -> None:
    take(ledger, "A", "other", NOW - LENGTH)
    held_elsewhere(ledger, expires_at=NOW)
    retry = in_another_process(ledger, HOLD)
    assert "taken" == first_line(retry)
    give_back(ledger, "A", "other")

    assert "other" == holder(ledger)
    assert 0 == ended(retry)


def test_a_process_that_lives_keeps_it(ledger: Ledger) -> None:
    other = in_another_process(ledger, HOLD)
    assert "taken" == first_line(other)

    with pytest.raises(LeaseTaken, match="run other"):
        take(ledger, "A", "mine", NOW)
    with pytest.raises(LeaseTaken, match="run other"):
        take(ledger, "A", "other", NOW)  # a retry, while the attempt before it is still at work

    assert 0 == ended(other)


def test_a_process_that_has_ended_loses_it_at_once(ledger: Ledger) -> None:
    other = in_another_process(ledger, HOLD)
    assert "taken" == first_line(other)
    assert 0 == ended(other)
    take(ledger, "A", "mine", NOW)

    assert "mine" == holder(ledger)


def test_a_process_that_was_killed_and_never_waited_for_loses_it_at_once(ledger: Ledger) -> None:
    other = in_another_process(ledger, HOLD)
    assert "taken" == first_line(other)
    other.send_signal(signal.SIGKILL)
    os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)  # dead by now, and left a zombie
    take(ledger, "A", "mine", NOW)

    assert "mine" == holder(ledger)
    assert -signal.SIGKILL == ended(other)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells when a process began")
def test_a_later_process_of_the_same_number_does_not_keep_it(ledger: Ledger) -> None:
    take(ledger, "A", "other", NOW)
    last = ledger.latest("lease", "A")
    assert last
    ledger.append("lease", last.body | {"began": "1"}, subject="A")  # as a container's first process, before a restart
    take(ledger, "A", "mine", NOW)

    assert "mine" == holder(ledger)


@pytest.mark.parametrize("owner", ["mine", "other"])
def test_another_machine_keeps_it_until_it_expires(ledger: Ledger, owner: str) -> None:
    held_elsewhere(ledger, process=4_000_000)  # no process of ours has this number

    with pytest.raises(LeaseTaken, match="run other, on elsewhere, until 2026-03-02T15:50:00Z at the latest"):
        take(ledger, "A", owner, NOW)
    take(ledger, "A", owner, NOW + LENGTH)

    assert owner == holder(ledger)


def test_this_machine_knows_its_own(ledger: Ledger) -> None:
    held_elsewhere(ledger, host=socket.gethostname(), process=4_000_000)
    take(ledger, "A", "mine", NOW)

    assert "mine" == holder(ledger)


def test_it_is_renewed_as_long_as_nobody_else_has_had_it(ledger: Ledger) -> None:
    take(ledger, "A", "mine", NOW)
    renew(ledger, "A", "mine", NOW + 2 * LENGTH)

    with pytest.raises(LeaseTaken):
        take(ledger, "A", "second", NOW + 2 * LENGTH)


def test_it_is_not_renewed_after_it_was_in_other_hands(ledger: Ledger) -> None:
    held_elsewhere(ledger)
    take(ledger, "A", "second", NOW + LENGTH)

    with pytest.raises(LeaseTaken, match="account A was taken over from run mine"):
        renew(ledger, "A", "mine", NOW + LENGTH)
    give_back(ledger, "A", "second")
    with pytest.raises(LeaseTaken, match="account A was taken over from run mine"):
        renew(ledger, "A", "mine", NOW + LENGTH)  # free again, but the account is no longer as it was

    assert "" == holder(ledger)


def test_it_is_not_renewed_by_a_run_that_never_took_it(ledger: Ledger) -> None:
    with pytest.raises(LeaseTaken):
        renew(ledger, "A", "mine", NOW)


def test_of_many_that_race_for_it_exactly_one_wins(ledger: Ledger) -> None:
    racers = [in_another_process(ledger, RACE) for _ in range(4)]
    assert ["ready"] * 4 == [first_line(racer) for racer in racers]
    for racer in racers:
        assert racer.stdin
        racer.stdin.write("go\n")
        racer.stdin.flush()

    said = sorted(first_line(racer) for racer in racers)
    assert ["lost to " + holder(ledger)] * 3 + ["won"] == said
    assert [0] * 4 == [ended(racer) for racer in racers]
