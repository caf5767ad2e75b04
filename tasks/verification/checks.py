"""The rules of the gate, all of them, and how a book is held against each."""

from collections.abc import Callable, Iterator

from tasks.verification.book import Book
from tasks.verification.findings import Finding, Judged, each, spoken_for
from tasks.verification.order_rules import (
    FORM_RULES,
    LIMIT_RULES,
    NOTIONAL_RULES,
    QUANTITY_RULES,
    VOLUME_RULES,
    WEIGHT_RULES,
)
from tasks.verification.proposal_rules import (
    ACCOUNT_RULES,
    TOTAL_RULES,
    frozen_symbol_has_a_last_close,
    needed_symbol_has_a_quote,
    working_buy_has_a_known_cost,
)
from tasks.verification.quote_rules import MARKET_RULES, QUOTE_RULES

RULES: tuple[Callable[..., Finding], ...] = (
    *ACCOUNT_RULES,
    needed_symbol_has_a_quote,
    *QUOTE_RULES,
    *MARKET_RULES,
    frozen_symbol_has_a_last_close,
    working_buy_has_a_known_cost,
    *FORM_RULES,
    *QUANTITY_RULES,
    *LIMIT_RULES,
    *NOTIONAL_RULES,
    *WEIGHT_RULES,
    *VOLUME_RULES,
    *TOTAL_RULES,
)


def judge(book: Book) -> Iterator[Judged]:
    """Hold the book against every rule, in the order of `RULES`, and stop at none."""
    for rule in ACCOUNT_RULES:
        yield Judged(rule.__name__, "", rule(book))
    yield from _prices(book)
    yield from _orders(book)
    for rule in TOTAL_RULES:
        yield Judged(rule.__name__, "", rule(book))


def _prices(book: Book) -> Iterator[Judged]:
    """Judge what has to be priced: where a rule holds for all, the tightest place speaks, to keep a verdict small."""
    yield from spoken_for(each(needed_symbol_has_a_quote, book.needs, book))
    for judged in book.quotes_judged:
        yield from spoken_for(judged)
    yield from spoken_for(each(frozen_symbol_has_a_last_close, book.frozen_needs, book))
    yield from each(working_buy_has_a_known_cost, book.unlimited, book)


def _orders(book: Book) -> Iterator[Judged]:
    """Judge each order by the rules that can be asked of it.

    An order that a group passes over is refused all the same: what it lacks is itself a rule of another group
    (a positive number, a symbol of the universe that is not frozen, a usable quote, known equity).
    """
    groups = (
        (FORM_RULES, book.orders),
        (QUANTITY_RULES, book.counted),
        (LIMIT_RULES, book.limited),
        (NOTIONAL_RULES, book.summable),
        (WEIGHT_RULES, book.weighable),
        (VOLUME_RULES, book.priced),
    )
    for rules, orders in groups:
        for rule in rules:
            yield from each(rule, orders, book)
