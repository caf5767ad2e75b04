"""The price list: what a call costs, by model, date and length of the prompt; a model that it lacks has no price."""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from importlib import resources
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from blocks.errors import UnusableInput
from blocks.reading import checked, read_toml
from blocks.values import Amount, Name

_MILLION = Decimal(1_000_000)


@dataclass(frozen=True)
class Tokens:
    """What a call used. `fresh` is input that was neither read from the cache nor written to it."""

    fresh: int = 0
    cache_read: int = 0
    cache_write: int = 0
    output: int = 0

    @property
    def prompt(self) -> int:
        """Return how long the whole prompt was: it decides the band."""
        return self.fresh + self.cache_read + self.cache_write


class Price(BaseModel):
    """One line of the list: USD per million tokens."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: Name
    since: dt.date
    up_to: int | None = Field(None, gt=0, description="tokens of prompt that this band reaches to")
    input: Amount
    output: Amount
    cache_read: Amount
    cache_write: Amount

    def of(self, used: Tokens) -> Decimal:
        """Return what these tokens cost, in USD, exactly."""
        parts = (
            used.fresh * self.input,
            used.cache_read * self.cache_read,
            used.cache_write * self.cache_write,
            used.output * self.output,
        )
        return sum(parts, Decimal(0)) / _MILLION

    @property
    def dearest_input(self) -> Decimal:
        """Return the most that a token of prompt can cost."""
        return max(self.input, self.cache_read, self.cache_write)


class _PriceFile(BaseModel):
    model_config = ConfigDict(extra="forbid")

    price: tuple[Price, ...] = ()


class Prices:
    """Every price that is known: those of the state folder go before ours."""

    def __init__(self, home: Path) -> None:
        """Read both lists. Raises UnusableInput for one that cannot be read."""
        self.own = home / "prices.toml"
        known = _read(self.own) if self.own.exists() else ()
        named = {price.model for price in known}
        self._list = (*known, *(price for price in _shipped() if price.model not in named))

    def bands(self, model: str, today: dt.date) -> tuple[Price, ...]:
        """Return a model's bands that hold today, shortest prompt first. Raises UnusableInput where it has none."""
        begun = [price for price in self._list if price.model == model and price.since <= today]
        if not begun:
            raise UnusableInput(
                f"{model}: no price is known for {today}, and without one its cost cannot be held; add it to {self.own}"
                f' as [[price]] model = "{model}", since = {today}, input, output, cache_read, cache_write'
                " (USD per million tokens)"
            )
        newest = max(price.since for price in begun)
        return tuple(sorted((price for price in begun if price.since == newest), key=_reach))

    def cost(self, model: str, used: Tokens, today: dt.date) -> Decimal:
        """Return what a call cost, in USD."""
        return _band(self.bands(model, today), used.prompt).of(used)

    def worst(self, model: str, prompt: int, output: int, today: dt.date) -> Decimal:
        """Return the most that a call of at most so many tokens can cost, in USD: all of it at its dearest."""
        bands = self.bands(model, today)
        reachable = bands[: bands.index(_band(bands, prompt)) + 1]
        return max((prompt * band.dearest_input + output * band.output) / _MILLION for band in reachable)


def _band(bands: Sequence[Price], prompt: int) -> Price:
    """Return the first band that a prompt of this length fits; the last one reaches to any length."""
    return next((band for band in bands if prompt <= _reach(band)), bands[-1])


def _reach(price: Price) -> float:
    return float("inf") if price.up_to is None else price.up_to


@cache
def _shipped() -> tuple[Price, ...]:
    return _read(Path(str(resources.files("blocks.models") / "prices.toml")))


def _read(path: Path) -> tuple[Price, ...]:
    return checked(_PriceFile, read_toml(path), str(path)).price
