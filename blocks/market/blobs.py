"""Immutable files: each named by what it says, written whole or not at all, and checked before it is read."""

import hashlib
import os
import shutil
import threading
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from blocks.errors import MarketError
from blocks.market.connection import cursor, pattern
from blocks.market.shapes import Shape
from blocks.market.staging import Selected, Table, content_id, staged

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

# The rows are in their order already, and DuckDB keeps it. A row group is its unit of work: few sessions, few groups.
_WRITE = "copy staged to $path (format parquet, compression zstd, row_group_size 122880)"
_KEPT = 3600  # seconds; nobody is still writing what is older


@dataclass(frozen=True)
class Part:
    """One file of a snapshot: `blob` is the id of its content, `file_sha256` is of the bytes as they were written."""

    blob: str
    rows: int
    bytes: int
    file_sha256: str


_verified: set[tuple[Path, Part, int, int]] = set()  # what this process has checked: a hash of all history is not cheap


class Blobs:
    """The files beneath one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()

    def put(self, table: Table | Selected) -> Part:
        """Return the part that holds these rows, writing it unless it is there. Raises MarketError."""
        try:
            with staged(table) as duck:
                blob = content_id(duck, table.shape)
                return _found(self.path(blob), table, blob) or self._write(duck, table, blob)
        except OSError as error:
            raise MarketError(f"{self.folder} cannot be written to: {error}") from None

    def _write(self, duck: "DuckDBPyConnection", table: Table | Selected, blob: str) -> Part:
        temporary = self.temporary()
        duck.execute(_WRITE, {"path": str(temporary)})
        part = _part(temporary, table, blob)
        into_place(temporary, self.path(blob))
        return part

    def path(self, blob: str) -> Path:
        """Return where a blob is, or would be."""
        return self.folder / blob[:2] / f"{blob}.parquet"

    def temporary(self) -> Path:
        """Return a name of this thread's own, on the same file system, that a sweep will find."""
        _make(self.folder / ".tmp")
        return self.folder / ".tmp" / f"{_machine()}-{os.getpid()}-{threading.get_ident()}-{time.time_ns()}"

    def there(self, part: Part) -> bool:
        """Tell whether a part's file is in its place."""
        return self.path(part.blob).exists()

    def open(self, part: Part) -> Path:
        """Return a part's file, its bytes checked once a process and file. Raises MarketError that names it."""
        path = self.path(part.blob)
        try:
            stat = path.stat()
        except OSError as error:
            raise MarketError(self.fault(part) or f"blob {part.blob}: {error}") from None
        seen = (path, part, stat.st_mtime_ns, stat.st_size)
        if seen not in _verified:
            if (fault := self.fault(part)) is not None:
                raise MarketError(fault)
            _verified.add(seen)
        return path

    def fault(self, part: Part) -> str | None:
        """Return what is wrong with a part's file, by reading all of it."""
        path = self.path(part.blob)
        try:
            if _sha256(path) != part.file_sha256:
                return f"blob {part.blob}: {path} is not what was written: its bytes have changed"
        except FileNotFoundError:
            return f"blob {part.blob}: {path} is missing"
        except OSError as error:
            return f"blob {part.blob}: {path} cannot be read: {error}"
        return None

    def old_files(self, now: float) -> list[Path]:
        """Return the blobs and leftovers that nobody can still be writing at a time in seconds since 1970."""
        found = (*self.folder.glob("??/*.parquet"), *self.folder.glob(".tmp/*"))
        return [path for path in found if _age(path, now) > _KEPT]

    def left_by_the_dead(self) -> list[Path]:
        """Return the leftovers of processes of this machine that are no more."""
        return [path for path in self.folder.glob(".tmp/*") if _is_of_a_dead_process(path.name)]

    def remove(self, paths: Iterable[Path], kept: Collection[str] = ()) -> int:
        """Remove files, except blobs of the ids in `kept`; return how many."""
        gone = [path for path in paths if path.stem not in kept]
        for path in gone:
            if path.is_dir():  # what DuckDB had no memory for
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
        return len(gone)


def into_place(temporary: Path, path: Path) -> None:
    """Give a finished file its name, such that after a power cut it is there whole or not at all."""
    _sync(temporary)
    _make(path.parent)
    temporary.rename(path)
    _sync(path.parent)


def _found(path: Path, table: Table | Selected, blob: str) -> Part | None:
    """Return the part that is there already. It is looked into: an altered file must not become the truth."""
    try:
        if not _says(path, table.shape, blob):
            return None
        _sync(path.parent)  # whoever put it there may have been killed before doing so
        return _part(path, table, blob)
    except FileNotFoundError:  # swept at this moment
        return None


def _says(path: Path, shape: Shape, blob: str) -> bool:
    import duckdb  # noqa: PLC0415

    if not path.exists():
        return False
    duck = cursor()
    try:
        rows = f"select {shape.names} from read_parquet($path, hive_partitioning = false)"  # noqa: S608
        duck.execute(f"create or replace temp table found as {rows}", {"path": pattern(path)})
        return content_id(duck, shape, "found") == blob
    except duckdb.Error:
        return False
    finally:
        duck.execute("drop table if exists found")


def _part(path: Path, table: Table | Selected, blob: str) -> Part:
    return Part(blob, len(table), path.stat().st_size, _sha256(path))


def _age(path: Path, now: float) -> float:
    try:
        return now - path.stat().st_mtime
    except FileNotFoundError:
        return 0


def _machine() -> str:
    """Return what tells this machine from others, or a container from the next: process ids mean nothing there."""
    return os.uname().nodename.replace("-", "_")


def _is_of_a_dead_process(name: str) -> bool:
    machine, process, *_ = *name.split("-"), ""
    if machine != _machine() or not process.isdecimal():
        return False
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):
        pass
    return False


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _make(folder: Path) -> None:
    """Make a folder, on the disk: what lies in a folder that a power cut undoes is lost too."""
    if folder.is_dir():
        return
    _make(folder.parent)
    folder.mkdir(exist_ok=True)
    _sync(folder.parent)


def _sync(path: Path) -> None:
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
