"""`market.duckdb`: views for people with a notebook. Each version is a file of its own, renamed into place."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from blocks.canonical import digest
from blocks.errors import MarketError
from blocks.market.blobs import into_place
from blocks.market.connection import pattern, settings
from blocks.market.shapes import BARS, QUOTES, SYMBOLS, Shape
from blocks.market.snapshots import SAMPLE, Snapshot, Snapshots

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_PARTS = """
create table parts as select
    unnest($seq::bigint[]) as seq, unnest($recorded_at::varchar[])::timestamp as recorded_at,
    unnest($id::varchar[]) as snapshot_id, unnest($kind::varchar[]) as kind, unnest($source::varchar[]) as source,
    unnest($as_of::varchar[]) as as_of, unnest($part::varchar[]) as part, unnest($rows::bigint[]) as rows,
    unnest($file::varchar[]) as file
"""

_COLUMNS = ("seq", "recorded_at", "id", "kind", "source", "as_of", "part", "rows", "file")

_SNAPSHOTS = "create view snapshots as select distinct seq, recorded_at, snapshot_id, kind, source, as_of from parts"

# A file may be part of several snapshots. Figures are shown as DOUBLE, for a notebook to reckon with; files are exact.
_QUOTES = """
create view quotes as
select seq, snapshot_id, source, as_of, symbol, bid::double as bid, ask::double as ask, last::double as last,
    make_timestamp(at_us) as quoted_at, currency, previous_close::double as previous_close, tick::double as tick,
    adv::double as adv, delayed
from {quotes} join parts using (file)
"""

_BARS = """
create view bars as
select symbol, session, open::double as open, high::double as high, low::double as low, close::double as close,
    volume::double as volume, source, snapshot_id
from {bars} join parts using (file)
where source <> '{sample}'
   or symbol not in (select symbol from {symbols} join parts using (file) where source <> '{sample}')
qualify row_number() over (partition by symbol, session order by seq desc) = 1
"""


def publish(home: Path, snapshots: Snapshots) -> Path:
    """Replace `market.duckdb` unless it shows all there is already; return where it is. Raises MarketError.

    Whoever has the file open goes on reading the version they opened.
    """
    path, mark = home.absolute() / "market.duckdb", home.absolute() / "derived" / "market.json"
    found = snapshots.all()
    shown = digest([snapshot.id for snapshot in found])
    if path.exists() and mark.exists() and mark.read_text(encoding="utf-8") == _mark(path, shown):
        return path
    try:
        temporary = snapshots.blobs.temporary()
        _write(temporary, snapshots, found)
        into_place(temporary, path)
        noted = snapshots.blobs.temporary()
        noted.write_text(_mark(path, shown), encoding="utf-8")
        into_place(noted, mark)
    except OSError as error:
        raise MarketError(f"{path} cannot be written to: {error}") from None
    return path


def _mark(path: Path, shown: str) -> str:
    """Return what tells this version of the file from another process's, which may be renamed over it."""
    stat = path.stat()
    return json.dumps([shown, stat.st_ino, stat.st_mtime_ns, stat.st_size])


def _write(path: Path, snapshots: Snapshots, found: Sequence[Snapshot]) -> None:
    import duckdb  # noqa: PLC0415

    try:
        with duckdb.connect(str(path), config=settings()) as duck:
            _fill(duck, snapshots, found)
    except duckdb.Error as error:
        raise MarketError(f"market.duckdb cannot be written: {str(error).partition(chr(10))[0]}") from None


def _fill(duck: "DuckDBPyConnection", snapshots: Snapshots, found: Sequence[Snapshot]) -> None:
    listed: list[tuple[Any, ...]] = [
        (*_of(each), name, part.rows, str(snapshots.blobs.path(part.blob)))
        for each in found
        for name, part in each.parts.items()
    ]
    columns = zip(*listed, strict=True) if listed else [()] * len(_COLUMNS)
    duck.execute(_PARTS, {name: list(column) for name, column in zip(_COLUMNS, columns, strict=True)})
    duck.execute(_SNAPSHOTS)
    files = {
        part: sorted({row[-1] for row in listed if (row[3], row[6]) == (kind, part)})
        for kind, part in (("quotes", "quotes"), ("bars", "bars"), ("bars", "symbols"))
    }
    duck.execute(_QUOTES.format(quotes=_reading(QUOTES, files["quotes"])))
    bars, symbols = _reading(BARS, files["bars"]), _reading(SYMBOLS, files["symbols"])
    duck.execute(_BARS.format(bars=bars, symbols=symbols, sample=SAMPLE))


def _of(each: Snapshot) -> tuple[object, ...]:
    recorded_at = each.recorded_at.replace(tzinfo=None).isoformat()
    return each.seq, recorded_at, each.id, each.kind, each.source, each.as_of


def _reading(shape: Shape, files: Sequence[str]) -> str:
    """Return the SQL that reads files. Written out, since a view can have nothing bound to it."""
    if not files:
        return f"({shape.nothing})"
    listed = ", ".join(f"'{pattern(Path(file)).replace(chr(39), 2 * chr(39))}'" for file in files)
    return f"read_parquet([{listed}], filename = 'file', hive_partitioning = false)"
