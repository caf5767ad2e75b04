"""How quick the store is, beside a plain DuckDB table, pandas in memory and the bare writing of the bytes, in one run.

`python benchmarks/storage.py --full` measures 5,000 symbols x 2,520 days, in some minutes and 4 GB of memory.
"""

import argparse
import datetime as dt
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd

from blocks.clock import wall
from blocks.ledger import Ledger
from blocks.market.bulk import plain_bars
from blocks.market.files import read_prices
from blocks.market.quotes import Quote
from blocks.market.store import MarketStore

SMALL, FULL = (1000, 1260), (5000, 2520)
ASKED = 500  # symbols
RUNS = 15
CAREFUL = 50_000  # rows that are given to the careful reader too
SECONDS = 8  # of four writers and two readers
TODAY = dt.date(2030, 1, 1)
FIRST = dt.date(2015, 1, 1)

_PRICES = """
copy (
    select d.day as date, 'S' || lpad(s.number::varchar, 5, '0') as symbol, price as open, price + 1 as high,
        price - 1 as low, price + 0.5 as close, volume
    from (select range as place, ($first::date + (range * 365 / 252)::int) as day from range($days)) d,
        (select range as number from range($symbols)) s,
        lateral (select (50 + hash(d.place, s.number) % 10000 / 100)::decimal(18, 2) as price,
            hash(s.number, d.place) % 1000000 as volume)
    order by 1, 2
) to '{path}' (header)
"""

_LATEST = """
select * from bars
where date between $first and $last and symbol in (select unnest($symbols::varchar[]))
qualify row_number() over (partition by symbol order by date desc) <= 2
"""


def measure(symbols: int = SMALL[0], days: int = SMALL[1]) -> dict[str, Any]:
    """Return seconds, rows a second and ratios; medians of several runs."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        return {
            "size": {"symbols": symbols, "days": days, "symbols asked for": ASKED},
            "4 writers and 2 readers": contended(Path(folder)),
            **history(Path(folder), symbols, days),
        }


# ------------------------------------------------------------------------------------------- bars


def history(folder: Path, symbols: int, days: int) -> dict[str, Any]:
    """Bring bars in and ask for them, in each of the ways."""
    prices = folder / "prices.csv"
    with duckdb.connect() as duck:
        duck.execute(_PRICES.format(path=prices), {"first": FIRST, "days": days, "symbols": symbols})
    raw = statistics.median(seconds(lambda: write_raw(prices.read_bytes(), folder / "raw")) for _ in range(3))
    store = MarketStore(folder / "home", Ledger(folder / "home" / "ledger.db", wall))
    brought_in = ingest(store, prices, raw)
    plain, loaded = plain_table(folder, prices)
    figures = {**brought_in, "plain DuckDB table: loaded in, s": loaded, "beside writing the bytes": loaded / raw}
    names = [f"S{number:05}" for number in range(0, symbols, max(1, symbols // ASKED))][:ASKED]
    chance = random.Random(7)  # noqa: S311
    asked = [FIRST + dt.timedelta(days=int(days * 365 / 252 * chance.uniform(0.1, 1))) for _ in range(RUNS)]
    one = [f"S{chance.randrange(symbols):05}" for _ in range(RUNS)]
    pin = store.snapshots()[-1].seq
    frame, by_symbol = frames(prices)
    days_on_top = pinned_later(store, folder, symbols, days)
    return {
        "ingest": figures,
        "latest bars as of a day, ms": compared(
            store=[lambda day=day: store.latest_bars(names, day, pin) for day in asked],
            plain=[lambda day=day: plain.execute(_LATEST, window(names, day)).fetchall() for day in asked],
            with_days_on_top=[lambda: store.latest_bars(names, TODAY, days_on_top)] * RUNS,
            pandas=[lambda day=day: frame.loc[: pd.Timestamp(day), names].iloc[-2:] for day in asked],
            snapshots=[lambda day=day: store._history(pin, None).latest(names, day) for day in asked[:3]],  # noqa: SLF001
        ),
        "history of one symbol, ms": compared(
            store=[lambda name=name: store.history(name, TODAY, pin) for name in one],
            plain=[lambda name=name: plain.execute(_ONE, {"symbol": name}).fetchall() for name in one],
            with_days_on_top=[lambda name=name: store.history(name, TODAY, days_on_top) for name in one],
            pandas=[lambda name=name: by_symbol.loc[name] for name in one],
            snapshots=[lambda name=name: store._history(pin, None).history(name, TODAY) for name in one[:3]],  # noqa: SLF001
        ),
    }


_ONE = "select * from bars where symbol = $symbol order by date"


def window(symbols: list[str], day: dt.date) -> dict[str, Any]:
    """Return what the plain table is asked for: it is told where to look, as the store tells itself."""
    return {"first": day - dt.timedelta(days=7), "last": day, "symbols": symbols}


def ingest(store: MarketStore, prices: Path, raw: float) -> dict[str, Any]:
    """Bring a file in as `tradewright ingest` does; beside it, how quick the careful reader is."""
    began = time.perf_counter()
    with plain_bars(prices, TODAY) as plain:
        judged = time.perf_counter()
        assert plain
        store.put_plain_bars("file", plain)
        stored, rows = time.perf_counter(), plain.rows
    store.compact()
    done = time.perf_counter()
    few = prices.with_name("few.csv")
    with prices.open() as lines:
        few.write_text("".join(line for line, _ in zip(lines, range(CAREFUL + 1), strict=False)))
    apart = prices.with_name("apart")
    careful = MarketStore(apart, Ledger(apart / "ledger.db", wall))
    took = seconds(lambda: careful.put_bars("few", read_prices(few, TODAY)))
    return {
        "rows": rows,
        "writing the bytes, s": raw,
        "judged in, s": judged - began,
        "acknowledged in, s": stored - began,
        "acknowledged, rows/s": rows / (stored - began),
        "acknowledged beside writing the bytes": (stored - began) / raw,
        "compacted in, s": done - stored,
        "with compaction beside writing the bytes": (done - began) / raw,
        "by the careful reader, rows/s": CAREFUL / took,
    }


def pinned_later(store: MarketStore, folder: Path, symbols: int, days: int) -> int:
    """Bring in five more days, a file each as they come, and return the pin that sees them."""
    for number in range(5):
        path, after = folder / f"day{number}.csv", FIRST + dt.timedelta(days=(days + 10 + number) * 365 // 252)
        with duckdb.connect() as duck:
            duck.execute(_PRICES.format(path=path), {"first": after, "days": 1, "symbols": symbols})
        with plain_bars(path, TODAY) as plain:
            assert plain
            store.put_plain_bars(path.name, plain)
    return store.snapshots()[-1].seq


def write_raw(content: bytes, path: Path) -> None:
    """Write bytes as durably as the store does."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def plain_table(folder: Path, prices: Path) -> tuple[duckdb.DuckDBPyConnection, float]:
    """Return a DuckDB file with one table, sorted by date as the prices are, and how long it took to fill."""
    began = time.perf_counter()
    with duckdb.connect(str(folder / "plain.duckdb")) as duck:
        duck.execute(f"create table bars as select * from read_csv('{prices}') order by date, symbol")  # noqa: S608
    loaded = time.perf_counter() - began
    return duckdb.connect(str(folder / "plain.duckdb"), read_only=True), loaded


def frames(prices: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return what pandas answers from: closes as days x symbols, and all bars by symbol and day."""
    bars = duckdb.execute(f"select * from read_csv('{prices}')").df()  # noqa: S608
    bars["symbol"] = bars["symbol"].astype("category")
    return (
        bars.pivot_table(index="date", columns="symbol", values="close", observed=True),
        bars.set_index(["symbol", "date"]).sort_index(),
    )


# ------------------------------------------------------------------------------------------- several at once


def contended(folder: Path) -> dict[str, Any]:
    """Let four processes put quotes and two read by a pin, without a pause."""
    home = folder / "contended"
    MarketStore(home, Ledger(home / "ledger.db", wall)).put_quotes("ib", wall(), quotes(Decimal(1)))
    begin = time.time() + 6
    me = (sys.executable, __file__)
    roles = ["write"] * 4 + ["read"] * 2
    running = [
        subprocess.Popen([*me, "--work", role, str(home), str(begin)], stdout=subprocess.PIPE, text=True)
        for role in roles
    ]
    took = [json.loads(process.communicate()[0]) for process in running]
    writes = sorted(each for role, some in zip(roles, took, strict=True) if role == "write" for each in some)
    reads = [each for role, some in zip(roles, took, strict=True) if role == "read" for each in some]
    return {
        "writes/s": len(writes) / SECONDS,
        "write, ms, median": 1000 * statistics.median(writes),
        "write, ms, p99": 1000 * writes[int(0.99 * len(writes))],
        "reads/s": len(reads) / SECONDS,
    }


def work(role: str, home: Path, begin: float) -> list[float]:
    """Write or read from one moment on for some seconds; return how long each took."""
    ledger = Ledger(home / "ledger.db", wall)
    store = MarketStore(home, ledger)
    store.quotes(store.snapshots("quotes")[-1].id)
    time.sleep(max(0.0, begin - time.time()))
    took = []
    while time.time() < begin + SECONDS:
        took.append(seconds(lambda: put(store) if role == "write" else get(ledger, store)))
    return took


def put(store: MarketStore) -> None:
    """Put quotes that nobody put before."""
    store.put_quotes("ib", wall(), quotes(Decimal(time.time_ns() // 1000 % 10**10) / 1000))


def get(ledger: Ledger, store: MarketStore) -> None:
    """Read the newest quotes."""
    newest = store.newest("quotes", ledger.pin())
    assert newest
    store.quotes(newest.id)


def quotes(figure: Decimal) -> list[Quote]:
    """Return quotes of twenty symbols."""
    return [Quote(symbol=f"S{number}", bid=figure, ask=figure, at=wall()) for number in range(20)]


# ------------------------------------------------------------------------------------------- the clock


def seconds(act: Callable[[], object]) -> float:
    """Return how long something takes."""
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def compared(**ways: list[Callable[[], object]]) -> dict[str, float]:
    """Return the median of each way in ms and the store's ratio to the others; taken in turns, the first untimed."""
    for acts in ways.values():
        acts[0]()
    took: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(RUNS):
        for name, acts in ways.items():
            if turn < len(acts):
                took[name].append(1000 * seconds(acts[turn]))
    median = {name: statistics.median(some) for name, some in took.items()}
    return {
        "store": median["store"],
        "plain DuckDB table": median["plain"],
        "pandas in memory": median["pandas"],
        "store, five days not compacted yet": median["with_days_on_top"],
        "store, nothing compacted": median["snapshots"],
        "store beside plain DuckDB": median["store"] / median["plain"],
        "store beside pandas": median["store"] / median["pandas"],
    }


def main() -> None:
    """Measure and print, or be one of those who work side by side."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="5,000 symbols x 2,520 days")
    parser.add_argument("--symbols", type=int)
    parser.add_argument("--days", type=int)
    parser.add_argument("--work", nargs=3, help=argparse.SUPPRESS)
    said = parser.parse_args()
    if said.work:
        role, home, begin = said.work
        print(json.dumps(work(role, Path(home), float(begin))))
        return
    symbols, days = FULL if said.full else SMALL
    for name, figures in measure(said.symbols or symbols, said.days or days).items():
        print(name)
        for what, figure in figures.items():
            print(f"  {what:<44} {figure:>14,.1f}" if isinstance(figure, float) else f"  {what:<44} {figure:>14,}")


if __name__ == "__main__":
    main()
