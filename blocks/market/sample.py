"""The sample prices: daily closes of 20 stocks from 1990 to 2022, as skfolio packages them."""

import csv
import datetime as dt
import gzip
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from blocks.errors import MarketError, UnusableInput
from blocks.market.bar_table import BarTable, table_of
from blocks.market.files import csv_sheet

_INSIDE = Path("datasets", "data", "sp500_dataset.csv.gz")


@cache
def sample_bars() -> BarTable:
    """Return the sample's closes, each the exact text of the file (adjusted prices). Raises MarketError."""
    return bars_of(sample_file())


def sample_file(package: str = "skfolio") -> Path:
    """Return where the package keeps the prices, without importing it: that would take seconds. Raises MarketError."""
    spec = find_spec(package)
    folders = (spec and spec.submodule_search_locations) or ()
    for folder in folders:
        if (Path(folder) / _INSIDE).is_file():
            return Path(folder) / _INSIDE
    raise MarketError(f"the sample prices are missing: the package {package!r} has no {_INSIDE.as_posix()}")


def bars_of(path: Path) -> BarTable:
    """Read a gzipped CSV file of closes in wide form. Raises MarketError."""
    try:
        with gzip.open(path, mode="rt", encoding="utf-8", newline="") as file:
            return table_of(csv_sheet(str(path), file), today=dt.date.max)
    except (OSError, EOFError, UnicodeDecodeError, csv.Error, UnusableInput) as error:
        raise MarketError(f"the sample prices cannot be read: {error}") from None
