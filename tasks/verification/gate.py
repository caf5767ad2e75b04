"""The gate: look at the world again, recompute what steps claimed, and hold the proposal against every rule."""

from collections.abc import Iterator, Mapping
from decimal import Decimal

from pydantic import Field

from blocks.brokers.doors import at_rest
from blocks.brokers.port import AccountState
from blocks.errors import PlanError
from blocks.mandate import METHODS_WITHOUT_BARS
from blocks.market.quotes import Quote
from blocks.values import iso, plain
from tasks.desk import Desk
from tasks.executors.analyse import returns_of
from tasks.executors.weights import weights_of
from tasks.freshness import Result
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
    drafting = next(step for step in plan.steps if desk.catalog.tools[step.tool].result is Proposal)
    proposal = Proposal.model_validate(results[drafting.id].value)
    targets = _recomputed(desk, plan, results)
    situation, snapshots = await look(desk, targets)
    verdict = with_checks(
        verify(situation, proposal.orders),
        not_halted(desk),
        _targets_check(desk, _input(drafting, results, Targets), targets),
    )
    stale = tuple(_stale(desk, drafting, results, situation))
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


def _stale(desk: Desk, drafting: Step, results: Mapping[str, Result], situation: Situation) -> Iterator[Reason]:
    now, source = situation.now, results[drafting.id]
    if now > source.expires_at:
        yield Reason(
            check="proposal_is_fresh", reason=f"the proposal expired at {iso(source.expires_at)}; it is {iso(now)}"
        )
    quotes, account = _input(drafting, results, Quotes), _input(drafting, results, Account)
    if quotes:
        counting = _counting(situation)
        used = {q.symbol: q for q in desk.store.quotes(quotes.snapshot or "") if q.symbol in counting}
        yield from _moves(used, situation)
    if account:
        yield from _account_changes(desk.store.account(account.snapshot or "")[0], situation.account)


def _counting(situation: Situation) -> frozenset[str]:
    """Return the symbols whose prices the plan hangs on, traded or not: held or to be held, and not frozen."""
    wanted = {symbol for symbol, weight in situation.target_weights.items() if weight > 0}
    return frozenset(wanted | situation.account.held().keys()) - {*situation.mandate.frozen}


def _moves(used: Mapping[str, Quote], situation: Situation) -> Iterator[Reason]:
    most = situation.mandate.freshness.max_move_bps
    for symbol, before in used.items():
        was, is_now = _middle(before), _middle(situation.quote_of.get(symbol))
        if was is None or is_now is None:
            continue  # the verdict names an unusable quote
        moved = abs(is_now - was) / was * 10_000
        if moved > most:
            text = f"moved {moved:.0f} bps, from {plain(was)} to {plain(is_now)}; at most {plain(most)} bps is allowed"
            yield Reason(check="prices_have_not_moved", symbol=symbol, reason=text)


def _middle(quote: Quote | None) -> Decimal | None:
    if quote is None or quote.bid is None or quote.ask is None or not (quote.bid.is_finite() and quote.ask.is_finite()):
        return None
    middle = (quote.bid + quote.ask) / 2
    return middle if middle > 0 else None


def _account_changes(before: AccountState, after: AccountState) -> Iterator[Reason]:
    held, holds = before.held(), after.held()
    for symbol in sorted(held.keys() | holds.keys()):
        was, is_now = held.get(symbol, Decimal(0)), holds.get(symbol, Decimal(0))
        if was != is_now:
            text = f"{plain(was)} held when the orders were drafted, {plain(is_now)} now"
            yield Reason(check="positions_have_not_changed", symbol=symbol, reason=text)
    for currency in sorted(before.cash.keys() | after.cash.keys()):
        was, is_now = before.cash.get(currency, Decimal(0)), after.cash.get(currency, Decimal(0))
        if was != is_now:
            text = f"{plain(was)} {currency} in cash when the orders were drafted, {plain(is_now)} now"
            yield Reason(check="cash_has_not_changed", reason=text)


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
