"""How long the quick commands take from cold, against Python's own start in the same run."""

import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TRADEWRIGHT = Path(sys.executable).with_name("tradewright")
RUNS = 7


def measure() -> dict[str, dict[str, float]]:
    """Return median seconds of each command, and the ratio to a bare `python -c pass`."""
    situation, plan = ROOT / "examples" / "situation.json", ROOT / "benchmarks" / "plan.json"
    plan.write_text(subprocess.run([TRADEWRIGHT, "plan", "make"], capture_output=True, text=True, check=True).stdout)
    commands = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "tradewright --help": [TRADEWRIGHT, "--help"],
        "tradewright plan check": [TRADEWRIGHT, "plan", "check", plan],
        "tradewright verify": [TRADEWRIGHT, "verify", situation],
        "tradewright draft": [TRADEWRIGHT, "draft", situation],
    }
    medians = {name: _median(command) for name, command in commands.items()}
    plan.unlink()
    floor = medians["python -c pass"]
    return {name: {"seconds": seconds, "times python's start": seconds / floor} for name, seconds in medians.items()}


def _median(command: list[object]) -> float:
    return statistics.median(_seconds(command) for _ in range(RUNS))


def _seconds(command: list[object]) -> float:
    began = time.perf_counter()
    subprocess.run([str(word) for word in command], capture_output=True, check=False)
    return time.perf_counter() - began
