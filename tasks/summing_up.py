"""Sum a run up: its orders, weights before and after, what a person should know, and the state it ends in."""

from collections.abc import Iterator, Sequence
from decimal import Decimal

from blocks.brokers.port import Fill, Order
from blocks.ledger import Ledger
from blocks.values import plain
from tasks.executors.analyse import measure_drift
from tasks.figures import cash_text
from tasks.intents import Intent, order_ref, progress
from tasks.not_traded import why_nothing
from tasks.outcome import OrderLine, RunState, StepLine, WeightLine
from tasks.plan import Plan
from tasks.situation import Account, Drift, Proposal, Quotes, Situation, Targets
from tasks.verification.gate import Inspection

_NONE = Decimal(0)


def step_lines(ledger: Ledger, run: str, plan: Plan) -> tuple[StepLine, ...]:
    """Return how each step went, by its newest entry."""
    newest = {entry.body["step"]: entry.body for entry in ledger.all("step", run)}
    lines = []
    for step in plan.in_order:
        body = newest.get(step.id, {"state": "not run", "message": "a step before it failed"})
        fields = {name: body.get(name) for name in ("state", "message", "as_of", "expires_at")}
        lines.append(StepLine.model_validate({"step": step.id, "tool": step.tool, **fields}))
    return tuple(lines)


def proposed_lines(plan: Plan, proposal: Proposal) -> tuple[OrderLine, ...]:
    """Return the orders of a proposal that was not submitted."""
    return tuple(
        OrderLine(order_ref=order_ref(plan, proposal, index), state="proposed", **order.model_dump())
        for index, order in enumerate(proposal.orders)
    )


def submitted_lines(ledger: Ledger, intents: Sequence[Intent]) -> tuple[OrderLine, ...]:
    """Return what became of each intent, by the ledger alone."""
    return tuple(_submitted_line(ledger, intent) for intent in intents)


def _submitted_line(ledger: Ledger, intent: Intent) -> OrderLine:
    now, fills = progress(ledger, intent), fills_of(ledger, (intent,))
    filled = sum((fill.quantity for fill in fills), _NONE)
    value = sum((fill.quantity * fill.price for fill in fills), _NONE)
    return OrderLine(
        order_ref=intent.order_ref, symbol=intent.symbol, side=intent.side, quantity=intent.quantity,
        limit=intent.limit, state=now.state, filled=filled, price=value / filled if filled else None,
        commission=sum((fill.commission for fill in fills), _NONE), message=now.message,
    )  # fmt: skip


def how_far(ledger: Ledger, intents: Sequence[Intent]) -> tuple[Decimal, str]:
    """Return the per cent of the orders' sum that has filled, at their limits, and the same in words."""
    lines = submitted_lines(ledger, intents)
    whole = sum((line.quantity * line.limit for line in lines), _NONE)
    done = sum((line.filled * line.limit for line in lines), _NONE)
    filled, working = ([line.symbol for line in lines if line.state == state] for state in ("filled", "working"))
    words = f"{len(filled)} of {len(lines)} orders have filled"
    return done / whole * 100 if whole else _NONE, f"{words}; at work: {', '.join(working)}" if working else words


def fills_of(ledger: Ledger, intents: Sequence[Intent]) -> tuple[Fill, ...]:
    """Return the executions stored for these intents."""
    if not intents:
        return ()
    refs = {intent.order_ref for intent in intents}
    entries = ledger.all("fill", f"{intents[0].broker}/{intents[0].account}")
    return tuple(Fill.model_validate(entry.body) for entry in entries if entry.body["order_ref"] in refs)


def weight_lines(situation: Situation, drift: Drift, trades: Sequence[Fill | Order]) -> tuple[WeightLine, ...]:
    """Return each symbol's share of managed equity before, as aimed for, and after these trades, at the same prices."""
    change: dict[str, Decimal] = {}
    for each in trades:
        change[each.symbol] = change.get(each.symbol, _NONE) + (each.quantity if each.side == "buy" else -each.quantity)
    lines = []
    for symbol, before in drift.weights.items():
        quote = situation.quote_of[symbol]
        middle = ((quote.bid or _NONE) + (quote.ask or _NONE)) / 2
        moved = change.get(symbol, _NONE) * middle / drift.equity if drift.equity > 0 else _NONE
        after = (before + moved).quantize(Decimal("0.000001"))
        lines.append(
            WeightLine(symbol=symbol, before=before, target=situation.target_weights.get(symbol, _NONE), after=after)
        )
    return tuple(lines)


def as_drift(situation: Situation) -> Drift:
    """Return weights and managed equity of a situation, as reports show them; decisions work out their own."""
    moment = situation.now
    targets = Targets(method=situation.mandate.policy.method, weights=situation.target_weights)
    quotes = Quotes(snapshot="", as_of=moment, quotes=situation.quotes)
    account = Account(snapshot="", as_of=moment, state=situation.account)
    return measure_drift(targets, quotes, account, situation.mandate)


def notes(situation: Situation, proposal: Proposal) -> Iterator[str]:
    """Say what a person should know beyond the orders."""
    mandate, held = situation.mandate, situation.account.held()
    for symbol in mandate.frozen:
        quote = situation.quote_of.get(symbol)
        close = plain(quote.previous_close) if quote and quote.previous_close is not None else "unknown"
        shares = plain(held.get(symbol, _NONE))
        yield f"{symbol} is frozen: {shares} held, counted at its last close of {close}, never traded"
    for symbol, quantity in held.items():
        if symbol not in mandate.policy.weights:
            shares = f"{plain(quantity)} held, not counted, never traded"
            yield f"{symbol} is outside the mandate: {shares}; a weight of 0 would sell it"
    sold = {order.symbol for order in proposal.orders if order.side == "sell"}
    for symbol, weight in situation.target_weights.items():
        if weight == 0 and held.get(symbol, _NONE) > 0:
            fate = "to be sold" if symbol in sold else "not sold in this run"
            yield f"{symbol} has a weight of 0: its {plain(held[symbol])} are {fate}"
    if any(quote.delayed for quote in situation.quotes):
        yield "some quotes are delayed; allow_delayed lets them count"


def ending(inspection: Inspection, orders: Sequence[OrderLine], *, dry_run: bool) -> tuple[RunState, str]:
    """Return the state a run ends in, and why, in one line."""
    finished = bool(orders) and not inspection.proposal.orders  # a retry that found nothing left to send
    refusal = None if finished else _refusal(inspection)
    if refusal:
        return refusal
    if not orders:
        return "held", f"nothing to trade: {why_nothing(inspection.proposal.skipped)}"
    if dry_run:
        return "completed", f"dry run: {len(orders)} orders approved, none sent"
    return _by_fills(orders, inspection.situation.mandate.base_currency)


def _refusal(inspection: Inspection) -> tuple[RunState, str] | None:
    if inspection.proposal.refused:
        return "rejected", f"no draft: {_first(inspection.proposal.reasons)}"
    if inspection.stale:
        return "stale", f"the plan's assumptions no longer hold: {_first(inspection.stale)}"
    if not inspection.verdict.approved:
        return "rejected", f"the gate refused: {_first(inspection.verdict.reasons)}"
    return None


def _by_fills(orders: Sequence[OrderLine], currency: str) -> tuple[RunState, str]:
    filled = [line for line in orders if line.state == "filled" and line.filled == line.quantity]
    if len(filled) == len(orders):
        total = sum((line.filled * (line.price or _NONE) for line in orders), _NONE)
        return "completed", f"{len(orders)} orders filled, {cash_text(total, currency)} traded"
    open_ones = [line for line in orders if line not in filled]
    first = open_ones[0]
    said = f": {first.message}" if first.message else ""
    text = f"{len(filled)} of {len(orders)} orders filled whole; {first.side} {first.symbol} is {first.state}{said}"
    anything = any(line.filled or line.state in {"working", "sent", "unknown"} for line in orders)
    return ("partial" if anything else "failed"), text


def _first(reasons: Sequence[object]) -> str:
    first = reasons[0]
    symbol, reason = getattr(first, "symbol", ""), getattr(first, "reason", str(first))
    more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
    return f"{symbol}: {reason}{more}" if symbol and not reason.startswith(symbol) else f"{reason}{more}"
