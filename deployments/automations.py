"""Automations: what the Prefect server does by itself when an event of ours comes, or one that was due does not."""

from collections.abc import Iterable, Iterator
from datetime import timedelta
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.objects import StateType
from prefect.events.actions import ChangeFlowRunState, RunDeployment, SendNotification
from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture

from blocks.mandate import Mandate
from blocks.values import short

TAG, PREFIX = "tradewright", "Tradewright: "
CLASSES = ("quotes", "positions", "bars", "analysis", "notes", "proposal")

_LEAST = timedelta(seconds=10)  # Prefect waits no shorter time for what does not come
_LOST_AFTER = timedelta(minutes=3)
_ENDED = {
    f"prefect.flow-run.{state}" for state in ("Completed", "Failed", "Cancelled", "Crashed", "Suspended", "Paused")
}
_REPLAN = {name: f"{{{{ event.payload.{name} }}}}" for name in ("plan", "revision", "cause")}


def wanted(mandates: Iterable[Mandate], replan: UUID, watch: UUID, blocks: dict[str, UUID]) -> Iterator[AutomationCore]:
    """Yield the automations for these mandates; `blocks` maps the names of notification blocks to their ids."""
    known = tuple(mandates)
    for name, age in sorted({(name, getattr(each.freshness, name)) for each in known for name in CLASSES}):
        yield _too_old(name, age, replan)
    yield _stale(replan)
    yield _lost()
    yield _watch_ended(watch)
    for mandate in known:
        if mandate.notify.block:
            yield from _notifications(mandate, blocks[mandate.notify.block])


def _too_old(freshness_class: str, age: timedelta, replan: UUID) -> AutomationCore:
    labels = {"tradewright.class": freshness_class, "tradewright.age": short(age)}
    return _automation(
        f"{freshness_class} older than {short(age)}",
        f"A result of this class was recorded, and its plan had not ended {short(age)} later: the plan is made anew.",
        EventTrigger(
            after={"tradewright.result.recorded"},
            expect={"tradewright.result.settled"},
            match=labels,
            for_each={"prefect.resource.id"},
            posture=Posture.Proactive,
            within=max(age, _LEAST),
        ),
        RunDeployment(deployment_id=replan, parameters=dict(_REPLAN)),
    )


def _stale(replan: UUID) -> AutomationCore:
    return _automation(
        "plan is stale",
        "What a plan was made from no longer holds: the plan is made anew.",
        EventTrigger(expect={"tradewright.plan.stale"}, posture=Posture.Reactive, for_each={"prefect.resource.id"}),
        RunDeployment(deployment_id=replan, parameters=dict(_REPLAN)),
    )


def _lost() -> AutomationCore:
    return _automation(
        "run has died",
        "A run's process gave no sign of life for three minutes: it is marked Crashed, so that it can be retried.",
        EventTrigger(
            after={"prefect.flow-run.heartbeat"},
            expect={"prefect.flow-run.*"},  # another heartbeat, or any end: our states have names of their own
            match={"prefect.resource.id": "prefect.flow-run.*"},
            match_related={"prefect.resource.id": f"prefect.tag.{TAG}", "prefect.resource.role": "tag"},
            for_each={"prefect.resource.id"},
            posture=Posture.Proactive,
            within=_LOST_AFTER,
        ),
        ChangeFlowRunState(state=StateType.CRASHED, message="its process gave no sign of life for three minutes"),
    )


def _watch_ended(watch: UUID) -> AutomationCore:
    return _automation(
        "watch has died",
        "The watch failed or crashed: it is started again.",
        EventTrigger(
            expect={"prefect.flow-run.Failed", "prefect.flow-run.Crashed"},
            match_related={"prefect.resource.id": f"prefect.deployment.{watch}", "prefect.resource.role": "deployment"},
            posture=Posture.Reactive,
            for_each={"prefect.resource.id"},
        ),
        RunDeployment(deployment_id=watch),
    )


def _notifications(mandate: Mandate, block: UUID) -> Iterator[AutomationCore]:
    """Yield what tells a person how runs of the account end, for each kind that the mandate asks for."""
    for kind in mandate.notify.on:
        event = "tradewright.order.unknown" if kind == "unknown" else "tradewright.plan.closed"
        labels = {"tradewright.account": mandate.account}
        states = {"tradewright.state": list(_STATES[kind])} if kind in _STATES else {}
        yield _automation(
            f"tell of {kind} ({mandate.account})",
            f"Tells the owner of account {mandate.account}.",
            EventTrigger(
                expect={event},
                match=labels | states,
                posture=Posture.Reactive,
                for_each={"prefect.resource.id"},
            ),
            SendNotification(
                block_document_id=block,
                subject=f"Tradewright: {mandate.account} {{{{ event.payload.state or 'order unknown' }}}}",
                body="{{ event.payload.message }}\n{{ event.payload.ui_url or event.payload.order_ref }}",
            ),
        )


_STATES = {"completed": ("completed",), "held": ("held",), "failed": ("failed", "partial", "rejected", "stale")}


def _automation(name: str, description: str, trigger: EventTrigger, *actions: object) -> AutomationCore:
    return AutomationCore(
        name=f"{PREFIX}{name}",
        description=description,
        tags=[TAG],
        trigger=trigger,
        actions=list(actions),
    )


def equalise(client: SyncPrefectClient, asked: Iterable[AutomationCore]) -> dict[str, UUID]:
    """Make the server's automations of ours be exactly these; return their ids by name.

    Ours carry our tag and a name of ours: a user's own are not touched. One that a user has switched off stays off.
    """
    there = {
        each.name: each
        for each in client.read_automations()
        if TAG in each.tags and each.name.startswith("Tradewright: ")
    }
    ids = {}
    for automation in asked:
        known = there.pop(automation.name, None)
        if known is None:
            ids[automation.name] = client.create_automation(automation)
        else:
            automation.enabled = known.enabled
            client.update_automation(known.id, automation)
            ids[automation.name] = known.id
    for left in there.values():
        client.delete_automation(left.id)
    return ids
