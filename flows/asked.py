"""What a run is asked for, and what this version does not carry out."""

from dataclasses import dataclass
from datetime import datetime

from blocks.errors import UnusableInput
from blocks.ledger import Ledger
from blocks.mandate import Mandate
from blocks.models.prices import Prices


@dataclass(frozen=True)
class Asked:
    """What a run was asked for, as its flow parameters say it."""

    mandate: str
    as_of: datetime | None
    broker: str
    planner: str
    dry_run: bool


def refuse_what_is_not_there(asked: Asked, mandate: Mandate, ledger: Ledger, today: datetime) -> None:
    """Refuse what this version does not carry out, and a model without a price. Raises UnusableInput."""
    if asked.broker != "paper":
        raise UnusableInput(f"--broker {asked.broker}: this version carries out 'paper' only")
    if asked.planner == "model":
        Prices(ledger.path.parent).bands(mandate.models.planner.model, today.date())
