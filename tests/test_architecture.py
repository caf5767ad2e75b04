"""The house: who may import whom, and the habits that every file in it keeps."""

import ast
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

LAYERS = ("blocks", "tasks", "flows", "deployments")  # a folder may import itself and those before it

SOLE_IMPORTERS = (  # package, where the rule holds, the one file that may import it there
    ("prefect", "blocks/", "blocks/config.py"),
    ("prefect", "tasks/", "tasks/prefect_tasks.py"),
    ("ib_insync", "", "blocks/brokers/ib.py"),
    ("anthropic", "", "blocks/models/anthropic.py"),
)

SLOW_TO_IMPORT = (
    *("prefect", "skfolio", "matplotlib", "ib_insync", "anthropic"),
    *("pandas", "scipy", "exchange_calendars", "duckdb", "sqlalchemy"),
)

NAMES_THAT_SAY_NOTHING = {"utils", "helpers", "manager", "core", "base", "data"}

# Put together here, so that this file does not contain what it looks for.
REGISTRIES = tuple(".".join(host) for host in (("pypi", "org"), ("pythonhosted", "org"), ("npmjs", "org")))
OF_ONE_MACHINE = re.compile(r"(?<![\w.-])/(?:root|work)(?![\w-])")


@dataclass(frozen=True)
class Source:
    """A Python file of ours, read and parsed."""

    path: str  # from the root, with forward slashes
    tree: ast.Module

    @property
    def folder(self) -> str:
        """Return which of the four folders it is in."""
        return self.path.split("/")[0]


Check = Callable[[Source], Iterator[str]]


@cache
def sources() -> tuple[Source, ...]:
    """Return every Python file of the four folders."""
    paths = sorted(path for folder in LAYERS for path in (ROOT / folder).rglob("*.py"))
    return tuple(Source(p.relative_to(ROOT).as_posix(), ast.parse(p.read_text("utf-8"))) for p in paths)


def found_by(check: Check) -> list[str]:
    """Return all that a check objects to, as places to click on."""
    return [f"{source.path}:{objection}" for source in sources() for objection in check(source)]


def calls(source: Source, *names: str) -> Iterator[ast.Call]:
    """Yield the calls of functions written as one of these names."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in names:
            yield node


def imports(source: Source) -> Iterator[tuple[int, str]]:
    """Yield line and full name of every import, at whatever depth, those by name of a string too."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = source.path.split("/")[: -node.level] if node.level else []
            yield node.lineno, ".".join([*above, *filter(None, [node.module])])
    for call in calls(source, "importlib.import_module", "import_module", "__import__"):
        if call.args and isinstance(call.args[0], ast.Constant):
            yield call.lineno, str(call.args[0].value)


def imports_against_the_order(source: Source) -> Iterator[str]:
    """Object to a folder that imports one after it, or what is no part of the product."""
    forbidden = {*LAYERS[LAYERS.index(source.folder) + 1 :], "tests", "benchmarks"}
    for line, name in imports(source):
        if name.split(".")[0] in forbidden:
            yield f"{line} imports {name}"


def imports_by_the_wrong_file(source: Source) -> Iterator[str]:
    """Object to a package imported elsewhere than in the one file that is its door."""
    for line, name in imports(source):
        for package, where, importer in SOLE_IMPORTERS:
            if name.split(".")[0] == package and source.path.startswith(where) and source.path != importer:
                yield f"{line} imports {name}, which is for {importer}"


def missing_docstrings(source: Source) -> Iterator[str]:
    """Object to a module, or a public function or class of its own, that does not say what it is."""
    if not ast.get_docstring(source.tree):
        yield "1 the module has no docstring"
    for node in source.tree.body:
        if (
            isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            and not node.name.startswith("_")
            and not ast.get_docstring(node)
        ):
            yield f"{node.lineno} {node.name} has no docstring"


def prints(source: Source) -> Iterator[str]:
    """Object to printing anywhere but at the way in."""
    if source.folder != "deployments":
        yield from (f"{call.lineno} prints" for call in calls(source, "print"))


def path_fiddling(source: Source) -> Iterator[str]:
    """Object to any use of the path that imports are looked up on."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Attribute) and ast.unparse(node) == "sys.path":
            yield f"{node.lineno} uses sys.path"
        if isinstance(node, ast.ImportFrom) and node.module == "sys" and "path" in {a.name for a in node.names}:
            yield f"{node.lineno} imports sys.path"


def swallowed_exceptions(source: Source) -> Iterator[str]:
    """Object to catching everything, unless something is raised from it."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ExceptHandler):
            caught = ast.walk(node.type) if node.type else [ast.Name("BaseException")]
            everything = any(isinstance(n, ast.Name) and n.id in {"Exception", "BaseException"} for n in caught)
            if everything and not any(isinstance(inner, ast.Raise) for inner in ast.walk(node)):
                yield f"{node.lineno} catches everything and raises nothing"


def shared_duckdb_files(source: Source) -> Iterator[str]:
    """Object to a DuckDB file opened outside blocks/market, since its lock shuts every other process out."""
    if source.path.startswith("blocks/market/"):
        return
    for call in calls(source, "duckdb.connect", "connect") if "duckdb" in dict(imports(source)).values() else ():
        opened = [*call.args[:1], *(word.value for word in call.keywords if word.arg == "database")]
        if any(not (isinstance(what, ast.Constant) and what.value == ":memory:") for what in opened):
            yield f"{call.lineno} opens a DuckDB file"


def names_that_say_nothing(source: Source) -> Iterator[str]:
    """Object to a file or folder whose name fits any content."""
    for word in NAMES_THAT_SAY_NOTHING & set(source.path.removesuffix(".py").split("/")):
        yield f"1 is called {word}"


@pytest.mark.parametrize(
    ("check", "path", "text"),
    [
        (imports_against_the_order, "blocks/ledger.py", "def f():\n    from tasks.plan import Plan"),
        (imports_against_the_order, "tasks/plan.py", "from importlib import import_module\nimport_module('flows.job')"),
        (imports_against_the_order, "flows/watch.py", "import tests.test_plan"),
        (imports_by_the_wrong_file, "tasks/report.py", "import prefect.artifacts"),
        (imports_by_the_wrong_file, "flows/watch.py", "from ib_insync import IB"),
        (imports_by_the_wrong_file, "blocks/models/cassette.py", "import anthropic"),
        (missing_docstrings, "tasks/plan.py", "x = 1"),
        (missing_docstrings, "tasks/plan.py", "'''Say what it is.'''\ndef check():\n    pass"),
        (missing_docstrings, "tasks/plan.py", "'''Say what it is.'''\nclass Plan:\n    pass"),
        (prints, "tasks/plan.py", "print('here')"),
        (path_fiddling, "flows/watch.py", "import sys\nsys.path.append('.')"),
        (path_fiddling, "flows/watch.py", "from sys import path"),
        (swallowed_exceptions, "flows/watch.py", "try:\n    f()\nexcept:\n    pass"),
        (swallowed_exceptions, "flows/watch.py", "try:\n    f()\nexcept (KeyError, Exception):\n    g()"),
        (shared_duckdb_files, "tasks/report.py", "import duckdb\nduckdb.connect('market.duckdb')"),
        (shared_duckdb_files, "tasks/report.py", "import duckdb\nduckdb.connect(database=path)"),
        (shared_duckdb_files, "tasks/report.py", "from duckdb import connect\nconnect(path, read_only=True)"),
        (names_that_say_nothing, "tasks/utils.py", ""),
        (names_that_say_nothing, "tasks/data/plan.py", ""),
    ],
)
def test_each_check_sees_what_it_is_there_for(check: Check, path: str, text: str) -> None:
    seen = list(check(Source(path, ast.parse(text))))

    assert 1 == len(seen)


@pytest.mark.parametrize(
    ("check", "path", "text"),
    [
        (imports_against_the_order, "flows/watch.py", "from tasks.plan import Plan\nfrom . import job"),
        (imports_by_the_wrong_file, "blocks/config.py", "import prefect"),
        (imports_by_the_wrong_file, "flows/watch.py", "import prefect"),
        (missing_docstrings, "tasks/plan.py", "'''Say what it is.'''\ndef _own():\n    pass"),
        (prints, "deployments/cli.py", "print('{}')"),
        (path_fiddling, "flows/watch.py", "import os\nos.path"),
        (swallowed_exceptions, "flows/watch.py", "try:\n    f()\nexcept Exception as e:\n    raise Other from e"),
        (swallowed_exceptions, "flows/watch.py", "try:\n    f()\nexcept KeyError:\n    pass"),
        (shared_duckdb_files, "tasks/report.py", "import duckdb\nduckdb.connect()\nduckdb.connect(':memory:')"),
        (shared_duckdb_files, "blocks/market/store.py", "import duckdb\nduckdb.connect(path)"),
        (names_that_say_nothing, "tasks/plan.py", ""),
    ],
)
def test_no_check_objects_to_what_is_allowed(check: Check, path: str, text: str) -> None:
    seen = list(check(Source(path, ast.parse(text))))

    assert [] == seen


def test_imports_go_one_way_from_deployments_to_blocks() -> None:
    assert [] == found_by(imports_against_the_order)


def test_each_outside_package_has_one_door() -> None:
    assert [] == found_by(imports_by_the_wrong_file)


def test_the_command_line_starts_without_anything_slow_to_import() -> None:
    look = f"import deployments.cli, sys; print(*(m for m in {SLOW_TO_IMPORT} if m in sys.modules))"

    started = subprocess.run([sys.executable, "-c", look], cwd=ROOT, capture_output=True, text=True, check=False)

    assert 0 == started.returncode, started.stderr
    assert [] == started.stdout.split()


def test_every_module_and_everything_public_in_it_says_what_it_is() -> None:
    assert [] == found_by(missing_docstrings)


def test_only_the_way_in_prints() -> None:
    assert [] == found_by(prints)


def test_nobody_touches_the_import_path() -> None:
    assert [] == found_by(path_fiddling)


def test_nothing_is_caught_and_forgotten() -> None:
    assert [] == found_by(swallowed_exceptions)


def test_no_duckdb_file_is_opened_outside_the_market() -> None:
    assert [] == found_by(shared_duckdb_files)


def test_no_file_has_a_name_that_says_nothing() -> None:
    assert [] == found_by(names_that_say_nothing)


def our_texts() -> Iterator[tuple[str, str]]:
    """Yield name and content of every text file that is committed or about to be."""
    git = shutil.which("git")
    assert git, "git lists the files to look at"
    listed = [git, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in sorted(set(filter(None, names.split("\0")))):
        content = (ROOT / name).read_bytes() if (ROOT / name).is_file() else b""
        if b"\0" not in content:
            yield name, content.decode("utf-8", "replace")


def test_no_file_of_ours_names_a_package_registry() -> None:
    named = [f"{name}: {host}" for name, text in our_texts() for host in REGISTRIES if host in text]

    assert [] == named


def test_no_file_of_ours_names_a_path_of_one_machine() -> None:
    named = [
        f"{name}:{number} {line.strip()}"
        for name, text in our_texts()
        for number, line in enumerate(text.splitlines(), 1)
        if OF_ONE_MACHINE.search(line)
    ]

    assert [] == named


@pytest.mark.slow
def test_the_wheel_holds_all_four_folders_and_the_files_they_read(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    built = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False)
    assert 0 == built.returncode, built.stderr

    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        packed = set(wheel.namelist())

    assert (
        set() == {"mandates/sample.toml", "blocks/models/prices.toml", *(source.path for source in sources())} - packed
    )
    assert {*LAYERS, "mandates"} == {name.split("/")[0] for name in packed if ".dist-info/" not in name}
