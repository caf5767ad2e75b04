"""The ingest: take price files into the store, by hand or by a schedule of the user's."""

from pathlib import Path

from prefect import flow

from blocks.errors import UnusableInput
from blocks.places import home
from flows.taking_in import take_in
from flows.world import open_world
from tasks.prefect_tasks import say


@flow(name="ingest", persist_result=False, retries=0)
def ingest(files: list[str]) -> None:
    """Take files in one by one; one with a fault leaves nothing behind and does not keep the others out.

    Requires the files on the worker's machine. Raises UnusableInput, which fails the run, if any had a fault.
    """
    store, faults = open_world(home()).store, []
    for name in files:
        try:
            say("{file}: {rows} rows, {symbols} symbols, {first} to {last}".format(**take_in(store, Path(name))))
        except UnusableInput as error:
            faults.append(str(error))
    store.compact()
    store.publish()
    if faults:
        raise UnusableInput("; ".join(faults))
