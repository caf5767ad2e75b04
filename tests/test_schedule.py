"""The schedule: each period's first session, so long after its open; holidays move a slot and never consume it."""

import asyncio
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blocks.errors import UnusableInput
from blocks.mandate import Schedule
from blocks.market.calendar import TradingCalendar
from deployments.schedule import prefect_schedule, slots
from tests.examples import examples

NEW_YORK = ZoneInfo("America/New_York")


def schedule(**changes: Any) -> Schedule:
    return Schedule.model_validate(changes)


def local(schedule: Schedule, first: str, last: str, zone: ZoneInfo = NEW_YORK) -> list[str]:
    """Return the slots from one day up to another, as the exchange's clocks show them, with weekday and offset."""
    begin, end = (datetime.fromisoformat(f"{day}T00:00:00Z") for day in (first, last))
    found = [slot.astimezone(zone) for slot in slots(schedule, begin) if slot < end]
    return [f"{slot:%a %Y-%m-%d %H:%M %z}" for slot in found]


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        # Good Friday weeks: Monday as ever
        ("2020-04-06", "2020-04-18", ["Mon 2020-04-06 10:00 -0400", "Mon 2020-04-13 10:00 -0400"]),
        ("2021-03-29", "2021-04-10", ["Mon 2021-03-29 10:00 -0400", "Mon 2021-04-05 10:00 -0400"]),
        ("2022-04-11", "2022-04-23", ["Mon 2022-04-11 10:00 -0400", "Mon 2022-04-18 10:00 -0400"]),
        # New Year: a Wednesday, a Friday, a Saturday that nobody gets off; the week's first session is what counts
        ("2019-12-30", "2020-01-11", ["Mon 2019-12-30 10:00 -0500", "Mon 2020-01-06 10:00 -0500"]),
        ("2020-12-28", "2021-01-09", ["Mon 2020-12-28 10:00 -0500", "Mon 2021-01-04 10:00 -0500"]),
        ("2021-12-27", "2022-01-08", ["Mon 2021-12-27 10:00 -0500", "Mon 2022-01-03 10:00 -0500"]),
        # Martin Luther King's, Presidents', Memorial and Labor Day are Mondays: Tuesday
        ("2020-01-20", "2020-01-25", ["Tue 2020-01-21 10:00 -0500"]),
        ("2021-05-31", "2021-06-05", ["Tue 2021-06-01 10:00 -0400"]),
        ("2022-09-05", "2022-09-10", ["Tue 2022-09-06 10:00 -0400"]),
        # summer time begins and ends: ten o'clock stays ten o'clock
        ("2020-03-02", "2020-03-14", ["Mon 2020-03-02 10:00 -0500", "Mon 2020-03-09 10:00 -0400"]),
        ("2021-11-01", "2021-11-13", ["Mon 2021-11-01 10:00 -0400", "Mon 2021-11-08 10:00 -0500"]),
        ("2022-03-07", "2022-03-19", ["Mon 2022-03-07 10:00 -0500", "Mon 2022-03-14 10:00 -0400"]),
    ],
)
def test_a_week_has_its_slot_on_its_first_session(first: str, last: str, expected: list[str]) -> None:
    assert expected == local(schedule(), first, last)


def test_every_week_of_three_years_has_its_slot() -> None:
    found = local(schedule(), "2020-01-01", "2023-01-01")

    assert 52 + 52 + 52 == len(found)  # the one of 2019-12-30 lies before, that of 2022-12-26 (a Tuesday) within
    assert "Tue 2022-12-27 10:00 -0500" == found[-1]
    assert {" 10:00 "} == {slot[14:21] for slot in found}


@pytest.mark.parametrize("day", ["2020-11-27", "2021-11-26", "2022-11-25", "2020-12-24"])
def test_a_short_day_moves_a_late_slot_to_half_an_hour_before_its_close(day: str) -> None:
    after = str(date.fromisoformat(day) + timedelta(days=1))

    assert [f"{day} 10:00"] == [slot[4:20] for slot in local(schedule(cadence="session"), day, after)]
    late = schedule(cadence="session", after_open="5h")
    assert [f"{day} 12:30"] == [slot[4:20] for slot in local(late, day, after)]
    assert "14:30" == local(late, "2022-11-23", "2022-11-24")[0][15:20]


@pytest.mark.parametrize(
    ("cadence", "expected"),
    [
        ("monthly", ["2022-01-03", "2022-02-01", "2022-03-01", "2022-04-01", "2022-05-02", "2022-06-01"]),
        ("quarterly", ["2022-01-03", "2022-04-01"]),
    ],
)
def test_a_month_and_a_quarter_have_their_slot_on_their_first_session(cadence: str, expected: list[str]) -> None:
    assert expected == [slot[4:14] for slot in local(schedule(cadence=cadence), "2022-01-01", "2022-07-01")]


def test_other_exchanges_keep_their_own_days_and_hours() -> None:
    tokyo, london = schedule(calendar="XTKS"), schedule(calendar="XLON")

    # Golden Week takes 3, 4 and 5 May 2021, the first days of that week; London has the 3rd off alone
    assert ["Thu 2021-05-06 09:30 +0900"] == local(tokyo, "2021-05-03", "2021-05-08", ZoneInfo("Asia/Tokyo"))
    assert ["Tue 2021-05-04 08:30 +0100"] == local(london, "2021-05-03", "2021-05-08", ZoneInfo("Europe/London"))


def test_a_week_without_a_session_has_no_slot() -> None:
    tokyo = local(schedule(calendar="XTKS"), "2019-04-22", "2019-05-11", ZoneInfo("Asia/Tokyo"))
    shanghai = local(schedule(calendar="XSHG"), "2018-09-24", "2018-10-13", ZoneInfo("Asia/Shanghai"))

    # a new emperor made ten days of Golden Week, 27 April to 6 May; National Day took 1 to 7 October
    assert ["Mon 2019-04-22 09:30 +0900", "Tue 2019-05-07 09:30 +0900"] == tokyo
    assert ["Tue 2018-09-25 10:00 +0800", "Mon 2018-10-08 10:00 +0800"] == shanghai


@examples(100)
@given(st.dates(date(1998, 1, 1), date(2026, 6, 1)), st.integers(0, 600), st.sampled_from(["XNYS", "XLON", "XTKS"]))
def test_every_week_with_a_session_has_exactly_one_slot_and_that_within_trading_hours(
    day: date, minutes: int, code: str
) -> None:
    calendar, start = TradingCalendar(code), datetime(day.year, day.month, day.day, tzinfo=UTC)
    asked = schedule(calendar=code, after_open=f"{minutes}m" if minutes else "1s")
    end = start + timedelta(days=70)
    found = [slot for slot in slots(asked, start - timedelta(days=7)) if slot < end]

    assert sorted(set(found)) == found
    days = [slot.astimezone(calendar.zone).date() for slot in found]
    assert all(calendar.open_of(at) <= slot < calendar.close_of(at) for at, slot in zip(days, found, strict=True))
    weeks = {at.isocalendar()[:2] for at in calendar.sessions_between(day, (end - timedelta(days=8)).date())}
    assert weeks <= {at.isocalendar()[:2] for at in days}
    assert len({at.isocalendar()[:2] for at in days}) == len(days)


@pytest.mark.parametrize("start", ["2026-02-20T00:00:00Z", "2026-10-20T00:00:00Z"])
def test_prefect_works_out_the_same_moments_also_when_the_clocks_change(start: str) -> None:
    now = datetime.fromisoformat(start)
    expected = list(slots(schedule(), now))[:5]
    if len(expected) < 5:
        pytest.skip("the calendar of this machine does not reach that far")
    from prefect.server.schemas.schedules import RRuleSchedule  # noqa: PLC0415

    made = prefect_schedule(schedule(), now)
    found = asyncio.run(RRuleSchedule(rrule=made.rrule, timezone=made.timezone).get_dates(5, start=now))

    assert expected == [moment.astimezone(UTC) for moment in found]


def test_a_cron_is_handed_on_in_the_exchanges_zone() -> None:
    made = prefect_schedule(schedule(cadence="30 15 * * 1"), datetime(2026, 1, 1, tzinfo=UTC))

    assert ("30 15 * * 1", "America/New_York") == (made.cron, made.timezone)
    assert [] == list(slots(schedule(cadence="30 15 * * 1"), datetime(2026, 1, 1, tzinfo=UTC)))


def test_a_cron_that_prefect_does_not_take_is_refused() -> None:
    unchecked = Schedule.model_construct(cadence="99 15 * * 1")  # a mandate's is refused when it is read

    with pytest.raises(UnusableInput) as error:
        prefect_schedule(unchecked, datetime(2026, 1, 1, tzinfo=UTC))

    assert "schedule.cadence: '99 15 * * 1': Prefect does not take this cron" == str(error.value)


@pytest.mark.parametrize("later", [0, 1, 150])
def test_where_the_calendar_knows_no_slot_to_come_there_is_no_schedule_and_the_reason_is_told(later: int) -> None:
    last = TradingCalendar("XNYS").last_known
    now = datetime(last.year, last.month, last.day, 23, tzinfo=UTC) + timedelta(days=later)

    assert [] == list(slots(schedule(), now))
    with pytest.raises(UnusableInput) as error:
        prefect_schedule(schedule(), now)

    expected = f"schedule.cadence: 'weekly': calendar XNYS is known until {last}, and no run lies before that: "
    assert f"{expected}install a newer exchange_calendars" == str(error.value)
