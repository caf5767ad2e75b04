"""Numbers, moments and durations: what may come in, what may not, and how it is written out."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, TypeAdapter, ValidationError

from blocks.canonical import canonical_json, digest
from blocks.values import Amount, AnyNumber, Currency, Duration, Moment, Number, Symbol, iso, money, plain, short
from tests.examples import examples

pytestmark = pytest.mark.pure

_ANY: TypeAdapter[Decimal] = TypeAdapter(AnyNumber)
_NUMBER: TypeAdapter[Decimal] = TypeAdapter(Number)
_AMOUNT: TypeAdapter[Decimal] = TypeAdapter(Amount)
_MOMENT: TypeAdapter[datetime] = TypeAdapter(Moment)
_DURATION: TypeAdapter[timedelta] = TypeAdapter(Duration)
_SYMBOL: TypeAdapter[str] = TypeAdapter(Symbol)
_CURRENCY: TypeAdapter[str] = TypeAdapter(Currency)


def complaint(adapter: TypeAdapter[Any], value: object) -> str:
    with pytest.raises(ValidationError) as caught:
        adapter.validate_python(value)
    return str(caught.value.errors()[0]["msg"]).removeprefix("Value error, ")


# Numbers


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (0, "0"),
        (-7, "-7"),
        ("11.50", "11.50"),
        (" 11.50 ", "11.50"),
        ("+.5", "0.5"),
        ("5.", "5"),
        (0.1, "0.1"),
        ("1e3", "1E+3"),
        ("1E-20", "1E-20"),
        ("9999999999999.99", "9999999999999.99"),
        ("1" + "0" * 12, "1000000000000"),
        ("0.00000000000000000001", "1E-20"),
        ("0e999", "0"),
        (Decimal("0.60"), "0.60"),
    ],
)
def test_a_number_is_read_as_it_is_written(written: object, read: str) -> None:
    number = _NUMBER.validate_python(written)

    assert (Decimal(read), True) == (number, isinstance(number, Decimal))


def test_no_digit_of_a_long_number_is_lost() -> None:
    text = "1234567890123.12345678901234567890"

    assert text == f"{_NUMBER.validate_python(text):f}"


def test_more_than_twenty_decimals_pass_if_they_are_noughts() -> None:
    assert Decimal("0.5") == _NUMBER.validate_python("0.5" + "0" * 300)


@pytest.mark.parametrize(
    "huge", ["1e13", "-1e13", "1e9999", 10**13, 10**400, 1e300, "0.000000000000000000001", "1e-9999"]
)
def test_a_number_beyond_reckoning_is_refused_with_the_limits(huge: object) -> None:
    assert "should be below 10000000000000 in size and have at most 20 decimals" == complaint(_NUMBER, huge)


@pytest.mark.parametrize(
    "odd",
    [
        "",
        " ",
        "ten",
        "1,000",
        "1_000",
        "0x10",
        "1e",
        "1e99999",
        "--1",
        "1 2",
        "٣",
        "½",
        "$5",
        True,
        False,
        None,
        [],
        {},
        [1],
        b"1",
    ],
)
def test_what_is_no_number_is_refused(odd: object) -> None:
    assert "should be a number, or a number in quotes" == complaint(_NUMBER, odd)


@pytest.mark.parametrize(
    "odd", ["NaN", "nan", "-nan", "sNaN", "Infinity", "-inf", float("nan"), float("inf"), Decimal("sNaN")]
)
def test_what_is_not_finite_is_refused_where_a_number_is_needed(odd: object) -> None:
    assert "should be a finite number" == complaint(_NUMBER, odd)


@pytest.mark.parametrize("odd", ["NaN", "sNaN", Decimal("sNaN"), Decimal("-sNaN123"), float("nan")])
def test_the_world_may_send_a_nan_and_it_is_a_quiet_one(odd: object) -> None:
    number = _ANY.validate_python(odd)

    assert (True, False, False) == (number.is_nan(), number.is_snan(), number > 0 if number.is_finite() else False)


def test_the_world_may_send_infinity() -> None:
    assert Decimal("-Infinity") == _ANY.validate_python("-Infinity")


def test_an_amount_is_zero_or_more() -> None:
    assert Decimal(0) == _AMOUNT.validate_python("-0")
    assert "should be zero or more" == complaint(_AMOUNT, "-0.01")


@examples(100)
@given(st.decimals(min_value=-(10**12), max_value=10**12, places=8))
def test_a_number_comes_back_from_its_text(number: Decimal) -> None:
    assert number == _NUMBER.validate_python(plain(number)) == _NUMBER.validate_python(money(number))


@pytest.mark.parametrize(
    ("value", "as_plain", "as_money"),
    [
        ("1E+2", "100", "100.00"),
        ("11.50", "11.5", "11.50"),
        ("11.5", "11.5", "11.50"),
        ("0.123", "0.123", "0.123"),
        ("-3", "-3", "-3.00"),
        ("0.00", "0", "0.00"),
        ("1E-10", "0.0000000001", "0.0000000001"),
    ],
)
def test_numbers_are_written_without_exponents_and_money_with_its_cents(
    value: str, as_plain: str, as_money: str
) -> None:
    assert (as_plain, as_money) == (plain(Decimal(value)), money(Decimal(value)))


# Moments


def test_a_moment_is_held_in_utc_whatever_its_offset() -> None:
    moment = _MOMENT.validate_python("2026-03-02T10:05:00-05:00")

    assert (datetime(2026, 3, 2, 15, 5, tzinfo=UTC), UTC) == (moment, moment.tzinfo)
    assert "2026-03-02T15:05:00Z" == iso(moment)


def test_a_moment_keeps_its_microseconds() -> None:
    assert "2026-03-02T15:05:00.000001Z" == iso(_MOMENT.validate_python("2026-03-02T15:05:00.000001Z"))


@pytest.mark.parametrize("naive", ["2026-03-02T15:05:00", "2026-03-02", datetime(2026, 3, 2)])  # noqa: DTZ001
def test_a_moment_without_an_offset_is_refused(naive: object) -> None:
    assert "should name its offset from UTC, such as 2026-03-02T15:05:00Z" == complaint(_MOMENT, naive)


@pytest.mark.parametrize(
    "odd", ["", "yesterday", "2026-02-30T00:00:00Z", "2026-03-02T25:00:00Z", "02/03/2026", "2026-03-02T15:05Z[UTC]"]
)
def test_what_is_no_moment_is_refused(odd: str) -> None:
    assert "should be a date and time such as 2026-03-02T15:05:00Z" == complaint(_MOMENT, odd)


@pytest.mark.parametrize(
    "odd", [1772463900, 1772463900.0, True, None, Decimal(1), [], datetime(2026, 3, 2, tzinfo=UTC).date()]
)
def test_a_moment_is_text_and_never_a_count_of_seconds(odd: object) -> None:
    assert "should be a date and time in quotes, such as 2026-03-02T15:05:00Z" == complaint(_MOMENT, odd)


@pytest.mark.parametrize("edge", ["0001-01-01T00:00:00+05:00", "9999-12-31T23:59:59-05:00"])
def test_a_moment_that_leaves_the_calendar_in_utc_is_refused(edge: str) -> None:
    assert "should lie in the years 1 to 9999" == complaint(_MOMENT, edge)


def test_the_first_moment_of_all_is_a_moment() -> None:
    assert "0001-01-01T00:00:00Z" == iso(_MOMENT.validate_python("0001-01-01T00:00:00Z"))


# Durations


@pytest.mark.parametrize(
    ("text", "age", "written"),
    [
        ("15m", timedelta(minutes=15), "15m"),
        (" 4 d ", timedelta(days=4), "4d"),
        ("90s", timedelta(seconds=90), "90s"),
        ("120s", timedelta(minutes=2), "2m"),
        ("48h", timedelta(days=2), "2d"),
        ("2w", timedelta(days=14), "14d"),
        ("3660d", timedelta(days=3660), "3660d"),
    ],
)
def test_a_duration_is_a_number_and_a_unit(text: str, age: timedelta, written: str) -> None:
    read = _DURATION.validate_python(text)

    assert (age, written) == (read, short(read))


@pytest.mark.parametrize("odd", ["15", 15, "15 minutes", "-15m", "1.5h", "m", "", "15M", "٣m", "1234567s", True, None])
def test_what_is_no_duration_is_refused(odd: object) -> None:
    assert 'should be a number and a unit (s, m, h, d, w), such as "15m"' == complaint(_DURATION, odd)


@pytest.mark.parametrize("odd", ["0s", "0w", "3661d", "999999w", timedelta(0), timedelta(seconds=-1)])
def test_a_duration_is_more_than_nothing_and_at_most_ten_years(odd: object) -> None:
    assert "should be more than nothing and at most ten years" == complaint(_DURATION, odd)


# Names


@pytest.mark.parametrize("symbol", ["A", "BRK B", "BF.B", "7203", "ES/H6", "a-b_c", "A" * 32])
def test_a_symbol_may_be_what_brokers_call_it(symbol: str) -> None:
    assert symbol == _SYMBOL.validate_python(symbol)


@pytest.mark.parametrize("odd", ["", " A", ".A", "A\n", "A'B", 'A"B', "A;B", "Ä", "A" * 33, "../../x\0", 5, None])
def test_a_symbol_is_nothing_that_could_be_mistaken_for_more(odd: object) -> None:
    assert "should" in complaint(_SYMBOL, odd)


@pytest.mark.parametrize("odd", ["usd", "US", "USDT", "U$D", "", "USD\n"])
def test_a_currency_is_three_capital_letters(odd: str) -> None:
    assert "USD" == _CURRENCY.validate_python("USD")
    assert "should match" in complaint(_CURRENCY, odd)


# The one spelling that hashes are taken of


class Sample(BaseModel):
    price: Decimal
    at: datetime
    age: timedelta


def test_canonical_json_has_one_spelling_for_a_value() -> None:
    sample = Sample(price=Decimal("1.10"), at=datetime(2026, 3, 2, tzinfo=UTC), age=timedelta(minutes=15))

    text = canonical_json(
        {"b": [sample, None, True, 3], "a": "é", 1: Decimal("-0.00"), "c": (Decimal("1E+3"), Decimal(7))}
    )

    assert (
        '{"1":"0","a":"\\u00e9",'
        '"b":[{"age":"900.000000s","at":"2026-03-02T00:00:00Z","price":"1.1"},null,true,3],"c":["1000","7"]}'
    ) == text


def test_canonical_json_does_not_depend_on_the_order_of_keys_or_idle_noughts() -> None:
    assert digest({"a": Decimal("0.60"), "b": 1}) == digest({"b": 1, "a": Decimal("0.6")})
    assert digest({"a": Decimal("0.60")}) != digest({"a": Decimal("0.61")})


@pytest.mark.parametrize("value", [1.5, {"deep": [{"down": 0.0}]}, float("nan")])
def test_canonical_json_refuses_floats(value: object) -> None:
    with pytest.raises(TypeError, match="a float has no canonical spelling"):
        canonical_json(value)


def test_text_is_not_taken_for_a_number() -> None:
    assert digest({"a": "11.50"}) != digest({"a": "11.5"})
