"""Transfers: cash and shares that come into a paper account, or leave it, other than by trading."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from decimal import Decimal

from blocks.brokers.paper_book import Book, Transfer, folded
from blocks.errors import UnusableInput
from blocks.ledger import Ledger
from blocks.values import plain

_NONE = Decimal(0)


def transfer(
    ledger: Ledger, account: str, currency: str, cash: Decimal, shares: Mapping[str, Decimal], note: str, now: datetime
) -> Book:
    """Book cash in the account's currency and shares by symbol, positive for what comes in; return the account after.

    An account that does not exist yet is opened with nothing but these. Raises UnusableInput where more would leave
    than is there, while orders are at work that count on it, or where the account is kept in another currency.
    """
    with ledger.writing() as entries:
        opened = entries.get("paper.account", account)
        kept_in = opened.body["currency"] if opened else currency
        if kept_in != currency:
            raise UnusableInput(f"the paper account {account} is kept in {kept_in}, not in {currency}")
        if opened is None:
            entries.append("paper.account", {"currency": currency, "cash": _NONE}, key=account, subject=account)
        book = folded(entries, account)
        _refuse_while_orders_work(book, account)
        moved = Transfer(cash=cash, shares=dict(shares), at=now, note=note)
        after = replace(book, transfers=(*book.transfers, moved))
        _refuse_more_than_there_is(book, after, account, currency)
        entries.append("paper.transfer", moved.model_dump(), subject=account)
    return after


def _refuse_while_orders_work(book: Book, account: str) -> None:
    """Refuse by the account's own time, that of its last order: the runs of a paper account may lie in the past."""
    last = max((placed.at for placed in book.orders.values()), default=None)
    working = book.working(last) if last else []
    if working:
        refs = ", ".join(placed.order_ref for placed in working)
        raise UnusableInput(f"account {account}: orders are at work and count on what is there: {refs}; wait for them")


def _refuse_more_than_there_is(before: Book, after: Book, account: str, currency: str) -> None:
    if after.cash < 0 and after.cash < before.cash:
        raise UnusableInput(f"account {account}: {plain(before.cash)} {currency} in cash, and no more can be taken out")
    for symbol, quantity in after.held.items():
        if quantity < 0:
            held = plain(before.held.get(symbol, _NONE))
            raise UnusableInput(f"account {account}: {held} {symbol} held, and no more can be taken out")
