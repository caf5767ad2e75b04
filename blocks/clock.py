"""The clock of a run: now, or a past moment from which time goes on."""

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta


def wall() -> datetime:
    """Return the moment it really is, in UTC."""
    return datetime.now(UTC)


def _ticks() -> float:
    """Return seconds that go on while the machine sleeps: a price from before is not to pass for one of now."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


@dataclass(frozen=True)
class Clock:
    """Tells `now`. One that starts in the past goes on from there as real time goes by."""

    start: datetime = field(default_factory=wall)
    _began: float = field(default_factory=_ticks)

    def now(self) -> datetime:
        """Return the run's moment, in UTC."""
        return self.start + timedelta(seconds=_ticks() - self._began)
