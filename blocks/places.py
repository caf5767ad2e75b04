"""Where Tradewright keeps its state."""

import os
from pathlib import Path


def home() -> Path:
    """Return the state folder: TRADEWRIGHT_HOME, or `.tradewright` in the user's own."""
    named = os.environ.get("TRADEWRIGHT_HOME", "").strip()
    return (Path(named) if named else Path.home() / ".tradewright").expanduser().absolute()
