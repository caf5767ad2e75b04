"""A ledger of every version that was ever released is brought up to date, and loses nothing on the way.

`tests/ledgers/N.sql` is a ledger as version N left it. Run as a program this file writes the one of today's version:
do so with every migration, and never change one of a version that was released.
"""

import sqlite3
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from blocks import schema
from blocks.ledger import Entry, Ledger

FOLDER = Path(__file__).parent / "ledgers"
NOW = datetime(2026, 3, 2, 15, 5, tzinfo=UTC)
NEWEST = len(schema._MIGRATIONS)
WRITTEN = (
    ("run", "PAPER/1", "PAPER", {"account": "PAPER", "as_of": "2026-03-02T15:05:00Z", "plan": "p1", "revision": 1}),
    ("order", "o1/1", "o1", {"filled": "0", "state": "sent"}),
    ("order", "o1/2", "o1", {"filled": "5", "message": "100 €", "price": "101.25", "state": "filled"}),
)


def wall() -> datetime:
    return NOW


def write(path: Path) -> None:
    """Write a ledger of today's version with an entry of some kinds."""
    ledger = Ledger(path, wall)
    for kind, key, subject, body in WRITTEN:
        ledger.append(kind, body, key=key, subject=subject)
    ledger.close()


def dumped(path: Path) -> str:
    with sqlite3.connect(path) as raw:
        return "\n".join(line.rstrip() for line in "\n".join(raw.iterdump()).splitlines()) + "\n"


def columns(path: Path) -> list[str]:
    """Return every table's and view's columns, every index and trigger."""
    with sqlite3.connect(path) as raw:
        of_tables = "select m.type, m.name, c.* from sqlite_master m, pragma_table_info(m.name) c"
        others = "select type, name, tbl_name, sql from sqlite_master where type in ('index', 'trigger')"
        return sorted(map(repr, [*raw.execute(of_tables), *raw.execute(others)]))


def loaded(version: int, path: Path) -> None:
    with sqlite3.connect(path) as raw:
        raw.executescript((FOLDER / f"{version}.sql").read_text("utf-8"))


@pytest.mark.parametrize("version", range(1, NEWEST + 1))
def test_a_ledger_of_every_version_is_kept_to_try_migrations_on(version: int) -> None:
    assert (FOLDER / f"{version}.sql").is_file(), "write it: python tests/test_migrations.py"


@pytest.mark.parametrize("version", range(1, NEWEST + 1))
def test_a_ledger_of_every_version_opens_whole_and_goes_on(version: int, tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    loaded(version, path)
    ledger = Ledger(path, wall)
    found = [entry for kind in ("run", "order") for entry in ledger.all(kind)]

    assert [
        Entry(seq, NOW + timedelta(microseconds=seq - 1), kind, key, subject, body)
        for seq, (kind, key, subject, body) in enumerate(WRITTEN, start=1)
    ] == found
    assert [] == ledger.faults()
    assert len(WRITTEN) + 1 == ledger.append("order", {"state": "late"}, subject="o2").seq
    assert [] == ledger.faults()


@pytest.mark.parametrize("version", range(1, NEWEST + 1))
def test_a_migrated_ledger_is_no_other_than_a_new_one(version: int, tmp_path: Path) -> None:
    loaded(version, tmp_path / "old.db")
    Ledger(tmp_path / "old.db", wall).close()
    write(tmp_path / "new.db")

    assert columns(tmp_path / "new.db") == columns(tmp_path / "old.db")


def test_the_newest_ledger_that_is_kept_is_what_this_version_writes(tmp_path: Path) -> None:
    """A table changed without a migration is found here; unless no release has it yet, add the migration."""
    write(tmp_path / "ledger.db")

    assert (FOLDER / f"{NEWEST}.sql").read_text("utf-8") == dumped(tmp_path / "ledger.db")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder) / "ledger.db")
        FOLDER.mkdir(exist_ok=True)
        (FOLDER / f"{NEWEST}.sql").write_text(dumped(Path(folder) / "ledger.db"), "utf-8")
