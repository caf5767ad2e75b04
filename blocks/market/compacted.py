"""Compacted bars: the rows that count in one DuckDB file, made of the snapshots alone and read in their stead.

A file in `derived/` covers the snapshots up to a ledger sequence number. It is written beside, renamed into place, and
never changed; readers take the newest that their pin allows and add the later snapshots. Nothing is lost with it: a
reader who cannot use it reads the snapshots. It is removed as soon as there is a newer one: whoever has it open goes on
reading it, since a file lasts until the last one lets go, and whoever comes too late to open it reads the snapshots.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from blocks.errors import MarketError
from blocks.ledger import Ledger
from blocks.market.blobs import into_place
from blocks.market.connection import ask, attached, settings
from blocks.market.counting import FILES, Holding, asked_for, counting, elsewhere, holdings, listed
from blocks.market.shapes import BARS, DECIMALS
from blocks.market.snapshots import SAMPLE, Snapshot, Snapshots

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_LAYOUT = "1-duckdb-2.0.1"  # a file of other tables, or of another DuckDB, is passed over
_NAME = re.compile(rf"bars-(\d+)-([0-9a-f]{{16}})-{re.escape(_LAYOUT)}\.duckdb")
_MANY, _SHARE = 16, 8  # later snapshots, or a share of all rows (an eighth), that are worth writing everything anew

# Sums over 64 bits are several times as fast as those over 128. What does not fit a narrow type keeps the wide one.
_NARROW = ("decimal(18, 4)", "decimal(18, 8)")
_WIDE = "decimal(38, 12)"
_FIGURES = tuple(name for name, kind in BARS.columns.items() if kind in DECIMALS)

_ALL_OF_IT = f"select count(*), bit_xor(hash({BARS.names})) from {{}}"  # noqa: S608
_HOLDINGS = """
create table held as
select symbol, sample, min(session) as first_session, max(session) as last_session from by_date group by all
"""


@dataclass(frozen=True)
class Compacted:
    """A file of compacted bars as a reader sees it: `seq` is of the newest snapshot in it."""

    seq: int
    name: str  # that it is attached by

    def rows(self, table: str) -> str:
        """Return the SQL of all rows, from table `by_date` or `by_symbol`: their order makes one or the other quick."""
        return f"select {BARS.names}, {self.seq} as seq, sample from {self.name}.{table}"  # noqa: S608

    @property
    def held(self) -> dict[str, Holding]:
        """Return which symbols there are. Raises MarketError."""
        return _held(self.name, self.seq)


@lru_cache(maxsize=2)  # the file never changes, and every read asks
def _held(name: str, seq: int) -> dict[str, Holding]:
    rows = ask(f"select symbol, sample, first_session, last_session from {name}.held", {})  # noqa: S608
    return {symbol: Holding(symbol, seq, *more) for symbol, *more in rows}


class CompactedBars:
    """The compacted bars of one home."""

    def __init__(self, home: Path, snapshots: Snapshots, ledger: Ledger) -> None:
        self._folder = home.absolute() / "derived"
        self._snapshots = snapshots
        self._ledger = ledger

    def newest(self, until: int | None) -> Compacted | None:
        """Return the newest file that a reader with this pin may read; none if none can be opened."""
        for seq, link, path in self._there():
            if (until is None or seq <= until) and self._of_this_ledger(seq, link):
                try:
                    return Compacted(seq, attached(path))
                except MarketError:  # damaged, or removed just now
                    continue
        return None

    def make(self) -> bool:
        """Compact all bars if there is enough that is new; tell whether it was done. Raises MarketError."""
        found, done = self._snapshots.all("bars"), self.newest(None)
        later = [snapshot for snapshot in found if done is None or snapshot.seq > done.seq]
        if not later or (done and len(later) < _MANY and _rows(later) * _SHARE < _rows(found)):
            return False
        temporary = self._snapshots.blobs.temporary()
        try:
            self._write(temporary, found)
            temporary.chmod(0o444)  # a notebook that opens it to write would shut all readers out
            link = self._ledger.link(found[-1].seq) or ""
            into_place(temporary, self._folder / f"bars-{found[-1].seq}-{link[:16]}-{_LAYOUT}.duckdb")
            self._remove_older()
        except OSError as error:
            raise MarketError(f"{self._folder} cannot be written to: {error}") from None
        return True

    def faults(self) -> list[str]:
        """Read every file whole; return what is wrong."""
        return [f"{path}: {fault}" for seq, link, path in self._there() for fault in self._faults_of(seq, link, path)]

    def _faults_of(self, seq: int, link: str, path: Path) -> Iterator[str]:
        if not self._of_this_ledger(seq, link):
            yield f"made of a ledger with another entry {seq} than this one, whose last is {self._ledger.pin()}"
            return
        try:
            name = attached(path)
            by_date, by_symbol = (ask(_ALL_OF_IT.format(f"{name}.{table}"), {}) for table in ("by_date", "by_symbol"))
        except MarketError as error:
            if path.exists():  # else a newer one has just taken its place
                yield f"is not what was written: {error}"
            return
        if by_date != by_symbol:
            yield "is not what was written: its two tables differ"

    def _there(self) -> list[tuple[int, str, Path]]:
        """Return the files by what their names say, newest first."""
        named = [(_NAME.fullmatch(path.name), path) for path in self._folder.glob("bars-*.duckdb")]
        return sorted(((int(name[1]), name[2], path) for name, path in named if name), reverse=True)

    def _of_this_ledger(self, seq: int, link: str) -> bool:
        """Tell whether the ledger holds what the file was made of: one set back to a copy may hold something else."""
        return (self._ledger.link(seq) or "").startswith(link)

    def _remove_older(self) -> None:
        kept = next(path for seq, link, path in self._there() if self._of_this_ledger(seq, link))
        for path in self._folder.glob("bars-*"):
            if path != kept:
                path.unlink(missing_ok=True)

    def _write(self, path: Path, found: Sequence[Snapshot]) -> None:
        import duckdb  # noqa: PLC0415

        spill = {"temp_directory": f"{path}.spill"}  # where there is room, and where a sweep finds it
        try:
            with duckdb.connect(str(path), config=settings() | spill) as duck:
                _fill(duck, listed(self._parts(found, "bars")), holdings(self._parts(found, "symbols")))
        except duckdb.Error as error:
            raise MarketError(f"bars cannot be compacted: {str(error).partition(chr(10))[0]}") from None

    def _parts(self, found: Sequence[Snapshot], part: str) -> list[tuple[Path, int, bool]]:
        blobs = self._snapshots.blobs
        return [(blobs.open(each.parts[part]), each.seq, each.source == SAMPLE) for each in found]


def _rows(found: Sequence[Snapshot]) -> int:
    return sum(snapshot.parts["bars"].rows for snapshot in found)


def _fill(duck: "DuckDBPyConnection", files: dict[str, Any], held: Sequence[Holding]) -> None:
    types = _types(duck, files)
    # By way of DOUBLE, which `_types` has seen to lose nothing: to divide 128 bits would take twenty times as long.
    figures = (f"{name}::double::{kind} as {name}" if kind != _WIDE else name for name, kind in types.items())
    rows = counting([FILES], held, once=len(files["paths"]) == 1)
    taken = f"select session, symbol, sample, {', '.join(figures)} from ({rows})"  # noqa: S608
    bound = asked_for(taken, {**files, "elsewhere": elsewhere(held)})
    duck.execute(f"create table by_date as {taken} order by session, symbol", bound)
    duck.execute("create table by_symbol as from by_date order by symbol, session")
    duck.execute(_HOLDINGS)


def _types(duck: "DuckDBPyConnection", files: dict[str, Any]) -> dict[str, str]:
    """Return the narrowest type of each figure that loses none of its digits."""
    cases = [(name, kind) for name in _FIGURES for kind in _NARROW]
    tests = (f"bool_and(try_cast({n}::double as {k})::{_WIDE} is not distinct from {n})" for n, k in cases)
    fits = duck.execute(f"select {', '.join(tests)} from ({FILES})", files).fetchall()[0]  # noqa: S608
    types = dict.fromkeys(_FIGURES, _WIDE)
    return types | {name: kind for (name, kind), fit in reversed(list(zip(cases, fits, strict=True))) if fit}
