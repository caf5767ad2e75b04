"""The events that machines may react to. The ledger stays the truth: a lost event loses no order and no plan.

| event | resource |
|---|---|
| `tradewright.result.recorded`, `.settled` | `tradewright.result.<plan>.<revision>.<step>`, with class and age |
| `tradewright.plan.stale`, `.superseded`, `.closed` | `tradewright.plan.<plan>.<revision>`, closed with its state |
| `tradewright.order.<state>` | `tradewright.order.<order_ref>` |

Each resource is labelled with plan, revision, account and mandate; the payload repeats what a template needs.
`asked` is always the ledger's record of the run that carries the revision out.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from prefect.events import emit_event

from blocks.mandate import Freshness
from blocks.values import plain, short
from tasks.carry_out import StepResult
from tasks.catalog import Catalog
from tasks.outcome import OrderLine, Outcome
from tasks.plan import Plan, Step

Asked = Mapping[str, Any]


def result_recorded(asked: Asked, catalog: Catalog, freshness: Freshness, step: Step, found: StepResult) -> None:
    """Tell that a step has a result; unless it is settled within its class's age, the plan is stale."""
    more = {"result": found.id, "as_of": found.as_of.isoformat(), "expires_at": found.expires_at.isoformat()}
    _result("recorded", asked, catalog, freshness, step, more)


def results_settled(asked: Asked, catalog: Catalog, freshness: Freshness, plan: Plan) -> None:
    """Tell that no result of this revision is waited on any longer."""
    for step in plan.steps:
        _result("settled", asked, catalog, freshness, step, {})


def _result(what: str, asked: Asked, catalog: Catalog, freshness: Freshness, step: Step, more: dict[str, str]) -> None:
    freshness_class = catalog.tools[step.tool].freshness
    age = short(getattr(freshness, freshness_class))
    cause = f"step {step.id} has expired: {freshness_class} may be {age} old"
    _emit(
        f"tradewright.result.{what}",
        f"tradewright.result.{asked['plan']}.{asked['revision']}.{step.id}",
        f"{step.id} of {_name(asked)}",
        _labels(asked) | {"tradewright.class": freshness_class, "tradewright.age": age},
        _payload(asked) | {"step": step.id, "cause": cause} | more,
    )


def plan_stale(asked: Asked, cause: str) -> None:
    """Tell that a revision's assumptions no longer hold: one replan is to follow."""
    _plan("stale", asked, {}, {"cause": cause})


def plan_superseded(asked: Asked, by: int, cause: str) -> None:
    """Tell that a revision was replaced by a newer one."""
    _plan("superseded", asked, {}, {"by": by, "cause": cause})


def plan_closed(asked: Asked, outcome: Outcome, ui_url: str) -> None:
    """Tell how a revision's run ended."""
    more = {"state": outcome.state, "message": outcome.message, "flow_run_id": outcome.run, "ui_url": ui_url}
    _plan("closed", asked, {"tradewright.state": outcome.state}, more)


def _plan(what: str, asked: Asked, labels: dict[str, str], more: dict[str, Any]) -> None:
    _emit(
        f"tradewright.plan.{what}",
        f"tradewright.plan.{asked['plan']}.{asked['revision']}",
        _name(asked),
        _labels(asked) | labels,
        _payload(asked) | more,
    )


def orders_moved(asked: Asked, orders: Iterable[OrderLine]) -> None:
    """Tell where each order stands."""
    for line in orders:
        facts = {name: getattr(line, name) for name in ("order_ref", "symbol", "side", "message")}
        facts |= {"quantity": plain(line.quantity), "filled": plain(line.filled)}
        _emit(
            f"tradewright.order.{line.state}",
            f"tradewright.order.{line.order_ref}",
            f"{line.side} {line.symbol}",
            _labels(asked),
            _payload(asked) | facts,
        )


def _name(asked: Asked) -> str:
    return f"plan {asked['plan']} revision {asked['revision']} of {asked['mandate']}"


def _labels(asked: Asked) -> dict[str, str]:
    return {f"tradewright.{name}": str(asked[name]) for name in ("plan", "revision", "account", "mandate")}


def _payload(asked: Asked) -> dict[str, Any]:
    return {name: asked[name] for name in ("plan", "revision", "account", "mandate")}


def _emit(event: str, resource: str, name: str, labels: dict[str, str], payload: dict[str, Any]) -> None:
    about = {"prefect.resource.id": resource, "prefect.resource.name": name}
    emit_event(event, resource=about | labels, payload=payload)
