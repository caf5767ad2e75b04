"""The ledger: appended to by many at once, never changed, and it tells where somebody has changed it all the same."""

import json
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blocks.canonical import canonical_json, digest
from blocks.errors import LedgerError
from blocks.ledger import Entry, Ledger
from tests.examples import examples

NOW = datetime(2026, 3, 2, 15, 5, tzinfo=UTC)


def wall() -> datetime:
    return datetime.now(UTC)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@pytest.fixture
def ledger(path: Path) -> Iterator[Ledger]:
    opened = Ledger(path, wall)
    yield opened
    opened.close()


OPENING = """
import os, signal
from datetime import datetime, timezone
from pathlib import Path
from blocks.ledger import Ledger
ledger = Ledger(Path("{path}"), lambda: datetime.now(timezone.utc))
"""


def in_another_process(path: Path, story: str) -> subprocess.Popen[str]:
    """Start a process that opens the ledger and then does as told."""
    return subprocess.Popen(
        [sys.executable, "-c", OPENING.format(path=path) + story], stdout=subprocess.PIPE, text=True
    )


def behind_its_back(path: Path, *statements: str) -> None:
    """Change the file as somebody would who knows SQLite."""
    with sqlite3.connect(path) as raw:
        for statement in statements:
            raw.execute(statement)
    raw.close()


NO_TRIGGERS = ("drop trigger entries_no_update", "drop trigger entries_no_delete")


def keys(entries: list[Entry]) -> list[str]:
    return [entry.key for entry in entries]


def test_the_same_entry_again_changes_nothing_and_is_the_first(ledger: Ledger) -> None:
    first = ledger.append("fill", {"price": Decimal("1.50"), "at": NOW}, key="x-1", subject="paper/A")
    again = ledger.append("fill", {"at": NOW, "price": Decimal("1.5")}, key="x-1", subject="paper/A")

    assert first == again
    assert [first] == ledger.all("fill")


@pytest.mark.parametrize(("body", "subject"), [({"price": "1.51"}, "paper/A"), ({"price": "1.5"}, "paper/B")])
def test_a_key_that_is_taken_by_another_content_is_refused(ledger: Ledger, body: dict[str, str], subject: str) -> None:
    first = ledger.append("fill", {"price": "1.5"}, key="x-1", subject="paper/A")

    with pytest.raises(LedgerError, match="holds fill 'x-1' already, with another content"):
        ledger.append("fill", body, key="x-1", subject=subject)

    assert [first] == ledger.all("fill")


def test_one_key_may_be_used_by_several_kinds(ledger: Ledger) -> None:
    ledger.append("intent", {"quantity": "1"}, key="tw1")
    ledger.append("order", {"quantity": "2"}, key="tw1")

    assert ["1", "2"] == [ledger.get(kind, "tw1").body["quantity"] for kind in ("intent", "order")]  # type: ignore[union-attr]


def test_without_a_key_entries_are_numbered_by_kind_and_subject(ledger: Ledger) -> None:
    for subject in ("a", "b", "a", "a/1"):
        ledger.append("order", {}, subject=subject)
    ledger.append("step", {}, subject="a")

    assert ["a/1", "b/1", "a/2", "a/1/1"] == keys(ledger.all("order"))
    assert ["a/1"] == keys(ledger.all("step"))


def test_what_is_asked_for_is_found_by_key_subject_and_age(ledger: Ledger) -> None:
    old = ledger.append("order", {"state": "sent"}, subject="tw1")
    other = ledger.append("order", {"state": "dead"}, subject="tw2")
    new = ledger.append("order", {"state": "filled"}, subject="tw1")

    assert new == ledger.latest("order", "tw1")
    assert [old, new] == ledger.all("order", "tw1")
    assert [old, other, new] == ledger.all("order")
    assert old == ledger.get("order", "tw1/1")
    assert None is ledger.get("order", "tw1/3")
    assert None is ledger.latest("fill", "tw1")


def test_what_is_read_until_a_pin_never_changes(ledger: Ledger) -> None:
    assert 0 == ledger.pin()

    old = ledger.append("order", {"state": "sent"}, subject="tw1")
    pin = ledger.pin()
    ledger.append("order", {"state": "filled"}, subject="tw1")

    assert (old.seq, old.seq + 1) == (pin, ledger.pin())
    assert old == ledger.latest("order", "tw1", until=pin)
    assert [old] == ledger.all("order", until=pin)
    assert [] == ledger.all("order", until=0)


def test_a_reading_shows_one_moment_while_others_write(ledger: Ledger, path: Path) -> None:
    ledger.append("order", {"state": "sent"}, subject="tw1")

    with ledger.reading() as book:
        before = book.all("order")
        writer = in_another_process(path, "ledger.append('order', {'state': 'filled'}, subject='tw1')")
        assert 0 == writer.wait(60)
        seen = (book.all("order"), book.pin(), book.latest("order", "tw1"))

    assert (before, 1, before[0]) == seen
    assert 2 == len(ledger.all("order"))


def test_a_transaction_is_committed_whole_or_not_at_all(ledger: Ledger) -> None:
    def half_done() -> None:
        with ledger.writing() as book:
            book.append("intent", {}, key="tw1")
            assert book.get("intent", "tw1"), "it sees what it has written itself"
            raise KeyError("tw2")

    with pytest.raises(KeyError):
        half_done()

    assert [] == ledger.all("intent")
    assert [] == ledger.faults()


def test_time_goes_on_even_where_the_clock_goes_back(path: Path) -> None:
    moments = iter([NOW, NOW, NOW - timedelta(days=1), NOW + timedelta(seconds=1)])
    ledger = Ledger(path, lambda: next(moments))
    stamps = [ledger.append("step", {}, subject="run").at for _ in range(4)]

    assert [NOW, NOW + timedelta(microseconds=1), NOW + timedelta(microseconds=2), NOW + timedelta(seconds=1)] == stamps
    assert stamps == [entry.at for entry in ledger.all("step")]


def filled(ledger: Ledger) -> None:
    for number in range(5):
        ledger.append("fill", {"price": str(number)}, key=f"x-{number}", subject="paper/A")


def test_a_whole_ledger_has_no_faults(ledger: Ledger) -> None:
    assert [] == ledger.faults()

    filled(ledger)

    assert [] == ledger.faults()


@pytest.mark.parametrize(
    "change",
    [
        """body = '{"price":"9"}'""",
        "at_us = at_us - 1",
        "kind = 'order'",
        "key = 'x-9'",
        "subject = 'paper/B'",
        "hash = case substr(hash, 1, 1) when 'f' then 'e' else 'f' end || substr(hash, 2)",
    ],
)
def test_an_entry_that_was_altered_behind_the_triggers_is_found(ledger: Ledger, path: Path, change: str) -> None:
    filled(ledger)
    behind_its_back(path, *NO_TRIGGERS, f"update entries set {change} where seq = 3")  # noqa: S608

    assert any(" 3 " in fault and "does not follow" in fault for fault in ledger.faults())


@pytest.mark.parametrize(
    ("gone", "told"), [("= 1", "entries 1 to 1"), ("= 3", "entries 3 to 3"), ("in (2, 3)", "entries 2 to 3")]
)
def test_entries_that_are_missing_are_found(ledger: Ledger, path: Path, gone: str, told: str) -> None:
    filled(ledger)
    behind_its_back(path, *NO_TRIGGERS, f"delete from entries where seq {gone}")  # noqa: S608

    assert f"{told} are missing" == ledger.faults()[0]


def test_two_entries_that_changed_places_are_found(ledger: Ledger, path: Path) -> None:
    filled(ledger)
    swap = ("update entries set seq = 9 where seq = 2", "update entries set seq = 2 where seq = 3")
    behind_its_back(path, *NO_TRIGGERS, *swap, "update entries set seq = 3 where seq = 9")

    assert 2 <= len(ledger.faults())


@pytest.mark.parametrize("act", ["update entries set body = '{}' where seq = 1", "delete from entries where seq = 1"])
def test_nobody_updates_or_deletes_an_entry(ledger: Ledger, path: Path, act: str) -> None:
    filled(ledger)

    with pytest.raises(sqlite3.IntegrityError, match="entries is append-only"):
        behind_its_back(path, act)

    assert [] == ledger.faults()
    assert 5 == ledger.pin()


def test_processes_that_append_at_once_lose_nothing_and_double_nothing(path: Path) -> None:
    story = """
for number in range(40):
    ledger.append("own", {}, subject=str(os.getpid()))
    ledger.append("common", {"number": number}, key=str(number), subject="all")
"""
    writers = [in_another_process(path, story) for _ in range(4)]

    assert [0, 0, 0, 0] == [writer.wait(120) for writer in writers]
    ledger = Ledger(path, wall)
    own, common = ledger.all("own"), ledger.all("common")
    assert (160, 40) == (len(own), len(common))
    assert {f"{entry.subject}/{number}" for entry in own for number in range(1, 41)} == set(keys(own))
    assert list(range(1, 201)) == sorted(entry.seq for entry in own + common)
    assert [] == ledger.faults()


def test_times_ascend_over_all_that_wrote_at_once(path: Path) -> None:
    story = "for _ in range(40): ledger.append('own', {}, subject=str(os.getpid()))"
    for writer in [in_another_process(path, story) for _ in range(3)]:
        assert 0 == writer.wait(120)

    stamps = [entry.at for entry in Ledger(path, wall).all("own")]
    assert 120 == len(stamps)
    assert all(earlier < later for earlier, later in pairwise(stamps))


def test_a_process_that_is_killed_in_a_transaction_leaves_nothing_and_blocks_nobody(ledger: Ledger, path: Path) -> None:
    kept = ledger.append("intent", {}, key="kept")
    story = """
with ledger.writing() as book:
    for number in range(2000):
        book.append("intent", {"text": "x" * 2000}, key=str(number))
    os.kill(os.getpid(), signal.SIGKILL)
"""
    writer = in_another_process(path, story)

    assert -signal.SIGKILL == writer.wait(120)
    assert [kept] == ledger.all("intent")
    assert 2 == ledger.append("intent", {}, key="next").seq
    assert [] == ledger.faults()


def test_what_was_acknowledged_survives_a_kill(path: Path) -> None:
    story = """
for number in range(1000):
    ledger.append("fill", {}, key=str(number))
    print(number, flush=True)
"""
    writer = in_another_process(path, story)
    assert writer.stdout
    acknowledged = [int(writer.stdout.readline()) for _ in range(25)]
    writer.kill()
    acknowledged += [int(line) for line in writer.stdout.read().splitlines()]
    writer.wait()

    ledger = Ledger(path, wall)
    assert [str(number) for number in acknowledged] == keys(ledger.all("fill"))[: len(acknowledged)]
    assert [] == ledger.faults()


def test_a_ledger_of_a_newer_program_is_refused_and_left_alone(ledger: Ledger, path: Path) -> None:
    ledger.append("run", {}, key="r1")
    behind_its_back(path, "update ledger_version set version = 7")

    with pytest.raises(LedgerError, match=r"^the ledger is of version 7; this program knows up to \d+: use the newer"):
        Ledger(path, wall)

    assert ["r1"] == keys(ledger.all("run"))


def test_opening_a_ledger_again_migrates_nothing(ledger: Ledger, path: Path) -> None:
    ledger.append("run", {}, key="r1")
    again = Ledger(path, wall)

    assert ["r1"] == keys(again.all("run"))
    assert [(1,)] == sqlite3.connect(path).execute("select version from ledger_version").fetchall()


def test_a_file_that_is_no_database_is_refused_and_left_alone(path: Path) -> None:
    path.write_text("date,close\n2026-03-02,500.00\n" * 100)
    before = path.read_bytes()

    with pytest.raises(LedgerError, match=r"ledger\.db: the ledger cannot be opened: file is not a database"):
        Ledger(path, wall)

    assert before == path.read_bytes()


@pytest.mark.parametrize("place", ["folder", "file/ledger.db"])
def test_a_place_where_no_file_can_be_is_refused(tmp_path: Path, place: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()

    with pytest.raises(LedgerError, match="the ledger cannot be opened"):
        Ledger(tmp_path / place, wall)


def test_a_ledger_that_is_torn_while_it_is_open_says_so_in_our_words(path: Path) -> None:
    ledger = Ledger(path, wall)
    behind_its_back(path, "drop table entries")

    with pytest.raises(LedgerError, match=r"ledger\.db: the ledger does not answer: no such table: entries"):
        ledger.pin()


def test_every_connection_is_durable_patient_and_does_not_shut_readers_out(ledger: Ledger) -> None:
    for transaction in (ledger.reading, ledger.writing):
        with transaction() as book:
            told = [
                book._connection.exec_driver_sql(f"pragma {name}").scalar()
                for name in ("journal_mode", "synchronous", "busy_timeout", "foreign_keys")
            ]

        assert ["wal", 2, 30_000, 1] == told  # 2 is FULL


def test_the_views_show_runs_orders_and_fills_to_people(ledger: Ledger, path: Path) -> None:
    run = {"plan": "p1", "revision": 1, "account": "PAPER", "broker": "paper", "as_of": NOW, "dry_run": False}
    ledger.append("run", run, key="r1", subject="PAPER")
    ledger.append("order", {"state": "sent", "quantity": Decimal(3), "filled": Decimal(0)}, subject="tw1")
    ledger.append("order", {"state": "filled", "quantity": Decimal(3), "filled": Decimal(3)}, subject="tw1")
    fill = {"order_ref": "tw1", "symbol": "SPY", "side": "buy", "quantity": Decimal(3), "price": Decimal("1.50")}
    ledger.append("fill", fill, key="x-1", subject="paper/PAPER")

    shown = sqlite3.connect(path)
    questions = (
        "select key, plan, revision, account, as_of from runs",
        "select subject, state, filled from orders order by seq",
        "select key, order_ref, symbol, quantity, price from fills",
    )
    expected: list[list[tuple[Any, ...]]] = [
        [("r1", "p1", 1, "PAPER", "2026-03-02T15:05:00Z")],
        [("tw1", "sent", "0"), ("tw1", "filled", "3")],
        [("x-1", "tw1", "SPY", "3", "1.5")],
    ]
    assert expected == [shown.execute(question).fetchall() for question in questions]
    moments = [text for (text,) in shown.execute("select recorded_at from fills")]
    assert [ledger.all("fill")[0].at.isoformat(timespec="milliseconds")[:19]] == [text[:19] for text in moments]


@pytest.mark.parametrize(
    "view", ["plans", "runs", "outcomes", "steps", "results", "verdicts", "intents", "orders", "fills"]
)
def test_every_view_can_be_read_from_the_start(ledger: Ledger, path: Path, view: str) -> None:
    assert [] == sqlite3.connect(path).execute(f"select * from {view}").fetchall()  # noqa: S608


def test_bodies_are_written_in_one_spelling(ledger: Ledger, path: Path) -> None:
    body = {"b": Decimal("1E+2"), "a": NOW, "ü": (Decimal("-0.00"), None, True), "c": {"y": 1, "x": Decimal("0.10")}}
    ledger.append("order", body, key="one")
    [(text,)] = sqlite3.connect(path).execute("select body from entries").fetchall()

    assert r'{"a":"2026-03-02T15:05:00Z","b":"100","c":{"x":"0.1","y":1},"\u00fc":["0",null,true]}' == text


@pytest.mark.parametrize("value", [1.5, float("nan"), {1, 2}, b"x", object()])
def test_what_has_no_one_spelling_is_refused_and_nothing_is_written(ledger: Ledger, value: object) -> None:
    with pytest.raises(TypeError):
        ledger.append("order", {"price": value}, key="one")

    assert 0 == ledger.pin()


@examples(100)
@given(
    st.dictionaries(
        st.text(max_size=5),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=5), lambda inner: st.lists(inner, max_size=3)
        ),
        max_size=4,
    )
)
def test_a_body_is_spelled_alike_before_and_after_it_was_kept(body: dict[str, Any]) -> None:
    text = canonical_json(body)

    assert text.isascii()
    assert text == canonical_json(json.loads(text))
    assert digest(body) == digest(json.loads(text))
