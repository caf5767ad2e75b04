"""The ledger: append-only entries in a hash chain, from which everything that happened can be read.

One table. An entry has a kind, a key that is unique within its kind, a subject that later questions ask for
("what is the latest `order` of this reference?"), and a body of canonical JSON. What *is* (a plan's status, an order's
state, who holds a lease) is the latest entry of a kind and subject; the views in `schema.py` show it to people.
"""

import hashlib
import json
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from blocks.canonical import canonical_json
from blocks.errors import LedgerError
from blocks.schema import entries, migrate

_BEGINNING = "0" * 64
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Entry:
    """One thing that happened. `seq` is its place in the chain, `at` its wall-clock moment, strictly ascending."""

    seq: int
    at: datetime
    kind: str
    key: str
    subject: str
    body: dict[str, Any]


def _entry(row: Any) -> Entry:
    at = _EPOCH + timedelta(microseconds=row.at_us)
    return Entry(row.seq, at, row.kind, row.key, row.subject, json.loads(row.body))


def _link(before: str, seq: int, at_us: int, kind: str, key: str, subject: str, body: str) -> str:
    head = json.dumps([before, seq, at_us, kind, key, subject], ensure_ascii=True)
    return hashlib.sha256(f"{head}{body}".encode()).hexdigest()


class Reading:
    """Questions that can be asked of the ledger, within one transaction."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def get(self, kind: str, key: str) -> Entry | None:
        """Return the one entry of this kind and key."""
        return self._first(sa.select(entries).where(entries.c.kind == kind, entries.c.key == key))

    def latest(self, kind: str, subject: str, until: int | None = None) -> Entry | None:
        """Return the newest entry of this kind and subject, up to sequence number `until`."""
        return self._first(self._of(kind, subject, until).order_by(entries.c.seq.desc()).limit(1))

    def all(self, kind: str, subject: str | None = None, until: int | None = None, after: int = 0) -> list[Entry]:
        """Return every entry of this kind, and subject if one is given, `after` a sequence number, oldest first."""
        question = self._of(kind, subject, until).where(entries.c.seq > after).order_by(entries.c.seq)
        return [_entry(row) for row in self._connection.execute(question)]

    def pin(self) -> int:
        """Return the newest sequence number: what is read `until` it never changes again."""
        return int(self._connection.scalar(sa.select(sa.func.max(entries.c.seq))) or 0)

    def link(self, seq: int) -> str | None:
        """Return the hash of an entry in the chain: it stands for all that was written up to there."""
        link: str | None = self._connection.scalar(sa.select(entries.c.hash).where(entries.c.seq == seq))
        return link

    def _of(self, kind: str, subject: str | None, until: int | None) -> sa.Select[Any]:
        question = sa.select(entries).where(entries.c.kind == kind)
        if subject is not None:
            question = question.where(entries.c.subject == subject)
        return question if until is None else question.where(entries.c.seq <= until)

    def _first(self, question: sa.Select[Any]) -> Entry | None:
        row = self._connection.execute(question).first()
        return None if row is None else _entry(row)


class Writing(Reading):
    """A transaction in which nobody else writes: what it reads is still true when it commits."""

    def __init__(self, connection: sa.Connection, wall: Callable[[], datetime]) -> None:
        super().__init__(connection)
        self._wall = wall

    def append(self, kind: str, body: Mapping[str, Any], *, key: str | None = None, subject: str = "") -> Entry:
        """Add an entry; the same kind, key and body again changes nothing and returns the first.

        Without a key the entry is the next one of its subject. Raises LedgerError where the key holds another body.
        """
        text = canonical_json(body)
        if key is None:
            key = f"{subject}/{self._count(kind, subject) + 1}"
        elif (there := self.get(kind, key)) is not None:
            if canonical_json(there.body) != text or there.subject != subject:
                raise LedgerError(f"the ledger holds {kind} {key!r} already, with another content")
            return there
        return self._add(kind, key, subject, text)

    def _count(self, kind: str, subject: str) -> int:
        question = sa.select(sa.func.count()).where(entries.c.kind == kind, entries.c.subject == subject)
        return int(self._connection.scalar(question) or 0)

    def _add(self, kind: str, key: str, subject: str, text: str) -> Entry:
        newest = sa.select(entries.c.seq, entries.c.at_us, entries.c.hash).order_by(entries.c.seq.desc()).limit(1)
        last = self._connection.execute(newest).first()
        now_us = (self._wall() - _EPOCH) // timedelta(microseconds=1)
        seq, at_us, before = (last.seq + 1, max(last.at_us + 1, now_us), last.hash) if last else (1, now_us, _BEGINNING)
        link = _link(before, seq, at_us, kind, key, subject, text)
        row = {"seq": seq, "at_us": at_us, "kind": kind, "key": key, "subject": subject, "body": text, "hash": link}
        self._connection.execute(sa.insert(entries).values(row))
        return Entry(seq, _EPOCH + timedelta(microseconds=at_us), kind, key, subject, json.loads(text))


class Ledger:
    """A ledger file. Every write is on the disk before the call that made it returns."""

    def __init__(self, path: Path, wall: Callable[[], datetime]) -> None:
        """Open the ledger, creating or migrating it. Raises LedgerError when it is newer than this program, or torn."""
        self.path = path
        self._wall = wall
        self._engine = _engine(path)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with self._engine.connect().execution_options(writes=True) as connection, connection.begin():
                migrate(connection)
        except (OSError, sa.exc.DatabaseError) as error:
            self.close()
            cause = getattr(error, "orig", None) or error
            raise LedgerError(f"{path}: the ledger cannot be opened: {cause}") from None

    @contextmanager
    def reading(self) -> Iterator[Reading]:
        """Read at one moment: entries committed meanwhile stay unseen."""
        with self._transaction(writes=False) as connection:
            yield Reading(connection)

    @contextmanager
    def writing(self) -> Iterator[Writing]:
        """Read and write in one step: committed whole at the end, or not at all."""
        with self._transaction(writes=True) as connection:
            yield Writing(connection, self._wall)

    @contextmanager
    def _transaction(self, *, writes: bool) -> Iterator[sa.Connection]:
        """Open a transaction. Raises LedgerError where the file will not have it: locked too long, full or torn."""
        try:
            with self._engine.connect().execution_options(writes=writes) as connection, connection.begin():
                yield connection
        except sa.exc.DBAPIError as error:
            raise LedgerError(f"{self.path}: the ledger does not answer: {error.orig}") from error

    def append(self, kind: str, body: Mapping[str, Any], *, key: str | None = None, subject: str = "") -> Entry:
        """Add one entry; see `Writing.append`."""
        with self.writing() as book:
            return book.append(kind, body, key=key, subject=subject)

    def get(self, kind: str, key: str) -> Entry | None:
        """Return the one entry of this kind and key."""
        with self.reading() as book:
            return book.get(kind, key)

    def latest(self, kind: str, subject: str, until: int | None = None) -> Entry | None:
        """Return the newest entry of this kind and subject."""
        with self.reading() as book:
            return book.latest(kind, subject, until)

    def all(self, kind: str, subject: str | None = None, until: int | None = None, after: int = 0) -> list[Entry]:
        """Return every entry of this kind, and subject if one is given, `after` a sequence number, oldest first."""
        with self.reading() as book:
            return book.all(kind, subject, until, after)

    def pin(self) -> int:
        """Return the newest sequence number."""
        with self.reading() as book:
            return book.pin()

    def link(self, seq: int) -> str | None:
        """Return the hash of an entry in the chain."""
        with self.reading() as book:
            return book.link(seq)

    def faults(self) -> list[str]:
        """Recompute the hash chain; return what does not fit, in order; empty means the ledger is whole."""
        found, before, expected = [], _BEGINNING, 1
        with self._transaction(writes=False) as connection:
            for row in connection.execute(sa.select(entries).order_by(entries.c.seq)):
                if row.seq != expected:
                    found.append(f"entries {expected} to {row.seq - 1} are missing")
                if row.hash != _link(before, row.seq, row.at_us, row.kind, row.key, row.subject, row.body):
                    found.append(f"entry {row.seq} ({row.kind} {row.key}) does not follow from the one before it")
                before, expected = row.hash, row.seq + 1
        return found

    def close(self) -> None:
        """Let go of the file."""
        self._engine.dispose()


def _become_wal(raw: Any, patience: int = 600) -> None:
    """Switch to WAL. Of several that open a new file at once SQLite tells some `locked` without waiting: ask again."""
    while True:
        try:
            raw.execute("pragma journal_mode=WAL")
        except sqlite3.OperationalError:
            patience -= 1
            if patience <= 0:
                raise
            time.sleep(0.05)
        else:
            return


def _engine(path: Path) -> sa.Engine:
    engine = sa.create_engine(sa.URL.create("sqlite", database=str(path)))

    @sa.event.listens_for(engine, "connect")
    def _prepare(raw: Any, _record: object) -> None:
        raw.isolation_level = None  # the driver's own transactions would begin too late: we say BEGIN ourselves
        for pragma in ("busy_timeout=30000", "synchronous=FULL", "foreign_keys=ON"):
            raw.execute(f"pragma {pragma}")
        _become_wal(raw)

    @sa.event.listens_for(engine, "begin")
    def _begin(connection: sa.Connection) -> None:
        writes = connection.get_execution_options().get("writes")
        connection.exec_driver_sql("begin immediate" if writes else "begin")

    return engine
