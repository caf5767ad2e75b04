"""When an exchange trades."""

import datetime as dt
import subprocess
import sys

import pytest

from blocks.errors import UnusableInput
from blocks.market.calendar import TradingCalendar

NEW_YORK = TradingCalendar("XNYS")
ALLOWED = "XNYS, XNAS, XTSE, XLON, XETR, XPAR, XSWX, XTKS, XHKG, XASX and others of ISO 10383"


def utc(*moment: int) -> dt.datetime:
    return dt.datetime(*moment, tzinfo=dt.UTC)  # type: ignore[misc, arg-type]


def last_known() -> dt.date:
    return NEW_YORK.last_session_at(NEW_YORK._hours.closes[-1])


@pytest.mark.parametrize(
    ("date", "trades"),
    [
        (dt.date(2026, 3, 2), True),
        (dt.date(2026, 3, 1), False),  # a Sunday
        (dt.date(2026, 4, 3), False),  # Good Friday
        (dt.date(2026, 7, 3), False),  # the 4th is a Saturday
        (dt.date(2012, 10, 29), False),  # a hurricane
        (dt.date(1990, 1, 2), True),
    ],
)
def test_weekends_and_holidays_are_no_sessions(date: dt.date, trades: bool) -> None:
    assert trades is NEW_YORK.is_session(date)


def test_a_session_opens_and_closes_by_new_york_time_whatever_the_season() -> None:
    winter, summer = dt.date(2026, 3, 6), dt.date(2026, 3, 9)

    assert utc(2026, 3, 6, 14, 30) == NEW_YORK.open_of(winter)
    assert utc(2026, 3, 6, 21) == NEW_YORK.close_of(winter)
    assert utc(2026, 3, 9, 13, 30) == NEW_YORK.open_of(summer)
    assert utc(2026, 3, 9, 20) == NEW_YORK.close_of(summer)
    assert dt.UTC is NEW_YORK.close_of(summer).tzinfo


def test_the_day_after_thanksgiving_closes_early() -> None:
    assert utc(2026, 11, 27, 18) == NEW_YORK.close_of(dt.date(2026, 11, 27))


def test_the_session_before_skips_what_is_no_session() -> None:
    assert dt.date(2026, 2, 27) == NEW_YORK.session_before(dt.date(2026, 3, 2))
    assert dt.date(2026, 2, 27) == NEW_YORK.session_before(dt.date(2026, 3, 1))
    assert dt.date(2026, 3, 2) == NEW_YORK.session_before(dt.date(2026, 3, 3))


@pytest.mark.parametrize(
    ("now", "session"),
    [
        (utc(2026, 3, 2, 20, 59, 59), dt.date(2026, 2, 27)),
        (utc(2026, 3, 2, 21), dt.date(2026, 3, 2)),
        (utc(2026, 3, 8, 12), dt.date(2026, 3, 6)),
        (utc(2026, 11, 27, 18), dt.date(2026, 11, 27)),
    ],
)
def test_the_last_session_is_the_latest_that_has_closed(now: dt.datetime, session: dt.date) -> None:
    assert session == NEW_YORK.last_session_at(now)


def test_any_offset_from_utc_says_the_same_moment() -> None:
    tokyo = dt.timezone(dt.timedelta(hours=9))

    assert dt.date(2026, 3, 2) == NEW_YORK.last_session_at(dt.datetime(2026, 3, 3, 6, tzinfo=tokyo))


def test_sessions_between_include_both_ends() -> None:
    assert (dt.date(2026, 4, 2), dt.date(2026, 4, 6)) == NEW_YORK.sessions_between(
        dt.date(2026, 4, 2), dt.date(2026, 4, 6)
    )
    assert (dt.date(2026, 4, 2),) == NEW_YORK.sessions_between(dt.date(2026, 4, 2), dt.date(2026, 4, 5))
    assert () == NEW_YORK.sessions_between(dt.date(2026, 4, 6), dt.date(2026, 4, 2))


def test_dates_that_are_no_sessions_are_told_each_once() -> None:
    dates = [dt.date(2026, 3, 7), dt.date(2026, 3, 2), dt.date(2026, 3, 1), dt.date(2026, 3, 7)]

    assert (dt.date(2026, 3, 1), dt.date(2026, 3, 7)) == NEW_YORK.not_sessions(dates)


@pytest.mark.parametrize("ask", ["is_session", "open_of", "close_of", "session_before"])
@pytest.mark.parametrize("date", [dt.date(1989, 12, 29), dt.date(2100, 1, 4)])
def test_a_date_beyond_what_the_calendar_knows_is_refused(ask: str, date: dt.date) -> None:
    with pytest.raises(UnusableInput) as error:
        getattr(NEW_YORK, ask)(date)

    assert f"calendar XNYS: {date} is outside what it knows, 1990-01-02 to {last_known()}" == str(error.value)


def test_nothing_came_before_the_first_session() -> None:
    with pytest.raises(UnusableInput) as error:
        NEW_YORK.session_before(dt.date(1990, 1, 2))

    expected = f"calendar XNYS: what came before 1990-01-02 is outside what it knows, 1990-01-02 to {last_known()}"
    assert expected == str(error.value)


@pytest.mark.parametrize("now", [utc(1990, 1, 2, 20), utc(2100, 1, 4, 12)])
def test_a_moment_beyond_what_the_calendar_knows_is_refused(now: dt.datetime) -> None:
    with pytest.raises(UnusableInput) as error:
        NEW_YORK.last_session_at(now)

    expected = f"calendar XNYS: {now:%Y-%m-%d %H:%M} is outside what it knows, 1990-01-02 to {last_known()}"
    assert expected == str(error.value)


@pytest.mark.parametrize("ask", ["open_of", "close_of"])
def test_a_sunday_neither_opens_nor_closes(ask: str) -> None:
    with pytest.raises(UnusableInput) as error:
        getattr(NEW_YORK, ask)(dt.date(2026, 3, 1))

    assert "calendar XNYS: 2026-03-01 is not a session; the next is 2026-03-02" == str(error.value)


@pytest.mark.parametrize(
    ("code", "hint"), [("XNYSE", " (did you mean 'XNYS'?)"), ("xlon", " (did you mean 'XLON'?)"), ("", ""), ("?", "")]
)
def test_an_unknown_exchange_is_named_with_the_nearest(code: str, hint: str) -> None:
    with pytest.raises(UnusableInput) as error:
        TradingCalendar(code)

    assert f"calendar {code!r}: unknown exchange{hint}; allowed: {ALLOWED}" == str(error.value)


@pytest.mark.parametrize(
    ("code", "date", "closes"),
    [
        ("XNAS", dt.date(2026, 3, 2), utc(2026, 3, 2, 21)),
        ("XLON", dt.date(2026, 12, 24), utc(2026, 12, 24, 12, 30)),
        ("XTKS", dt.date(1997, 1, 6), utc(1997, 1, 6, 6)),  # not recorded back to 1990
    ],
)
def test_other_exchanges_keep_their_own_hours(code: str, date: dt.date, closes: dt.datetime) -> None:
    assert closes == TradingCalendar(code).close_of(date)


def test_an_exchange_that_cannot_be_worked_out_is_refused_in_one_line() -> None:
    try:
        calendar = TradingCalendar("ASEX")
    except UnusableInput as error:
        assert f"calendar 'ASEX': cannot be worked out here; allowed: {ALLOWED}" == str(error)  # noqa: PT017
    else:  # once exchange_calendars gets along with pandas 3
        assert calendar.is_session(dt.date(2026, 3, 2))


def test_importing_the_calendar_imports_neither_pandas_nor_exchange_calendars() -> None:
    script = "import sys, blocks.market.calendar; print({'pandas', 'exchange_calendars'} & set(sys.modules))"

    assert (
        "set()\n" == subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    )
