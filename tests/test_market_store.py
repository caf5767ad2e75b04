"""The market store: what is put in comes out, whole, the same for ever, and never from the future."""

import datetime as dt
import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blocks.brokers.port import AccountState, Position, WorkingOrder
from blocks.canonical import canonical_json
from blocks.errors import MarketError
from blocks.ledger import Ledger, Writing
from blocks.market.bar_table import BarTable
from blocks.market.connection import cursor
from blocks.market.quotes import Quote
from blocks.market.records import account_tables, bar_tables, quote_table
from blocks.market.shapes import Shape
from blocks.market.staging import Table, content_id, staged
from blocks.market.store import MarketStore
from tests.examples import examples

ROOT = Path(__file__).parent.parent
NOW = dt.datetime(2026, 3, 2, 15, 5, tzinfo=dt.UTC)
DAY = dt.date(2026, 3, 2)


def opened(home: Path) -> MarketStore:
    return MarketStore(home, Ledger(home / "ledger.db", lambda: dt.datetime.now(dt.UTC)))


@pytest.fixture
def store(tmp_path: Path) -> MarketStore:
    return opened(tmp_path)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> MarketStore:
    return opened(tmp_path_factory.mktemp("shared"))


def quote(symbol: str, bid: str = "10.00", **more: object) -> Quote:
    return Quote.model_validate({"symbol": symbol, "bid": bid, "ask": bid, "at": NOW, **more})


QUOTES = (quote("AGG", "98.5"), quote("SPY", "499.98", currency="USD", adv="70000000", delayed=True))


def bar_table(rows: dict[tuple[str, dt.date], str]) -> BarTable:
    keys = sorted(rows, key=lambda key: (key[1], key[0]))
    none = (None,) * len(keys)
    closes = tuple(Decimal(rows[key]) for key in keys)
    return BarTable(
        symbol=tuple(symbol for symbol, _ in keys),
        session=tuple(session for _, session in keys),
        open=none,
        high=none,
        low=none,
        close=closes,
        volume=none,
    )


def day(number: int) -> dt.date:
    return DAY + dt.timedelta(days=number)


def blobs(store: MarketStore) -> list[Path]:
    return sorted((store.home / "blobs").glob("??/*.parquet"))


def identified(table: Table) -> str:
    with staged(table) as duck:
        return content_id(duck, table.shape)


# ------------------------------------------------------------------------------------------------- what a content is


def test_a_content_keeps_its_id_for_ever() -> None:
    order = WorkingOrder(order_ref="r1", symbol="SPY", side="buy", quantity="5", limit="499.00")
    state = AccountState(id="DU1", as_of=NOW, cash={"USD": "1E+2"}, positions=(Position(symbol="é", quantity="-0.5"),))
    account = account_tables(state, (order,))
    bars = bar_tables(bar_table({("SPY", DAY): "499.90", ("AGG", DAY): "98"}))
    found = {
        "quotes": identified(quote_table(QUOTES)),
        **{name: identified(table) for name, table in {**account, **bars}.items()},
    }

    assert {
        "quotes": "3ceaa4dbe2079793c7852b52b77795eb90954f9221a82bb090d50e2e29af483d",
        "positions": "9f332ced250a5ec3b236fd347612f19e04efa23c36ac97408ebf4beafa8a7b92",
        "cash": "30260e48113f1793497f4cd73189290199fd63c283ec3400d7a08b9203753a50",
        "orders": "80e62932ace319904cb0f482c6112964fc72d7572b3ce9f903350c08b4aeaea1",
        "bars": "ee79e526a36f4ea0230395217bd6ef39fef94c69999fa76c5822d99fe7345b50",
        "symbols": "97e3e77391d27da1c78389f3875630f806ba01e2a9255a8c709103df4d99a360",
    } == found


def test_a_content_id_is_the_hash_of_length_prefixed_text() -> None:
    shape = Shape({"name": "text", "held": "decimal20", "day": "date", "flag": "flag", "n": "integer"}, key=("name",))
    rows = [
        ("b", Decimal("-0.50"), DAY, True, 7),
        ("", None, DAY, None, None),
        ("a\0é", Decimal("1E+2"), DAY, False, -1),
    ]
    spelled = [["", None, "2026-03-02", None, None], ["a\0é", f"100.{'0' * 20}", "2026-03-02", "false", "-1"]]
    spelled.append(["b", f"-0.5{'0' * 19}", "2026-03-02", "true", "7"])
    cells = ("-" if cell is None else f"{len(cell.encode())}:{cell}" for row in spelled for cell in row)
    head = json.dumps([[name, kind] for name, kind in shape.columns.items()], separators=(",", ":"))
    expected = hashlib.sha256((head + "".join(cells)).encode()).hexdigest()

    table = Table(shape, dict(zip(shape.columns, zip(*rows, strict=True), strict=True)))

    assert expected == identified(table)


def test_the_order_of_rows_and_idle_zeros_say_nothing() -> None:
    other = (QUOTES[1].model_copy(update={"bid": Decimal("499.9800")}), QUOTES[0])

    assert identified(quote_table(QUOTES)) == identified(quote_table(other))


def test_an_id_does_not_hang_on_how_many_rows_are_hashed_at_once() -> None:
    rows = {("SPY", day(number)): f"{number + 1}" for number in range(10_000)}
    table = bar_tables(bar_table(rows))["bars"]
    with staged(table) as duck:
        (line,) = duck.execute(f"select string_agg({table.shape.line}, '' order by session) from staged").fetchall()[0]  # noqa: S608
    head = canonical_json([[name, kind] for name, kind in table.shape.columns.items()])

    assert hashlib.sha256((head + line).encode()).hexdigest() == identified(table)


@pytest.mark.parametrize("close", ["0.0000000000001", "NaN", "1E+27"])
def test_a_price_that_cannot_be_kept_exactly_is_refused(store: MarketStore, close: str) -> None:
    with pytest.raises(MarketError, match="cannot be stored"):
        store.put_bars("csv", bar_table({("SPY", DAY): close}))

    assert [] == store.snapshots()


def test_two_bars_of_one_session_are_refused(store: MarketStore) -> None:
    one = bar_table({("SPY", DAY): "1"})
    twice = BarTable(**{name: getattr(one, name) * 2 for name in BarTable.__slots__})

    with pytest.raises(MarketError, match="2026-03-02 SPY: should stand once"):
        store.put_bars("csv", twice)


def test_no_bars_at_all_are_refused(store: MarketStore) -> None:
    with pytest.raises(MarketError, match="no bars"):
        store.put_bars("csv", bar_table({}))


# ------------------------------------------------------------------------------------------------- in and out again


finite = st.decimals(min_value=-(10**12), max_value=10**12, allow_nan=False, places=20)
amounts = st.decimals(min_value=0, max_value=10**12, allow_nan=False, places=20) | st.just(Decimal(9_999_999_999_999))
anything = finite | st.sampled_from(["NaN", "sNaN", "-Infinity", "Infinity", "-0", "1E-20", "1E+12"]).map(Decimal)
names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)
moments = st.datetimes(dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30), timezones=st.just(dt.UTC))  # noqa: DTZ001
currencies = st.sampled_from(["USD", "EUR", "GBP"])
any_quotes = st.builds(
    Quote,
    symbol=names,
    **dict.fromkeys(("bid", "ask", "last", "previous_close", "adv"), st.none() | anything),
    tick=anything,
    at=st.none() | moments,
    currency=st.none() | currencies,
    delayed=st.booleans(),
)
accounts = st.builds(
    AccountState,
    id=names,
    as_of=moments,
    cash=st.dictionaries(currencies, finite),
    settled_cash=st.dictionaries(currencies, finite),
    positions=st.lists(st.builds(Position, symbol=names, quantity=finite), unique_by=lambda held: held.symbol).map(
        tuple
    ),
)
orders = st.builds(
    WorkingOrder,
    order_ref=st.text(st.characters(codec="ascii"), max_size=8),
    symbol=names,
    side=st.sampled_from(["buy", "sell"]),
    quantity=amounts,
    filled=amounts,
    limit=st.none() | amounts,
)


@examples(15)
@given(quotes=st.lists(any_quotes, max_size=5, unique_by=lambda each: each.symbol))
def test_quotes_come_back_as_they_were_seen(shared: MarketStore, quotes: list[Quote]) -> None:
    found = shared.quotes(shared.put_quotes("ib", NOW, quotes))

    assert canonical_json(sorted(quotes, key=lambda each: each.symbol)) == canonical_json(found)


@examples(10)
@given(state=accounts, working=st.lists(orders, max_size=4, unique_by=lambda each: (each.order_ref, each.symbol)))
def test_an_account_comes_back_as_it_was_reported(
    shared: MarketStore, state: AccountState, working: list[WorkingOrder]
) -> None:
    found, found_orders = shared.account(shared.put_account("paper", state, working))
    positions = tuple(sorted(state.positions, key=lambda held: held.symbol))

    assert (state.model_copy(update={"positions": positions})) == found
    assert tuple(sorted(working, key=lambda order: (order.order_ref, order.symbol))) == found_orders


def test_a_file_of_bars_comes_back_as_it_was(store: MarketStore) -> None:
    table = BarTable(
        ("SPY",), (DAY,), (Decimal("1.5"),), (None,), (Decimal("0.00000001"),), (Decimal(2),), (Decimal(0),)
    )

    assert table == store.bars(store.put_bars("csv", table))


def test_closes_that_were_given_come_back_with_their_gaps(store: MarketStore) -> None:
    sessions, closes = (DAY, day(1)), {"SPY": (Decimal("1.5"), None), "NEW": (None, None)}

    assert (sessions, closes) == store.closes_in(store.put_closes("bars", NOW, sessions, closes))


def test_the_same_content_is_one_snapshot(store: MarketStore) -> None:
    first, pin = store.put_quotes("ib", NOW, QUOTES), store._snapshots._ledger.pin()

    assert first == store.put_quotes("ib", NOW, reversed(QUOTES))
    assert pin == store._snapshots._ledger.pin()


def test_the_same_quotes_a_minute_later_share_a_file(store: MarketStore) -> None:
    first, second = (store.put_quotes("ib", NOW + dt.timedelta(minutes=minute), QUOTES) for minute in (0, 1))

    assert first != second
    assert 1 == len(blobs(store))


def test_another_source_kind_or_account_is_another_snapshot(store: MarketStore) -> None:
    states = [AccountState(id=name, as_of=NOW) for name in ("A", "B")]
    ids = {store.put_account(source, state, ()) for source in ("ib", "paper") for state in states}
    ids |= {store.put_quotes("ib", NOW, ())}

    assert 5 == len(ids)


def test_a_file_in_other_bytes_does_not_make_another_snapshot(store: MarketStore) -> None:
    snapshot_id = store.put_quotes("ib", NOW, QUOTES)
    (path,) = blobs(store)
    cursor().execute(f"copy (from read_parquet('{path}')) to '{path}.new' (format parquet, compression snappy)")
    path.unlink()
    Path(f"{path}.new").rename(path)  # as if another version of DuckDB had encoded it

    assert snapshot_id == store.put_quotes("ib", NOW, QUOTES)
    assert 1 == len(store.snapshots())


def test_threads_do_not_get_into_each_others_way(store: MarketStore) -> None:
    found: dict[int, bool] = {}

    def work(number: int) -> None:
        quotes = tuple(quote(f"S{number}", f"{number}.{turn}") for turn in range(1))
        found[number] = all(quotes == store.quotes(store.put_quotes("ib", NOW, quotes)) for _ in range(3))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert dict.fromkeys(range(6), True) == found


# ------------------------------------------------------------------------------------------------- what goes wrong


def test_an_unknown_snapshot_is_named(store: MarketStore) -> None:
    with pytest.raises(MarketError, match="snapshot f00d: not in this store"):
        store.quotes("f00d")


def test_a_snapshot_of_another_kind_is_refused(store: MarketStore) -> None:
    snapshot_id = store.put_quotes("ib", NOW, QUOTES)

    with pytest.raises(MarketError, match=f"snapshot {snapshot_id}: holds quotes, not bars"):
        store.bars(snapshot_id)


def test_a_folder_that_cannot_be_written_to_is_named(tmp_path: Path) -> None:
    store = opened(tmp_path)
    (tmp_path / "blobs").write_text("in the way")

    with pytest.raises(MarketError, match=f"{tmp_path}/blobs cannot be written to"):
        store.put_quotes("ib", NOW, QUOTES)
    with pytest.raises(MarketError, match="cannot be written to"):
        store.publish()

    assert [] == store.snapshots()


def _torn(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def _altered(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(("harm", "said"), [(_torn, "changed"), (_altered, "changed"), (Path.unlink, "missing")])
def test_a_harmed_file_is_named_and_never_read(store: MarketStore, harm: object, said: str) -> None:
    snapshot_id = store.put_quotes("ib", NOW, QUOTES)
    bars_id = store.put_bars("csv", bar_table({("SPY", DAY): "1"}))
    store.quotes(snapshot_id)
    store.latest_bars(["SPY"], DAY, None)
    for path in blobs(store):
        harm(path)  # type: ignore[operator]

    with pytest.raises(MarketError, match=f"snapshot {snapshot_id}: blob [0-9a-f]{{64}}: .* {said}"):
        store.quotes(snapshot_id)
    with pytest.raises(MarketError, match=f"snapshot {bars_id}: blob"):
        store.bars(bars_id)
    with pytest.raises(MarketError, match=f"blob .* {said}"):
        store.latest_bars(["SPY"], DAY, None)

    assert 3 == len(store.faults())
    assert all(path.stem in " ".join(store.faults()) for path in blobs(store))


@pytest.mark.parametrize("harm", [_torn, _altered, Path.unlink])
def test_putting_a_harmed_content_again_mends_it(store: MarketStore, harm: object) -> None:
    snapshot_id = store.put_quotes("ib", NOW, QUOTES)
    harm(blobs(store)[0])  # type: ignore[operator]

    assert snapshot_id == store.put_quotes("ib", NOW, QUOTES)
    assert QUOTES == store.quotes(snapshot_id)
    assert [] == store.faults()


CRASHES = """
import datetime as dt, os, signal, stat, sys
from pathlib import Path
from blocks.brokers.port import AccountState, Position
from blocks.ledger import Ledger, Writing
from blocks.market.store import MarketStore

NOW = dt.datetime(2026, 3, 2, 15, 5, tzinfo=dt.UTC)
STATE = AccountState(id="DU1", as_of=NOW, cash={"USD": 100}, positions=(Position(symbol="SPY", quantity=3),))

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def before(owner, name, condition=lambda *a: True):
    real = getattr(owner, name)
    setattr(owner, name, lambda *a, **k: die() if condition(*a) else real(*a, **k))

def after(owner, name, times=1):
    real, calls = getattr(owner, name), []
    def wrapped(*a, **k):
        answer = real(*a, **k)
        calls.append(a)
        if len(calls) == times:
            die()
        return answer
    setattr(owner, name, wrapped)

POINTS = {
    "written": lambda: before(os, "fsync", lambda opened: stat.S_ISREG(os.fstat(opened).st_mode)),
    "synced": lambda: before(os, "rename"),
    "renamed": lambda: after(os, "rename"),
    "second-renamed": lambda: after(os, "rename", times=2),
    "before-begin": lambda: before(Ledger, "writing"),
    "before-commit": lambda: after(Writing, "append"),
}

def put(home):
    store = MarketStore(home, Ledger(home / "ledger.db", lambda: NOW))
    return store, store.put_account("paper", STATE, ())

for point, arm in POINTS.items():
    child = os.fork()
    if child == 0:
        arm()
        put(Path(sys.argv[1]) / point)
        os._exit(0)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL, point

store, snapshot_id = put(Path(sys.argv[1]) / "whole")
child = os.fork()  # with the parent's connection in use: the child has to open its own
if child == 0:
    os._exit(0 if store.account(snapshot_id)[0] == STATE else 1)
assert os.waitpid(child, 0)[1] == 0
print(snapshot_id)
"""


def test_a_writer_killed_at_any_step_leaves_nothing_to_see_and_its_retry_makes_one(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", CRASHES, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (run.returncode, run.stderr) == (0, "")
    homes = sorted(path for path in tmp_path.iterdir() if path.name != "whole")
    state = AccountState(id="DU1", as_of=NOW, cash={"USD": 100}, positions=(Position(symbol="SPY", quantity=3),))
    assert len(homes) == 6
    for home in homes:
        store = opened(home)
        assert [] == store.snapshots()
        assert [] == store.faults()

        ids = {store.put_account("paper", state, ()) for _ in range(2)}

        assert {run.stdout.strip()} == ids
        assert [run.stdout.strip()] == [snapshot.id for snapshot in store.snapshots()]
        assert (state, ()) == store.account(ids.pop())
        assert [] == store.faults()


# ------------------------------------------------------------------------------------------------- sweeping


def _aged(path: Path) -> None:
    old = dt.datetime.now(dt.UTC).timestamp() - 3601
    os.utime(path, (old, old))


def test_a_sweep_removes_only_what_is_old_and_of_no_snapshot(store: MarketStore) -> None:
    store.put_quotes("ib", NOW, QUOTES)
    (kept,) = blobs(store)
    orphans = [
        store._snapshots.blobs.path(store._snapshots.blobs.put(quote_table([quote(symbol)])).blob)
        for symbol in ("A", "B")
    ]
    leftovers = [store._snapshots.blobs.temporary() for _ in range(2)]
    for path in leftovers:
        path.write_text("half")
    for path in (kept, orphans[0], leftovers[0]):
        _aged(path)

    assert 2 == store.sweep(dt.datetime.now(dt.UTC))
    assert [True, False, True, False, True] == [path.exists() for path in (kept, *orphans, *leftovers)]
    assert [] == store.faults()


class SweptMeanwhile(Ledger):
    """A ledger whose writer is overtaken by a sweep, once."""

    def __init__(self, home: Path) -> None:
        super().__init__(home / "ledger.db", lambda: dt.datetime.now(dt.UTC))
        self.home, self.overtaken = home, False

    @contextmanager
    def writing(self) -> Iterator[Writing]:
        if not self.overtaken:
            self.overtaken = True
            other = opened(self.home)
            for path in blobs(other):
                _aged(path)
            assert other.sweep(dt.datetime.now(dt.UTC)) == 3
        with super().writing() as book:
            yield book


def test_a_writer_overtaken_by_a_sweep_writes_its_files_again(tmp_path: Path) -> None:
    store = MarketStore(tmp_path, SweptMeanwhile(tmp_path))
    state = AccountState(id="DU1", as_of=NOW, cash={"USD": 100}, positions=(Position(symbol="SPY", quantity=3),))

    assert (state, ()) == store.account(store.put_account("paper", state, ()))
    assert [] == store.faults()


# ------------------------------------------------------------------------------------------------- history


SYMBOLS = ("A", "B", "C")
Rows = dict[tuple[str, dt.date], str]
row_sets = st.dictionaries(
    st.tuples(st.sampled_from(SYMBOLS), st.sampled_from([0, 1, 2, 3, 30, 400]).map(day)),
    st.integers(1, 99).map(str),
    min_size=1,
    max_size=8,
)
ingests = st.lists(st.tuples(st.sampled_from(["sample", "csv", "ib"]), row_sets), min_size=1, max_size=4)


def expected_bars(done: list[tuple[str, Rows]], as_of: dt.date) -> Rows:
    """Say in plain Python which rows count: the later, and of the sample none that another source holds."""
    elsewhere = {symbol for source, rows in done if source != "sample" for symbol, _ in rows}
    counting: Rows = {}
    for source, rows in done:
        counting |= {key: close for key, close in rows.items() if source != "sample" or key[0] not in elsewhere}
    return {(symbol, session): close for (symbol, session), close in counting.items() if session <= as_of}


def check_reads(store: MarketStore, done: list[tuple[str, Rows]], until: int) -> None:
    everything = expected_bars(done, dt.date.max)
    held = sorted({symbol for symbol, _ in everything})
    ends = {symbol: sorted(session for each, session in everything if each == symbol) for symbol in held}
    assert tuple(held) == store.symbols(until)
    assert {symbol: sessions[0] for symbol, sessions in ends.items()} == store.first_session(SYMBOLS, until)
    assert {symbol: sessions[-1] for symbol, sessions in ends.items()} == store.last_session(SYMBOLS, until)
    for as_of in (day(-1), day(2), day(31), day(400)):
        counting = expected_bars(done, as_of)
        latest = store.latest_bars(SYMBOLS, as_of, until)
        for symbol in SYMBOLS:
            bars = [(key[1], Decimal(close)) for key, close in sorted(counting.items()) if key[0] == symbol]
            assert bars == [(bar.session, bar.close) for bar in store.history(symbol, as_of, until)]
            assert bars[-2:][::-1] == [(bar.session, bar.close) for bar in latest.get(symbol, ()) if bar]
        sessions = tuple(sorted({session for _, session in counting}))[-2:]
        closes = {
            symbol: tuple(
                Decimal(counting[symbol, session]) if (symbol, session) in counting else None for session in sessions
            )
            for symbol in SYMBOLS
        }
        assert (sessions, closes) == store.closes(SYMBOLS, 2, as_of, until)


@examples(6)
@given(puts=ingests)
def test_every_read_is_what_was_known_by_its_pin_and_of_no_later_session(
    tmp_path_factory: pytest.TempPathFactory, puts: list[tuple[str, Rows]]
) -> None:
    store = opened(tmp_path_factory.mktemp("history"))
    done: list[tuple[str, Rows]] = []
    pins: dict[int, list[tuple[str, Rows]]] = {}
    for source, rows in puts:
        if (source, rows) not in done:
            done.append((source, rows))
            store.put_bars(source, bar_table(rows))
            pins[store.snapshots()[-1].seq] = list(done)
    for pin in {min(pins), max(pins)}:
        check_reads(store, pins[pin], pin)


def test_a_pinned_read_is_the_same_before_and_after_later_writes(store: MarketStore) -> None:
    store.put_bars("csv", bar_table({("SPY", DAY): "1", ("SPY", day(1)): "2"}))
    pin = store.snapshots()[-1].seq

    def reads(until: int | None) -> list[object]:
        latest, closes = store.latest_bars(["SPY", "AGG"], day(9), until), store.closes(["SPY"], 5, day(9), until)
        return [latest, closes, store.history("SPY", day(9), until), store.symbols(until), store.newest("bars", until)]

    before = reads(pin)
    store.put_bars("ib", bar_table({("SPY", day(1)): "3", ("AGG", DAY): "4"}))

    assert before == reads(pin)
    assert all(then != now for then, now in zip(before, reads(None), strict=True))


def test_an_empty_store_knows_nothing_and_says_so(store: MarketStore) -> None:
    assert () == store.symbols(None)
    assert {} == store.latest_bars(["SPY"], DAY, None)
    assert {} == store.last_session(["SPY"], None)
    assert ((), {"SPY": ()}) == store.closes(["SPY"], 5, DAY, None)


def test_nothing_is_fetched_from_the_network() -> None:
    cursor().execute("select name, value from duckdb_settings() where name in ($one, $two)", {
        "one": "autoinstall_known_extensions",
        "two": "autoload_known_extensions",
    })  # fmt: skip
    assert {("autoinstall_known_extensions", "false"), ("autoload_known_extensions", "false")} == set(
        cursor().fetchall()
    )

    loaded = cursor().execute("select extension_name from duckdb_extensions() where loaded").fetchall()

    assert {"core_functions", "icu", "json", "parquet"} >= {name for (name,) in loaded}


# ------------------------------------------------------------------------------------------------- for notebooks


HOLDER = """
import duckdb, sys
with duckdb.connect(sys.argv[1], read_only=True) as held:
    for _ in sys.stdin:
        print(held.execute("select count(*) from bars").fetchall()[0][0], flush=True)
"""


def seen(path: Path, question: str) -> list[tuple[object, ...]]:
    import duckdb  # noqa: PLC0415

    with duckdb.connect(str(path), read_only=True) as notebook:
        return notebook.execute(question).fetchall()


def test_a_notebook_reads_on_while_the_store_is_written_and_published(store: MarketStore) -> None:
    store.put_bars("csv", bar_table({("SPY", DAY): "1"}))
    path = store.publish()
    reader = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert reader.stdin
    assert reader.stdout

    def asked() -> int:
        print(file=reader.stdin, flush=True)
        return int(reader.stdout.readline())  # type: ignore[union-attr]

    counts = [asked()]
    store.put_bars("csv", bar_table({("SPY", day(1)): "2"}))
    counts.append(asked())
    store.publish()
    counts.append(asked())
    reader.communicate(timeout=30)

    assert [1, 1, 1] == counts
    assert [(2,)] == seen(path, "select count(*) from bars")
    assert 0 == reader.returncode


def test_a_notebook_sees_what_the_reads_give(store: MarketStore) -> None:
    store.put_bars("sample", bar_table({("SPY", DAY): "1", ("AGG", DAY): "5"}))
    store.put_bars("csv", bar_table({("SPY", DAY): "2", ("SPY", day(1)): "3"}))
    store.put_bars("ib", bar_table({("SPY", day(1)): "4.5"}))
    snapshot_id = store.put_quotes("ib", NOW, [quote("SPY", "NaN", last="1.25")])
    path = store.publish()

    assert [("AGG", DAY, 5.0), ("SPY", DAY, 2.0), ("SPY", day(1), 4.5)] == seen(
        path, "select symbol, session, close from bars order by all"
    )
    assert [(snapshot_id, True, 1.25, NOW.replace(tzinfo=None))] == seen(
        path, "select snapshot_id, isnan(bid), last, quoted_at from quotes"
    )
    assert [("bars", 3), ("quotes", 1)] == seen(
        path, "select kind, count(*) from snapshots group by kind order by kind"
    )


def test_views_of_an_empty_store_are_empty(store: MarketStore) -> None:
    path = store.publish()

    assert [[], [], []] == [seen(path, f"from {view}") for view in ("snapshots", "quotes", "bars")]


def test_publishing_twice_writes_once(store: MarketStore) -> None:
    store.put_quotes("ib", NOW, QUOTES)
    first = store.publish().stat()

    assert first.st_ino == store.publish().stat().st_ino
    assert not list((store.home / "blobs" / ".tmp").iterdir())


def test_a_folder_may_be_named_with_any_characters(tmp_path: Path) -> None:
    store = opened(tmp_path / "it's a=1 [ab]* é")
    snapshot_id = store.put_quotes("ib", NOW, QUOTES)
    store.put_bars("csv", bar_table({("SPY", DAY): "1"}))

    assert QUOTES == store.quotes(snapshot_id)
    assert (DAY,) == store.closes(["SPY"], 9, DAY, None)[0]
    assert [(1,)] == seen(store.publish(), "select count(*) from bars")
