"""The watch: an open plan whose results no longer hold is found, with the reason; one that is closed costs nothing."""

import asyncio
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from blocks.brokers.port import Order
from blocks.clock import wall
from blocks.market.bar_table import BarTable
from flows.asked import Asked
from flows.beginning import begin_rebalance
from flows.job import Job, job_of
from flows.watch import look_around
from flows.world import World, open_world
from tasks.carry_out import carry_out
from tasks.freshness import Result

MANDATE = """
account = "CORE"
base_currency = "USD"
policy = { weights = { AAPL = 0.50, MSFT = 0.45 } }
limits = { max_turnover = 1 }
freshness = { quotes = "15m", positions = "15m" }
"""


@pytest.fixture
def world(tmp_path: Path) -> World:
    (tmp_path / "core.toml").write_text(MANDATE)
    return open_world(tmp_path / "home")


@pytest.fixture
def job(world: World, tmp_path: Path) -> Job:
    """Return a run that has drafted its orders and sent none: a person is being asked, say."""
    begin_rebalance(world, "run-1", Asked(str(tmp_path / "core.toml"), None, "paper", "rules", dry_run=False))
    job = job_of(world, "run-1")
    results: dict[str, Result] = {}
    for step in job.plan.in_order:
        inputs = {name: results[source] for name, source in step.inputs.items()}
        results[step.id] = asyncio.run(carry_out(job.desk, step, inputs))
    return job


def found(world: World) -> list[str]:
    return [look.cause for look in look_around(world, wall()) if look.cause]


def waits(world: World, moment: datetime) -> None:
    """Record that a person is asked; the run's own clock stood at this moment then, and has gone on since."""
    world.ledger.append("outcome", {"state": "waiting", "message": "", "ended_at": moment}, subject="run-1")


def test_while_its_results_hold_a_plan_is_left_alone(world: World, job: Job) -> None:
    waits(world, job.desk.now())

    assert [] == found(world)
    (look,) = look_around(world, wall())
    assert look.left is not None
    assert timedelta(minutes=13) < look.left < timedelta(minutes=14)  # to 21:15, a minute and some gone


def test_a_plan_is_stale_once_its_proposal_has_expired(world: World, job: Job) -> None:
    waits(world, datetime(2022, 12, 28, 21, 16, tzinfo=UTC))

    (cause,) = found(world)
    assert cause.startswith("the proposal expired at 2022-12-28T21:15:00Z; it is 2022-12-28T21:16:")


def test_a_plan_is_stale_once_a_price_has_moved(world: World, job: Job) -> None:
    none, closes = (None,), (Decimal("129.60"),)
    world.store.put_bars("csv", BarTable(("AAPL",), (date(2022, 12, 28),), none, none, none, closes, none))

    (cause,) = found(world)
    assert cause.startswith("AAPL: moved 312 bps, from 125.67")


def test_a_plan_is_stale_once_somebody_has_traded_by_hand(world: World, job: Job) -> None:
    order = Order(symbol="MSFT", side="buy", quantity=Decimal(3), limit=Decimal(500))
    asyncio.run(job.broker.place("by hand", order, job.desk.now()))

    (cause,) = found(world)
    assert "MSFT: 0 held when the orders were drafted, 3 now" == cause


def test_of_a_run_that_was_killed_before_its_draft_what_has_expired_is_found(world: World, tmp_path: Path) -> None:
    mandate = (tmp_path / "core.toml").read_text().replace('quotes = "15m"', 'quotes = "1m"')
    (tmp_path / "core.toml").write_text(mandate)
    begin_rebalance(world, "run-1", Asked(str(tmp_path / "core.toml"), None, "paper", "rules", dry_run=False))
    job = job_of(world, "run-1")
    first = next(step for step in job.plan.in_order if step.tool == "gather_quotes")
    asyncio.run(carry_out(job.desk, first, {}))
    waits(world, datetime(2022, 12, 28, 21, 2, tzinfo=UTC))

    (cause,) = found(world)
    assert cause.startswith(f"step {first.id} expired at 2022-12-28T21:01:00Z")


@pytest.mark.parametrize("state", ["completed", "held", "failed", "stale", "rejected", "partial"])
def test_a_plan_that_has_ended_is_not_looked_at(world: World, job: Job, state: str) -> None:
    moment = datetime(2022, 12, 28, 23, 0, tzinfo=UTC)
    world.ledger.append("outcome", {"state": state, "message": "", "ended_at": moment}, subject="run-1")
    before = world.ledger.pin()

    assert ([], before) == (found(world), world.ledger.pin())
