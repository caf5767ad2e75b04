"""The gate: look at the world again, recompute what steps claimed, and hold the proposal against every rule."""

from collections.abc import Mapping
from decimal import Decimal

from pydantic import Field

from blocks.brokers.doors import at_rest
from blocks.brokers.port import Fill
from blocks.errors import PlanError
from blocks.mandate import METHODS_WITHOUT_BARS
from tasks.catalog import Catalog
from tasks.desk import Desk
from tasks.executors.analyse import returns_of
from tasks.executors.weights import weights_of
from tasks.freshness import Result, account_changes, expired, moves
from tasks.halt import halted
from tasks.plan import Plan, Step
from tasks.results import bars_of
from tasks.situation import Account, Bars, Proposal, Quotes, Reason, Situation, Targets, Value
from tasks.verification.verdict import Check, Verdict, verify


class Inspection(Value):
    """What the gate saw and what it says of it."""

    situation: Situation
    proposal: Proposal
    verdict: Verdict
    stale: tuple[Reason, ...] = ()
    snapshots: tuple[str, ...] = ()
    counted: tuple[str, ...] = Field((), description="executions of this plan's own orders that the situation shows")

    @property
    def passes(self) -> bool:
        """Tell whether these orders may be sent."""
        return self.verdict.approved and not self.stale and not self.proposal.refused


async def inspect(desk: Desk, plan: Plan, results: Mapping[str, Result]) -> Inspection:
    """Read quotes and account afresh, work the targets out again, judge the plan's proposal; record the verdict."""
    drafting = drafting_step(desk.catalog, plan)
    proposal = Proposal.model_validate(results[drafting.id].value)
    targets = _recomputed(desk, plan, results)
    situation, snapshots = await look(desk, targets)
    verdict = with_checks(
        verify(situation, proposal.orders),
        not_halted(desk),
        _targets_check(desk, _input(drafting, results, Targets), targets),
    )
    stale = stale_reasons(desk, plan, results, situation)
    inspection = Inspection(situation=situation, proposal=proposal, verdict=verdict, stale=stale, snapshots=snapshots)
    record(desk, plan, inspection)
    return inspection


async def look(desk: Desk, targets: dict[str, Decimal] | None) -> tuple[Situation, tuple[str, ...]]:
    """Return the situation as it is now, read by the gate itself, and the ids of the snapshots that show it."""
    now = desk.now()
    quotes = await desk.market.quotes(desk.mandate.universe, now)
    state, open_orders = await at_rest(desk.account, now)
    account = desk.store.put_account(desk.broker, state, open_orders)
    situation = Situation(
        now=desk.now(),
        mandate=desk.mandate,
        targets=targets,
        account=state,
        quotes=quotes.quotes,
        open_orders=open_orders,
    )
    return situation, (quotes.snapshot, account)


def _recomputed(desk: Desk, plan: Plan, results: Mapping[str, Result]) -> dict[str, Decimal] | None:
    """Return the policy's weights from the pinned bars, whatever a step says; none where the mandate fixes them."""
    if desk.mandate.policy.method == "fixed":
        return None
    if desk.mandate.policy.method in METHODS_WITHOUT_BARS:
        return weights_of(desk.mandate, {})
    weighing = (step for step in plan.steps if desk.catalog.tools[step.tool].result is Targets)
    bars = next((found for step in weighing if (found := _input(step, results, Bars))), None)
    if bars is None:
        raise PlanError(f"no step weighs by bars, and the method {desk.mandate.policy.method!r} needs them")
    return weights_of(desk.mandate, returns_of(bars_of(desk.store, bars.snapshot or "", bars.as_of)))


def _input(step: Step, results: Mapping[str, Result], kind: type) -> Result | None:
    """Return the result of this kind that a step was given."""
    given = (results[source] for source in step.inputs.values())
    return next((result for result in given if result.kind == kind.__name__), None)


def not_halted(desk: Desk) -> Check:
    """Judge the kill switch."""
    reason = halted(desk.ledger)
    text = "" if reason is None else f"halted: {reason}; `tradewright resume` lifts it"
    return Check(
        check="nothing_is_halted", held=reason is None, figure=reason or "not halted", limit="not halted", reason=text
    )


def _targets_check(desk: Desk, source: Result | None, targets: dict[str, Decimal] | None) -> Check:
    """Judge whether the step's targets are those of the policy, worked out again."""
    policy = desk.mandate.policy
    claimed = Targets.model_validate(source.value).weights if source else None
    agrees = claimed == (policy.fixed_weights if targets is None else targets)
    text = "" if agrees else "the step's targets are not what the policy gives on the same bars"
    figure = source.id if source else "none"
    return Check(check="targets_follow_the_policy", held=agrees, figure=figure, limit=policy.method, reason=text)


def with_checks(verdict: Verdict, *more: Check) -> Verdict:
    """Return the verdict with further checks, approved only if those hold too."""
    checks = (*verdict.checks, *more)
    return Verdict(**{**dict(verdict), "checks": checks, "approved": all(check.held for check in checks)})


def stale_reasons(desk: Desk, plan: Plan, results: Mapping[str, Result], situation: Situation) -> tuple[Reason, ...]:
    """Return why what the plan's draft was made from no longer holds in this situation."""
    drafting = drafting_step(desk.catalog, plan)
    reasons = list(expired("the proposal", results[drafting.id], situation.now))
    quotes, account = _input(drafting, results, Quotes), _input(drafting, results, Account)
    if quotes:
        counting = _counting(situation)
        used = [quote for quote in desk.store.quotes(quotes.snapshot or "") if quote.symbol in counting]
        reasons += moves(used, situation.quotes, desk.mandate.freshness.max_move_bps)
    if account:
        before = desk.store.account(account.snapshot or "")[0]
        since = _fills_since(desk, account)
        reasons += account_changes(before, situation.account, since, desk.mandate.base_currency)
    return tuple(reasons)


async def why_stale(desk: Desk, plan: Plan, results: Mapping[str, Result]) -> tuple[Reason, ...]:
    """Return why the results that a plan has so far no longer hold: nothing is judged, no verdict recorded."""
    if drafting_step(desk.catalog, plan).id in results:
        situation, _ = await look(desk, _recomputed(desk, plan, results))
        return stale_reasons(desk, plan, results, situation)
    now = desk.now()
    return tuple(reason for step, result in results.items() for reason in expired(f"step {step}", result, now))


def drafting_step(catalog: Catalog, plan: Plan) -> Step:
    """Return the step that makes the proposal: a checked plan has exactly one."""
    return next(step for step in plan.steps if catalog.tools[step.tool].result is Proposal)


def _fills_since(desk: Desk, account: Result) -> tuple[Fill, ...]:
    """Return our own executions that the ledger has learned of since the account was read.

    By the ledger's order, not by time: the next run in a past moment starts at that moment again.
    """
    read = desk.ledger.get("result", account.id)
    book = f"{desk.broker}/{desk.mandate.account}"
    stored = desk.ledger.all("fill", book, after=read.seq) if read else []
    return tuple(Fill.model_validate(entry.body) for entry in stored)


def _counting(situation: Situation) -> frozenset[str]:
    """Return the symbols whose prices the plan hangs on, traded or not: held or to be held, and not frozen."""
    wanted = {symbol for symbol, weight in situation.target_weights.items() if weight > 0}
    return frozenset(wanted | situation.account.held().keys()) - {*situation.mandate.frozen}


def record(desk: Desk, plan: Plan, inspection: Inspection) -> None:
    """Write the verdict down, with what it was founded on."""
    verdict = inspection.verdict
    body = verdict.model_dump(mode="json") | {
        "plan": plan.id,
        "revision": plan.revision,
        "stale": [reason.model_dump() for reason in inspection.stale],
        "snapshots": list(inspection.snapshots),
    }
    desk.ledger.append("verdict", body, subject=desk.run)
