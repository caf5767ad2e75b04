"""See committed orders through: judged anew whenever the approval they leave by has lapsed, or the run was retried."""

import asyncio
from collections.abc import Callable, Sequence
from decimal import Decimal

from blocks.brokers.port import Broker
from tasks.desk import Desk
from tasks.halt import halted
from tasks.intents import Intent, progress, withdraw
from tasks.permit import Permit
from tasks.plan import Plan
from tasks.reconciliation import reconcile
from tasks.situation import Proposal, Reason
from tasks.submission import submit
from tasks.summing_up import fills_of
from tasks.verification.gate import Inspection, look, not_halted, record, with_checks
from tasks.verification.verdict import Verdict, verify
from tasks.window import Wait, until_ended, window_of


async def see_through(
    look_again: Callable[[], Desk],
    broker: Broker,
    plan: Plan,
    intents: Sequence[Intent],
    inspection: Inspection,
    wait: Wait = asyncio.sleep,
    tell: Callable[[str], None] = lambda _: None,
) -> Inspection:
    """Submit what the gate has approved, and let it look again whenever its verdict expires before all has been sent.

    `look_again` gives the desk with the prices there are by then. Returns the last inspection.
    """
    desk = look_again()
    while not await submit(
        desk.ledger,
        broker,
        intents,
        desk.mandate,
        Permit(desk.run, inspection.verdict.expires_at),
        desk.now,
        wait,
        tell,
    ):
        inspection = await inspect_rest(look_again(), broker, plan, intents, wait)
        tell(f"submit: the gate looked again: {_word(inspection)}")
    return inspection


def _word(inspection: Inspection) -> str:
    reasons = [reason.reason for reason in (*inspection.verdict.reasons, *inspection.stale)]
    return "approved" if inspection.passes else f"refused, {reasons[0] if reasons else 'without a reason'}"


async def inspect_rest(
    desk: Desk, broker: Broker, plan: Plan, intents: Sequence[Intent], wait: Wait = asyncio.sleep
) -> Inspection:
    """Ask the broker what became of the orders, then hold those still to be sent against every rule again.

    Its proposal is exactly those orders. Where they can no longer be sent as they are, they are given up, and the plan
    is stale.
    """
    rest = await _once_sells_have_ended(desk, broker, intents, wait)
    proposal = Proposal(orders=tuple(intent.order(progress(desk.ledger, intent).quantity) for intent in rest))
    counted = tuple(fill.exec_id for fill in fills_of(desk.ledger, intents))
    situation, snapshots = await look(desk, _targets(desk, plan))
    verdict = with_checks(verify(situation, proposal.orders), not_halted(desk))
    stale = () if halted(desk.ledger) is not None else _cannot_be_finished(proposal, verdict)
    inspection = Inspection(
        situation=situation, proposal=proposal, verdict=verdict, stale=stale, snapshots=snapshots, counted=counted
    )
    record(desk, plan, inspection)
    if rest and not inspection.passes:
        withdraw(desk.ledger, intents, "not sent: the gate refused it when it looked again")
    return inspection


async def _once_sells_have_ended(
    desk: Desk, broker: Broker, intents: Sequence[Intent], wait: Wait
) -> tuple[Intent, ...]:
    """Return the orders still to be sent; where there are buys, when submission would send them.

    Until then the gate could not see the money of the sells at the broker, and would refuse the buys that it is for.
    """
    rest = await reconcile(desk.ledger, broker, intents, desk.now())
    if all(intent.side == "sell" for intent in rest):
        return rest
    sells = [intent for intent in intents if intent.side == "sell" and intent not in rest]
    window = window_of(desk.ledger, intents, desk.mandate.submission.submit_window, desk.now())
    await until_ended(desk.ledger, broker, sells, window.half, desk.now, wait)
    return await reconcile(desk.ledger, broker, intents, desk.now())


def _targets(desk: Desk, plan: Plan) -> dict[str, Decimal] | None:
    """Return the targets that the submission was bound to."""
    bound = desk.ledger.get("submission", f"{plan.id}/{plan.revision}")
    weights = bound.body["targets"] if bound else None
    return weights and {symbol: Decimal(weight) for symbol, weight in weights.items()}


def _cannot_be_finished(proposal: Proposal, verdict: Verdict) -> tuple[Reason, ...]:
    if verdict.approved or not proposal.orders:
        return ()
    first, left = verdict.reasons[0], len(proposal.orders)
    said = f"the gate no longer allows the {left} orders that are still unsent: {first.reason}"
    return (Reason(check="earlier_orders_can_be_finished", symbol=first.symbol, reason=said),)
