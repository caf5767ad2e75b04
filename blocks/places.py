"""Where Tradewright keeps its state."""

import os
from pathlib import Path

from blocks.errors import UnusableInput


def home() -> Path:
    """Return the state folder: TRADEWRIGHT_HOME, or `.tradewright` in the user's own."""
    named = os.environ.get("TRADEWRIGHT_HOME", "").strip()
    return (Path(named) if named else Path.home() / ".tradewright").expanduser().absolute()


def made_home() -> Path:
    """Return the state folder, made if it is not there yet. Raises UnusableInput where it cannot be."""
    folder = home()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UnusableInput(f"TRADEWRIGHT_HOME {folder}: cannot be used as a folder: {error.strerror}") from None
    return folder
