"""The mandate: what the portfolio should be, and the limits it is kept within."""

import re
from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    StrictBool,
    StringConstraints,
    Tag,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    field_validator,
    model_validator,
)

from blocks.canonical import digest
from blocks.errors import UnusableInput
from blocks.reading import checked, nearest, read_toml
from blocks.values import AccountName, Amount, Currency, Duration, Name, Symbol, plain

Method = Literal["fixed", "equal", "inverse_volatility", "minimum_variance", "hierarchical_risk_parity"]
METHODS_WITHOUT_BARS: frozenset[str] = frozenset({"fixed", "equal"})

Fraction = Annotated[Amount, Field(le=1)]
BasisPoints = Annotated[Amount, Field(le=10_000)]


def _whole(value: object) -> object:
    if isinstance(value, bool) or (isinstance(value, str) and not _DIGITS.fullmatch(value)):
        raise ValueError("should be a whole number")
    return value


_DIGITS = re.compile(r"[+-]?\d+(\.0+)?", re.ASCII)

Count = Annotated[int, BeforeValidator(_whole)]
"""A whole number; `true`, which Python takes for 1, is none, nor is `1_0`."""


_NO_TIME = re.compile(r"0+\s*[smhdw]", re.ASCII)


def _or_nothing(value: object, duration: ValidatorFunctionWrapHandler) -> timedelta:
    none = value == timedelta(0) or (isinstance(value, str) and _NO_TIME.fullmatch(value.strip()))
    return timedelta(0) if none else duration(value)


Delay = Annotated[Duration, WrapValidator(_or_nothing)]
"""A duration, or none at all: `0s`."""


class Section(BaseModel):
    """A part of the mandate: frozen, and closed to keys it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Bounds(Section):
    """How small and how large a weight may be, for a method that works the weights out."""

    min: Fraction = Field(Decimal(0), description="share of managed equity")
    max: Fraction = Field(Decimal(1), description="share of managed equity")

    @model_validator(mode="after")
    def _min_is_not_above_max(self) -> Self:
        if self.min > self.max:
            raise ValueError(f"min {plain(self.min)} is above max {plain(self.max)}")
        return self


def _kind_of_weight(value: object) -> str:
    return "bounds" if isinstance(value, Mapping | Bounds) else "number"


Weight = Annotated[
    Annotated[Amount, Tag("number")] | Annotated[Bounds, Tag("bounds")],
    Discriminator(_kind_of_weight),
]


class Policy(Section):
    """Which weights to hold; the keys of `weights` are the universe."""

    method: Method = "fixed"
    weights: dict[Symbol, Weight] = Field(
        min_length=1, description="fixed: target weights; other methods: the universe, a number or optional bounds"
    )
    cash_buffer: Annotated[Amount, Field(lt=1)] = Field(
        Decimal("0.02"), description="share of managed equity kept in cash"
    )
    lookback_days: Count = Field(252, ge=20, le=2520, description="sessions of history a method looks at")
    max_tilt: Fraction = Field(Decimal("0.03"), description="how far views may move a weight")

    @model_validator(mode="after")
    def _weights_suit_the_method(self) -> Self:
        if self.method == "fixed":
            self._check_fixed()
        else:
            self._check_bounds()
        return self

    def _check_fixed(self) -> None:
        for symbol, weight in self.weights.items():
            if isinstance(weight, Bounds):
                raise ValueError(f"weights.{symbol}: method 'fixed' takes a number, not bounds")  # noqa: TRY004
        total = sum(self.fixed_weights.values(), Decimal(0))
        if total + self.cash_buffer > 1:
            raise ValueError(
                f"weights sum to {plain(total)} and cash_buffer is {plain(self.cash_buffer)}: "
                "together at most 1 is allowed"
            )

    def _check_bounds(self) -> None:
        least = sum((bounds.min for bounds in self.bounds.values()), Decimal(0))
        most = sum((bounds.max for bounds in self.bounds.values()), Decimal(0))
        invested = 1 - self.cash_buffer
        if least > invested:
            raise ValueError(
                f"the least weights sum to {plain(least)}: at most {plain(invested)} (1 - cash_buffer) is allowed"
            )
        if most < invested:
            raise ValueError(
                f"the largest weights sum to {plain(most)}: "
                f"method {self.method!r} invests {plain(invested)} (1 - cash_buffer)"
            )

    @property
    def fixed_weights(self) -> dict[str, Decimal]:
        """Return the target weights of the method `fixed`."""
        return {symbol: weight for symbol, weight in self.weights.items() if isinstance(weight, Decimal)}

    @property
    def bounds(self) -> dict[str, Bounds]:
        """Return each symbol's bounds for a method that works the weights out; a plain 0 says: none of it."""
        return {
            symbol: weight if isinstance(weight, Bounds) else Bounds(max=Decimal(1 if weight else 0))
            for symbol, weight in self.weights.items()
        }


class Bands(Section):
    """How far a weight may drift before it is traded: the larger of the two counts."""

    absolute: Fraction = Field(Decimal("0.005"), description="share of managed equity")
    relative: Fraction = Field(Decimal("0.02"), description="share of the target")


class Limits(Section):
    """What no proposal may exceed."""

    max_orders: Count = Field(20, ge=1, le=10_000)
    max_order_notional: Amount = Field(Decimal(50_000), description="base currency")
    max_turnover: Amount = Field(Decimal("0.50"), description="order notionals / managed equity")
    max_weight: Fraction = Field(Decimal(1), description="share of managed equity; binds buys")
    max_adv_fraction: Fraction | None = Field(
        None, description="share of the average daily volume; no limit unless set"
    )
    collar_bps: BasisPoints = Field(Decimal(50), description="how far a limit may lie from the far side of the quote")
    max_spread_bps: BasisPoints = Field(Decimal(200), description="of the middle")
    max_price_jump: Amount = Field(Decimal("0.25"), description="of the previous close")
    restricted: tuple[Name, ...] = Field((), description="never ordered")
    cash_basis: Literal["total", "settled"] = "total"


class Freshness(Section):
    """How old each class of result may be."""

    quotes: Duration = timedelta(minutes=15)
    positions: Duration = timedelta(minutes=15)
    bars: Duration = timedelta(days=4)
    analysis: Duration = timedelta(days=1)
    notes: Duration = timedelta(days=7)
    proposal: Duration = timedelta(minutes=30)
    max_move_bps: BasisPoints = Field(Decimal(150), description="price move after which a result is stale")
    max_revisions: Count = Field(4, ge=0, le=100, description="revisions after the first, whatever the cause")


class Approval(Section):
    """When a person has to say yes."""

    mode: Literal["auto", "threshold", "always"] = "auto"
    threshold: Amount = Field(Decimal(10_000), description="order notionals in base currency, for mode 'threshold'")
    expires: Duration = timedelta(minutes=10)
    reprice_bps: BasisPoints = Decimal(30)


class SubmissionRules(Section):
    """How orders are sent and what becomes of those that do not fill."""

    submit_window: Duration = timedelta(minutes=30)
    time_in_force: Literal["DAY"] = "DAY"
    at_window_end: Literal["cancel", "leave"] = "cancel"


class PaperRules(Section):
    """How the paper broker fills orders, so that working ones can be tried without a gateway."""

    latency: Delay = Field(timedelta(0), description="how long an order works before it fills, and its rest after that")
    first_fill: Annotated[Fraction, Field(gt=0)] = Field(
        Decimal(1), description="share of the order that fills first, in whole shares; 1: all of it"
    )


class ModelChoice(Section):
    """Which model plays a part, and how much it may say: that bounds the cost of an answer."""

    model: Name
    max_tokens: Count = Field(6000, ge=256, le=64_000, description="of one answer, thoughts included")
    effort: Literal["default", "low", "medium", "high", "xhigh", "max"] = Field(
        "default", description="how long it thinks; default: as the model does by itself, for those that know no effort"
    )


_PLANNER = ModelChoice(model="claude-sonnet-5-5", effort="medium")
_EXECUTOR = ModelChoice(model="claude-haiku-5-5", max_tokens=2000)
_REVIEWER = ModelChoice(model="claude-opus-5-5", effort="medium")


def _instead_of(usual: ModelChoice) -> BeforeValidator:
    """Read a name, or a table with some of the keys: the others are as usual for the part."""

    def whole(value: object) -> object:
        given = {"model": value} if isinstance(value, str) else value
        if isinstance(given, ModelChoice):
            return given
        if not isinstance(given, Mapping):
            raise ValueError("should be a model's name, or a table with its keys")  # noqa: TRY004  pydantic reports ValueErrors
        return {**usual.model_dump(), **given}

    return BeforeValidator(whole)


class Models(Section):
    """Which language models play which part, and what they may cost."""

    planner: Annotated[ModelChoice, _instead_of(_PLANNER)] = _PLANNER
    executor: Annotated[ModelChoice, _instead_of(_EXECUTOR)] = _EXECUTOR
    reviewer: Annotated[ModelChoice, _instead_of(_REVIEWER)] = _REVIEWER
    allow_same_model: StrictBool = Field(False, description="let the planner's model review, too")
    budget_usd: Amount = Field(Decimal("0.50"), description="USD over one objective")
    timeout: Duration = Field(timedelta(minutes=5), description="of one attempt of a call")
    fallback: Literal["hold", "rules"] = Field("hold", description="whose plan counts where the model makes none")
    notes: tuple[Name, ...] = Field(
        (), description="folders or files of research notes, from the folder that the mandate is in"
    )

    @model_validator(mode="after")
    def _who_reviews_has_not_planned(self) -> Self:
        if self.reviewer.model == self.planner.model and not self.allow_same_model:
            raise ValueError(
                f"reviewer: {self.reviewer.model!r}: is the planner's model, which agrees with itself; name another, or"
                " set allow_same_model = true"
            )
        return self


CADENCES = ("session", "weekly", "monthly", "quarterly")


def _cron_field(value: str, *, alone: str = "") -> str:
    """Return the pattern of a cron's field: values, ranges and steps, or what may only stand alone."""
    part = rf"(?:\*|{value}(?:-{value})?)(?:/0*[1-9]\d?)?"
    return rf"(?:{part}(?:,{part})*{alone})"


_WEEKDAY = "(?:[0-7]|sun|mon|tue|wed|thu|fri|sat)"
_CRON = re.compile(
    r"\s+".join(
        (
            _cron_field(r"[0-5]?\d"),
            _cron_field(r"(?:[01]?\d|2[0-3])"),
            _cron_field(r"(?:0?[1-9]|[12]\d|3[01])", alone=r"|\?|l"),
            _cron_field(r"(?:0?[1-9]|1[0-2]|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)"),
            _cron_field(_WEEKDAY, alone=rf"|\?|{_WEEKDAY}#[1-5](?:,{_WEEKDAY}#[1-5])*"),
        )
    ),
    re.ASCII | re.IGNORECASE,
)


class Schedule(Section):
    """When the rebalance runs by itself."""

    calendar: Name = Field("XNYS", description="an exchange's ISO 10383 code")
    cadence: Name = Field(
        "weekly",
        description="the first session of each week, month or quarter, every session, or a cron of five fields",
    )
    after_open: Duration = timedelta(minutes=30)

    @field_validator("cadence")
    @classmethod
    def _is_known(cls, value: str) -> str:
        if value not in CADENCES and not _CRON.fullmatch(value):
            raise ValueError(f"should be one of {', '.join(CADENCES)}, or a cron of five fields such as '30 15 * * 1'")
        return value


class Notify(Section):
    """Who is told how a run has ended."""

    block: str = Field("", description="a notification block of Prefect's, such as slack-webhook/mine; empty: nobody")
    on: tuple[Literal["completed", "held", "failed", "unknown"], ...] = Field(
        ("completed", "held", "failed", "unknown"),
        description="failed: also partial, rejected and stale; unknown: an order of which the broker does not tell",
    )


class Mandate(Section):
    """A whole mandate, as one TOML file holds it."""

    account: AccountName
    base_currency: Currency
    objective: Annotated[str, StringConstraints(min_length=1, max_length=2000)] = (
        "rebalance the portfolio for the coming week"
    )
    fractional: StrictBool = False
    direction: Literal["both", "buy_only", "sell_only"] = "both"
    min_trade: Amount = Field(Decimal(100), description="base currency")
    allow_delayed: StrictBool = False
    frozen: tuple[Symbol, ...] = Field((), description="valued at the last close, never traded")
    raise_cash: Amount = Field(
        Decimal(0), description="base currency kept on top of the buffer, for a withdrawal to come"
    )
    policy: Policy
    bands: Bands = Bands()
    limits: Limits = Limits()
    freshness: Freshness = Freshness()
    approval: Approval = Approval()
    submission: SubmissionRules = SubmissionRules()
    paper: PaperRules = PaperRules()
    models: Models = Models()
    schedule: Schedule = Schedule()
    notify: Notify = Notify()

    @model_validator(mode="after")
    def _parts_agree(self) -> Self:
        for symbol in self.frozen:
            if symbol not in self.policy.weights:
                near = nearest(symbol, self.policy.weights)
                raise ValueError(f"frozen: {symbol!r} is not a key of policy.weights{near}")
        fixed = self.policy.method == "fixed"
        bounds = self.policy.bounds
        least = self.policy.fixed_weights if fixed else {symbol: each.min for symbol, each in bounds.items()}
        for symbol, weight in least.items():
            if weight > self.limits.max_weight:
                where = f"policy.weights.{symbol}" if fixed else f"policy.weights.{symbol}.min"
                raise ValueError(f"{where}: {plain(weight)} is above limits.max_weight {plain(self.limits.max_weight)}")
        return self

    @property
    def universe(self) -> tuple[str, ...]:
        """Return the symbols that may be traded, in the mandate's order."""
        return tuple(self.policy.weights)

    @cached_property
    def hash(self) -> str:
        """Return the SHA-256 of the mandate's canonical content."""
        return digest(self)


def sample_path() -> Path:
    """Return where the sample mandate is installed."""
    return Path(str(resources.files("mandates") / "sample.toml"))


def read_mandate(path: Path) -> Mandate:
    """Read a mandate from a TOML file. Raises UnusableInput with one line that names key, value and what is allowed."""
    if path.suffix.lower() not in {".toml", ""}:
        raise UnusableInput(f"{path}: a mandate is a TOML file, its name ends in .toml")
    return checked(Mandate, read_toml(path), str(path))
