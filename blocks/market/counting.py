"""Which rows count: of the sample none that another source holds, and of the rest the later snapshot's."""

import datetime as dt
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from blocks.market.connection import ask, pattern
from blocks.market.shapes import BARS

_LISTED = """
(select unnest($paths::varchar[]) as path, unnest($seqs::bigint[]) as seq, unnest($samples::boolean[]) as sample)
"""

FILES = f"""
select {BARS.names}, seq, sample
from read_parquet($files, filename = 'path', hive_partitioning = false) join {_LISTED} using (path)
"""  # noqa: S608

_SPANS = "select symbol, first_session, last_session from read_parquet($path, hive_partitioning = false)"


@dataclass(frozen=True)
class Holding:
    """What one snapshot has of one symbol."""

    symbol: str
    seq: int
    sample: bool
    first: dt.date
    last: dt.date


def holdings(files: Iterable[tuple[Path, int, bool]], symbols: Collection[str] | None = None) -> list[Holding]:
    """Return what files of symbols hold, of all symbols or of some. Raises MarketError."""
    return [
        Holding(symbol, seq, sample, *spans[symbol])
        for path, seq, sample in files
        for spans in [_spans(path)]
        for symbol in (spans if symbols is None else spans.keys() & symbols)
    ]


@lru_cache(maxsize=1000)  # a blob never changes, and every read asks
def _spans(path: Path) -> dict[str, tuple[dt.date, dt.date]]:
    return {symbol: (first, last) for symbol, first, last in ask(_SPANS, {"path": pattern(path)})}


def counting(sources: Sequence[str], held: Iterable[Holding], *, once: bool, where: str = "true") -> str:
    """Return the SQL of the rows that count; `once`: the sources cannot hold two rows of a symbol and session."""
    later = "" if once else "qualify row_number() over (partition by symbol, session order by seq desc) = 1"
    rows = " union all ".join(sources)
    return f"""
select {BARS.names}, sample from ({rows})
where {where} and {_of_the_right_source(held)} {later}
"""  # noqa: S608


def elsewhere(held: Iterable[Holding]) -> list[str]:
    """Return the symbols of which the sample does not count, since another source has them."""
    return sorted({holding.symbol for holding in held if not holding.sample})


def listed(files: Sequence[tuple[Path, int, bool]]) -> dict[str, Any]:
    """Return what tells SQL of which snapshots a file is part, and whether of the sample; several may share one."""
    return {
        "files": sorted({pattern(path) for path, _, _ in files}),
        "paths": [str(path) for path, _, _ in files],
        "seqs": [seq for _, seq, _ in files],
        "samples": [sample for _, _, sample in files],
    }


def asked_for(question: str, bound: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a question names of what could be bound: DuckDB refuses the rest."""
    return {name: value for name, value in bound.items() if f"${name}" in question}


def _of_the_right_source(held: Iterable[Holding]) -> str:
    match sorted({holding.sample for holding in held}):
        case [False]:
            return "not sample"
        case [True]:
            return "sample"
        case _:
            return "not (sample and symbol in (select unnest($elsewhere::varchar[])))"
