"""Situations of mostly round figures where every limit binds somewhere, often to the cent."""

import random
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from tasks.situation import Situation

Json = dict[str, Any]

NOW = "2026-03-02T15:05:00Z"
JUST_FRESH, TOO_OLD, TOO_NEW = "2026-03-02T14:50:00Z", "2026-03-02T14:49:59Z", "2026-03-02T15:05:01Z"

ODD_QUOTES: tuple[Json, ...] = (
    {"bid": "NaN"}, {"ask": None}, {"bid": "0"}, {"bid": "-1"}, {"ask": "0.01"}, {"at": None}, {"at": TOO_OLD},
    {"at": TOO_NEW}, {"previous_close": None}, {"previous_close": "0"}, {"previous_close": "99999"},
    {"currency": "GBP"}, {"tick": "0"}, {"tick": "0.000000009"}, {"delayed": True},
    {"bid": "98.99", "ask": "101", "previous_close": "100"}, {"bid": "100.01", "ask": "100", "previous_close": "100"},
    {"bid": "100", "ask": "100", "previous_close": "79.99"}, {"bid": "100", "ask": "100", "previous_close": "133.35"},
)  # fmt: skip
EDGE_QUOTES: tuple[Json, ...] = (
    {"bid": "99", "ask": "101", "previous_close": "100"}, {"bid": "100", "ask": "100", "previous_close": "80"},
    {"bid": "75", "ask": "75", "previous_close": "100"}, {"bid": "200", "ask": "200", "tick": "3"},
    {"at": JUST_FRESH}, {"currency": None}, {"tick": "0.00000001"}, {"delayed": True},
)  # fmt: skip
CROWD_EVERY = 50
HELD = (0, 50, 80, 95, 100, 105, 120, 200)  # per cent of the target


class Dice(random.Random):
    """Choices of a seed, most of them plain; in a contest all that has nothing to do with money is."""

    contest = False

    def rarely(self, usual: Any, *unusual: Any, one_in: int = 4) -> Any:
        """Return one of the unusual once in so many times."""
        return self.choice(unusual) if self.randrange(one_in) == 0 else usual

    def oddly(self, usual: Any, *odd: Any, one_in: int = 4) -> Any:
        """Return one of the odd once in so many times, but never in a contest."""
        return usual if self.contest else self.rarely(usual, *odd, one_in=one_in)


def situation_of(seed: int) -> Situation:
    """Return the situation of a seed.

    Two in five are contests: all is in order, but the trades want more cash, turnover or orders than there are.
    """
    dice = Dice(seed)
    dice.contest = seed % 5 < 2
    symbols = [f"S{number:02}" for number in range(dice.choice((2, 3, 4, 6, 8)) + (2 if dice.contest else 0))]
    worth = dice.choice((5_000, 20_000, 50_000) if dice.contest else (1_000, 10_000, 100_000, 1_000_000))
    largest = 9
    if seed % CROWD_EVERY == 0:
        symbols, worth, largest = [f"S{number:02}" for number in range(100)], 1_000_000, 40
    buffer = dice.rarely(0, 2, 10)
    parts = [largest, *(dice.rarely(dice.randint(1, 9), 0, one_in=8) for _ in symbols[1:])]
    weights = [Decimal((100 - buffer) * part * 100 // sum(parts)) / 10_000 for part in parts]
    quotes = [_quote(dice, symbol) for symbol in (*symbols, "OTHER")]
    held = dice.choice(((0,), (0,), (0, 50, 150), (50, 80, 120, 200)) if dice.contest else (HELD, HELD, HELD, (0,)))
    wanted = zip(quotes, (*(worth * weight for weight in weights), Decimal(500)), strict=True)
    positions = [{"symbol": quote["symbol"], "quantity": _held(dice, quote, target, held)} for quote, target in wanted]
    mandate = _mandate(dice, dict(zip(symbols, map(str, weights), strict=True)), buffer, worth)
    if seed % CROWD_EVERY == 0:
        _crowd_out(dice, mandate)
    if mandate["frozen"] and dice.randrange(4) == 0:
        quotes[0].update(dice.choice(({"previous_close": None}, {"currency": "GBP"}, {"bid": None})))
    quotes[dice.randrange(len(quotes))].update(dice.oddly({}, *ODD_QUOTES, one_in=6))
    content = {
        "now": NOW, "mandate": mandate, "account": _account(dice, worth, positions, all_in=held == (0,)),
        "quotes": dice.oddly(quotes, quotes[:-1], quotes[1:], one_in=12),
        "open_orders": [_working(dice, symbols, mandate["fractional"]) for _ in range(dice.choice((0, 0, 0, 1, 2, 4)))],
    }  # fmt: skip
    return Situation.model_validate(content)


def _crowd_out(dice: Dice, mandate: Json) -> None:
    """Leave next to nothing for a hundred symbols: one after another falls short of an order, until patience ends."""
    mandate.update(min_trade=dice.choice((500, 1_000, 2_000)), bands={"absolute": 0, "relative": 0})
    mandate["limits"].update(max_orders=dice.choice((1, 2, 3)), max_turnover=dice.choice(("0.001", "0.002")))


def _quote(dice: Dice, symbol: str) -> Json:
    price = Decimal(dice.choice((10, 20, 25, 50, 100, 200)))
    if dice.randrange(3) == 0:
        price += Decimal(dice.randrange(0, 9999)) / 100
    half = dice.choice((Decimal(0), Decimal("0.01"), price / 1000))
    plain = {
        "symbol": symbol, "bid": str(price - half), "ask": str(price + half), "at": NOW, "currency": "USD",
        "previous_close": str(price * dice.choice((100, 100, 98, 110)) / 100),
        "tick": dice.oddly("0.01", "0.05", "0.25", "1", "0.0001"), "adv": dice.oddly("1000", "500", "100000", None),
    }  # fmt: skip
    return plain | dice.oddly({}, *EDGE_QUOTES, one_in=8)


def _held(dice: Dice, quote: Json, target: Decimal, choices: Sequence[int]) -> str:
    shares = int(target / Decimal(quote["ask"]) * dice.choice(choices) / 100)
    return str(dice.oddly(shares, shares + 1, Decimal(shares) + Decimal("0.5"), shares + 20, -3, one_in=6))


def _account(dice: Dice, worth: int, positions: list[Json], *, all_in: bool) -> Json:
    cash = worth if all_in else worth * dice.choice((0, 1, 5, 30, -2)) // 100
    return {
        "id": dice.oddly("DU1", "DU2", one_in=60), "cash": {"USD": str(cash)},
        "as_of": dice.oddly(NOW, JUST_FRESH, JUST_FRESH, TOO_OLD, TOO_NEW, one_in=10),
        "settled_cash": {"USD": str(dice.rarely(cash, 0, 500, worth // 10, one_in=3))}, "positions": positions,
    }  # fmt: skip


def _mandate(dice: Dice, weights: dict[str, str], buffer: int, worth: int) -> Json:
    symbols = list(weights)
    return {
        "account": "DU1", "base_currency": "USD", "fractional": dice.randrange(4) == 0,
        "allow_delayed": not dice.randrange(3),
        "policy": {"cash_buffer": str(Decimal(buffer) / 100), "weights": weights},
        "bands": dice.choice(({"absolute": 0, "relative": 0}, {}, {"absolute": "0.01", "relative": "0.1"})),
        "min_trade": dice.choice((0, 1, 100, 200, 500)), "direction": dice.oddly("both", "buy_only", "sell_only"),
        "raise_cash": dice.oddly(0, 100, worth // 50, worth // 3, worth, worth * 2, one_in=5),
        "frozen": dice.oddly([], symbols[:1], symbols[:2]), "limits": _limits(dice, symbols, max(weights.values())),
    }  # fmt: skip


def _limits(dice: Dice, symbols: list[str], largest: str) -> Json:
    volume: Json = dice.oddly({}, {"max_adv_fraction": "0.02"}, {"max_adv_fraction": "0.1"}, one_in=3)
    return volume | {
        "max_orders": dice.rarely(100, 1, 2, 3, 5, one_in=3),
        "max_order_notional": dice.oddly("1e9", "500", "1000", "2500", "5000"),
        "max_turnover": dice.rarely("9", "0.02", "0.1", "0.2", "0.5", one_in=3),
        "max_weight": dice.rarely("1", largest, one_in=3),
        "collar_bps": dice.oddly(50, 100, 0, 10),
        "restricted": dice.oddly([], symbols[:1], symbols[-2:]),
        "cash_basis": dice.rarely("total", "settled", one_in=3),
    }


def _working(dice: Dice, symbols: list[str], fractional: bool) -> Json:
    size = Decimal(dice.choice((1, 2, 5, 10, 40))) / (4 if fractional and dice.randrange(2) else 1)
    return {
        "symbol": dice.choice((*symbols, "OTHER")), "side": dice.choice(("buy", "sell")), "quantity": str(size),
        "filled": str(size * dice.choice((0, 0, Decimal("0.5"), 1))),
        "limit": dice.rarely(str(dice.choice((10, 25, 50, 100))), None, "0", one_in=3),
    }  # fmt: skip
