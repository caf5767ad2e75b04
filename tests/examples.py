"""How many examples each property test tries: the same share more, or less, of its usual number everywhere."""

import os

from hypothesis import HealthCheck, settings

TIMES = float(os.environ.get("TRADEWRIGHT_EXAMPLES_TIMES", "1"))
"""`make pure` tries a tenth of the usual number, `make nightly` 34 times it: 10,000 of what is usually 300."""

FEWEST = 20


def examples(usual: int) -> settings:
    """Return settings to try a property with, where it is tried `usual` times in `make test`."""
    return settings(
        max_examples=max(min(usual, FEWEST), round(usual * TIMES)),
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
