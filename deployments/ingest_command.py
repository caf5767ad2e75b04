"""`tradewright ingest`: price files into the store."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from blocks.clock import wall
from blocks.errors import UnusableInput
from blocks.ledger import Ledger
from blocks.market.store import MarketStore
from blocks.places import home
from flows.taking_in import take_in


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
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f} rows"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, transient=True, disable=not sys.stderr.isatty()) as progress:
        job = progress.add_task(path.name, total=None)
        return take_in(store, path, lambda done: progress.update(job, completed=done))
