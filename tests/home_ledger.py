"""What the ledger of a test's state folder tells."""

from pathlib import Path

from blocks.clock import wall
from blocks.ledger import Ledger


def orders(home: Path) -> list[str]:
    """Return the symbols of the orders that the paper broker was given, sorted."""
    return sorted(entry.body["order"]["symbol"] for entry in Ledger(home / "ledger.db", wall).all("paper.order"))


def run_of(home: Path, revision: int) -> str | None:
    """Return the run of a revision, once it is recorded."""
    found = [e.body["run"] for e in Ledger(home / "ledger.db", wall).all("plan") if e.body["revision"] == revision]
    return str(found[0]) if found else None
