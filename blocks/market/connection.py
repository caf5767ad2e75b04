"""DuckDB within this process: one connection in memory, a cursor for each thread, and no network."""

import os
import re
import tempfile
import threading
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from blocks.errors import MarketError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


class _Held:
    """What one process holds."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.connection: DuckDBPyConnection | None = None
        self.threads = threading.local()
        self.files: dict[tuple[Path, int], str] = {}  # attached, by path and inode


# A forked child begins anew. It keeps what it inherited without touching it: closing that would wait for threads which
# exist in the parent only.
_held = [_Held()]
_numbers = count()  # never begun anew: no name is given twice, in a forked child neither
os.register_at_fork(after_in_child=lambda: _held.append(_Held()))


def cursor() -> "DuckDBPyConnection":
    """Return this thread's cursor. Fetch every answer whole: until then DuckDB refuses it any other work."""
    held = _held[-1]
    mine: DuckDBPyConnection | None = getattr(held.threads, "cursor", None)
    if mine is None:
        mine = held.threads.cursor = _connection(held).cursor()
    return mine


def ask(question: str, bound: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """Return all rows of an answer. Raises MarketError."""
    import duckdb  # noqa: PLC0415

    try:
        return cursor().execute(question, dict(bound)).fetchall()
    except duckdb.Error as error:
        raise MarketError(f"the store cannot be read: {str(error).partition(chr(10))[0]}") from None


def attached(path: Path) -> str:
    """Return the name by which a DuckDB file that is never changed can be read here. Raises MarketError.

    It is opened once a process, and stays readable when its path is removed or given to another file.
    """
    import duckdb  # noqa: PLC0415

    held, duck = _held[-1], cursor()
    try:
        with held.lock:
            file = (path, path.stat().st_ino)
            if file not in held.files:
                _let_go(held, duck)
                name = f"file{next(_numbers)}"
                duck.execute(f"attach '{str(path).replace(chr(39), 2 * chr(39))}' as {name} (read_only)")
                held.files[file] = name
            return held.files[file]
    except (OSError, duckdb.Error) as error:
        raise MarketError(f"{path} cannot be read: {str(error).partition(chr(10))[0]}") from None


def _let_go(held: _Held, duck: "DuckDBPyConnection") -> None:
    """Let go of the files that are no longer what their paths name; a thread that still asks of one gets an error."""
    for file in [(path, inode) for path, inode in held.files if not path.exists() or path.stat().st_ino != inode]:
        duck.execute(f"detach {held.files.pop(file)}")


def _connection(held: _Held) -> "DuckDBPyConnection":
    import duckdb  # noqa: PLC0415  (half a second, which commands that need no prices should not pay)

    with held.lock:
        if held.connection is None:
            held.connection = duckdb.connect(":memory:", config=settings())  # 40 ms: hence held
        return held.connection


def settings() -> dict[str, str | bool | int | float | list[str]]:
    """Return how DuckDB is opened here."""
    spill = Path(tempfile.gettempdir()) / f"tradewright-duckdb-{os.getpid()}"  # by default, the working folder
    return {
        "autoinstall_known_extensions": False,  # else a query may stall for seconds on a download
        "autoload_known_extensions": False,
        "python_enable_replacements": False,  # a misspelt table must not find a Python variable
        "temp_directory": str(spill),
    }


def pattern(path: Path) -> str:
    """Return the pattern that matches this one file, whatever characters its folders are named with."""
    return re.sub(r"([*?\[])", r"[\1]", str(path))
