"""Plant small faults in the draft's modules, one at a time, and count which of those that do harm the gate stops.

`python benchmarks/mutants.py` tries them all: a quarter of an hour on one core. A mutant drafts in a child process, and
is judged in this one by `verify` and by the second opinion, which shares arithmetic with neither draft nor gate.
"""

import argparse
import ast
import importlib
import math
import multiprocessing
import os
import random
import resource
import sys
import types
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from mutations import Mutant, mutants_of
from second_opinion import Opinion
from tight_situations import situation_of

from blocks.brokers.port import Order
from tasks.situation import Proposal, Situation
from tasks.verification.verdict import verify

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "tasks.executors."
SITUATIONS = 220
CPU_SECONDS, SECONDS = 60, 600  # a mutant that takes more of either never ends; the first does not depend on the load
MEMORY = 2 << 30  # bytes that a mutant may take beyond what is there

FATES = {
    "survived": "broke a rule, and verify approved in some situation",
    "disputed": "broke no rule, and verify refused: it or the second opinion is wrong",
    "refused": "broke a rule, and verify refused wherever it did",
    "raised": "raised, or never ended: no order leaves",
    "held": "kept every rule, but ordered nothing where ours orders something",
    "further": "kept every rule, but ended further from the targets, or dearer, than ours",
    "nearer": "kept every rule, with other orders that end as near as ours or nearer",
    "words": "the same orders, other words or figures beside them",
    "equal": "no difference seen",
    "unreached": "no situation comes by",
}
"""In this order: a mutant has the first fate that any situation gives it."""

Key = tuple[tuple[str, str, str, str], ...]
Drafted = tuple[tuple[Order, ...] | None, str]  # the orders, none if there is a refusal; and everything it says
Lines = frozenset[tuple[str, int]]


@dataclass(frozen=True)
class Fate:
    """What became of a mutant, and the seeds of the situations that say so."""

    mutant: Mutant
    name: str
    seeds: list[int]
    broke: list[str]  # the rules
    drafts_broken: int

    def __str__(self) -> str:
        """Return it in a line or two."""
        place = f"{self.mutant.module}.py:{self.mutant.line}"
        broke = f" broke {', '.join(self.broke)};" if self.broke else ""
        return f"{self.name}: {place}: {self.mutant.before}  ->  {self.mutant.after}\n   {broke} seeds {self.seeds[:8]}"


def modules() -> dict[str, str]:
    """Return name -> source of the draft's modules: what `draft` imports from its folder, each after what it needs."""
    sources, needs, wanted = dict[str, str](), dict[str, list[str]](), ["draft"]
    while wanted:
        name = wanted.pop()
        sources[name] = (ROOT / "tasks" / "executors" / f"{name}.py").read_text("utf-8")
        found = (node.module for node in ast.walk(ast.parse(sources[name])) if isinstance(node, ast.ImportFrom))
        needs[name] = sorted({each.removeprefix(PACKAGE) for each in found if each and each.startswith(PACKAGE)})
        wanted += [each for each in needs[name] if each not in sources]
    return {name: sources[name] for name in TopologicalSorter(needs).static_order()}


class Laboratory:
    """The real draft's answers, and children in which mutants give theirs."""

    def __init__(self, count: int) -> None:
        self.sources = modules()
        self.codes = {name: compile(source, name, "exec") for name, source in self.sources.items()}
        self.situations = [situation_of(seed) for seed in range(count)]
        self.opinions = [Opinion(situation) for situation in self.situations]
        self.verdicts: dict[tuple[int, Key], tuple[bool, list[str]]] = {}
        importlib.import_module("scipy.optimize")  # once, before the children are forked
        importlib.import_module("scipy.sparse")
        answers = [answer for answer in self._in_a_child(None, range(count)) if answer]
        assert len(answers) == count
        self.real: list[Drafted] = [(orders, said) for _, (orders, said), _ in answers]
        self.reached: list[Lines] = [lines for *_, lines in answers]

    def try_out(self, mutant: Mutant) -> Fate:
        """Let the mutant draft wherever the real draft comes by its place, and say what became of it."""
        seeds = [seed for seed, lines in enumerate(self.reached) if mutant.is_reached_by(lines)]
        seen, broke = defaultdict[str, list[int]](list), set[str]()
        for answer in self._in_a_child(mutant, seeds):
            if answer is None:
                seen["raised"].append(-1)
                continue
            seed, drafted, _ = answer
            fate, rules = self._judged(seed, drafted)
            seen[fate].append(seed)
            broke |= set(rules)
        if not seeds:
            seen["unreached"] = []
        name = next(each for each in FATES if each in seen)
        return Fate(mutant, name, seen[name], sorted(broke), len(seen["refused"]) + len(seen["survived"]))

    def _judged(self, seed: int, drafted: Drafted | None) -> tuple[str, list[str]]:
        if drafted is None:
            return "raised", []
        (orders, said), (real, real_said) = drafted, self.real[seed]
        if _key(orders) == _key(real) and (orders is None or real is not None):
            return ("equal" if said == real_said else "words"), []
        opinion, leaving = self.opinions[seed], orders or ()
        approved, broken = (True, []) if orders is None else self._verdict(seed, leaving)
        if broken or not approved:
            return ("survived" if approved else "refused" if broken else "disputed"), broken
        if real and not leaving:
            return "held", []
        return ("further" if opinion.away(leaving) > opinion.away(real or ()) else "nearer"), []

    def _verdict(self, seed: int, orders: tuple[Order, ...]) -> tuple[bool, list[str]]:
        key = (seed, _key(orders))
        if key not in self.verdicts:
            approved = verify(self.situations[seed], orders).approved
            self.verdicts[key] = approved, self.opinions[seed].broken(orders)
        return self.verdicts[key]

    def _in_a_child(self, mutant: Mutant | None, seeds: Sequence[int]) -> Iterator[Any]:
        """Yield of each seed what was drafted, None if it raised, and the lines passed; None if the child dies."""
        if not seeds:
            return
        context = multiprocessing.get_context("fork")  # nothing here runs threads, and all that is imported is there
        ours, theirs = context.Pipe(duplex=False)
        child = context.Process(target=self._draft_all, args=(mutant, seeds, ours, theirs), daemon=True)
        child.start()
        theirs.close()
        try:
            for _ in seeds:
                answer = ours.recv() if ours.poll(SECONDS) else None
                yield answer
                if not answer:
                    return
        except EOFError:  # killed for what it took
            yield None
        finally:
            child.kill()
            child.join()

    def _draft_all(self, mutant: Mutant | None, seeds: Sequence[int], asked: Connection, results: Connection) -> None:
        asked.close()  # or else the child would wait for ever for somebody to read, once its parent is gone
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        if mutant:
            taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (taken + MEMORY, taken + MEMORY))
            resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
        draft = self._load(mutant)
        for seed in seeds:
            lines = set[tuple[str, int]]()
            if mutant is None:
                sys.settrace(_line_by_line(lines, self.sources))
            drafted = _drafted(draft, self.situations[seed])
            sys.settrace(None)
            results.send((seed, drafted, frozenset(lines)))

    def _load(self, mutant: Mutant | None) -> Any:
        """Execute all modules of the draft afresh, so that none keeps a name of one that was not mutated."""
        for name, code in self.codes.items():
            module = types.ModuleType(PACKAGE + name)
            sys.modules[PACKAGE + name] = module
            exec(mutant.code if mutant and mutant.module == name else code, module.__dict__)  # noqa: S102
        return module.__dict__["draft"]


def _drafted(draft: Any, situation: Situation) -> Drafted | None:
    try:
        proposal: Proposal = draft(situation)
        return None if proposal.refused else proposal.orders, proposal.model_dump_json()
    except Exception:  # noqa: BLE001  a mutant may raise anything at all
        return None


def _line_by_line(lines: set[tuple[str, int]], names: Any) -> Any:
    def trace(frame: types.FrameType, *_: Any) -> Any:
        if frame.f_code.co_filename not in names:
            return None
        lines.add((frame.f_code.co_filename, frame.f_lineno))
        return trace

    return trace


def _key(orders: tuple[Order, ...] | None) -> Key:
    return tuple((o.symbol, o.side, f"{o.quantity.normalize()}", f"{o.limit.normalize()}") for o in orders or ())


def fates_of(only: Sequence[str] = (), limit: int | None = None, count: int = SITUATIONS) -> list[Fate]:
    """Try all mutants, or so many of them, in so many situations."""
    laboratory = Laboratory(count)
    sources = {name: source for name, source in laboratory.sources.items() if name in (only or [name])}
    mutants = [mutant for name, source in sources.items() for mutant in mutants_of(name, source)]
    if limit is not None and limit < len(mutants):
        kept = sorted(random.Random(0).sample(range(len(mutants)), limit))  # noqa: S311  the same sample each time
        mutants = [mutants[at] for at in kept]
    fates = list[Fate]()
    for mutant in mutants:
        fates.append(laboratory.try_out(mutant))
        if len(fates) % 100 == 0:
            print(f"{len(fates)} of {len(mutants)} mutants tried", file=sys.stderr, flush=True)
    return fates


def measure() -> dict[str, Any]:
    """Return how many mutants met which fate, and how many of those that broke a rule were stopped."""
    return figures(fates_of())


def figures(fates: Sequence[Fate]) -> dict[str, Any]:
    """Sum up the fates."""
    met = Counter(fate.name for fate in fates)
    broke = met["refused"] + met["survived"] + met["disputed"]
    return {
        "mutants": len(fates),
        **{told: met[name] for name, told in FATES.items()},
        "drafts that broke a rule": sum(fate.drafts_broken for fate in fates),
        "kill rate of mutants that broke a rule, %": 100 * met["refused"] / broke if broke else math.nan,
    }


def table(fates: Sequence[Fate]) -> Iterator[str]:
    """Yield the lines of a table: a row a module, a column a fate."""
    by_module = defaultdict[str, Counter[str]](Counter)
    for fate in fates:
        for row in (fate.mutant.module, "all"):
            by_module[row][fate.name] += 1
    last = by_module.pop("all", Counter())
    yield " ".join([f"{'module':<12}", f"{'mutants':>9}", *(f"{name:>9}" for name in FATES)])
    for module, met in [*by_module.items(), ("all", last)]:
        yield " ".join([f"{module:<12}", f"{met.total():>9}", *(f"{met[name]:>9}" for name in FATES)])


def main() -> None:
    """Try mutants, and print what became of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--module", action="append", default=[], help="only this one's mutants; may be given again")
    parser.add_argument("--limit", type=int, help="only so many mutants, a sample that is always the same")
    parser.add_argument("--situations", type=int, default=SITUATIONS, help="how many situations each is tried in")
    parser.add_argument("--list", action="append", default=["survived", "disputed"], choices=[*FATES], metavar="FATE",
                        help="print every mutant that met it, with the seeds of some situations")  # fmt: skip
    asked = parser.parse_args()
    fates = fates_of(asked.module, asked.limit, asked.situations)
    print("\n".join(table(fates)), end="\n\n")
    for told, figure in figures(fates).items():
        print(f"{told:<96} {figure:>7.5g}")
    for fate in fates:
        if fate.name in asked.list:
            print(fate)


if __name__ == "__main__":
    main()
