"""DuckDB within this process: one connection in memory, a cursor for each thread, and no network."""

import os
import re
import tempfile
import threading
from collections.abc import Mapping
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


# A forked child begins anew. It keeps what it inherited without touching it: closing that would wait for threads which
# exist in the parent only.
_held = [_Held()]
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
