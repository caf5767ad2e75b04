"""`tradewright transfer`: cash and shares that come into the paper account, or leave it."""

import json
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from blocks.brokers.paper_transfers import transfer
from blocks.clock import wall
from blocks.errors import UnusableInput
from blocks.ledger import Ledger
from blocks.mandate import read_mandate, sample_path
from blocks.places import made_home
from blocks.values import Number, Symbol, money, plain

_number: TypeAdapter[Decimal] = TypeAdapter(Number)
_symbol: TypeAdapter[str] = TypeAdapter(Symbol)


def move(mandate: Path | None, cash: str, shares: Sequence[str], note: str, *, as_json: bool) -> int:
    """Book a transfer at the paper account of a mandate. Raises UnusableInput, and then nothing is booked."""
    wanted = read_mandate(mandate or sample_path())
    moved = dict(_shares(text) for text in shares)
    if len(moved) < len(shares):
        raise UnusableInput("--shares: a symbol stands more than once")
    ledger = Ledger(made_home() / "ledger.db", wall)
    account, currency = wanted.account, wanted.base_currency
    book = transfer(ledger, account, currency, _figure("--cash", cash), moved, note, wall())
    held = {symbol: plain(quantity) for symbol, quantity in book.held.items()}
    if as_json:
        print(json.dumps({"account": account, "currency": currency, "cash": money(book.cash), "positions": held}))
    else:
        positions = ", ".join(f"{quantity} {symbol}" for symbol, quantity in held.items()) or "no shares"
        print(f"account {account}: {money(book.cash)} {currency} in cash, {positions}")
    return 0


def _shares(text: str) -> tuple[str, Decimal]:
    symbol, sign, quantity = text.partition("=")
    try:
        if sign:
            return _symbol.validate_python(symbol), _figure(f"--shares {symbol}", quantity)
    except ValidationError:
        pass  # said below
    raise UnusableInput(f"--shares {text!r}: should be a symbol and a number, such as KO=100 or KO=-20")


def _figure(name: str, text: str) -> Decimal:
    try:
        return _number.validate_python(text)
    except ValidationError:
        raise UnusableInput(f"{name} {text!r}: should be a number such as 2500 or -99.50") from None
