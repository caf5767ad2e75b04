"""The market store: quotes, accounts and bars as they were observed, and what was known at any point of the ledger."""

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

from blocks.brokers.port import AccountState, WorkingOrder
from blocks.errors import MarketError
from blocks.ledger import Ledger
from blocks.market.bar_table import BarTable
from blocks.market.bulk import PlainBars
from blocks.market.compacted import Compacted, CompactedBars
from blocks.market.history import BarFile, BarHistory
from blocks.market.notebook import publish
from blocks.market.quotes import Bar, Quote
from blocks.market.records import (
    Window,
    account_of,
    account_tables,
    bar_tables,
    bars_of,
    quote_table,
    quotes_of,
    window_of,
    window_table,
)
from blocks.market.shapes import BARS, CASH, ORDERS, POSITIONS, QUOTES, WINDOW
from blocks.market.snapshots import SAMPLE, Snapshot, Snapshots

_Answer = TypeVar("_Answer")


class MarketStore:
    """Snapshots of quotes, accounts and bars. History is read as of a session and `until` a ledger sequence number."""

    def __init__(self, home: Path, ledger: Ledger) -> None:
        self.home = home
        self._snapshots = Snapshots(home, ledger)
        self._compacted = CompactedBars(home, self._snapshots, ledger)

    def put_quotes(self, source: str, as_of: dt.datetime, quotes: Iterable[Quote]) -> str:
        """Record quotes; return the snapshot's id, the same for the same content. Raises MarketError."""
        return self._snapshots.put("quotes", source, as_of, {"quotes": quote_table(quotes)}, {})

    def put_account(self, source: str, state: AccountState, open_orders: Iterable[WorkingOrder]) -> str:
        """Record an account and its working orders; return the snapshot's id. Raises MarketError."""
        tables = account_tables(state, open_orders)
        return self._snapshots.put("account", source, state.as_of, tables, {"account": state.id})

    def put_bars(self, source: str, bars: BarTable, meta: Mapping[str, Any] | None = None) -> str:
        """Record bars; return the snapshot's id. Raises MarketError."""
        if not len(bars):
            raise MarketError(f"no bars to record from {source}")
        return self._snapshots.put("bars", source, max(bars.session), bar_tables(bars), meta or {})

    def put_plain_bars(self, source: str, bars: PlainBars) -> str:
        """Record a plain file's bars; return the snapshot's id, the same as `put_bars`. Raises MarketError."""
        return self._snapshots.put("bars", source, bars.last, bars.tables, {})

    def put_closes(
        self,
        source: str,
        as_of: dt.datetime,
        sessions: Sequence[dt.date],
        closes: Mapping[str, Sequence[Decimal | None]],
    ) -> str:
        """Record the closes that a decision was given; return the snapshot's id. It is no source of later reads."""
        return self._snapshots.put("closes", source, as_of, {"closes": window_table(sessions, closes)}, {})

    def quotes(self, snapshot_id: str) -> tuple[Quote, ...]:
        """Return a snapshot's quotes, by symbol. Raises MarketError."""
        return quotes_of(self._snapshots.rows(self._snapshots.get("quotes", snapshot_id), "quotes", QUOTES))

    def account(self, snapshot_id: str) -> tuple[AccountState, tuple[WorkingOrder, ...]]:
        """Return a snapshot's account and working orders, by symbol and by reference. Raises MarketError."""
        found = self._snapshots.get("account", snapshot_id)
        shapes = {"positions": POSITIONS, "cash": CASH, "orders": ORDERS}
        rows = {part: self._snapshots.rows(found, part, shape) for part, shape in shapes.items()}
        return account_of(found.meta["account"], found.as_of, rows)

    def bars(self, snapshot_id: str) -> BarTable:
        """Return a snapshot's bars. Raises MarketError."""
        return bars_of(self._snapshots.rows(self._snapshots.get("bars", snapshot_id), "bars", BARS))

    def closes_in(self, snapshot_id: str) -> Window:
        """Return a snapshot's sessions, ascending, and each symbol's closes in them. Raises MarketError."""
        return window_of(self._snapshots.rows(self._snapshots.get("closes", snapshot_id), "closes", WINDOW))

    def latest_bars(
        self, symbols: Iterable[str], as_of: dt.date, until: int | None
    ) -> dict[str, tuple[Bar, Bar | None]]:
        """Return each symbol's last bar and the one before; a symbol without any by `as_of` is left out."""
        return self._ask(until, lambda bars: bars.latest(symbols, as_of))

    def closes(self, symbols: Iterable[str], sessions: int, as_of: dt.date, until: int | None) -> Window:
        """Return the last sessions in which any symbol has a bar, ascending, and each symbol's closes in them."""
        return self._ask(until, lambda bars: bars.closes(symbols, sessions, as_of))

    def history(self, symbol: str, as_of: dt.date, until: int | None) -> tuple[Bar, ...]:
        """Return all of a symbol's bars, by session."""
        return self._ask(until, lambda bars: bars.history(symbol, as_of))

    def last_session(self, symbols: Iterable[str], until: int | None) -> dict[str, dt.date]:
        """Return each symbol's last session; a symbol that is not in the store is left out."""
        return self._ask(until, lambda bars: bars.last_session(symbols))

    def first_session(self, symbols: Iterable[str], until: int | None) -> dict[str, dt.date]:
        """Return each symbol's first session; a symbol that is not in the store is left out."""
        return self._ask(until, lambda bars: bars.first_session(symbols))

    def only_sample(self, symbols: Iterable[str], until: int | None) -> frozenset[str]:
        """Return those of the symbols that nobody but the sample has prices of."""
        return self._ask(until, lambda bars: bars.only_sample(symbols))

    def symbols(self, until: int | None) -> tuple[str, ...]:
        """Return every symbol that has bars, sorted."""
        return self._ask(until, lambda bars: bars.symbols())

    def snapshots(self, kind: str | None = None, until: int | None = None) -> list[Snapshot]:
        """Return what the ledger knows of each snapshot, oldest first."""
        return self._snapshots.all(kind, until)

    def newest(self, kind: str, until: int | None) -> Snapshot | None:
        """Return the newest snapshot of a kind."""
        return self._snapshots.newest(kind, until)

    def whole(self, snapshot: Snapshot) -> bool:
        """Tell whether all of a snapshot's files are in their places."""
        return self._snapshots.whole(snapshot)

    def holds(self, snapshot_id: str) -> bool:
        """Tell whether there is such a snapshot, and all its files."""
        return self._snapshots.holds(snapshot_id)

    def compact(self) -> bool:
        """Bring all bars into one file that is quick to read, if much is new; tell whether. Raises MarketError."""
        return self._compacted.make()

    def publish(self) -> Path:
        """Bring `market.duckdb`, the views for notebooks, up to date; return where it is. Raises MarketError."""
        return publish(self.home, self._snapshots)

    def sweep(self, now: dt.datetime) -> int:
        """Remove what killed writers left behind, once it is an hour old; return how many files."""
        return self._snapshots.sweep(now)

    def tidy(self, now: dt.datetime) -> int:
        """Do at a start what costs no time then: see to the leftovers of the dead, and sweep if it is a day since."""
        try:
            return self._snapshots.tidy(now)
        except OSError as error:
            raise MarketError(f"{self.home} cannot be tidied up: {error}") from None

    def faults(self) -> list[str]:
        """Read every file there is; return what is wrong; empty means the store is whole."""
        return self._snapshots.faults() + self._compacted.faults()

    def _ask(self, until: int | None, question: Callable[[BarHistory], _Answer]) -> _Answer:
        compacted = self._compacted.newest(until)
        if compacted:
            with suppress(MarketError):  # damaged, or let go: the snapshots have everything, or say what is wrong
                return question(self._history(until, compacted))
        return question(self._history(until, None))

    def _history(self, until: int | None, compacted: Compacted | None) -> BarHistory:
        found = self._snapshots.all("bars", until, compacted.seq if compacted else 0)
        files = [BarFile(each.seq, each.source == SAMPLE, each.parts["bars"], each.parts["symbols"]) for each in found]
        return BarHistory(files, self._snapshots.blobs.open, compacted)
