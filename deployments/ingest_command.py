"""`tradewright ingest`: price files into the store."""

import json
import sys
from collections.abc import Sequence
from datetime import date
from pathlib import Path

from blocks.clock import wall
from blocks.errors import UnusableInput
from blocks.ledger import Ledger
from blocks.market.bulk import plain_bars
from blocks.market.files import read_prices
from blocks.market.store import MarketStore
from blocks.places import home


def ingest(files: Sequence[Path], *, as_json: bool) -> int:
    """Take files in one by one; one with a fault leaves nothing behind and does not keep the others out."""
    store = MarketStore(home(), Ledger(home() / "ledger.db", wall))
    worst = 0
    for path in files:
        try:
            said = _taken_in(store, path)
        except UnusableInput as error:
            print(f"tradewright: {error}", file=sys.stderr)
            if as_json:
                print(json.dumps({"file": str(path), "error": str(error)}))
            worst = 2
            continue
        print(
            json.dumps(said) if as_json else "{file}: {rows} rows, {symbols} symbols, {first} to {last}".format(**said)
        )
    store.compact()
    store.publish()
    return worst


def _taken_in(store: MarketStore, path: Path) -> dict[str, object]:
    """Store a file's prices; return what to say of them. Raises UnusableInput."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f} rows"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, transient=True, disable=not sys.stderr.isatty()) as progress:
        job = progress.add_task(path.name, total=None)
        with plain_bars(path, wall().date()) as plain:
            if plain:
                snapshot = store.put_plain_bars(f"file:{path.name}", plain)
                return _said(path, snapshot, plain.rows, plain.symbols, (plain.first, plain.last))
        table = read_prices(path, wall().date(), lambda done: progress.update(job, completed=done))
        snapshot = store.put_bars(f"file:{path.name}", table)
        return _said(path, snapshot, len(table), len(set(table.symbol)), (min(table.session), max(table.session)))


def _said(path: Path, snapshot: str, rows: int, symbols: int, sessions: tuple[date, date]) -> dict[str, object]:
    first, last = map(str, sessions)
    return {"file": str(path), "snapshot": snapshot, "rows": rows, "symbols": symbols, "first": first, "last": last}
