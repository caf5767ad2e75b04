"""`tradewright init`: a mandate file to begin with."""

import asyncio
import json
from collections.abc import Mapping
from decimal import ROUND_DOWN, Decimal
from pathlib import Path

from blocks.clock import wall
from blocks.errors import UnusableInput
from blocks.mandate import Mandate
from blocks.places import home
from blocks.reading import checked
from blocks.values import plain

_BUFFER = Decimal("0.02")
_GRAIN = Decimal("0.0001")


def init(target: Path, symbols: str | None, account: str, currency: str) -> int:
    """Write a mandate; from symbols at equal weights, or with the weights that the paper account has now."""
    if target.suffix != ".toml":
        raise UnusableInput(f"{target}: a mandate file's name ends in .toml")
    weights = _equal(symbols) if symbols is not None else _as_it_is(account, currency)
    text = _text(account, currency, weights)
    try:
        with target.open("x", encoding="utf-8") as file:  # never over a mandate that is there
            file.write(text)
    except FileExistsError:
        raise UnusableInput(f"{target}: is there already, and is not overwritten") from None
    except OSError as error:
        raise UnusableInput(f"{target}: cannot be written: {error.strerror}") from None
    print(f"{target}: {len(weights)} symbols; try it with: tradewright run --mandate {target} --dry-run")
    return 0


def _equal(symbols: str) -> dict[str, Decimal]:
    names = [name.strip() for name in symbols.split(",") if name.strip()]
    if not names:
        raise UnusableInput(f"--symbols {symbols!r}: names no symbol; give them comma-separated, such as AAPL,MSFT")
    share = ((1 - _BUFFER) / len(set(names))).quantize(_GRAIN, ROUND_DOWN)
    return dict.fromkeys(names, share)


def _as_it_is(account: str, currency: str) -> dict[str, Decimal]:
    """Return the weights of what the paper account holds, at the newest stored closes."""
    from flows.world import moment_of, open_world  # noqa: PLC0415

    world = open_world(home())
    outline = _mandate(account, currency, dict.fromkeys(world.store.symbols(world.ledger.pin()), Decimal(0)))
    now, market = moment_of(world, outline, None, wall()), world.market(outline)
    state = asyncio.run(world.paper(outline, market).account(now))
    held = {symbol: quantity for symbol, quantity in state.held().items() if quantity > 0}
    if not held:
        raise UnusableInput(
            f"account {account} holds nothing: name the symbols to begin with, such as --symbols AAPL,MSFT"
        )
    quotes = asyncio.run(market.quotes(tuple(held), now)).quotes
    values = {quote.symbol: held[quote.symbol] * (quote.bid or Decimal(0)) for quote in quotes}
    equity = state.cash.get(currency, Decimal(0)) + sum(values.values(), Decimal(0))
    room = (1 - _BUFFER) / max(sum(values.values(), Decimal(0)) / equity, 1 - _BUFFER)
    return {symbol: (value / equity * room).quantize(_GRAIN, ROUND_DOWN) for symbol, value in values.items()}


def _mandate(account: str, currency: str, weights: Mapping[str, Decimal]) -> Mandate:
    content = {"account": account, "base_currency": currency, "policy": {"weights": dict(weights)}}
    return checked(Mandate, content, "init")


def _text(account: str, currency: str, weights: Mapping[str, Decimal]) -> str:
    mandate = _mandate(account, currency, weights)  # a name or symbol that no mandate may have is told here
    lines = [
        '# What this portfolio should be, and its limits. README.md, "The mandate", explains every key.',
        "",
        f"account = {_quoted(mandate.account)}",
        f"base_currency = {_quoted(mandate.base_currency)}",
        "",
        "[policy]",
        'method = "fixed"',
        f"cash_buffer = {plain(_BUFFER)}",
        "",
        "[policy.weights]",
        *(f"{_quoted(symbol)} = {plain(weight)}" for symbol, weight in weights.items()),
        "",
        "[limits]",
        "max_turnover = 1   # of managed equity in one run; lower it once the account is invested",
        f"max_orders = {max(20, len(weights))}",
    ]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return json.dumps(text)  # a JSON string is a TOML string
