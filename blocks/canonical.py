"""One spelling for a value, so that a hash of it means something."""

import hashlib
import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from pydantic import BaseModel

from blocks.values import iso, plain


def _spelled(value: Any) -> Any:  # noqa: PLR0911  one line a type
    if isinstance(value, BaseModel):
        return {name: _spelled(getattr(value, name)) for name in type(value).model_fields}
    if isinstance(value, Mapping):
        return {str(key): _spelled(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_spelled(item) for item in value]
    if isinstance(value, Decimal):
        return plain(value) if value else "0"
    if isinstance(value, datetime):
        return iso(value)
    if isinstance(value, timedelta):
        return f"{value.total_seconds():.6f}s"
    if isinstance(value, float):
        raise TypeError(f"a float has no canonical spelling here: {value!r}")
    return value


def canonical_json(value: Any) -> str:
    """Spell a value as JSON: keys sorted, no spaces, ASCII, decimals as plain strings, times in UTC.

    Raises TypeError for a float: money and prices are Decimal.
    """
    return json.dumps(_spelled(value), sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest(value: Any) -> str:
    """Return the SHA-256 of a value's canonical JSON, in hex."""
    return hashlib.sha256(canonical_json(value).encode("ascii")).hexdigest()
