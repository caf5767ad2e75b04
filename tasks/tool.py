"""A tool: one decorated function that a plan's step may name.

Its signature says everything: `params` is its pydantic model, a parameter typed with a
result (`Quotes`, `Targets | None`) is an input, a parameter typed with a door (`MarketDoor`) is a capability, `mandate`
and `now` are given to whoever asks. Any other parameter is refused.
"""

import inspect
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationInfo
from pydantic_core import PydanticCustomError

from blocks.brokers.port import AccountDoor
from blocks.errors import TradewrightError
from blocks.mandate import Mandate
from blocks.market.port import MarketDoor
from blocks.reading import nearest
from blocks.values import Symbol
from tasks.situation import Account, Bars, Drift, Proposal, Quotes, RiskReport, Targets

FreshnessClass = Literal["quotes", "positions", "bars", "analysis", "notes", "proposal"]
Kind = Literal["code", "model"]
Problems = Iterator[tuple[str, str]]
F = TypeVar("F", bound=Callable[..., Any])

DOORS: dict[type, str] = {MarketDoor: "market.read", AccountDoor: "account.read"}
CAPABILITIES: frozenset[str] = frozenset({*DOORS.values(), "analysis", "orders.draft"})
RESULTS: tuple[type[BaseModel], ...] = (Quotes, Bars, Account, Targets, RiskReport, Drift, Proposal)
_BY_NAME = {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}


class CatalogError(TradewrightError):
    """A tool cannot be registered; the text says what in its signature is not allowed."""


class Params(BaseModel):
    """What a step may be told: frozen, and closed to keys it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def _in_the_universe(symbol: str, info: ValidationInfo) -> str:
    universe = (info.context or {}).get("universe", ())
    if symbol not in universe:
        hint = nearest(symbol, universe)
        raise PydanticCustomError(
            "unknown-symbol", "{symbol} is not in the mandate's universe{hint}", {"symbol": symbol, "hint": hint}
        )
    return symbol


UniverseSymbol = Annotated[Symbol, AfterValidator(_in_the_universe)]
"""A symbol of the mandate; the check of a plan tells any other as `unknown-symbol`."""


@dataclass(frozen=True)
class Input:
    """One named input of a tool: the result it takes, and whether it must be there."""

    result: type[BaseModel]
    required: bool


@dataclass(frozen=True)
class Tool:
    """An entry of the catalog, read from a function's signature."""

    name: str
    function: Callable[..., Any]
    params: type[Params]
    inputs: Mapping[str, Input]
    doors: Mapping[str, str]
    result: type[BaseModel]
    freshness: FreshnessClass
    kind: Kind
    summary: str
    wants: frozenset[str] = frozenset()
    check: Callable[[Any, frozenset[str], Mandate], Problems] | None = None

    @property
    def capabilities(self) -> frozenset[str]:
        """Return what the tool may touch: the doors it is handed, or pure thought."""
        own = frozenset(self.doors.values())
        if self.result is Proposal:
            return own | {"orders.draft"}
        return own or frozenset({"analysis"})


def tool(
    *,
    freshness: FreshnessClass,
    kind: Kind = "code",
    check: Callable[[Any, frozenset[str], Mandate], Problems] | None = None,
) -> Callable[[F], F]:
    """Mark a function as a tool; `check` may add problems that depend on params, given inputs and mandate together."""

    def mark(function: F) -> F:
        function.__tool__ = _read(function, freshness, kind, check)  # type: ignore[attr-defined]
        return function

    return mark


def _read(function: Any, freshness: FreshnessClass, kind: Kind, check: Any) -> Tool:
    hints = get_type_hints(function)
    params: type[Params] = Params
    inputs, doors, wants = {}, {}, set()
    for name, parameter in inspect.signature(function).parameters.items():
        hint = hints.get(name)
        result, optional = _result_in(hint)
        if parameter.kind not in _BY_NAME:
            raise CatalogError(f"tool {function.__name__}: parameter {name!r} cannot be given by name")
        if name == "params" and isinstance(hint, type) and issubclass(hint, Params):
            params = hint
        elif hint in DOORS:
            doors[name] = DOORS[hint]
        elif result is not None:
            inputs[name] = Input(result, required=not optional and parameter.default is parameter.empty)
        elif (name, hint) in {("mandate", Mandate), ("now", datetime)}:
            wants.add(name)
        else:
            raise CatalogError(
                f"tool {function.__name__}: parameter {name!r} is no params, input, door, mandate or now"
            )
    result_type = hints.get("return")
    if result_type not in RESULTS:
        raise CatalogError(
            f"tool {function.__name__}: returns {result_type!r}; allowed: {', '.join(r.__name__ for r in RESULTS)}"
        )
    summary = (inspect.getdoc(function) or "").split("\n", 1)[0]
    return Tool(
        function.__name__,
        function,
        params,
        inputs,
        doors,
        result_type,
        freshness,
        kind,
        summary,
        frozenset(wants),
        check,
    )


def _result_in(hint: Any) -> tuple[type[BaseModel] | None, bool]:
    optional = get_origin(hint) in {Union, types.UnionType} and types.NoneType in get_args(hint)
    candidates = [part for part in get_args(hint) if part is not types.NoneType] if optional else [hint]
    found = candidates[0] if len(candidates) == 1 and candidates[0] in RESULTS else None
    return found, optional
