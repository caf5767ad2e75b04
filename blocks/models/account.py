"""The account of what was asked: each call of an objective, with what it came to and what it cost."""

from collections.abc import Iterator
from typing import Any

from blocks.ledger import Ledger, Reading
from blocks.models.budget import cost_of
from blocks.values import plain

_USED = ("input", "cache_read", "cache_write", "output", "milliseconds")


def calls_of(book: Ledger | Reading, scope: str) -> Iterator[dict[str, Any]]:
    """Yield each call that one objective made, in order; USD is its worst where nobody knows what became of it."""
    for entry in book.all("model.call", scope):
        answer, failure = book.get("model.answer", entry.key), book.get("model.failure", entry.key)
        used = answer.body if answer else {}
        yield {
            **{name: entry.body[name] for name in ("run", "step", "role", "model", "request")},
            "answered": answer is not None,
            "stop_reason": used.get("stop_reason"),
            **{name: used.get(name, 0) for name in _USED},
            "usd": plain(cost_of(book, entry.key, entry.body)),
            "message": f"turned down ({failure.body['status']})" if failure else "" if answer else "no answer seen",
        }
