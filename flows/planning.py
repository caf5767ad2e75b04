"""Planning: the steps of a plan, by rules or by a model, and checked alike."""

import asyncio
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from blocks.brokers.doors import at_rest, read_only
from blocks.clock import wall
from blocks.config import model_access
from blocks.errors import ModelError, PlanError
from blocks.ledger import Ledger
from blocks.mandate import Mandate
from blocks.models.anthropic import AnthropicWire
from blocks.models.asking import Asking
from blocks.models.calls import Calls
from blocks.models.prices import Prices
from flows.world import World
from tasks.catalog import load_catalog
from tasks.plan import Plan, Step
from tasks.plan_check import check
from tasks.planners import model, rules
from tasks.planners.picture import Picture, picture_of
from tasks.prefect_tasks import say
from tasks.situation import Account, Quotes


@dataclass(frozen=True)
class Planner:
    """Who makes the plan of one run: `by` is what was asked for, `plan` its id, whose budget pays for the calls.

    With `replay`, the ledger of a recorded run, a model is not called: it answers as it did then.
    """

    world: World
    run: str
    by: str
    plan: str
    replay: str | None = None

    def made(self, mandate: Mandate, now: datetime, changed: str = "") -> tuple[Plan, str]:
        """Return a plan that can be compiled, and who made it; `changed` says what ended the revision before.

        Raises PlanError where nobody does: nothing is traded then.
        """
        steps, maker = self._steps(mandate, now, changed)
        plan = Plan(id=self.plan, objective=mandate.objective, mandate_hash=mandate.hash, steps=steps, created_at=now)
        return plan, maker

    def _steps(self, mandate: Mandate, now: datetime, changed: str) -> tuple[tuple[Step, ...], str]:
        if self.by == "rules":
            return _by_rules(mandate), "rules"
        name = mandate.models.planner.model
        try:
            return self._by_model(mandate, now, changed), name
        except ModelError as error:
            if mandate.models.fallback != "rules":
                raise PlanError(f"no plan was made, and nothing is traded: {error}") from error
            say("the rules plan instead (models.fallback): %s", error)
            return _by_rules(mandate), f"rules, since no plan came of {name}: {error}"

    def _by_model(self, mandate: Mandate, now: datetime, changed: str) -> tuple[Step, ...]:
        ledger, budget = self.world.ledger, mandate.models.budget_usd
        recorded = Ledger(Path(self.replay), wall) if self.replay else None
        whence = f"from the record in {self.replay}" if self.replay else f"for at most {budget} USD in all"
        say("asking %s for a plan, %s", mandate.models.planner.model, whence)
        wire = AnthropicWire(model_access, mandate.models.timeout)
        prices = Prices(ledger.path.parent)
        calls = Calls(ledger, wire, prices, self.plan, self.run, budget, wall, recorded)
        picture = self._picture(mandate, now, changed)
        return asyncio.run(model.plan_steps(Asking(calls, mandate.models, "plan"), mandate, load_catalog(), picture))

    def _picture(self, mandate: Mandate, now: datetime, changed: str) -> Picture:
        market = self.world.market(mandate)
        broker = self.world.paper(mandate, market)
        state, open_orders = asyncio.run(at_rest(read_only(broker), now))
        account = Account(snapshot="", as_of=state.as_of, state=state, open_orders=open_orders)
        quotes = Quotes(snapshot="", as_of=now, quotes=market.seen(mandate.universe, now))
        return picture_of(mandate, account, quotes, now, changed)


def _by_rules(mandate: Mandate) -> tuple[Step, ...]:
    steps = rules.plan_steps(mandate)
    problems = check([step.model_dump() for step in steps], mandate, load_catalog())
    if problems:
        raise PlanError("; ".join(f"{problem.code}: {problem.message}" for problem in problems))
    return steps
