"""The store among processes that are killed at random: nothing acknowledged is lost, and no reader sees a trace of it.

Run as a program this file is what the tests watch: it forks writers, readers and someone with a notebook, kills them at
random, and puts new ones in their place.
"""

import datetime as dt
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from blocks.brokers.port import AccountState, Position, WorkingOrder
from blocks.canonical import digest
from blocks.ledger import Ledger
from blocks.market.bar_table import BarTable
from blocks.market.blobs import Blobs
from blocks.market.quotes import Quote
from blocks.market.snapshots import Snapshot
from blocks.market.store import MarketStore

ROOT = Path(__file__).parent.parent
NOW = dt.datetime(2026, 3, 2, 15, 5, tzinfo=dt.UTC)
SYMBOLS = ("W0", "W1", "W2", "W3", "ALL")


def opened(home: Path) -> tuple[Ledger, MarketStore]:
    ledger = Ledger(home / "ledger.db", lambda: dt.datetime.now(dt.UTC))
    return ledger, MarketStore(home, ledger)


# ------------------------------------------------------------------------------------------- what each process does


def put_quotes(store: MarketStore, symbol: str, figure: Decimal) -> str:
    quotes = [Quote(symbol=each, bid=figure, ask=figure, at=NOW) for each in (symbol, "ALL")]
    return store.put_quotes("ib", NOW, quotes)


def put_account(store: MarketStore, symbol: str, figure: Decimal) -> str:
    held = (Position(symbol=symbol, quantity=figure),)
    order = WorkingOrder(order_ref=symbol, symbol=symbol, side="buy", quantity=figure, filled=Decimal(0), limit=figure)
    state = AccountState(id="DU1", as_of=NOW, cash={"USD": figure}, positions=held)
    return store.put_account("ib", state, [order])


def put_bars(store: MarketStore, symbol: str, figure: Decimal) -> str:
    session = NOW.date() + dt.timedelta(days=int(figure) % 400)
    none = (None, None)
    table = BarTable(("ALL", symbol), (session, session), none, none, none, (figure, figure), none)
    return store.put_bars(f"file:{symbol}", table)


PUTS: dict[str, Callable[[MarketStore, str, Decimal], str]] = {
    "quotes": put_quotes,
    "account": put_account,
    "bars": put_bars,
}


def figures_of(store: MarketStore, snapshot: Snapshot) -> set[Decimal | None]:
    """Return every figure in a snapshot: there is one, unless something is missing or mixed."""
    if snapshot.kind == "quotes":
        quotes = store.quotes(snapshot.id)
        return {None for _ in range(len(quotes), 2)} | {quote.bid for quote in quotes}
    if snapshot.kind == "bars":
        table = store.bars(snapshot.id)
        return {None for _ in range(len(table), 2)} | set(table.close)
    state, orders = store.account(snapshot.id)
    (held,), (order,) = state.positions, orders
    return {state.cash["USD"], held.quantity, order.quantity, order.limit}


def write(home: Path, number: int, chance: random.Random) -> None:
    """Put snapshots, noting each once the store has acknowledged it; now and then compact, publish and tidy up."""
    _, store = opened(home)
    store.tidy(dt.datetime.now(dt.UTC))
    with (home / "notes" / f"acknowledged-{number}").open("a") as notes:
        while not (home / "notes" / "stop").exists():
            kind, figure = chance.choice(list(PUTS)), Decimal(time.time_ns() // 1000 % 10**10) / 1000
            snapshot_id = PUTS[kind](store, f"W{number}", figure)
            notes.write(f"{snapshot_id} {figure}\n")
            notes.flush()
            chance.choice([store.compact, store.publish, *[lambda: None] * 8])()


def read(home: Path, number: int, chance: random.Random) -> None:
    """Read by a pin again and again; note what it answered."""
    ledger, store = opened(home)
    with (home / "notes" / f"read-{number}").open("a") as notes:
        while not (home / "notes" / "stop").exists():
            pin = ledger.pin()
            answer = answers(store, pin)
            for snapshot in store.snapshots(until=pin)[-3:]:
                if len(figures := figures_of(store, snapshot)) != 1:
                    note_error(home, f"snapshot {snapshot.id} is partial: {figures}")
            time.sleep(chance.uniform(0, 0.1))
            if answer != answers(store, pin):
                note_error(home, f"what was read by pin {pin} has changed")
            notes.write(f"{pin} {answer}\n")
            notes.flush()


def hold(home: Path, number: int, chance: random.Random) -> None:
    """Hold `market.duckdb` open, as a notebook does that means to write into it."""
    import duckdb  # noqa: PLC0415

    while not (home / "notes" / "stop").exists():
        if (home / "market.duckdb").exists():
            with duckdb.connect(str(home / "market.duckdb")) as notebook:
                notebook.execute("select count(*) from snapshots").fetchall()
                time.sleep(chance.uniform(0.2, 2))
        time.sleep(0.05)


def answers(store: MarketStore, pin: int) -> str:
    last = NOW.date() + dt.timedelta(days=999)
    latest = store.latest_bars(SYMBOLS, last, pin)
    history = {symbol: store.history(symbol, last, pin) for symbol in SYMBOLS}
    return digest([repr(latest), repr(history), store.symbols(pin), repr(store.closes(SYMBOLS, 9, last, pin))])


def note_error(home: Path, text: str) -> None:
    with (home / "notes" / "errors").open("a") as notes:
        notes.write(text + "\n")


Role = tuple[Callable[[Path, int, random.Random], None], int]
ROLES: tuple[Role, ...] = (*((write, number) for number in range(4)), (read, 0), (read, 1), (hold, 0))


def started(home: Path, role: Role, seed: str) -> int:
    child = os.fork()
    if child:
        return child
    work, number = role
    try:
        work(home, number, random.Random(seed))  # noqa: S311
    except BaseException:  # noqa: BLE001  whatever it is, it is told, and the process ends
        note_error(home, f"{work.__name__} {number}: {traceback.format_exc()}")
    os._exit(0)


def run(home: Path, seconds: float, seed: str) -> None:
    """Keep everybody at work for some time, killing one after another; note how many were killed."""
    import duckdb  # noqa: F401, PLC0415  here once, instead of in every child for a second
    import numpy as np  # noqa: F401, PLC0415

    chance = random.Random(seed)  # noqa: S311
    (home / "notes").mkdir()
    running = {started(home, role, f"{seed}/{at}"): role for at, role in enumerate(ROLES)}
    end, kills = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        time.sleep(chance.uniform(0.1, 0.9))
        child = chance.choice(list(running))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        kills += 1
        role = running.pop(child)
        running[started(home, role, f"{seed}/{kills}+")] = role
    (home / "notes" / "stop").touch()
    for child in running:
        os.waitpid(child, 0)
    (home / "notes" / "kills").write_text(str(kills))


# ------------------------------------------------------------------------------------------- what has to hold


def noted(home: Path, what: str) -> Iterator[tuple[str, str]]:
    """Yield the notes of all processes; a last line without its end was never finished."""
    for path in (home / "notes").glob(f"{what}-*"):
        for line in path.read_text().splitlines(keepends=True):
            if line.endswith("\n"):
                first, second = line.split()
                yield first, second


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seconds", [6, pytest.param(20, marks=pytest.mark.slow)])
def test_nothing_acknowledged_is_lost_among_processes_that_are_killed(tmp_path: Path, seconds: int) -> None:
    seed = os.environ.get("TRADEWRIGHT_SEED") or str(random.randrange(10**9))  # noqa: S311
    command = [sys.executable, "-W", "ignore::DeprecationWarning", __file__, str(tmp_path), str(seconds), seed]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)
    assert (done.returncode, done.stderr) == (0, ""), f"TRADEWRIGHT_SEED={seed}"
    errors = tmp_path / "notes" / "errors"
    assert not errors.exists(), f"TRADEWRIGHT_SEED={seed}\n{errors.read_text()}"

    ledger, store = opened(tmp_path)
    acknowledged, answered = dict(noted(tmp_path, "acknowledged")), sorted(set(noted(tmp_path, "read")))
    there = {snapshot.id: snapshot for snapshot in store.snapshots()}
    kills = int((tmp_path / "notes" / "kills").read_text())
    print(f"seed {seed}: {kills} kills, {len(acknowledged)} acknowledged, {len(there)} there, {len(answered)} reads")  # noqa: T201

    assert set() == acknowledged.keys() - there.keys()
    assert {key: {Decimal(figure)} for key, figure in acknowledged.items()} == {
        key: figures_of(store, there[key]) for key in acknowledged
    }
    assert {1} == {len(figures_of(store, snapshot)) for snapshot in there.values()}
    some = random.sample(answered, min(40, len(answered)))
    assert [answer for _, answer in some] == [answers(store, int(pin)) for pin, _ in some]
    assert ([], []) == (store.faults(), ledger.faults())
    assert min(kills, len(acknowledged), len(answered)) > 0

    store.tidy(dt.datetime.now(dt.UTC))

    assert [] == list((tmp_path / "blobs" / ".tmp").iterdir())
    store.sweep(dt.datetime.now(dt.UTC) + dt.timedelta(hours=2))
    named = {part.blob for snapshot in store.snapshots() for part in snapshot.parts.values()}
    assert named == {path.stem for path in (tmp_path / "blobs").glob("??/*.parquet")}
    assert ([], []) == (store.faults(), ledger.faults())


# ------------------------------------------------------------------------------------------- leftovers


@pytest.fixture
def store(tmp_path: Path) -> MarketStore:
    return opened(tmp_path)[1]


def left_behind(store: MarketStore, process: int, machine: str | None = None) -> Path:
    path = store._snapshots.blobs.temporary()
    mine, _, rest = path.name.split("-", 2)
    path = path.with_name(f"{machine or mine}-{process}-{rest}")
    path.write_text("half")
    return path


def test_a_start_removes_what_the_dead_left_and_nothing_of_the_living(store: MarketStore) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    dead, living, elsewhere = (
        left_behind(store, gone.pid),
        left_behind(store, os.getppid()),
        left_behind(store, gone.pid, machine="another"),
    )
    spilled = dead.with_name(f"{dead.name}.spill")
    spilled.mkdir()
    (spilled / "block").write_text("half")

    assert 2 == store.tidy(dt.datetime.now(dt.UTC))
    assert [False, False, True, True] == [path.exists() for path in (dead, spilled, living, elsewhere)]


def test_a_start_sweeps_once_a_day(store: MarketStore, monkeypatch: pytest.MonkeyPatch) -> None:
    now, swept = dt.datetime.now(dt.UTC), []
    monkeypatch.setattr(Blobs, "old_files", lambda _self, at: swept.append(at) or [])

    for hours in (0, 1, 23, 25, 26, 50):
        store.tidy(now + dt.timedelta(hours=hours))

    assert [0, 25, 50] == [round((at - now.timestamp()) / 3600) for at in swept]


# ------------------------------------------------------------------------------------------- a torn write-ahead log


def _cut(wal: Path, size: int) -> None:
    os.truncate(wal, size)


def _zeroed(wal: Path, size: int) -> None:
    wal.write_bytes(wal.read_bytes()[:size].ljust(wal.stat().st_size, b"\0"))


def _scrambled(wal: Path, size: int) -> None:
    content = wal.read_bytes()
    wal.write_bytes(content[:size] + bytes(byte ^ 0x55 for byte in content[size:]))


@pytest.mark.parametrize("harm", [_cut, _zeroed, _scrambled])
@pytest.mark.parametrize("kept", [0.0, 0.3, 0.6, 0.99])
def test_a_ledger_whose_log_lost_its_end_opens_with_what_came_before(
    tmp_path: Path, harm: Callable[[Path, int], None], kept: float
) -> None:
    ledger, store = opened(tmp_path / "whole")
    ids = [put_bars(store, f"W{number}", Decimal(number + 1)) for number in range(12)]
    store.compact()
    torn = tmp_path / "torn"
    shutil.copytree(tmp_path / "whole", torn)  # as the disk is found after a power cut: nothing was closed
    wal = torn / "ledger.db-wal"
    harm(wal, int(wal.stat().st_size * kept))

    ledger, store = opened(torn)
    left = [snapshot.id for snapshot in store.snapshots()]

    assert ids[: len(left)] == left
    assert len(left) < len(ids)
    assert [] == ledger.faults()  # a beginning is whole: the chain cannot tell what came after it
    assert [f"made of a ledger with another entry {len(ids)} than this one, whose last is {len(left)}"] == [
        fault.partition(": ")[2] for fault in store.faults()
    ]
    assert [snapshot.id for snapshot in store.snapshots() if figures_of(store, snapshot)] == left
    assert sorted(f"W{number}" for number in range(len(left))) == sorted({*store.symbols(None)} - {"ALL"})
    assert ids[-1] == put_bars(store, "W11", Decimal(12))  # and it goes on from there
    assert [] == ledger.faults()


def test_a_log_that_was_lost_while_the_ledger_was_closed_properly_is_no_loss(tmp_path: Path) -> None:
    ledger, store = opened(tmp_path)
    put_bars(store, "W0", Decimal(1))
    ledger.close()
    with sqlite3.connect(tmp_path / "ledger.db") as raw:
        raw.execute("pragma wal_checkpoint(truncate)")
    (tmp_path / "ledger.db-wal").unlink(missing_ok=True)

    assert 1 == len(opened(tmp_path)[1].snapshots())


# ------------------------------------------------------------------------------------------- what is written about it


def test_each_test_that_the_page_of_promises_names_is_there() -> None:
    named = set(re.findall(r"`(test_\w+)`", (ROOT / "docs" / "storage.md").read_text("utf-8")))
    texts = (path.read_text("utf-8") for path in (ROOT / "tests").glob("test_*.py"))
    there = {name for text in texts for name in re.findall(r"def (test_\w+)", text)}

    assert set() == named - there
    assert len(named) > 30


if __name__ == "__main__":
    run(Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3])
