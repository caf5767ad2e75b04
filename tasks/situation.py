"""All that a decision needs at one moment, and the results that steps exchange."""

import datetime as dt
from collections.abc import Mapping
from decimal import Decimal
from functools import cached_property
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from blocks.brokers.port import AccountState, Order, WorkingOrder
from blocks.canonical import digest
from blocks.mandate import Mandate
from blocks.market.quotes import Quote
from blocks.reading import checked
from blocks.values import Amount, Moment, Number, Symbol, plain


class Value(BaseModel):
    """A frozen value, closed to keys it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Quotes(Value):
    """The quotes of one market snapshot."""

    snapshot: str = Field(description="snapshot id")
    as_of: Moment = Field(description="the newest quote's moment; each is judged by its own age")
    quotes: tuple[Quote, ...]


class Bars(Value):
    """Closes of one market snapshot: sessions x symbols."""

    snapshot: str = Field(description="snapshot id")
    as_of: Moment = Field(description="the close of the last session")
    sessions: tuple[dt.date, ...] = Field(description="ascending")
    closes: dict[str, tuple[Decimal | None, ...]] = Field(
        description="symbol -> one close a session, None where there is none"
    )


class Account(Value):
    """The account and its working orders, of one snapshot."""

    snapshot: str = Field(description="snapshot id")
    as_of: Moment
    state: AccountState
    open_orders: tuple[WorkingOrder, ...] = ()


class Targets(Value):
    """The weights to hold, as shares of managed equity; every symbol of the universe has one."""

    method: str
    weights: dict[str, Amount]


class RiskReport(Value):
    """How the universe moved over the look-back: annual volatility, and average correlation with the others."""

    sessions: int
    volatility: dict[str, Number] = Field(description="symbol -> yearly standard deviation of returns")
    correlation: dict[str, Number] = Field(description="symbol -> mean correlation with the others")


class Drift(Value):
    """How far each symbol is from its target, by the prices of the day."""

    equity: Number = Field(description="managed equity, base currency")
    weights: dict[str, Number] = Field(description="symbol -> share of managed equity now")
    drift: dict[str, Number] = Field(description="symbol -> weight less target")


class Skipped(Value):
    """A symbol that is not traded, and why."""

    symbol: str
    reason: str


class Reason(Value):
    """One reason for a no: the rule's name, the symbol it concerns (empty for the whole), and the figures."""

    check: str
    symbol: str = ""
    reason: str


class Sizing(Value):
    """How the trades were sized, where they compete for cash, turnover or the number of orders."""

    method: Literal["nearest", "greedy", "milp"] = Field(
        description="nearest: no budget binds; greedy: shared out in proportion; milp: a mixed-integer programme"
    )
    gap: Amount = Field(
        description="(tracking error + cost) above the bound, as a share of itself; 0: no orders can be nearer"
    )
    node_limit: int | None = Field(None, description="branches the solver might look at; none where it was not asked")
    mip_rel_gap: Amount | None = Field(None, description="the gap at which the solver may stop")
    note: str = Field("", description="why the solver was not asked, or what it answered")


class Proposal(Value):
    """Orders to bring the portfolio to its targets; no orders means: nothing to do."""

    orders: tuple[Order, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    reasons: tuple[Reason, ...] = Field((), description="why there can be no draft at all; then there are no orders")
    cash_after: Number = Field(
        Decimal(0), description="cash in the base currency once all orders filled at their limits"
    )
    sizing: Sizing | None = Field(None, description="none where there was nothing to size")

    @property
    def refused(self) -> bool:
        """Tell whether the situation allowed no draft."""
        return bool(self.reasons)

    @cached_property
    def hash(self) -> str:
        """Return the SHA-256 of exactly the orders, in their order."""
        return digest([order.model_dump() for order in self.orders])


class Situation(Value):
    """Everything `draft` and `verify` are functions of; nothing else may decide."""

    now: Moment
    mandate: Mandate
    targets: dict[Symbol, Amount] | None = None
    account: AccountState
    quotes: tuple[Quote, ...]
    open_orders: tuple[WorkingOrder, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _fill_in_what_the_account_leaves_out(cls, value: Any) -> Any:
        """Give the account the mandate's name, the moment `now` and its cash as settled, where it does not say."""
        if not isinstance(value, Mapping) or not isinstance(value.get("account"), Mapping):
            return value
        account = dict(value["account"])
        mandate = value.get("mandate")
        account.setdefault("id", mandate.get("account") if isinstance(mandate, Mapping) else None)
        account.setdefault("as_of", value.get("now"))
        account.setdefault("settled_cash", account.get("cash", {}))
        return {**value, "account": account}

    @model_validator(mode="after")
    def _nothing_stands_twice(self) -> Self:
        _once("quotes", [quote.symbol for quote in self.quotes])
        _once("account.positions", [position.symbol for position in self.account.positions])
        return self

    @model_validator(mode="after")
    def _targets_suit_the_mandate(self) -> Self:
        policy, most = self.mandate.policy, self.mandate.limits.max_weight
        if policy.method == "fixed":
            if self.targets is not None and self.targets != policy.fixed_weights:
                raise ValueError("targets: method 'fixed' takes its targets from policy.weights; leave them out")
            return self
        if self.targets is None:
            raise ValueError(f"targets: missing; method {policy.method!r} needs one for each symbol of policy.weights")
        if set(self.targets) != set(policy.weights):
            odd = sorted(set(self.targets) ^ set(policy.weights))
            raise ValueError(
                f"targets: {odd[0]!r} stands in only one of targets and policy.weights; each symbol needs both"
            )
        for symbol, weight in self.targets.items():
            low, high = policy.bounds[symbol].min, min(policy.bounds[symbol].max, most)
            if not low <= weight <= high:
                raise ValueError(f"targets.{symbol}: {plain(weight)} is outside {plain(low)} to {plain(high)}")
        total = sum(self.targets.values(), Decimal(0))
        if total + policy.cash_buffer > 1:
            raise ValueError(
                f"targets sum to {plain(total)} and cash_buffer is {plain(policy.cash_buffer)}: "
                "together at most 1 is allowed"
            )
        return self

    @property
    def target_weights(self) -> dict[str, Decimal]:
        """Return the weight to hold of each symbol of the universe."""
        return self.mandate.policy.fixed_weights if self.targets is None else dict(self.targets)

    @cached_property
    def quote_of(self) -> dict[str, Quote]:
        """Return symbol -> quote."""
        return {quote.symbol: quote for quote in self.quotes}

    @cached_property
    def hash(self) -> str:
        """Return the SHA-256 of the whole situation, orders that a file holds beside it left out."""
        return digest({name: getattr(self, name) for name in Situation.model_fields})


def _once(where: str, symbols: list[str]) -> None:
    twice = {symbol for symbol in symbols if symbols.count(symbol) > 1} if len(set(symbols)) != len(symbols) else set()
    if twice:
        raise ValueError(f"{where}: {min(twice)!r} stands more than once")


class SituationFile(Situation):
    """A situation as a file holds it; `verify` reads its `orders`, `draft` ignores them."""

    orders: tuple[Order, ...] | None = None


def read_situation(content: Mapping[str, Any], source: str) -> SituationFile:
    """Build a situation from a file's content. Raises UnusableInput with one line."""
    return checked(SituationFile, content, source)
