"""The executor that proposes: orders for the situation that the gathered results show."""

from datetime import datetime

from blocks.mandate import Mandate
from tasks.executors.draft import draft
from tasks.situation import Account, Drift, Proposal, Quotes, Situation, Targets
from tasks.tool import tool


@tool(freshness="proposal")
def draft_orders(
    targets: Targets,
    quotes: Quotes,
    positions: Account,
    drift: Drift | None,  # noqa: ARG001  for people and planners: the draft works its own figures out
    mandate: Mandate,
    now: datetime,
) -> Proposal:
    """Draft the orders that bring the portfolio to its targets; without orders there is nothing to do."""
    fixed = mandate.policy.method == "fixed"
    situation = Situation(
        now=now,
        mandate=mandate,
        targets=None if fixed else targets.weights,
        account=positions.state,
        quotes=quotes.quotes,
        open_orders=positions.open_orders,
    )
    return draft(situation)
