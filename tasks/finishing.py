"""Finish what an earlier attempt of the same run committed to, after a crash or a lost connection."""

from collections.abc import Sequence
from decimal import Decimal

from blocks.brokers.port import Broker
from tasks.desk import Desk
from tasks.plan import Plan
from tasks.situation import Proposal
from tasks.submission import Intent, reconcile
from tasks.verification.gate import Inspection, look, not_halted, record, with_checks
from tasks.verification.verdict import verify


async def inspect_rest(desk: Desk, broker: Broker, plan: Plan, intents: Sequence[Intent]) -> Inspection:
    """Ask the broker what became of the orders, then hold those it never accepted against every rule again."""
    rest = await reconcile(desk.ledger, broker, intents, desk.now())
    proposal = Proposal(orders=tuple(intent.order() for intent in rest))
    situation, snapshots = await look(desk, _targets(desk, plan))
    verdict = with_checks(verify(situation, proposal.orders), not_halted(desk))
    inspection = Inspection(situation=situation, proposal=proposal, verdict=verdict, snapshots=snapshots)
    record(desk, plan, inspection)
    return inspection


def _targets(desk: Desk, plan: Plan) -> dict[str, Decimal] | None:
    """Return the targets that the submission was bound to."""
    bound = desk.ledger.get("submission", f"{plan.id}/{plan.revision}")
    weights = bound.body["targets"] if bound else None
    return weights and {symbol: Decimal(weight) for symbol, weight in weights.items()}
