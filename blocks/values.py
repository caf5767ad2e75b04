"""Numbers, moments and durations as they may come in, and as they are written out."""

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, StringConstraints, WithJsonSchema

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,4})?", re.ASCII)
_NOT_FINITE = re.compile(r"[+-]?(s?nan|inf(inity)?)", re.ASCII | re.IGNORECASE)
_DURATION = re.compile(r"(\d{1,6})\s*([smhdw])", re.ASCII)
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}

_LARGEST = Decimal("1e13")
_FINEST = -20


def _decimal(value: object) -> Decimal:
    if isinstance(value, str) and (_NUMBER.fullmatch(value.strip()) or _NOT_FINITE.fullmatch(value.strip())):
        return _quiet(Decimal(value.strip()))
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise ValueError("should be a number, or a number in quotes")  # noqa: TRY004  pydantic wants ValueError
    return _quiet(Decimal(str(value)) if isinstance(value, float) else Decimal(value))


def _quiet(value: Decimal) -> Decimal:
    """Turn a signalling NaN, at which every comparison raises, into a quiet one."""
    return Decimal("NaN") if value.is_snan() else value


def _in_range(value: Decimal) -> Decimal:
    """Keep numbers to a size that can be reckoned with; tell by the digits, for arithmetic would round them first."""
    if not value.is_finite():
        return value
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)  # noqa: S101  it is a letter for NaN and infinity alone
    if not value:
        return Decimal(0) if abs(exponent) > -_FINEST else value
    idle = len(digits) - len("".join(map(str, digits)).rstrip("0"))
    if value.copy_abs() >= _LARGEST or exponent + idle < _FINEST:
        raise ValueError(f"should be below {_LARGEST:f} in size and have at most {-_FINEST} decimals")
    return Decimal((sign, digits[: len(digits) - idle], exponent + idle)) if exponent < _FINEST else value


def _finite(value: Decimal) -> Decimal:
    if not value.is_finite():
        raise ValueError("should be a finite number")
    return value


def _not_negative(value: Decimal) -> Decimal:
    if value < 0:
        raise ValueError("should be zero or more")
    return value


def plain(value: Decimal) -> str:
    """Write a number without an exponent and without idle zeros: `Decimal("1E+2")` becomes `"100"`."""
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def money(value: Decimal) -> str:
    """Write a sum of money with at least two decimals, and none lost."""
    text = plain(value)
    whole, _, cents = text.partition(".")
    return f"{whole}.{cents:0<2}"


def _moment(value: object) -> datetime:
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise ValueError("should be a date and time such as 2026-03-02T15:05:00Z") from None
    if not isinstance(value, datetime):
        raise ValueError("should be a date and time in quotes, such as 2026-03-02T15:05:00Z")  # noqa: TRY004  pydantic wants ValueError
    if value.tzinfo is None:
        raise ValueError("should name its offset from UTC, such as 2026-03-02T15:05:00Z")
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise ValueError("should lie in the years 1 to 9999") from None


def iso(moment: datetime) -> str:
    """Write an aware moment in UTC, with a Z."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _duration(value: object) -> timedelta:
    if isinstance(value, timedelta):
        return value
    match = _DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise ValueError('should be a number and a unit (s, m, h, d, w), such as "15m"')
    return timedelta(**{_UNITS[match[2]]: int(match[1])})


def _positive(value: timedelta) -> timedelta:
    if not timedelta(0) < value <= timedelta(days=3660):
        raise ValueError("should be more than nothing and at most ten years")
    return value


def short(age: timedelta) -> str:
    """Write a duration the way a mandate does: the largest unit that fits, such as `15m`."""
    seconds = int(age.total_seconds())
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds and seconds % size == 0:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


_as_number = PlainSerializer(plain, return_type=str)
_number_schema = WithJsonSchema({"type": ["number", "string"]})

AnyNumber = Annotated[
    Decimal, Field(allow_inf_nan=True), BeforeValidator(_decimal), AfterValidator(_in_range), _as_number, _number_schema
]
"""A number as the world sends it: NaN and infinity come through, so that a rule can name them."""

Number = Annotated[AnyNumber, AfterValidator(_finite)]
"""A finite number."""

Amount = Annotated[Number, AfterValidator(_not_negative)]
"""A finite number of zero or more."""

Moment = Annotated[
    datetime,
    BeforeValidator(_moment),
    PlainSerializer(iso, return_type=str),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
"""An aware moment, held in UTC."""

Duration = Annotated[
    timedelta,
    BeforeValidator(_duration),
    AfterValidator(_positive),
    PlainSerializer(short, return_type=str),
    WithJsonSchema({"type": "string"}),
]
"""A length of time written as in a mandate: `15m`, `4d`."""

Symbol = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9](?:[A-Za-z0-9 ._/\-]{0,30}[A-Za-z0-9._/\-])?$")]
"""A symbol of the universe: letters, digits, `. _ / -` and spaces between them, at most 32 characters."""

Currency = Annotated[str, StringConstraints(pattern=r"^[A-Z]{3}$")]
"""A currency's three capital letters."""

Name = Annotated[str, StringConstraints(min_length=1, max_length=200)]
"""Text that names something: one to 200 characters."""


def _visible(value: str) -> str:
    if value != value.strip() or not value.isprintable():
        raise ValueError("should be 1 to 200 visible characters, with no blank at either end")
    return value


AccountName = Annotated[Name, AfterValidator(_visible)]
"""The name of an account: two that look the same are the same."""
