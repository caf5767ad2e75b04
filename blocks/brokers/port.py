"""What every broker is asked, and the words its answers come in."""

from datetime import datetime
from decimal import Decimal
from typing import Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field

from blocks.values import Amount, AnyNumber, Currency, Moment, Name, Number

Side = Literal["buy", "sell"]
OrderState = Literal["working", "filled", "partly_filled", "dead"]
"""What a broker says of an order: working (may still fill), filled, dead with some filled, dead with none filled."""


class Word(BaseModel):
    """A value that travels between us and a broker: frozen, and closed to keys it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Order(Word):
    """What a proposal asks for: a limit order, for the day."""

    symbol: Name
    side: Side
    quantity: AnyNumber = Field(description="shares")
    limit: AnyNumber = Field(description="price of one share, in the base currency")

    @property
    def notional(self) -> Decimal:
        """Return quantity x limit, in the base currency."""
        return self.quantity * self.limit


class WorkingOrder(Word):
    """An order at the broker that may still fill, ours or anybody's."""

    order_ref: str = Field("", max_length=200)
    symbol: Name
    side: Side
    quantity: Amount = Field(description="shares ordered")
    filled: Amount = Field(Decimal(0), description="shares filled so far")
    limit: Amount | None = Field(None, description="price of one share; none for an order without a limit")

    @property
    def remaining(self) -> Decimal:
        """Return the shares that may still fill; never below zero."""
        return max(self.quantity - self.filled, Decimal(0))


class Position(Word):
    """Shares held; below zero is a short position."""

    symbol: Name
    quantity: Number


class AccountState(Word):
    """Cash and positions of one account at one moment, as the broker reports them."""

    id: Name
    as_of: Moment
    cash: dict[Currency, Number] = Field(default_factory=dict)
    settled_cash: dict[Currency, Number] = Field(default_factory=dict)
    positions: tuple[Position, ...] = ()

    def held(self) -> dict[str, Decimal]:
        """Return symbol -> shares."""
        return {position.symbol: position.quantity for position in self.positions}


class Fill(Word):
    """One execution at the broker."""

    exec_id: Name
    order_ref: str
    symbol: Name
    side: Side
    quantity: Amount = Field(description="shares")
    price: Amount = Field(description="of one share")
    commission: Amount = Decimal(0)
    at: Moment


class OrderReport(Word):
    """What the broker knows of one order reference."""

    order_ref: str
    symbol: Name
    side: Side
    quantity: Amount
    filled: Amount
    limit: Amount
    state: OrderState
    reason: str = ""


class AccountDoor(Protocol):
    """Read an account. A step that holds this door can do nothing else with it."""

    async def account(self, now: datetime) -> AccountState:
        """Return cash and positions. Raises BrokerUnavailable when there is no answer."""
        ...

    async def open_orders(self, now: datetime) -> tuple[WorkingOrder, ...]:
        """Return every order that may still fill, of every client. Raises BrokerUnavailable: never a guess."""
        ...

    async def revision(self) -> str:
        """Return a mark, cheap to ask for, that is another one once cash, positions or orders have changed.

        An order that lapses with its day may leave it as it is, and a fill until the account is next asked about.
        Raises BrokerUnavailable.
        """
        ...


class Broker(AccountDoor, Protocol):
    """Everything submission needs. Only the submission task is given one."""

    async def place(self, order_ref: str, order: Order, now: datetime) -> None:
        """Place an order under our reference; the same reference again changes nothing.

        Raises OrderRefused for a no, BrokerUnavailable when it is not known whether the order arrived.
        """
        ...

    async def cancel(self, order_ref: str, now: datetime) -> None:
        """Ask for an order's end; only `reports` says whether it came."""
        ...

    async def reports(self, order_refs: tuple[str, ...], now: datetime) -> dict[str, OrderReport]:
        """Return what is known of each reference; one that is absent was never accepted. Raises BrokerUnavailable."""
        ...

    async def fills(self, now: datetime) -> tuple[Fill, ...]:
        """Return the executions the broker still tells of. Raises BrokerUnavailable."""
        ...
