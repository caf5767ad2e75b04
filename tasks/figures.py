"""How figures, moments and words are written for people, on the page, in pictures and in a terminal alike."""

from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal

from blocks.values import money, plain

_SIX_DIGITS = Context(prec=6)


def readable(text: str) -> str:
    """Return text on one line, without the characters that steer a terminal or that XML cannot hold."""
    return " ".join("".join(each if each.isprintable() else " " for each in text).split())


def statement(rule: str) -> str:
    """Return a rule's name as the statement it makes."""
    return readable(rule.replace("_", " "))


def age(length: timedelta) -> str:
    """Write how old something is, in the unit a person would use."""
    seconds = max(int(length.total_seconds()), 0)
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size or seconds == size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def moment(at: datetime, day: datetime | None = None) -> str:
    """Write a moment in UTC to the second, without its date where that is the day's."""
    at = at.astimezone(UTC)
    return f"{at:%H:%M:%S}" if day and at.date() == day.date() else f"{at:%Y-%m-%d %H:%M:%S}"


def sum_of(value: Decimal) -> str:
    """Write a sum of money to the cent, its thousands apart."""
    return _without_minus_zero(f"{value:,.2f}")


def cash_text(value: Decimal, currency: str) -> str:
    """Write a sum of money with its currency."""
    return f"{sum_of(value)} {currency}"


def price_of(value: Decimal) -> str:
    """Write a price, its thousands apart, with at least two decimals and none lost."""
    whole, _, cents = money(value).partition(".")
    return f"{Decimal(whole):,}.{cents}"


def average_of(value: Decimal) -> str:
    """Write the average of several prices, which may never end, to six digits or four decimals."""
    return price_of(round(value, 4) if value >= 100 else _SIX_DIGITS.plus(value))


def quantity_of(value: Decimal) -> str:
    """Write a number of shares, its thousands apart."""
    whole, dot, part = plain(value).partition(".")
    return f"{Decimal(whole):,}{dot}{part}"


def per_cent(weight: Decimal, sign: str = "") -> str:
    """Write a weight in per cent, with two decimals."""
    return _without_minus_zero(f"{weight * 100:{sign}.2f}")


def _without_minus_zero(figure: str) -> str:
    return figure if figure.strip("-0.") else figure.removeprefix("-")
