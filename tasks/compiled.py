"""A plan as a graph of task runs: what runs, after what, under which name and tags. Printable, and free of Prefect."""

from collections.abc import Mapping

from pydantic import Field

from tasks.catalog import Catalog
from tasks.plan import Plan
from tasks.situation import Proposal, Value

GATE = ("verify", "submit")
"""The tasks that the compiler appends to every plan; no plan can name them."""

_RETRIES: Mapping[str, int] = {"market.read": 2, "account.read": 2, "notes.read": 2}


class Node(Value):
    """One task run to be."""

    name: str = Field(description="the step's id, or the gate's word")
    tool: str
    after: tuple[str, ...] = Field(description="names of the nodes whose results it takes")
    tags: tuple[str, ...]
    retries: int


def compile_plan(plan: Plan, catalog: Catalog, account: str) -> tuple[Node, ...]:
    """Return the nodes of a checked plan in an order in which they can be submitted, then verify and submit."""
    nodes = []
    for step in plan.in_order:
        capabilities = sorted(catalog.tools[step.tool].capabilities)
        retries = max(_RETRIES.get(capability, 0) for capability in capabilities)
        tags = _tags(plan, account, *capabilities)
        nodes.append(Node(name=step.id, tool=step.tool, after=tuple(step.inputs.values()), tags=tags, retries=retries))
    drafting = next(step.id for step in plan.steps if catalog.tools[step.tool].result is Proposal)
    verify, submit = GATE
    nodes.append(Node(name=verify, tool="the gate", after=(drafting,), tags=_tags(plan, account, "gate"), retries=0))
    tags = _tags(plan, account, "orders.submit")
    nodes.append(Node(name=submit, tool="the broker", after=(verify,), tags=tags, retries=0))
    return tuple(nodes)


def _tags(plan: Plan, account: str, *capabilities: str) -> tuple[str, ...]:
    return (f"plan:{plan.id}", f"account:{account}", *capabilities)


def as_text(nodes: tuple[Node, ...]) -> str:
    """Print a compiled plan, one node a line."""
    lines = []
    for node in nodes:
        after = f" after {', '.join(node.after)}" if node.after else ""
        again = f", tried {node.retries + 1} times" if node.retries else ""
        lines.append(f"{node.name}: {node.tool}{after} [{', '.join(node.tags[2:])}]{again}")
    return "\n".join(lines)
