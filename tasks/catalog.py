"""The catalog: which tools a plan may name, ours and those of installed packages."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points

from tasks.executors import analyse, gather, propose
from tasks.tool import CAPABILITIES, CatalogError, Tool

GROUP = "tradewright.tools"


@dataclass(frozen=True)
class Catalog:
    """The tools a plan may name, and those that asked to be in it and were refused."""

    tools: Mapping[str, Tool]
    refused: Mapping[str, str] = field(default_factory=dict)


def built_in() -> tuple[Tool, ...]:
    """Return the tools that come with Tradewright."""
    functions = (
        gather.gather_quotes, gather.gather_bars, gather.gather_positions,
        analyse.measure_risk, analyse.set_targets, analyse.measure_drift,
        propose.draft_orders,
    )  # fmt: skip
    return tuple(getattr(function, "__tool__") for function in functions)  # noqa: B009  the decorator put it there


def load_catalog() -> Catalog:
    """Return the built-in tools and those of installed packages; one that wants too much stays out, with the reason."""
    tools = {each.name: each for each in built_in()}
    refused: dict[str, str] = {}
    for point in entry_points(group=GROUP):
        try:
            entry = _loaded(point)
        except CatalogError as error:
            refused[point.name] = str(error)
            continue
        if entry.name in tools:
            refused[point.name] = f"the name {entry.name!r} is taken"
        else:
            tools[entry.name] = entry
    return Catalog(tools, refused)


def _loaded(point: EntryPoint) -> Tool:
    try:
        entry = getattr(point.load(), "__tool__", None)
    except CatalogError:
        raise
    except Exception as error:  # a package that cannot be imported should not keep the others' plans from being checked
        raise CatalogError(f"{point.value} cannot be loaded: {type(error).__name__}: {error}") from error
    if not isinstance(entry, Tool):
        raise CatalogError(f"{point.value} is not a tool: decorate it with tasks.tool.tool")
    if not entry.capabilities <= CAPABILITIES:
        wanted = ", ".join(sorted(entry.capabilities - CAPABILITIES))
        raise CatalogError(f"tool {entry.name}: capability {wanted}; allowed: {', '.join(sorted(CAPABILITIES))}")
    return entry
