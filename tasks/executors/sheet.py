"""A mixed-integer linear programme, written down column by column and row by row, and put to scipy's HiGHS."""

import ctypes
import math
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

Terms = dict[int, float]
"""Column -> factor."""

_ONE_AT_A_TIME = threading.Lock()


@dataclass(frozen=True, slots=True)
class Answer:
    """What HiGHS says."""

    values: list[float]  # one a column; empty if it found nothing
    bound: float  # the sum to be minimised cannot be below; minus infinity if nothing is known
    message: str


@dataclass
class Sheet:
    """Columns and rows; the sum of cost x value is to be least."""

    costs: list[float] = field(default_factory=list)
    lows: list[float] = field(default_factory=list)
    highs: list[float] = field(default_factory=list)
    whole: list[bool] = field(default_factory=list)
    rows: list[tuple[float, Terms, float]] = field(default_factory=list)

    def column(self, cost: float, low: float, high: float, *, whole: bool = True) -> int:
        """Add a column with low <= value <= high, and return its number."""
        self.costs.append(cost)
        self.lows.append(low)
        self.highs.append(high)
        self.whole.append(whole)
        return len(self.costs) - 1

    def row(self, low: float, terms: Terms, high: float) -> None:
        """Add low <= sum of factor x value <= high."""
        self.rows.append((low, terms, high))

    def least(self, node_limit: int, mip_rel_gap: float) -> Answer:
        """Ask HiGHS. Both limits are figures and neither is time, so that asking again gives the same answer."""
        # SciPy takes most of a second to import, and most drafts need none of it.
        from scipy.optimize import Bounds, LinearConstraint, milp  # noqa: PLC0415
        from scipy.sparse import coo_array  # noqa: PLC0415

        entries = [
            (factor, at, column) for at, (_, terms, _) in enumerate(self.rows) for column, factor in terms.items()
        ]
        factors, at, columns = zip(*entries, strict=True)
        matrix = coo_array((factors, (at, columns)), shape=(len(self.rows), len(self.costs))).tocsr()
        with _standard_output_kept_clean():
            found = milp(
                self.costs,
                integrality=self.whole,
                bounds=Bounds(self.lows, self.highs),
                constraints=LinearConstraint(
                    matrix, [low for low, _, _ in self.rows], [high for _, _, high in self.rows]
                ),
                options={"node_limit": node_limit, "mip_rel_gap": mip_rel_gap},
            )
        return _read(found)


def _read(found: Any) -> Answer:
    bound = found.mip_dual_bound
    known = bound is not None and math.isfinite(bound)
    values = [] if found.x is None else [float(value) for value in found.x]
    said = "proved within mip_rel_gap" if found.status == 0 else "stopped at node_limit" if values else "nothing found"
    return Answer(values, bound if known else -math.inf, said)


@contextmanager
def _standard_output_kept_clean() -> Iterator[None]:
    """Send to standard error what HiGHS prints whatever it is told (a line left in for its makers, HiGHS.jl#312).

    Standard output may be JSON that a machine reads. The line comes from C, so the descriptor has to be turned.
    """
    with _ONE_AT_A_TIME:
        sys.stdout.flush()
        kept = os.dup(1)
        os.dup2(2, 1)
        try:
            yield
        finally:
            ctypes.CDLL(None).fflush(None)
            os.dup2(kept, 1)
            os.close(kept)
