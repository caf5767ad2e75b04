"""Take a price file into the store: by DuckDB where it is plain, else row by row with every fault named."""

from collections.abc import Callable
from datetime import date
from pathlib import Path

from blocks.clock import wall
from blocks.market.bulk import plain_bars
from blocks.market.files import read_prices
from blocks.market.store import MarketStore


def take_in(store: MarketStore, path: Path, tell: Callable[[int], None] = lambda _: None) -> dict[str, object]:
    """Store a file's prices and return what to say of them; `tell` hears how many rows are done.

    Raises UnusableInput, and then nothing of the file is stored.
    """
    with plain_bars(path, wall().date()) as plain:
        if plain:
            snapshot = store.put_plain_bars(f"file:{path.name}", plain)
            return _said(path, snapshot, plain.rows, plain.symbols, (plain.first, plain.last))
    table = read_prices(path, wall().date(), tell)
    snapshot = store.put_bars(f"file:{path.name}", table)
    return _said(path, snapshot, len(table), len(set(table.symbol)), (min(table.session), max(table.session)))


def _said(path: Path, snapshot: str, rows: int, symbols: int, sessions: tuple[date, date]) -> dict[str, object]:
    first, last = map(str, sessions)
    return {"file": str(path), "snapshot": snapshot, "rows": rows, "symbols": symbols, "first": first, "last": last}
