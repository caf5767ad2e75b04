"""The same draft in another process: byte for byte, and with no solver where none is needed."""

import subprocess
import sys
from pathlib import Path

from tasks.executors.draft import draft
from tasks.situation import Situation
from tests.situations import all_in_cash

ROOT = Path(__file__).resolve().parent.parent

CALL = """
import pathlib, sys
from tasks.executors.draft import draft
from tasks.situation import Situation
print(draft(Situation.model_validate_json(sys.stdin.read())).model_dump_json())
print("scipy" in sys.modules)
"""


def drafted_elsewhere(asked: Situation, seed: str) -> tuple[str, bool]:
    """Return what another process drafts, and whether it imported scipy."""
    said = subprocess.run(
        [sys.executable, "-c", CALL], cwd=ROOT, env={"PYTHONHASHSEED": seed}, input=asked.model_dump_json(),
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    proposal, imported = said.stdout.splitlines()
    return proposal, imported == "True"


def test_a_replay_in_another_process_is_the_same_to_the_byte() -> None:
    asked = all_in_cash(60, unsettled=1200)

    first, second = (drafted_elsewhere(asked, seed) for seed in ("1", "2"))

    assert (draft(asked).model_dump_json(), True) == first
    assert first == second


def test_a_draft_that_no_budget_binds_imports_no_solver() -> None:
    proposal, imported = drafted_elsewhere(all_in_cash(5, max_order_notional="1900"), "0")

    assert '"method":"nearest"' in proposal
    assert not imported
