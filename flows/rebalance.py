"""The rebalance: plan, carry out, verify, submit, report."""

from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run

from blocks.clock import wall
from blocks.errors import TradewrightError
from blocks.mandate import read_mandate
from blocks.places import home
from flows.asked import Asked
from flows.beginning import begin_rebalance
from flows.pipeline import carried_through
from flows.reporting import failed_outcome
from flows.world import moment_of, open_world


def _name() -> str:
    asked = flow_run.parameters
    year, week, _ = _moment(Path(asked["mandate"]), asked.get("as_of")).isocalendar()
    return f"rebalance {Path(asked['mandate']).stem} {year}-W{week:02d} {asked['broker']}"


def _moment(mandate: Path, as_of: datetime | None) -> datetime:
    """Return the moment the run is for; the run itself says what is wrong where there is none."""
    try:
        return as_of or moment_of(open_world(home()), read_mandate(mandate), None, wall())
    except TradewrightError:
        return wall()


@flow(name="rebalance", flow_run_name=_name, persist_result=False, retries=0)
def rebalance(
    mandate: str,
    as_of: datetime | None = None,
    broker: Literal["paper", "ib"] = "paper",
    planner: Literal["rules", "model"] = "rules",
    dry_run: bool = False,
    replay: str | None = None,
) -> State[Any]:
    """Rebalance one account to its mandate.

    Requires: the mandate's TOML file on this machine, prices in the store (the sample set is always there), and
    TRADEWRIGHT_HOME the same wherever the flow runs. Retrying re-runs what failed or expired; no order is placed twice.
    """
    run, world = str(flow_run.get_id()), open_world(home())
    asked = Asked(mandate, as_of, broker, planner, dry_run, replay)
    return carried_through(
        world,
        run,
        begin=lambda: begin_rebalance(world, run, asked),
        failed=lambda message: failed_outcome(world.ledger, run, asked, message),
    )
