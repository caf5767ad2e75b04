"""The narrow doors that a step is handed instead of the whole broker."""

from datetime import datetime

from blocks.brokers.port import AccountDoor, AccountState, WorkingOrder
from blocks.errors import BrokerUnavailable

_PATIENCE = 10


def read_only(door: AccountDoor) -> AccountDoor:
    """Return a door that can read the account and nothing else: no attribute of it leads to the broker behind.

    This bounds what a step can do by mistake or by plan; it is no sandbox against Python that digs into closures.
    """

    class ReadOnly:
        """An account that can be looked at."""

        __slots__ = ()  # nothing can be kept on it, and nothing hung on it later

        async def account(self, now: datetime) -> AccountState:
            return await door.account(now)

        async def open_orders(self, now: datetime) -> tuple[WorkingOrder, ...]:
            return await door.open_orders(now)

        async def revision(self) -> str:
            return await door.revision()

    return ReadOnly()


async def at_rest(door: AccountDoor, now: datetime) -> tuple[AccountState, tuple[WorkingOrder, ...]]:
    """Return the account and its working orders as they were together: a fill between two answers is in neither.

    Raises BrokerUnavailable, also where the account changes under every reading.
    """
    for _ in range(_PATIENCE):
        before = await door.revision()
        state, open_orders = await door.account(now), await door.open_orders(now)
        if await door.revision() == before:
            return state, open_orders
    raise BrokerUnavailable(f"the account changed during each of {_PATIENCE} readings: no two answers belong together")
