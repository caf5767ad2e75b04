"""When a rebalance runs by itself: exact moments, from the sessions of the mandate's exchange."""

from collections.abc import Callable, Iterator
from datetime import date, datetime, timedelta
from itertools import groupby
from typing import Any

from blocks.errors import UnusableInput
from blocks.mandate import Schedule
from blocks.market.calendar import TradingCalendar

_BEFORE_CLOSE = timedelta(minutes=30)
_LONGEST_PERIOD = timedelta(days=100)  # a quarter, and some
_PERIODS: dict[str, Callable[[date], object]] = {
    "session": lambda day: day,
    "weekly": lambda day: day.isocalendar()[:2],
    "monthly": lambda day: (day.year, day.month),
    "quarterly": lambda day: (day.year, (day.month - 1) // 3),
}


def slots(schedule: Schedule, now: datetime) -> Iterator[datetime]:
    """Yield every slot after `now` that the calendar knows of, ascending, in UTC; none for a cron.

    A slot is `after_open` after the real open of the first session of its period, or half an hour before that session's
    close where it would come later: a short day moves a slot, and a holiday never consumes one. A week without any
    session has none.
    """
    period = _PERIODS.get(schedule.cadence)
    if period is None:
        return
    calendar = TradingCalendar(schedule.calendar)
    begin = min(now.date() - _LONGEST_PERIOD, calendar.last_known)
    sessions = calendar.sessions_between(begin, calendar.last_known)
    first_of_its_period = [next(group) for _, group in groupby(sessions, period)]
    for session in first_of_its_period[1:]:  # the first period may have begun before what was asked for
        slot = min(calendar.open_of(session) + schedule.after_open, calendar.close_of(session) - _BEFORE_CLOSE)
        if slot > now:
            yield slot


def prefect_schedule(schedule: Schedule, now: datetime) -> Any:
    """Return the slots as a schedule of Prefect's: exact dates in the exchange's zone, or the cron itself.

    Raises UnusableInput for a cron that Prefect does not take, and where the calendar knows of no slot to come.
    """
    from prefect.schedules import Cron, RRule  # noqa: PLC0415  3 s to import

    calendar = TradingCalendar(schedule.calendar)
    zone = calendar.zone
    if schedule.cadence not in _PERIODS:
        try:
            return Cron(schedule.cadence, timezone=zone.key)
        except ValueError:
            raise UnusableInput(f"schedule.cadence: {schedule.cadence!r}: Prefect does not take this cron") from None
    local = [slot.astimezone(zone) for slot in slots(schedule, now)]
    if not local:
        raise UnusableInput(
            f"schedule.cadence: {schedule.cadence!r}: calendar {calendar.code} is known until {calendar.last_known}, "
            "and no run lies before that: install a newer exchange_calendars"
        )
    return RRule("RDATE:" + ",".join(f"{slot:%Y%m%dT%H%M%S}" for slot in local), timezone=zone.key)
