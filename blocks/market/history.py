"""Bars as they were known at one point of the ledger: of every snapshot, the row that counts."""

import datetime as dt
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from blocks.market.blobs import Part
from blocks.market.compacted import Compacted
from blocks.market.connection import ask
from blocks.market.counting import FILES, Holding, asked_for, counting, elsewhere, holdings, listed
from blocks.market.quotes import Bar
from blocks.market.records import Row, Window, each_bar
from blocks.market.shapes import BARS

_ASKED = "session between $first and $last and symbol in (select unnest($symbols::varchar[]))"

_EVERY = f"select {BARS.spelled} from ({{}})"  # noqa: S608

_LATEST = f"""
select {BARS.spelled} from ({{}}) counting
qualify row_number() over (partition by symbol order by counting.session desc) <= $count
"""  # noqa: S608

_CLOSES = """
with counting as ({})
select session, symbol, rtrim(rtrim(close::varchar, '0'), '.') from counting
where session in (select distinct session from counting order by session desc limit $count)
order by session, symbol
"""

_WEEK = 7  # days in which what still trades has two bars, but for a few weeks in a century
_FORTNIGHT = 14
_FEW = 50  # symbols for which it is quicker to look at each than at all that traded in a year


@dataclass(frozen=True)
class BarFile:
    """A snapshot of bars as a reader sees it."""

    seq: int
    sample: bool
    bars: Part
    symbols: Part


class BarHistory:
    """The bars of some snapshots. Every question names its latest session: no later row is ever looked at."""

    def __init__(
        self, files: Sequence[BarFile], open_part: Callable[[Part], Path], compacted: Compacted | None = None
    ) -> None:
        """Read files, and what was compacted, which is older than each of them."""
        self._files = files
        self._open = open_part
        self._compacted = compacted

    def symbols(self) -> tuple[str, ...]:
        """Return every symbol, sorted."""
        return tuple(sorted({holding.symbol for holding in self._holdings(None)}))

    def first_session(self, symbols: Iterable[str]) -> dict[str, dt.date]:
        """Return each symbol's first session; a symbol that is unknown is left out."""
        return dict(sorted(((each.symbol, each.first) for each in self._counting(symbols)), reverse=True))

    def last_session(self, symbols: Iterable[str]) -> dict[str, dt.date]:
        """Return each symbol's last session; a symbol that is unknown is left out."""
        return dict(sorted((each.symbol, each.last) for each in self._counting(symbols)))

    def only_sample(self, symbols: Iterable[str]) -> frozenset[str]:
        """Return those of the symbols that nobody but the sample has prices of."""
        return frozenset(holding.symbol for holding in self._counting(symbols) if holding.sample)

    def latest(self, symbols: Iterable[str], as_of: dt.date) -> dict[str, tuple[Bar, Bar | None]]:
        """Return each symbol's last bar and the one before; a symbol without any is left out."""
        held = self._counting(symbols)
        last = min(as_of, max((holding.last for holding in held), default=as_of))
        since = _back(last, _WEEK)
        found = _by_symbol(self._rows(_LATEST, "by_date", held, since, last, 2))
        thin = {holding.symbol for holding in held if holding.first < since and len(found.get(holding.symbol, ())) < 2}
        if thin:
            held = [holding for holding in held if holding.symbol in thin]
            found |= _by_symbol(self._rows(_LATEST, "by_symbol", held, dt.date.min, last, 2))
        return {symbol: (its[-1], its[-2] if its[1:] else None) for symbol, its in found.items()}

    def history(self, symbol: str, as_of: dt.date) -> tuple[Bar, ...]:
        """Return all of a symbol's bars, by session."""
        rows = self._rows(_EVERY, "by_symbol", self._counting([symbol]), dt.date.min, as_of)
        return tuple(each_bar(sorted(rows)))

    def closes(self, symbols: Iterable[str], sessions: int, as_of: dt.date) -> Window:
        """Return the last sessions in which any of the symbols has a bar, and each symbol's close in them, or None."""
        wanted = tuple(symbols)
        held, since = self._counting(wanted), _back(as_of, 2 * sessions + _FORTNIGHT)
        table = "by_symbol" if len(wanted) <= _FEW else "by_date"
        rows = self._rows(_CLOSES, table, held, since, as_of, sessions)
        if len({row[0] for row in rows}) < sessions and any(holding.first < since for holding in held):
            rows = self._rows(_CLOSES, table, held, dt.date.min, as_of, sessions)
        found = {(session, symbol): Decimal(close) for session, symbol, close in rows}
        ascending = tuple(dict.fromkeys(row[0] for row in rows))
        return ascending, {symbol: tuple(found.get((session, symbol)) for session in ascending) for symbol in wanted}

    def _counting(self, symbols: Iterable[str]) -> list[Holding]:
        """Return who holds these symbols, without the sample where another source does."""
        held = self._holdings(symbols)
        others = set(elsewhere(held))
        return [holding for holding in held if not (holding.sample and holding.symbol in others)]

    def _holdings(self, symbols: Iterable[str] | None) -> list[Holding]:
        wanted = None if symbols is None else set(symbols)
        held = holdings([(self._open(file.symbols), file.seq, file.sample) for file in self._files], wanted)
        if self._compacted:
            known = self._compacted.held
            held += [known[symbol] for symbol in (known if wanted is None else known.keys() & wanted)]
        return held

    def _rows(
        self, question: str, table: str, held: Sequence[Holding], first: dt.date, last: dt.date, count: int = 1
    ) -> list[Row]:
        seqs = {holding.seq for holding in held if holding.first <= last and holding.last >= first}
        files = [(self._open(file.bars), file.seq, file.sample) for file in self._files if file.seq in seqs]
        sources = [FILES] if files else []
        if self._compacted and self._compacted.seq in seqs:
            sources.append(self._compacted.rows(table))
        if not sources or count < 1:
            return []
        once = len(sources) == 1 and len(files) < 2
        question = question.format(counting(sources, held, once=once, where=_ASKED))
        symbols = sorted({holding.symbol for holding in held})
        bound = {"symbols": symbols, "elsewhere": elsewhere(held), "first": first, "last": last, "count": count}
        return ask(question, asked_for(question, bound | listed(files)))


def _by_symbol(rows: Iterable[Row]) -> dict[str, list[Bar]]:
    bars: dict[str, list[Bar]] = {}
    for bar in each_bar(sorted(rows)):  # by session; it takes DuckDB longer
        bars.setdefault(bar.symbol, []).append(bar)
    return bars


def _back(date: dt.date, days: int) -> dt.date:
    return dt.date.fromordinal(max(1, date.toordinal() - days))
