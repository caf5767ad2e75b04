"""What a run is asked for, and what this version does not carry out."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

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
    replay: str | None = None


def refuse_what_is_not_there(asked: Asked, mandate: Mandate, ledger: Ledger, today: datetime) -> None:
    """Refuse what this version does not carry out, a model without a price, and a replay of nothing.

    Raises UnusableInput.
    """
    if asked.broker != "paper":
        raise UnusableInput(f"--broker {asked.broker}: this version carries out 'paper' only")
    if asked.planner == "model":
        Prices(ledger.path.parent).bands(mandate.models.planner.model, today.date())
    if asked.replay is not None:
        if asked.planner != "model":
            raise UnusableInput(f"--replay {asked.replay}: answers what models were asked; add --planner model")
        if not Path(asked.replay).is_file():
            raise UnusableInput(f"--replay {asked.replay}: no such file; name the ledger.db of the recorded run")
