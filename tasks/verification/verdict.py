"""The verdict: every check with its figures, and yes only if all of them hold."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from decimal import Decimal, localcontext
from typing import Self

from pydantic import Field, model_validator

from blocks.brokers.port import Order
from blocks.values import Moment
from tasks.situation import Proposal, Reason, Situation, Value
from tasks.verification.book import Book
from tasks.verification.checks import judge
from tasks.verification.findings import EXACT, Judged

_LAST_MOMENT = datetime.max.replace(tzinfo=UTC)


class Check(Value):
    """One rule held against one symbol, or the whole."""

    check: str = Field(description="the rule's name")
    symbol: str = Field("", description="empty for the whole")
    held: bool
    figure: str = Field("", description="what was found")
    limit: str = Field("", description="what it was held against")
    reason: str = Field("", description="empty where the rule held")


class Verdict(Value):
    """The gate's answer for exactly these orders in exactly this situation, until it expires."""

    approved: bool
    checks: tuple[Check, ...]
    proposal_hash: str
    situation_hash: str
    expires_at: Moment = Field(description="when the first of what was looked at is too old")

    @model_validator(mode="after")
    def _approved_says_what_the_checks_say(self) -> Self:
        if self.approved != _all_hold(self.checks):
            raise ValueError("approved should be true if there are checks and all of them held, and false otherwise")
        return self

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """Return why not: one reason for each check that failed."""
        failed = (check for check in self.checks if not check.held)
        return tuple(Reason(check=check.check, symbol=check.symbol, reason=check.reason) for check in failed)


def verify(situation: Situation, orders: tuple[Order, ...]) -> Verdict:
    """Hold the orders against every rule, on figures worked out from the situation alone."""
    with localcontext(EXACT):
        book = Book(situation, orders)
        checks = tuple(_check(judged) for judged in judge(book))
    return Verdict(
        approved=_all_hold(checks),
        checks=checks,
        proposal_hash=Proposal(orders=orders).hash,
        situation_hash=situation.hash,
        expires_at=_expiry(book),
    )


def _all_hold(checks: Iterable[Check]) -> bool:
    held = [check.held for check in checks]
    return bool(held) and all(held)


def _check(judged: Judged) -> Check:
    figure, limit, reason, _ = judged.finding
    return Check(check=judged.rule, symbol=judged.symbol, held=not reason, figure=figure, limit=limit, reason=reason)


def _expiry(book: Book) -> datetime:
    ages, account = book.situation.mandate.freshness, book.situation.account
    quotes = (_after(quote.at, ages.quotes) for quote in book.quotes if quote.at is not None)
    return min(_after(account.as_of, ages.positions), *quotes, _LAST_MOMENT)


def _after(moment: datetime, age: timedelta) -> datetime:
    """Return when something gets too old, short of the end of the calendar."""
    return moment + age if moment <= _LAST_MOMENT - age else _LAST_MOMENT


def kept_back(situation: Situation) -> Decimal:
    """Return the cash that buys leave untouched, in the base currency: nothing where managed equity is unknown."""
    with localcontext(EXACT):
        return Book(situation, ()).kept_back or Decimal(0)
