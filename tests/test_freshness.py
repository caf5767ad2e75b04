"""Freshness: a result expires with its age, and never later than what it was made from."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blocks.mandate import Freshness
from tasks.freshness import Result, expiry, is_fresh
from tests.examples import examples

pytestmark = pytest.mark.pure

NOW = datetime(2026, 3, 2, 15, 5, tzinfo=UTC)
AGES = Freshness()
CLASSES = ("quotes", "positions", "bars", "analysis", "notes", "proposal")
moments = st.datetimes(datetime(1990, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
ages = st.timedeltas(timedelta(seconds=1), timedelta(days=3660))


def result(as_of: datetime = NOW, expires_at: datetime = NOW + timedelta(minutes=15)) -> Result:
    return Result(id="r", kind="Quotes", as_of=as_of, expires_at=expires_at, provenance={})


@pytest.mark.parametrize(
    ("name", "age"),
    [
        ("quotes", timedelta(minutes=15)),
        ("positions", timedelta(minutes=15)),
        ("bars", timedelta(days=4)),
        ("analysis", timedelta(days=1)),
        ("notes", timedelta(days=7)),
        ("proposal", timedelta(minutes=30)),
    ],
)
def test_each_class_has_an_age_counted_from_the_data(name: str, age: timedelta) -> None:
    assert NOW + age == expiry(AGES, name, NOW)


def test_an_input_that_expires_sooner_decides() -> None:
    soon, late = result(expires_at=NOW + timedelta(minutes=3)), result(expires_at=NOW + timedelta(days=9))

    assert NOW + timedelta(minutes=3) == expiry(AGES, "analysis", NOW, [late, soon])
    assert NOW + timedelta(days=1) == expiry(AGES, "analysis", NOW, [late])


@examples(100)
@given(st.sampled_from(CLASSES), ages, moments, st.lists(moments, max_size=5))
def test_a_result_never_outlives_its_class_or_its_inputs(
    name: str, age: timedelta, as_of: datetime, ends: list[datetime]
) -> None:
    expires_at = expiry(Freshness(**{name: age}), name, as_of, [result(expires_at=end) for end in ends])

    assert min([as_of + age, *ends]) == expires_at


@examples(100)
@given(ages, moments, st.lists(st.tuples(st.sampled_from(CLASSES), moments), min_size=1, max_size=6))
def test_a_chain_of_results_expires_no_later_than_any_link_before(
    age: timedelta, start: datetime, chain: list[tuple[str, datetime]]
) -> None:
    kept = Freshness(quotes=age)
    links = [result(start, expiry(kept, "quotes", start))]
    for name, as_of in chain:
        links.append(result(as_of, expiry(kept, name, as_of, links[-1:])))
    ends = [link.expires_at for link in links]

    assert sorted(ends, reverse=True) == ends


@pytest.mark.parametrize(
    ("now", "fresh"),
    [
        (NOW - timedelta(microseconds=1), False),
        (NOW, True),
        (NOW + timedelta(minutes=15), True),
        (NOW + timedelta(minutes=15, microseconds=1), False),
    ],
)
def test_a_result_is_true_from_its_data_to_its_end_both_included(now: datetime, fresh: bool) -> None:
    assert fresh == is_fresh(result(), now)


@pytest.mark.parametrize("change", [{"as_of": "2026-03-02T15:05:00"}, {"expires_at": "soon"}, {"more": 1}])
def test_a_result_without_true_moments_is_none(change: dict[str, Any]) -> None:
    content = result().model_dump(mode="json")

    assert result() == Result.model_validate(content)
    with pytest.raises(ValueError, match="validation error"):
        Result.model_validate(content | change)
