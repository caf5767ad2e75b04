"""What the steps of one run share: the mandate, the doors, the ledger and the store."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from blocks.brokers.port import AccountDoor
from blocks.ledger import Ledger
from blocks.mandate import Mandate
from blocks.market.port import MarketDoor, RecordedBars, RecordedQuotes
from blocks.market.store import MarketStore
from tasks.catalog import Catalog


@dataclass(frozen=True)
class Desk:
    """The surroundings of one run. It holds no broker: only the submission task is given one."""

    run: str
    mandate: Mandate
    broker: str
    catalog: Catalog
    ledger: Ledger
    store: MarketStore
    market: MarketDoor
    account: AccountDoor
    now: Callable[[], datetime]

    @property
    def doors(self) -> Mapping[str, MarketDoor | AccountDoor]:
        """Return capability -> door: a step is handed those of its tool, and no other."""
        return {"market.read": _market_only(self.market), "account.read": self.account}


def _market_only(door: MarketDoor) -> MarketDoor:
    """Return a door that can read the market and nothing else: no attribute leads to store and ledger behind."""

    class MarketOnly:
        """A market that can be looked at."""

        __slots__ = ()

        async def quotes(self, symbols: tuple[str, ...], now: datetime) -> RecordedQuotes:
            return await door.quotes(symbols, now)

        async def bars(self, symbols: tuple[str, ...], sessions: int, now: datetime) -> RecordedBars:
            return await door.bars(symbols, sessions, now)

        def revision(self) -> str:
            return door.revision()

    return MarketOnly()
