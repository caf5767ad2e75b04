"""The clock of a run: now, or a past moment from which time goes on."""

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta


def wall() -> datetime:
    """Return the moment it really is, in UTC."""
    return datetime.now(UTC)


@dataclass(frozen=True)
class Clock:
    """Tells `now`. One that starts in the past goes on from there as real time goes by."""

    start: datetime = field(default_factory=wall)
    _ticks: float = field(default_factory=time.monotonic)

    def now(self) -> datetime:
        """Return the run's moment, in UTC."""
        return self.start + timedelta(seconds=time.monotonic() - self._ticks)
