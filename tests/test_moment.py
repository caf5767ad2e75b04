"""The moment a run starts at: by the newest prices there are, which may be neither of last week nor of tomorrow."""

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from blocks.errors import UnusableInput
from blocks.mandate import Mandate
from blocks.market.bar_table import BarTable
from flows.world import World, moment_of, open_world

MONDAY_NOON = datetime(2026, 3, 9, 17, 0, tzinfo=UTC)
FRIDAY, MONDAY = date(2026, 3, 6), date(2026, 3, 9)
FRIDAYS_CLOSE = datetime(2026, 3, 6, 21, 1, tzinfo=UTC)
"""And a minute. On Monday New York has changed its clocks."""


@pytest.fixture
def world(tmp_path: Path) -> World:
    return open_world(tmp_path)


def mandate(*symbols: str) -> Mandate:
    policy = {"weights": dict.fromkeys(symbols, "0.1")}
    return Mandate.model_validate({"account": "A", "base_currency": "USD", "policy": policy})


def priced(world: World, *sessions: date, symbol: str = "OWN") -> None:
    many = len(sessions)
    none = (None,) * many
    table = BarTable((symbol,) * many, sessions, none, none, none, (Decimal(10),) * many, none)
    world.store.put_bars("csv", table)


def test_the_session_that_has_closed_last_is_what_a_run_is_for(world: World) -> None:
    priced(world, date(2026, 3, 5), FRIDAY)

    assert FRIDAYS_CLOSE == moment_of(world, mandate("OWN"), None, MONDAY_NOON)


def test_the_price_of_a_session_that_has_not_closed_is_not_looked_at(world: World) -> None:
    priced(world, FRIDAY, MONDAY)

    assert FRIDAYS_CLOSE == moment_of(world, mandate("OWN"), None, MONDAY_NOON)
    with pytest.raises(UnusableInput, match=r"--as-of 2026-03-09: outside .* allow none: they begin with 2026-03-06"):
        moment_of(world, mandate("OWN"), MONDAY, MONDAY_NOON)
    priced(world, date(2026, 3, 4), date(2026, 3, 5))
    with pytest.raises(UnusableInput, match=r"--as-of 2026-03-09: outside .* allow 2026-03-05 to 2026-03-06"):
        moment_of(world, mandate("OWN"), MONDAY, MONDAY_NOON)
    after_the_close = datetime(2026, 3, 9, 20, 0, tzinfo=UTC)
    assert datetime(2026, 3, 9, 20, 1, tzinfo=UTC) == moment_of(world, mandate("OWN"), None, after_the_close)


def test_last_weeks_prices_are_no_answer_unless_that_day_is_asked_for(world: World) -> None:
    priced(world, date(2026, 3, 4), date(2026, 3, 5))
    said = (
        "the newest prices are of 2026-03-05, and 2026-03-06 has closed since: bring newer ones in with `tradewright"
        " ingest FILE`, or rehearse that day with --as-of 2026-03-05"
    )

    with pytest.raises(UnusableInput) as refused:
        moment_of(world, mandate("OWN"), None, MONDAY_NOON)
    assert said == str(refused.value)
    assert datetime(2026, 3, 5, 21, 1, tzinfo=UTC) == moment_of(world, mandate("OWN"), date(2026, 3, 5), MONDAY_NOON)


def test_a_mandate_that_takes_prices_from_the_sample_runs_where_the_newest_of_them_end(world: World) -> None:
    priced(world, date(2022, 12, 29), symbol="AAPL")

    expected = datetime(2022, 12, 29, 21, 1, tzinfo=UTC)
    assert expected == moment_of(world, mandate("AAPL", "MSFT"), None, MONDAY_NOON)
    with pytest.raises(UnusableInput, match="the newest prices are of 2022-12-29"):
        moment_of(world, mandate("AAPL"), None, MONDAY_NOON)
