"""What the steps of one run share: the mandate, the doors, the ledger and the store."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from blocks.brokers.port import AccountDoor
from blocks.ledger import Ledger
from blocks.mandate import Mandate
from blocks.market.door import MarketDoor
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
        return {"market.read": self.market, "account.read": self.account}
