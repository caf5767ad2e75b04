"""`tradewright explain`: why an order exists, from the ledger alone."""

import json
from decimal import Decimal
from typing import Any

from blocks.clock import wall
from blocks.errors import UnusableInput
from blocks.ledger import Entry, Ledger
from blocks.models.account import calls_of
from blocks.places import home
from tasks.figures import per_cent


def explain(order: str, *, as_json: bool) -> int:
    """Print the chain order, fills, weight, verdict, step results, snapshots, plan, objective.

    `order` is an order's reference, or a symbol for its newest order. Raises UnusableInput.
    """
    ledger = Ledger(home() / "ledger.db", wall)
    of_symbol = (entry for entry in reversed(ledger.all("intent")) if entry.body["symbol"] == order)
    intent = ledger.get("intent", order) or next(of_symbol, None)
    if intent is None:
        raise UnusableInput(
            f"{order!r}: the ledger holds no order of this reference or symbol; `tradewright status --json` lists open"
            " ones"
        )
    said = _chain(ledger, intent)
    print(json.dumps(said) if as_json else _told(said))
    return 0


def _chain(ledger: Ledger, intent: Entry) -> dict[str, Any]:
    place = f"{intent.body['plan']}/{intent.body['revision']}"
    plan = ledger.get("plan", place)
    runs = [entry for entry in ledger.all("run") if f"{entry.body['plan']}/{entry.body['revision']}" == place]
    run = runs[-1].key if runs else ""
    verdict, outcome = ledger.latest("verdict", run), ledger.latest("outcome", run)
    weights = outcome.body["weights"] if outcome else []
    return {
        "order": intent.body,
        "states": [entry.body for entry in ledger.all("order", intent.key)],
        "fills": [entry.body for entry in ledger.all("fill") if entry.body["order_ref"] == intent.key],
        "weight": next((line for line in weights if line["symbol"] == intent.body["symbol"]), None),
        "verdict": verdict
        and {name: verdict.body[name] for name in ("approved", "proposal_hash", "situation_hash", "snapshots")},
        "steps": [_step(ledger, entry.body) for entry in ledger.all("step", run)],
        "plan": plan
        and {name: plan.body[name] for name in ("id", "revision", "hash", "objective", "mandate_hash", "steps")},
        "objective": plan and plan.body["objective"],
        "flow_run_id": run,
        "made_by": runs[-1].body.get("made_by", "rules") if runs else "",
        "model_calls": list(calls_of(ledger, intent.body["plan"])),
    }


def _step(ledger: Ledger, body: dict[str, Any]) -> dict[str, Any]:
    result = ledger.get("result", body["result"]) if body["result"] else None
    found = {name: result.body[name] for name in ("snapshot", "provenance", "as_of", "expires_at")} if result else {}
    return {name: body[name] for name in ("step", "tool", "state", "result", "message")} | found


def _told(said: dict[str, Any]) -> str:
    order = said["order"]
    lines = ["order {order_ref}: {side} {quantity} {symbol} at {limit}, account {account}".format(**order)]
    lines += [
        f"  became {state['state']}{': ' + state['message'] if state['message'] else ''}" for state in said["states"]
    ]
    lines += [
        f"  filled {fill['quantity']} at {fill['price']}, commission {fill['commission']}, {fill['at']}"
        for fill in said["fills"]
    ]
    if said["weight"]:
        before, target, after = (per_cent(Decimal(said["weight"][name])) for name in ("before", "target", "after"))
        lines.append(f"to bring {order['symbol']} from {before} to {target} % of managed equity; it came to {after} %")
    if said["verdict"]:
        answer = "approved" if said["verdict"]["approved"] else "refused"
        lines.append(
            f"because the gate {answer} proposal {said['verdict']['proposal_hash'][:12]}, seen against snapshots"
        )
        lines += [f"  {snapshot}" for snapshot in said["verdict"]["snapshots"]]
    lines.append("drawn up from")
    for step in said["steps"]:
        source = f" (snapshot {step['snapshot'][:12]})" if step.get("snapshot") else ""
        lines.append(f"  {step['step']}: {step['message']}{source}")
    if said["plan"]:
        lines.append(f"by plan {said['plan']['id']} revision {said['plan']['revision']} for: {said['objective']}")
        lines.append(f"made by {said['made_by']}")
    lines += [_asked(call) for call in said["model_calls"]]
    lines.append(f"in flow run {said['flow_run_id']}{'' if said['model_calls'] else '; no model was asked'}")
    return "\n".join(lines)


def _asked(call: dict[str, Any]) -> str:
    """Say what one call of a model came to."""
    tokens = f"{call['input']} + {call['cache_read']} cached tokens in, {call['output']} out"
    came = f"{call['stop_reason']}, {tokens}" if call["answered"] else call["message"]
    return f"  asked {call['model']} as {call['role']} in step {call['step']}: {came}, {call['usd']} USD"
