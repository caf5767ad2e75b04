"""Snapshots: files first, then one entry in the ledger, so that all parts of a snapshot are there or none is."""

import datetime as dt
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from blocks.canonical import digest
from blocks.errors import MarketError
from blocks.ledger import Entry, Ledger
from blocks.market.blobs import Blobs, Part
from blocks.market.connection import ask, pattern
from blocks.market.records import Row
from blocks.market.shapes import Shape
from blocks.market.staging import Selected, Table
from blocks.values import iso

SAMPLE = "sample"
"""The source that gives way: its bars of a symbol are not used once any other source holds that symbol."""

_ENTRY = "snapshot"
_SCHEMA_VERSION = 1
_DAY = 24 * 3600


@dataclass(frozen=True)
class Snapshot:
    """What the ledger knows of one observation. `as_of` is the moment of the data; for bars, the last session."""

    seq: int
    recorded_at: dt.datetime
    id: str
    kind: str
    source: str
    as_of: str
    parts: dict[str, Part]
    meta: dict[str, Any]


class Snapshots:
    """The snapshots of one home."""

    def __init__(self, home: Path, ledger: Ledger) -> None:
        self.blobs = Blobs(home / "blobs")
        self._swept = home / "derived" / "swept"  # its date is that of the last sweep
        self._ledger = ledger

    def put(
        self,
        kind: str,
        source: str,
        as_of: dt.datetime | dt.date,
        tables: Mapping[str, Table | Selected],
        meta: Mapping[str, Any],
    ) -> str:
        """Record an observation; return its id: the same content again is the same snapshot. Raises MarketError."""
        parts = {name: self.blobs.put(table) for name, table in tables.items()}
        moment = iso(as_of) if isinstance(as_of, dt.datetime) else as_of.isoformat()
        blobs = {name: part.blob for name, part in parts.items()}
        snapshot_id = digest([kind, source, _SCHEMA_VERSION, moment, blobs, meta])
        with self._ledger.writing() as book:
            # From here on nobody sweeps: what is in its place now stays there once the entry names it.
            parts |= {name: self.blobs.put(tables[name]) for name, part in parts.items() if not self.blobs.there(part)}
            # An entry of this id says the same, even where its file's bytes were another DuckDB's.
            if book.get(_ENTRY, snapshot_id) is None:
                body = {
                    "source": source,
                    "schema_version": _SCHEMA_VERSION,
                    "as_of": moment,
                    "parts": {name: asdict(part) for name, part in parts.items()},
                    "meta": meta,
                }
                book.append(_ENTRY, body, key=snapshot_id, subject=kind)
        return snapshot_id

    def get(self, kind: str, snapshot_id: str) -> Snapshot:
        """Return a snapshot of a kind. Raises MarketError."""
        entry = self._ledger.get(_ENTRY, snapshot_id)
        if entry is None:
            raise MarketError(f"snapshot {snapshot_id}: not in this store")
        if entry.subject != kind:
            raise MarketError(f"snapshot {snapshot_id}: holds {entry.subject}, not {kind}")
        return _snapshot(entry)

    def rows(self, snapshot: Snapshot, part: str, shape: Shape) -> list[Row]:
        """Return the rows of a part, in their order, decimals as text. Raises MarketError."""
        try:
            path = self.blobs.open(snapshot.parts[part])
            question = f"select {shape.spelled} from read_parquet($path, hive_partitioning = false)"  # noqa: S608
            return ask(question, {"path": pattern(path)})
        except MarketError as error:
            raise MarketError(f"snapshot {snapshot.id}: {error}") from None

    def all(self, kind: str | None = None, until: int | None = None, after: int = 0) -> list[Snapshot]:
        """Return every snapshot, of one kind if it is named, `after` a sequence number, oldest first."""
        return [_snapshot(entry) for entry in self._ledger.all(_ENTRY, kind, until, after)]

    def newest(self, kind: str, until: int | None) -> Snapshot | None:
        """Return the newest snapshot of a kind."""
        entry = self._ledger.latest(_ENTRY, kind, until)
        return None if entry is None else _snapshot(entry)

    def whole(self, snapshot: Snapshot) -> bool:
        """Tell whether every part's file is in its place."""
        return all(map(self.blobs.there, snapshot.parts.values()))

    def holds(self, snapshot_id: str) -> bool:
        """Tell whether there is such a snapshot, and all its files."""
        entry = self._ledger.get(_ENTRY, snapshot_id)
        return entry is not None and self.whole(_snapshot(entry))

    def sweep(self, now: dt.datetime) -> int:
        """Remove leftovers and blobs of no snapshot once they are an hour old; return how many files."""
        old = self.blobs.old_files(now.timestamp())
        with self._ledger.writing() as book:  # a writer that is about to name one of them looks again after us
            kept = {part["blob"] for entry in book.all(_ENTRY) for part in entry.body["parts"].values()}
            return self.blobs.remove(old, kept)

    def tidy(self, now: dt.datetime) -> int:
        """Remove what processes that are no more left half-written, and sweep once a day; return how many files."""
        gone = self.blobs.remove(self.blobs.left_by_the_dead())
        if not self._swept.exists() or now.timestamp() - self._swept.stat().st_mtime > _DAY:
            gone += self.sweep(now)
            self._swept.parent.mkdir(parents=True, exist_ok=True)
            self._swept.touch()
            os.utime(self._swept, (now.timestamp(), now.timestamp()))
        return gone

    def faults(self) -> list[str]:
        """Read every file; return what is wrong, by snapshot and blob."""
        named = {part: snapshot.id for snapshot in self.all() for part in snapshot.parts.values()}
        faults = ((snapshot_id, self.blobs.fault(part)) for part, snapshot_id in named.items())
        return [f"snapshot {snapshot_id}: {fault}" for snapshot_id, fault in faults if fault is not None]


def _snapshot(entry: Entry) -> Snapshot:
    body = entry.body
    if body["schema_version"] > _SCHEMA_VERSION:
        raise MarketError(f"snapshot {entry.key}: written by a newer Tradewright; use that")
    parts = {name: Part(**part) for name, part in body["parts"].items()}
    return Snapshot(entry.seq, entry.at, entry.key, entry.subject, body["source"], body["as_of"], parts, body["meta"])
