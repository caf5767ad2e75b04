"""When a result stops being true: its own age, and never later than what it was made from."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from pydantic import Field

from blocks.mandate import Freshness
from blocks.values import Moment
from tasks.situation import Value


class Result(Value):
    """What a step found: small; the data stays in the store under `snapshot`."""

    id: str
    kind: str = Field(description="name of the result type")
    value: dict[str, Any] | None = Field(None, description="the result itself, where it is not in the store")
    snapshot: str | None = None
    as_of: Moment = Field(description="the age of the data, not of the call")
    expires_at: Moment
    provenance: dict[str, str] = Field(description="input name -> id of the result it was made from")


def expiry(freshness: Freshness, freshness_class: str, as_of: datetime, inputs: Iterable[Result] = ()) -> datetime:
    """Return as_of + the class's age, or the earliest expiry of the inputs if that is sooner."""
    age: timedelta = getattr(freshness, freshness_class)
    return min([as_of + age, *(source.expires_at for source in inputs)])


def is_fresh(result: Result, now: datetime) -> bool:
    """Tell whether a result is true at `now`; one from after `now` is not, exactly its age old it still is."""
    return result.as_of <= now <= result.expires_at
