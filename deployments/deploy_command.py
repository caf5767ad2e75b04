"""`tradewright deploy`: deployments, schedules and automations, as the mandate files say; twice gives the same."""

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

from blocks.clock import wall
from blocks.errors import UnusableInput
from blocks.mandate import Mandate, read_mandate, sample_path
from blocks.models.prices import Prices
from blocks.places import made_home
from deployments import server
from deployments.schedule import slots

Mandates = dict[Path, Mandate]


@dataclass(frozen=True)
class Deployed:
    """What the server has been told of."""

    deployments: list[str]
    automations: list[str]
    next_runs: list[tuple[str, str]] = field(default_factory=list)
    left: list[str] = field(default_factory=list)


def deploy(files: Sequence[Path], pool: str, planner: str | None, *, yes: bool, as_json: bool) -> int:
    """Deploy these mandates, or those deployed already, or the sample. Raises UnusableInput before anything is."""
    named = read_mandates(files)
    folder = made_home()
    for mandate in named.values() if planner == "model" else ():
        Prices(folder).bands(mandate.models.planner.model, wall().date())
    place = server.ensure(folder, _say)
    os.environ.update(server.environment(folder, place))
    done = put(named, folder, pool, _ask(yes=yes), planner)
    if as_json:
        print(json.dumps(done.__dict__))
    else:
        print("\n".join(told(done)))
    return 0


def read_mandates(files: Sequence[Path]) -> Mandates:
    """Read the mandate files. Raises UnusableInput, also where two files would share one deployment."""
    found = {path.absolute(): read_mandate(path) for path in files}
    names = [path.stem for path in found]
    twice = next((path for path in found if names.count(path.stem) > 1), None)
    if twice:
        raise UnusableInput(f"{twice}: another file is named {twice.stem!r} too, and a deployment has its file's name")
    return found


def put(
    named: Mandates, folder: Path, pool: str, remove: Callable[[Path], bool], planner: str | None = None
) -> Deployed:
    """Put deployments and automations on the server; `remove` is asked about each mandate that is not named.

    `planner` is who plans the named ones from now on; without one, and for the others, it is who did so far.
    Raises UnusableInput before anything is put there.
    """
    from prefect.client.orchestration import get_client  # noqa: PLC0415  3 s to import

    from blocks.config import ModelAccess  # noqa: PLC0415
    from deployments import automations  # noqa: PLC0415
    from deployments import deploy as its  # noqa: PLC0415

    place, now = its.Place(folder, pool), wall()
    with get_client(sync_client=True) as client:
        known = {path: each for each in its.deployed(client) if (path := its.mandate_of(each)) and each.schedules}
        others = [path for path in known if path not in named and (named or not path.exists())]
        gone = [path for path in others if remove(path)]
        kept = {path: read_mandate(path) for path in known.keys() - {*named, *gone} if path.exists()}
        mandates = named | kept or {sample_path().absolute(): read_mandate(sample_path())}
        schedules = {path: its.schedule_of(path, mandate, now) for path, mandate in mandates.items()}
        blocks = {name: _block(client, name) for each in mandates.values() if (name := each.notify.block)}

        its.ensure_pool(client, pool)
        ModelAccess.register_type_and_schema(_sync=True)  # type: ignore[call-arg]  # so that the UI has a form for it
        for path in gone:
            client.delete_deployment(known[path].id)
        for path, mandate in mandates.items():
            so_far = its.planner_of(known.get(path))
            by = planner if planner and path in (named or mandates) else so_far
            its.deploy_rebalance(place, path, mandate, schedules[path], by)
        replan, watch = its.deploy_replan(place), its.deploy_watch(place)
        its.deploy_ingest(place)
        its.deploy_refresh(place)
        names = automations.equalise(client, automations.wanted(mandates.values(), replan, watch, blocks))
        deployments = sorted(each.name for each in its.deployed(client))
    left = [str(path) for path in others if path not in gone and not path.exists()]
    return Deployed(deployments, sorted(names), list(next_runs(mandates, now)), left)


def _block(client: Any, name: str) -> Any:
    kind, _, document = name.partition("/")
    from prefect.exceptions import ObjectNotFound  # noqa: PLC0415

    try:
        return client.read_block_document_by_name(document, kind).id
    except ObjectNotFound:
        raise UnusableInput(
            f"notify.block: {name!r}: the Prefect server has no such block; one is named type-slug/name"
        ) from None


def next_runs(mandates: Mandates, now: datetime) -> Iterator[tuple[str, str]]:
    """Yield the next five runs of each mandate that has a schedule of sessions."""
    for path, mandate in mandates.items():
        if not path.samefile(sample_path()):
            for slot in islice(slots(mandate.schedule, now), 5):
                yield path.stem, f"{slot:%a %Y-%m-%d %H:%M} UTC"


def told(done: Deployed) -> Iterator[str]:
    """Say what is deployed."""
    yield f"deployments: {', '.join(done.deployments)}"
    yield from ("automations:", *(f"  {name.removeprefix('Tradewright: ')}" for name in done.automations))
    yield from (f"next run of {name}: {moment}" for name, moment in done.next_runs)
    if not done.next_runs:
        yield "no mandate has a schedule: `tradewright deploy MANDATE.toml` gives yours one"
    yield from (f"left: {name}, whose file is gone; `tradewright deploy --yes` removes it" for name in done.left)


def _ask(*, yes: bool) -> Callable[[Path], bool]:
    def remove(path: Path) -> bool:
        if yes or not sys.stdin.isatty():
            return yes
        return input(f"{path} is deployed and not named here: remove its deployment? [y/N] ").lower() == "y"

    return remove


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
