"""The kill switch: while it is thrown the gate refuses everything."""

from blocks.ledger import Ledger, Reading

_KIND, _SUBJECT = "halt", "everything"


def halt(ledger: Ledger, reason: str) -> None:
    """Throw the switch."""
    ledger.append(_KIND, {"halted": True, "reason": reason}, subject=_SUBJECT)


def resume(ledger: Ledger) -> None:
    """Lift the switch."""
    ledger.append(_KIND, {"halted": False, "reason": ""}, subject=_SUBJECT)


def halted(ledger: Ledger | Reading) -> str | None:
    """Return why everything is halted, or None where nothing is."""
    entry = ledger.latest(_KIND, _SUBJECT)
    return str(entry.body["reason"]) if entry and entry.body["halted"] else None
