"""`tradewright status`, `halt` and `resume`: what is, by the ledger alone."""

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from blocks.brokers.paper_book import folded
from blocks.clock import wall
from blocks.ledger import Entry, Ledger
from blocks.places import home
from blocks.values import money, plain
from deployments import server
from tasks import halt as switch
from tasks.figures import per_cent
from tasks.intents import OPEN, Intent, accounts, progress, unresolved_everywhere
from tasks.lease import holder
from tasks.planning_figures import planning_figures

_LAST = 10
_ABROAD = {"sent": "on its way", "working": "at the broker", "unknown": "not known to have ended"}


def status(*, as_json: bool) -> int:
    """Print what the ledger says; exit 0 unless an order is unknown."""
    said = _facts(_ledger())
    print(json.dumps(said) if as_json else _told(said))
    return int(any(order["state"] == "unknown" for order in said["open_orders"]))


def plans(*, as_json: bool) -> int:
    """Print what each of the last plans took to make; exit 0."""
    ledger = _ledger()
    named = list(dict.fromkeys(entry.subject for entry in reversed(ledger.all("plan"))))[:_LAST]
    found = [planning_figures(ledger, name) for name in reversed(named)]
    if as_json:
        print(json.dumps(found))
    else:
        print("\n".join(_planned(each) for each in found) or "no plans yet: `tradewright run` makes the first")
    return 0


def _planned(said: dict[str, Any]) -> str:
    refused = said["equal_revisions_refused"]
    again = f", {refused} more refused as equal" if refused else ""
    share = per_cent(Decimal(said["longest_chain_share"]))
    work = f"{said['steps']} steps, the longest chain {said['longest_chain']} ({share} %)"
    lines = [f"plan {said['plan']}, {said['revisions']} revisions{again}: {work}; made by {said['made_by']}"]
    if said["calls"]:
        share = per_cent(Decimal(said["planner_share"] or 0))
        lines.append(
            f"    {said['calls']} model calls, {said['tokens']} tokens ({share} % of them the planner's),"
            f" {said['executor_calls_per_step']} executor calls a step, {said['usd']} USD"
        )
    return "\n".join(lines)


def halt(reason: str) -> int:
    """Throw the kill switch; one that is thrown keeps its reason."""
    ledger = _ledger()
    before = switch.halted(ledger)
    if before is not None:
        print(f"halted already: {before}")
        return 0
    switch.halt(ledger, reason)
    print(f"halted: {reason}. The gate refuses everything until `tradewright resume`")
    for intent in unresolved_everywhere(ledger):
        state = progress(ledger, intent).state
        if state in OPEN:
            what = f"{intent.order_ref} {intent.side} {plain(intent.quantity)} {intent.symbol}"
            print(f"not stopped by this: {what}, which is {_ABROAD[state]}")
    return 0


def resume() -> int:
    """Lift the kill switch."""
    ledger = _ledger()
    reason = switch.halted(ledger)
    if reason is None:
        print("nothing was halted")
        return 0
    switch.resume(ledger)
    print(f"no longer halted (it was: {reason})")
    return 0


def _ledger() -> Ledger:
    return Ledger(home() / "ledger.db", wall)


def _facts(ledger: Ledger) -> dict[str, Any]:
    place = server.configured() or server.recorded(home())
    runs = ledger.all("run")
    return {
        "home": str(home()),
        "halted": switch.halted(ledger),
        "server": place and place.ui_url,
        "accounts": [_paper_account(ledger, entry) for entry in ledger.all("paper.account")],
        "runs": [_run(ledger, entry) for entry in runs[-_LAST:]],
        "open_orders": [_order(ledger, intent) for intent in unresolved_everywhere(ledger)],
        "leases": [lease for _, account in accounts(ledger) if (lease := _lease(ledger, account))],
        "entries": ledger.pin(),
    }


def _paper_account(ledger: Ledger, opened: Entry) -> dict[str, Any]:
    with ledger.reading() as entries:
        book = folded(entries, opened.key)
    held = {symbol: plain(quantity) for symbol, quantity in book.held.items()}
    facts = {"account": opened.key, "broker": "paper", "currency": opened.body["currency"]}
    return facts | {"cash": money(book.cash), "positions": held}


def _run(ledger: Ledger, entry: Entry) -> dict[str, Any]:
    outcome = ledger.latest("outcome", entry.key)
    return {
        "flow_run_id": entry.key,
        "mandate": entry.body["mandate"],
        "account": entry.body["account"],
        "broker": entry.body["broker"],
        "as_of": entry.body["as_of"],
        "plan": f"{entry.body['plan']}/{entry.body['revision']}",
        "state": outcome.body["state"] if outcome else "open",
        "message": outcome.body["message"] if outcome else "",
    }


def _order(ledger: Ledger, intent: Intent) -> dict[str, Any]:
    return intent.model_dump(mode="json") | {"state": progress(ledger, intent).state}


def _lease(ledger: Ledger, account: str) -> dict[str, Any] | None:
    entry = ledger.latest("lease", account)
    return {"account": account, **entry.body} if entry and entry.body["owner"] else None


def _told(said: dict[str, Any]) -> str:
    lines = [f"state folder: {said['home']} ({said['entries']} ledger entries)"]
    lines.append(f"Prefect UI: {said['server'] or 'no server is running'}")
    lines.append(f"halted: {said['halted']}" if said["halted"] is not None else "not halted")
    lines += [f"lease: account {lease['account']} is held by {holder(lease)}" for lease in said["leases"]]
    lines += [
        f"account {a['account']} at {a['broker']}: {a['cash']} {a['currency']} in cash{_shares(a['positions'])}"
        for a in said["accounts"]
    ]
    lines += [
        f"open order: {o['order_ref']} {o['side']} {o['quantity']} {o['symbol']} at {o['limit']}: {o['state']}"
        for o in said["open_orders"]
    ]
    if not said["runs"]:
        lines.append("no runs yet: `tradewright run` makes the first")
    for each in said["runs"]:
        lines += _run_lines(each)
    return "\n".join(lines)


def _shares(held: dict[str, str]) -> str:
    return "".join(f", {quantity} {symbol}" for symbol, quantity in held.items())


def _run_lines(run: dict[str, Any]) -> Iterator[str]:
    name = f"{run['as_of'][:16]}  {run['mandate']:<12} {run['broker']:<6}"
    yield f"{name} plan {run['plan']:<15} {run['state']:<10} {run['message']}"
    if run["state"] == "waiting":
        yield f"    `tradewright approve {run['flow_run_id']}`, or `refuse`"
    if run["state"] == "stale":
        yield f"    `tradewright replan {run['plan'].partition('/')[0]}` makes a fresh revision"
