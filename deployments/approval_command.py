"""`tradewright approve` and `refuse`: answer a run that waits for a person, as the form in the Prefect UI does."""

import os
from uuid import UUID

from blocks.clock import wall
from blocks.errors import TradewrightError, UnusableInput
from blocks.ledger import Ledger
from blocks.places import home
from blocks.values import iso
from deployments import server
from tasks.approval import requested
from tasks.revisions import revision_of


def answer(run: str, note: str, *, approve: bool) -> int:
    """Resume a suspended run with this decision. Raises UnusableInput where it waits for none."""
    _check(Ledger(home() / "ledger.db", wall), run)
    place = server.configured() or server.recorded(home())
    if place is None:
        raise TradewrightError("no Prefect server is running: `tradewright up` starts it, and a worker")
    os.environ.update(server.environment(home(), place))
    from prefect.client.orchestration import get_client  # noqa: PLC0415
    from prefect.client.schemas.responses import SetStateStatus  # noqa: PLC0415

    with get_client(sync_client=True) as client:
        said = client.resume_flow_run(UUID(run), run_input={"approve": approve, "note": note})
    if said.status != SetStateStatus.ACCEPT:
        raise TradewrightError(f"run {run} does not go on: {getattr(said.details, 'reason', said.status)}")
    print(f"{'approved' if approve else 'refused'}: the run goes on as soon as a worker takes it")
    print(f"in the Prefect UI: {place.ui_url}/runs/flow-run/{run}")
    return 0


def _check(ledger: Ledger, run: str) -> None:
    begun = ledger.get("run", run)
    if begun is None:
        raise UnusableInput(f"run {run!r}: the ledger knows of none; `tradewright status` lists them")
    revision = revision_of(ledger, begun.body["plan"], begun.body["revision"])
    request = requested(ledger, revision.plan)
    if request is None or request.state != "asked" or revision.state != "waiting":
        raise UnusableInput(f"run {run}: it waits for no answer; it is {revision.state or 'not ended'}")
    if wall() > request.expires_at:
        raise UnusableInput(f"run {run}: the request lapsed at {iso(request.expires_at)}; a new run asks again")
