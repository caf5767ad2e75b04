"""Run every benchmark, print one table, and keep the figures in benchmarks/results.json."""

import argparse
import importlib
import json
import os
import platform
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PARTS = ("startup", "sizing", "storage", "reaction")
PACKAGES = ("prefect", "duckdb", "sqlalchemy", "pydantic", "scipy", "skfolio", "numpy", "pandas")


def main() -> None:
    """Measure the parts that are named, or all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="which to run; all if none is named")
    wanted = parser.parse_args().parts or PARTS
    path = HERE / "results.json"
    kept = json.loads(path.read_text())["figures"] if path.exists() else {}
    for part in wanted:
        print(f"measuring {part} …", file=sys.stderr, flush=True)
        kept[part] = importlib.import_module(part).measure()
    path.write_text(json.dumps({"machine": machine(), "versions": versions(), "figures": kept}, indent=2) + "\n")
    for part in wanted:
        show(part, kept[part])


def machine() -> dict[str, Any]:
    """Return what the figures were measured on."""
    return {
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "system": platform.system(),
    }


def versions() -> dict[str, str]:
    """Return the versions of Python and the packages that matter here."""
    return {"python": platform.python_version()} | {name: version(name) for name in PACKAGES}


def show(part: str, figures: dict[str, Any], depth: int = 0) -> None:
    """Print figures as indented lines."""
    print(f"{'  ' * depth}{part}")
    for name, value in figures.items():
        if isinstance(value, dict):
            show(name, value, depth + 1)
        else:
            print(
                f"{'  ' * (depth + 1)}{name:<52} {value:.4g}"
                if isinstance(value, float)
                else f"{'  ' * (depth + 1)}{name:<52} {value}"
            )


if __name__ == "__main__":
    main()
