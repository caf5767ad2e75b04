"""Compacted bars: they answer as the snapshots do, to every pin; nothing is lost with them, and no reader trips."""

import ast
import datetime as dt
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from importlib.metadata import version
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blocks.errors import MarketError
from blocks.ledger import Ledger
from blocks.market.bar_table import BarTable
from blocks.market.compacted import _LAYOUT
from blocks.market.connection import ask, cursor
from blocks.market.store import MarketStore
from tests.examples import examples

ROOT = Path(__file__).parent.parent
DAY = dt.date(2026, 3, 2)
SYMBOLS = ("A", "B", "C")

Rows = dict[tuple[str, dt.date], str]


def day(number: int) -> dt.date:
    return DAY + dt.timedelta(days=number)


def opened(home: Path) -> MarketStore:
    return MarketStore(home, Ledger(home / "ledger.db", lambda: dt.datetime.now(dt.UTC)))


@pytest.fixture
def store(tmp_path: Path) -> MarketStore:
    return opened(tmp_path)


def bar_table(rows: Rows) -> BarTable:
    """Return bars of which every figure differs from the close, and one is missing."""
    keys = sorted(rows, key=lambda key: (key[1], key[0]))
    closes = tuple(Decimal(rows[key]) for key in keys)
    return BarTable(
        symbol=tuple(symbol for symbol, _ in keys),
        session=tuple(session for _, session in keys),
        open=tuple(close + 1 for close in closes),
        high=(None,) * len(keys),
        low=closes,
        close=closes,
        volume=tuple(Decimal(place) for place in range(len(keys))),
    )


def put(store: MarketStore, source: str, rows: Rows) -> int:
    store.put_bars(source, bar_table(rows))
    return store.snapshots()[-1].seq


def compacted(store: MarketStore) -> list[Path]:
    return sorted((store.home / "derived").glob("bars-*"))


def answers(store: MarketStore, until: int | None, symbols: tuple[str, ...] = SYMBOLS) -> list[object]:
    """Ask everything; bars as text, so that 1.50 is not taken for 1.5."""
    days = (day(2), day(31), day(900))
    return [
        store.symbols(until),
        store.first_session(symbols, until),
        store.last_session(symbols, until),
        *(repr(store.latest_bars(symbols, as_of, until)) for as_of in days),
        *(repr(store.history(symbol, days[-1], until)) for symbol in symbols),
        *(repr(store.closes(symbols, count, as_of, until)) for as_of, count in zip(days, (1, 2, 9), strict=True)),
    ]


def from_snapshots(store: MarketStore, until: int | None, symbols: tuple[str, ...] = SYMBOLS) -> list[object]:
    """Ask the same of the same snapshots where nothing is compacted."""
    bare = opened(store.home)
    bare._compacted._folder = store.home / "nothing-here"
    return answers(bare, until, symbols)


row_sets = st.dictionaries(
    st.tuples(st.sampled_from(SYMBOLS), st.sampled_from([0, 1, 2, 3, 30, 400]).map(day)),
    st.sampled_from(["1", "2.5", "3.00000001", "12345.6789", "9999999999999", "0.000000000001"]),
    min_size=1,
    max_size=8,
)
steps = st.lists(st.tuples(st.sampled_from(["sample", "csv", "ib"]), row_sets, st.booleans()), min_size=2, max_size=5)


@examples(8)
@given(done=steps, at=st.integers(0, 3))
def test_every_pin_reads_the_same_rows_compacted_or_not(
    tmp_path_factory: pytest.TempPathFactory, done: list[tuple[str, Rows, bool]], at: int
) -> None:
    store = opened(tmp_path_factory.mktemp("compacted"))
    pins: list[int] = []
    for source, rows, then_compact in done:
        pins.append(put(store, source, rows))
        if then_compact:
            store.compact()

    asked = {pins[at % len(pins)], pins[-1], None}

    assert [from_snapshots(store, pin) for pin in asked] == [answers(store, pin) for pin in asked]
    assert [] == store.faults()


def test_a_source_of_ones_own_replaces_a_sample_that_was_compacted(store: MarketStore) -> None:
    first = put(store, "sample", {("A", DAY): "1", ("B", DAY): "2"})
    assert store.compact()
    second = put(store, "csv", {("A", day(1)): "3"})

    assert [DAY] == [bar.session for bar in store.history("A", day(9), first)]
    assert [day(1)] == [bar.session for bar in store.history("A", day(9), second)]
    assert {"A": day(1), "B": DAY} == store.last_session(SYMBOLS, None)
    assert from_snapshots(store, None) == answers(store, None)


def test_an_older_pin_is_not_shown_what_was_compacted_later(store: MarketStore) -> None:
    first = put(store, "csv", {("A", DAY): "1"})
    put(store, "csv", {("A", DAY): "2"})
    store.compact()

    assert [Decimal(1)] == [bar.close for bar in store.history("A", day(9), first)]
    assert [Decimal(2)] == [bar.close for bar in store.history("A", day(9), None)]


def test_the_last_bar_may_be_new_and_the_one_before_long_compacted(store: MarketStore) -> None:
    put(store, "csv", {("A", DAY): "1", ("B", day(399)): "2"})
    store.compact()
    put(store, "csv", {("A", day(400)): "3", ("B", day(400)): "4"})

    latest = store.latest_bars(SYMBOLS, day(900), None)

    assert {"A": [day(400), DAY], "B": [day(400), day(399)]} == {
        symbol: [bar.session for bar in bars if bar] for symbol, bars in latest.items()
    }


def test_what_is_compacted_is_really_read(store: MarketStore) -> None:
    pin = put(store, "csv", {("A", DAY): "1", ("B", day(1)): "2"})
    before = answers(store, pin)
    store.compact()
    shutil.rmtree(store.home / "blobs")

    assert before == answers(store, pin)


def test_a_figure_of_any_size_keeps_its_digits(store: MarketStore) -> None:
    closes = ["0.000000000001", "99999999999999.999999999999", "1234567.12345678", "0.0001", "7"]
    put(store, "csv", {(f"S{at}", DAY): close for at, close in enumerate(closes)})
    store.compact()
    symbols = tuple(f"S{at}" for at in range(len(closes)))

    latest = store.latest_bars(symbols, DAY, None)

    assert closes == [f"{latest[symbol][0].close:f}" for symbol in symbols]
    assert from_snapshots(store, None, symbols) == answers(store, None, symbols)


@pytest.mark.parametrize(
    ("close", "expected"),
    [("1.2345", "DECIMAL(18,4)"), ("1.23456", "DECIMAL(18,8)"), ("1.234567891", "DECIMAL(38,12)")],
)
def test_figures_take_no_more_room_than_they_need(store: MarketStore, close: str, expected: str) -> None:
    put(store, "csv", {("A", DAY): close})
    store.compact()
    found = store._compacted.newest(None)
    assert found

    assert expected == ask(f"select typeof(close) from {found.name}.by_date", {})[0][0]  # noqa: S608


def test_compacting_again_waits_until_it_is_worth_it(store: MarketStore) -> None:
    put(store, "csv", {("A", day(number)): "1" for number in range(100)})
    done = [store.compact(), store.compact()]
    for number in range(100, 117):
        put(store, "csv", {("A", day(number)): "1"})
        done.append(store.compact())

    assert [True, False, *[False] * 14, True, *[False] * 2] == done
    assert 1 == len(compacted(store))
    assert 117 == len(store.history("A", day(999), None))


# ------------------------------------------------------------------------------------------------- nothing is lost


def _flipped(path: Path, at: float) -> None:
    content = bytearray(path.read_bytes())
    content[int(at * (len(content) - 1))] ^= 0xFF
    path.unlink()
    path.write_bytes(content)


def _emptied(path: Path) -> None:
    path.chmod(0o644)
    path.write_bytes(b"")


def _cut(path: Path) -> None:
    path.chmod(0o644)
    os.truncate(path, path.stat().st_size // 2)


HARMS: dict[str, Callable[[Path], None]] = {
    "removed": Path.unlink,
    "folder removed": lambda path: shutil.rmtree(path.parent),
    "emptied": _emptied,
    "cut": _cut,
    # The last blocks of so small a file hold nothing, and nothing watches over them.
    **{f"flipped at {at}": partial(_flipped, at=at) for at in (0, 0.005, 0.02, 0.1, 0.2, 0.3, 0.6)},
}


@pytest.mark.parametrize("harm", HARMS)
def test_whatever_happens_to_what_is_compacted_reads_stay_right_and_it_is_made_anew(tmp_path: Path, harm: str) -> None:
    store = opened(tmp_path)
    rows = {(symbol, day(number)): f"{number + 1}.25" for symbol in SYMBOLS for number in range(300)}
    pin = put(store, "csv", rows)
    expected = answers(store, pin)
    store.compact()
    HARMS[harm](compacted(store)[0])

    assert expected == answers(opened(tmp_path), pin)
    for path in compacted(store):
        assert f"{path}: is not what was written" in " ".join(store.faults())
    put(store, "ib", rows)
    assert store.compact()
    assert [] == store.faults()
    assert expected == answers(store, pin)


def test_a_file_made_of_another_ledgers_entries_is_not_read_and_is_named(tmp_path: Path) -> None:
    store = opened(tmp_path / "one")
    put(store, "csv", {("A", DAY): "1"})
    pin = put(store, "csv", {("A", DAY): "2"})
    store.compact()
    other = opened(tmp_path / "other")
    put(other, "csv", {("A", DAY): "1"})
    (tmp_path / "other" / "derived").mkdir()
    shutil.copy(compacted(store)[0], tmp_path / "other" / "derived")

    assert [Decimal(1)] == [bar.close for bar in other.history("A", DAY, None)]
    assert f"another entry {pin} than this one, whose last is 1" in other.faults()[0]
    other.put_bars("csv", bar_table({("A", DAY): "3"}))
    assert [Decimal(3)] == [bar.close for bar in other.history("A", DAY, None)]
    assert other.compact()
    assert [] == other.faults()


def test_a_file_of_another_version_is_passed_over_and_removed(store: MarketStore) -> None:
    put(store, "csv", {("A", DAY): "1"})
    store.compact()
    (path,) = compacted(store)
    path.rename(path.with_name(path.name.replace("duckdb-2", "duckdb-1")))

    assert [] == store.faults()
    assert store.compact()
    assert [path] == compacted(store)


def test_a_notebook_cannot_open_it_to_write(store: MarketStore) -> None:
    put(store, "csv", {("A", DAY): "1"})
    store.compact()

    assert 0o444 == compacted(store)[0].stat().st_mode & 0o777


# ------------------------------------------------------------------------------------------------- old files, readers


def test_a_reader_goes_on_with_a_file_that_was_replaced(store: MarketStore) -> None:
    pin = put(store, "csv", {("A", DAY): "1"})
    store.compact()
    found = store._compacted.newest(pin)
    assert found
    reader = store._history(pin, found)
    before = reader.history("A", day(9))
    put(store, "csv", {("A", DAY): "2"})

    assert store.compact()
    assert [f"bars-{store.snapshots()[-1].seq}"] == ["-".join(path.name.split("-")[:2]) for path in compacted(store)]
    assert before == reader.history("A", day(9))  # its file has no name any more


def test_files_that_are_gone_are_let_go_when_another_is_opened(store: MarketStore) -> None:
    for number in range(3):
        put(store, "csv", {("A", DAY): f"{number + 1}"})
        store.compact()
        store.history("A", DAY, None)

    bound = {"home": str(store.home)}
    held = cursor().execute("select path from duckdb_databases() where path like $home || '/%'", bound)

    assert [(str(compacted(store)[0]),)] == held.fetchall()


def test_readers_meet_no_error_while_files_come_and_go(store: MarketStore) -> None:
    pin = put(store, "csv", {(symbol, day(number)): "1.5" for symbol in SYMBOLS for number in range(50)})
    expected, errors, done = answers(store, pin), [], threading.Event()

    def read() -> None:
        while not done.is_set():
            try:
                if expected != answers(store, pin):
                    errors.append("changed")
            except MarketError as error:
                errors.append(str(error))

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for number in range(12):
        put(store, "csv", {(symbol, day(number)): f"{number + 2}" for symbol in SYMBOLS for number in range(50)})
        store.compact()
        store.history("A", day(999), None)
    done.set()
    for reader in readers:
        reader.join()

    assert [] == errors


CRASHES = """
import os, signal, sys
from pathlib import Path
from blocks.clock import wall
from blocks.ledger import Ledger
from blocks.market import compacted
from blocks.market.compacted import CompactedBars
from blocks.market.store import MarketStore

def die(*a, **k):
    os.kill(os.getpid(), signal.SIGKILL)

real = compacted._types
POINTS = {
    "begun": lambda: setattr(compacted, "_types", die),
    "half": lambda: setattr(compacted, "_HOLDINGS", "select * from nowhere"),
    "written": lambda: setattr(compacted, "into_place", die),
    "renamed": lambda: setattr(CompactedBars, "_remove_older", die),
}
POINTS[sys.argv[2]]()
home = Path(sys.argv[1])
try:
    MarketStore(home, Ledger(home / "ledger.db", wall)).compact()
except Exception:
    die()
"""


@pytest.mark.parametrize("point", ["begun", "half", "written", "renamed"])
def test_a_compaction_killed_at_any_step_shows_the_old_or_the_new(tmp_path: Path, point: str) -> None:
    store = opened(tmp_path)
    put(store, "csv", {("A", DAY): "1", ("B", DAY): "2"})
    store.compact()
    old = compacted(store)
    put(store, "csv", {("A", day(1)): "3", ("C", DAY): "4"})
    expected = from_snapshots(store, None)

    killed = subprocess.run([sys.executable, "-c", CRASHES, str(tmp_path), point], cwd=ROOT, timeout=60, check=False)

    assert -9 == killed.returncode
    assert expected == answers(store, None)
    assert (old if point != "renamed" else 2) == (compacted(store) if point != "renamed" else len(compacted(store)))
    put(store, "csv", {("A", day(2)): "5"})
    store.compact()
    assert 1 == len(compacted(store))
    assert from_snapshots(store, None) == answers(store, None)
    assert [] == store.faults()


def test_two_that_compact_at_once_leave_one_file(store: MarketStore) -> None:
    put(store, "csv", {("A", DAY): "1"})
    stores = [opened(store.home) for _ in range(4)]
    threads = [threading.Thread(target=each.compact) for each in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert 1 == len(compacted(store))
    assert from_snapshots(store, None) == answers(store, None)


# ------------------------------------------------------------------------------------------------- who opens what


def opened_in(path: Path) -> list[str]:
    """Return what a file opens as a DuckDB file: its calls of `duckdb.connect`, its statements that attach."""
    tree = ast.parse(path.read_text("utf-8"))
    calls = (ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Call))
    texts = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))
    connects = [call for call in calls if call.startswith("duckdb.connect(") and "':memory:'" not in call]
    return connects + [text for text in texts if re.match(r"\s*attach\b", text, re.IGNORECASE)]


def test_only_two_files_of_ours_open_a_duckdb_file_to_write() -> None:
    files = [path for folder in ("blocks", "tasks", "flows", "deployments") for path in (ROOT / folder).rglob("*.py")]
    found = {path.relative_to(ROOT).as_posix(): opened_in(path) for path in files}

    assert {
        "blocks/market/compacted.py": 1,  # a name of its own, renamed when it is whole
        "blocks/market/connection.py": 1,  # to read
        "blocks/market/notebook.py": 1,  # a name of its own, renamed when it is whole
    } == {name: len(opens) for name, opens in found.items() if opens}
    assert "(read_only)" in (ROOT / "blocks/market/connection.py").read_text("utf-8")


def test_the_layout_names_the_duckdb_that_is_installed() -> None:
    assert _LAYOUT.endswith(f"-duckdb-{version('duckdb')}")
