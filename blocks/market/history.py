"""Bars as they were known at one point of the ledger: of every snapshot, the row that counts."""

import datetime as dt
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from blocks.market.blobs import Part
from blocks.market.connection import ask, pattern
from blocks.market.quotes import Bar
from blocks.market.records import Row, Window, bar_of
from blocks.market.shapes import BARS

_LISTED = """
with listed as (
    select unnest($paths::varchar[]) as path, unnest($seqs::bigint[]) as seq, unnest($samples::boolean[]) as sample
)
"""

_HELD = f"""{_LISTED}
select symbol, seq, sample, first_session, last_session
from read_parquet($files, filename = 'path', hive_partitioning = false) join listed using (path)
where $symbols::varchar[] is null or symbol in (select unnest($symbols::varchar[]))
"""  # noqa: S608

# For a symbol that any other source holds (`elsewhere`) the sample is not used; among the rest the later snapshot wins.
_COUNTING = f"""{_LISTED}, counting as (
    select {BARS.names}
    from read_parquet($files, filename = 'path', hive_partitioning = false) join listed using (path)
    where session between $first and $last and symbol in (select unnest($symbols::varchar[]))
      and not (sample and symbol in (select unnest($elsewhere::varchar[])))
    qualify row_number() over (partition by symbol, session order by seq desc) = 1
)
"""  # noqa: S608

_BARS = f"""{_COUNTING}
select {BARS.spelled} from counting
qualify row_number() over (partition by symbol order by session desc) <= $count
order by counting.session, counting.symbol
"""  # noqa: S608

_CLOSES = f"""{_COUNTING}
select session, symbol, rtrim(rtrim(close::varchar, '0'), '.') from counting
where session in (select distinct session from counting order by session desc limit $count)
order by session, symbol
"""  # noqa: S608

_ALL = 2**62
_FORTNIGHT = 14  # days in which whatever still trades has two bars


@dataclass(frozen=True)
class BarFile:
    """A snapshot of bars as a reader sees it."""

    seq: int
    sample: bool
    bars: Part
    symbols: Part


@dataclass(frozen=True)
class _Holding:
    """What one snapshot has of one symbol."""

    symbol: str
    seq: int
    sample: bool
    first: dt.date
    last: dt.date


class BarHistory:
    """The bars of some snapshots. Every question names its latest session: no later row is ever looked at."""

    def __init__(self, files: Sequence[BarFile], open_part: Callable[[Part], Path]) -> None:
        self._files = files
        self._open = open_part

    def symbols(self) -> tuple[str, ...]:
        """Return every symbol, sorted."""
        return tuple(sorted({holding.symbol for holding in self._holdings(None)}))

    def first_session(self, symbols: Iterable[str]) -> dict[str, dt.date]:
        """Return each symbol's first session; a symbol that is unknown is left out."""
        return dict(sorted(((each.symbol, each.first) for each in self._counting(symbols)), reverse=True))

    def last_session(self, symbols: Iterable[str]) -> dict[str, dt.date]:
        """Return each symbol's last session; a symbol that is unknown is left out."""
        return dict(sorted((each.symbol, each.last) for each in self._counting(symbols)))

    def latest(self, symbols: Iterable[str], as_of: dt.date) -> dict[str, tuple[Bar, Bar | None]]:
        """Return each symbol's last bar and the one before; a symbol without any is left out."""
        held, since = self._counting(symbols), _back(as_of, _FORTNIGHT)
        rows = self._rows(_BARS, held, since, as_of, 2)
        enough = {symbol for symbol, times in Counter(row[1] for row in rows).items() if times == 2}
        thin = {holding.symbol for holding in held if holding.first < since} - enough
        if thin:
            older = self._rows(_BARS, [holding for holding in held if holding.symbol in thin], dt.date.min, as_of, 2)
            rows = [row for row in rows if row[1] not in thin] + older
        return {symbol: (its[-1], its[-2] if its[1:] else None) for symbol, its in _by_symbol(rows).items()}

    def history(self, symbol: str, as_of: dt.date) -> tuple[Bar, ...]:
        """Return all of a symbol's bars, by session."""
        rows = self._rows(_BARS, self._counting([symbol]), dt.date.min, as_of, _ALL)
        return tuple(bar_of(row) for row in rows)

    def closes(self, symbols: Iterable[str], sessions: int, as_of: dt.date) -> Window:
        """Return the last sessions in which any of the symbols has a bar, and each symbol's close in them, or None."""
        wanted = tuple(symbols)
        held, since = self._counting(wanted), _back(as_of, 2 * sessions + _FORTNIGHT)
        rows = self._rows(_CLOSES, held, since, as_of, sessions)
        if len({row[0] for row in rows}) < sessions and any(holding.first < since for holding in held):
            rows = self._rows(_CLOSES, held, dt.date.min, as_of, sessions)
        found = {(session, symbol): Decimal(close) for session, symbol, close in rows}
        ascending = tuple(dict.fromkeys(row[0] for row in rows))
        return ascending, {symbol: tuple(found.get((session, symbol)) for session in ascending) for symbol in wanted}

    def _counting(self, symbols: Iterable[str]) -> list[_Holding]:
        """Return who holds these symbols, without the sample where another source does."""
        held = self._holdings(list(symbols))
        elsewhere = {holding.symbol for holding in held if not holding.sample}
        return [holding for holding in held if not (holding.sample and holding.symbol in elsewhere)]

    def _holdings(self, symbols: list[str] | None) -> list[_Holding]:
        if not self._files:
            return []
        listed = _listed([(self._open(file.symbols), file) for file in self._files])
        return [_Holding(*row) for row in ask(_HELD, {**listed, "symbols": symbols})]

    def _rows(self, question: str, held: list[_Holding], first: dt.date, last: dt.date, count: int) -> list[Row]:
        seqs = {holding.seq for holding in held if holding.first <= last and holding.last >= first}
        files = [file for file in self._files if file.seq in seqs]
        if not files or count < 1:
            return []
        bound = {
            **_listed([(self._open(file.bars), file) for file in files]),
            "symbols": sorted({holding.symbol for holding in held}),
            "elsewhere": sorted({holding.symbol for holding in held if not holding.sample}),
            "first": first,
            "last": last,
            "count": count,
        }
        return ask(question, bound)


def _listed(files: Sequence[tuple[Path, BarFile]]) -> dict[str, Any]:
    """Return what tells SQL of which snapshots a file is part; several may share one."""
    return {
        "files": sorted({pattern(path) for path, _ in files}),
        "paths": [str(path) for path, _ in files],
        "seqs": [file.seq for _, file in files],
        "samples": [file.sample for _, file in files],
    }


def _by_symbol(rows: Iterable[Row]) -> dict[str, list[Bar]]:
    bars: dict[str, list[Bar]] = {}
    for row in rows:
        bar = bar_of(row)
        bars.setdefault(bar.symbol, []).append(bar)
    return bars


def _back(date: dt.date, days: int) -> dt.date:
    return dt.date.fromordinal(max(1, date.toordinal() - days))
