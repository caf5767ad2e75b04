"""When an exchange trades: its sessions, with early closes."""

import datetime as dt
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from functools import cache
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from blocks.errors import UnusableInput
from blocks.reading import nearest

_START = "1990-01-01"
_ALLOWED = "XNYS, XNAS, XTSE, XLON, XETR, XPAR, XSWX, XTKS, XHKG, XASX and others of ISO 10383"


class _Hours(NamedTuple):
    """Every session an exchange is known to have, ascending, and its hours in UTC."""

    sessions: tuple[dt.date, ...]
    opens: tuple[dt.datetime, ...]
    closes: tuple[dt.datetime, ...]
    zone: ZoneInfo


class TradingCalendar:
    """An exchange's sessions from 1990 to about a year from now. A date beyond them raises UnusableInput."""

    def __init__(self, code: str) -> None:
        self.code = code
        self._hours = _hours(code)

    @property
    def zone(self) -> ZoneInfo:
        """Return the time zone that the exchange's clocks show."""
        return self._hours.zone

    @property
    def last_known(self) -> dt.date:
        """Return the last session that the calendar knows of."""
        return self._hours.sessions[-1]

    def is_session(self, date: dt.date) -> bool:
        """Tell whether the exchange trades on a date."""
        return self._hours.sessions[self._place(date)] == date

    def open_of(self, date: dt.date) -> dt.datetime:
        """Return when a session opens. Raises UnusableInput for a date that is no session."""
        return self._hours.opens[self._session(date)]

    def close_of(self, date: dt.date) -> dt.datetime:
        """Return when a session closes. Raises UnusableInput for a date that is no session."""
        return self._hours.closes[self._session(date)]

    def session_before(self, date: dt.date) -> dt.date:
        """Return the last session before a date, which need not be a session itself."""
        place = self._place(date)
        if place == 0:
            raise self._unknown(f"what came before {date}")
        return self._hours.sessions[place - 1]

    def last_session_at(self, now: dt.datetime) -> dt.date:
        """Return the latest session that has closed by a moment."""
        closes = self._hours.closes
        if not closes[0] <= now <= closes[-1]:
            raise self._unknown(f"{now:%Y-%m-%d %H:%M}")
        return self._hours.sessions[bisect_right(closes, now) - 1]

    def sessions_between(self, first: dt.date, last: dt.date) -> tuple[dt.date, ...]:
        """Return the sessions from one date to another, both included; none where the first comes after the last."""
        begin, end = self._place(first), self._place(last)
        return self._hours.sessions[begin : end + self.is_session(last)]

    def not_sessions(self, dates: Iterable[dt.date]) -> tuple[dt.date, ...]:
        """Return those of the dates on which the exchange does not trade, ascending, each once."""
        return tuple(date for date in sorted(set(dates)) if not self.is_session(date))

    def _place(self, date: dt.date) -> int:
        sessions = self._hours.sessions
        if not sessions[0] <= date <= sessions[-1]:
            raise self._unknown(str(date))
        return bisect_left(sessions, date)

    def _session(self, date: dt.date) -> int:
        place = self._place(date)
        if self._hours.sessions[place] != date:
            raise UnusableInput(
                f"calendar {self.code}: {date} is not a session; the next is {self._hours.sessions[place]}"
            )
        return place

    def _unknown(self, what: str) -> UnusableInput:
        first, last = self._hours.sessions[0], self._hours.sessions[-1]
        return UnusableInput(f"calendar {self.code}: {what} is outside what it knows, {first} to {last}")


@cache
def _hours(code: str) -> _Hours:
    calendar = _built(code)
    return _Hours(
        sessions=tuple(session.date() for session in calendar.sessions),
        opens=tuple(moment.to_pydatetime().astimezone(dt.UTC) for moment in calendar.opens),
        closes=tuple(moment.to_pydatetime().astimezone(dt.UTC) for moment in calendar.closes),
        zone=ZoneInfo(str(calendar.tz)),
    )


def _built(code: str) -> Any:
    from exchange_calendars import get_calendar, get_calendar_names  # noqa: PLC0415  (costs a second)

    names = get_calendar_names(include_aliases=True)
    if code not in names:
        raise UnusableInput(f"calendar {code!r}: unknown exchange{nearest(code.upper(), names)}; allowed: {_ALLOWED}")
    try:
        return get_calendar(code, start=_START)
    except (ValueError, NotImplementedError):
        return _shorter(code)


def _shorter(code: str) -> Any:
    """Build a calendar that is not recorded back to 1990 from where it begins."""
    from exchange_calendars import get_calendar  # noqa: PLC0415

    try:
        return get_calendar(code, start=get_calendar(code).bound_min())
    except (ValueError, NotImplementedError):  # under pandas 3, those with an Orthodox Easter, and Tel Aviv
        raise UnusableInput(f"calendar {code!r}: cannot be worked out here; allowed: {_ALLOWED}") from None
