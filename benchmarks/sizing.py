"""How near to their targets whole shares come, against the bound and against peers, and how long it takes."""

import json
import math
import random
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

from scipy.optimize import Bounds, LinearConstraint, milp

from tasks.executors.draft import draft
from tasks.situation import Situation
from tasks.verification.verdict import verify

PEERS = Path(sys.prefix) / "peers"
PEERS_WANTED = ("PyPortfolioOpt==1.6.0", "packaging")
PEERS_PATIENCE = 3600  # seconds for all accounts; a peer has no limit of its own
TRADEWRIGHT = Path(sys.executable).with_name("tradewright")

ACCOUNTS = 200
SIZES = (20, 500, 5000)
RUNS = 5
NOW = "2026-03-02T15:05:00Z"

PEER = """
import json, sys, time, warnings
warnings.simplefilter("ignore")
import pandas as pd
from pypfopt import DiscreteAllocation
for line in sys.stdin:
    account, said = json.loads(line), {}
    for name in ("greedy", "lp"):
        prices, equity = pd.Series(account["prices"]), account["equity"]
        peer = DiscreteAllocation(account["weights"], prices, total_portfolio_value=equity)
        began = time.perf_counter()
        try:
            shares = getattr(peer, name + "_portfolio")()[0]
        except Exception as failure:
            said[name] = {"failed": str(failure)}
        else:
            said[name] = {"shares": {s: int(n) for s, n in shares.items()}, "seconds": time.perf_counter() - began}
    print(json.dumps(said), flush=True)
"""


@dataclass(frozen=True)
class Account:
    """All in cash, with one price a symbol: the peers know neither a bid and an ask nor what is held."""

    equity: int
    weights: Mapping[str, str]
    prices: Mapping[str, str]

    @cached_property
    def target(self) -> dict[str, Fraction]:
        """Return symbol -> money to hold."""
        return {symbol: Fraction(weight) * self.equity for symbol, weight in self.weights.items()}

    @cached_property
    def price(self) -> dict[str, Fraction]:
        """Return symbol -> price, exactly."""
        return {symbol: Fraction(price) for symbol, price in self.prices.items()}

    @cached_property
    def situation(self) -> Situation:
        """Return it as a draft needs it, with every limit but cash out of the way."""
        return situation_of(self, spread=0, held={}, cash=str(self.equity), limits={}, min_trade=0)

    def away(self, shares: Mapping[str, int]) -> Fraction:
        """Return the tracking error in money."""
        return sum(
            (abs(self.target[s] - shares.get(s, 0) * self.price[s]) for s in self.weights),
            Fraction(0),
        )

    def cost(self, shares: Mapping[str, int]) -> Fraction:
        """Return what the shares cost."""
        return sum((count * self.price[symbol] for symbol, count in shares.items()), Fraction(0))


def account_of(number: int, count: int | None = None) -> Account:
    """Return the account of a seed: 20 to 500 symbols and 5 thousand to 5 million of equity, evenly by size."""
    dice = random.Random(number)  # noqa: S311  the same accounts each time
    symbols = [f"S{each:04}" for each in range(count or round(20 * 25 ** dice.random()))]
    equity = round(5000 * 1000 ** dice.random()) if count is None else 3000 * count
    raw = [dice.expovariate(1) + 0.01 for _ in symbols]
    weights = {s: f"{math.floor(part / sum(raw) * 10**8) / 10**8:.8f}" for s, part in zip(symbols, raw, strict=True)}
    prices = {symbol: f"{min(max(dice.lognormvariate(4, 1), 2), 3000):.2f}" for symbol in symbols}
    return Account(equity, weights, prices)


def situation_of(
    account: Account, *, spread: float, held: Mapping[str, int], cash: str, limits: Mapping[str, Any], min_trade: int
) -> Situation:
    """Return a situation of the account's symbols."""
    wide = {"max_orders": 10_000, "max_order_notional": "1e12", "max_turnover": 9}
    quotes = [
        {
            "symbol": symbol, "previous_close": price, "at": NOW, "tick": "0.01", "adv": "1e9",
            "bid": f"{float(price) * (1 - spread):.2f}", "ask": f"{float(price) * (1 + spread):.2f}",
        }
        for symbol, price in account.prices.items()
    ]  # fmt: skip
    mandate = {
        "account": "PAPER", "base_currency": "USD", "min_trade": min_trade, "bands": {"absolute": 0, "relative": 0},
        "policy": {"weights": dict(account.weights), "cash_buffer": 0}, "limits": {**wide, **limits},
    }  # fmt: skip
    positions = [{"symbol": symbol, "quantity": shares} for symbol, shares in held.items()]
    state = {"cash": {"USD": cash}, "positions": positions}
    return Situation.model_validate({"now": NOW, "mandate": mandate, "account": state, "quotes": quotes})


def drifted(count: int, seed: int) -> Situation:
    """Return a held portfolio, each weight half to three halves of its target, where every budget binds."""
    account, dice = account_of(seed, count), random.Random(-seed - 1)  # noqa: S311  the same each time
    held = {s: int(account.target[s] / account.price[s] * Fraction(dice.uniform(0.5, 1.5))) for s in account.weights}
    cash = max(account.equity - account.cost(held), Fraction(account.equity, 50))
    limits = {"max_turnover": "0.15", "max_orders": min(max(count // 4, 5), 10_000)}
    return situation_of(account, spread=0.0005, held=held, cash=f"{float(cash):.2f}", limits=limits, min_trade=1000)


def ours(account: Account) -> dict[str, int]:
    """Return the shares that our draft orders."""
    return {order.symbol: int(order.quantity) for order in draft(account.situation).orders}


def nearest_within_cash(account: Account) -> dict[str, int]:
    """Round each to the nearest share, and take back those that lose least for their price until all can be paid."""
    shares = {s: math.ceil(account.target[s] / account.price[s] - Fraction(1, 2)) for s in account.weights}
    over = account.cost(shares) - account.equity
    for symbol in sorted(shares, key=lambda s: account.target[s] / account.price[s] - shares[s]):
        if over <= 0:
            break
        if shares[symbol]:
            shares[symbol] -= 1
            over -= account.price[symbol]
    return shares


def bound_of(account: Account) -> float:
    """Return what no whole shares within cash can be nearer than: HiGHS's dual bound on a programme of our own here."""
    ideal = {s: account.target[s] / account.price[s] for s in account.weights}
    floor = {s: math.floor(value) for s, value in ideal.items()}
    price = [float(account.price[s]) for s in account.weights]
    # Columns: shares below the target, one share beyond it, and the distance of the floor, which is always there.
    beyond = [float(account.price[s] * (1 - 2 * (ideal[s] - floor[s]))) for s in account.weights]
    found = milp(
        [*(-each for each in price), *beyond, float(account.away(floor))],
        integrality=1,
        bounds=Bounds(
            [*(-count for count in floor.values()), *[0] * len(price), 1], [*[0] * len(price), *[1] * len(price), 1]
        ),
        constraints=LinearConstraint([[*price, *price, 0]], -math.inf, float(account.equity - account.cost(floor))),
        options={"mip_rel_gap": 1e-9, "node_limit": 100_000},
    )
    return float(found.mip_dual_bound)


def peers_said(accounts: list[Account]) -> tuple[list[dict[str, Any]], str]:
    """Return what PyPortfolioOpt answers to each account, or why it could not be asked."""
    python = PEERS / "bin" / "python"
    if not python.exists():
        venv.create(PEERS, with_pip=True)
    install = [python, "-m", "pip", "install", "--quiet", "--only-binary", ":all:", *PEERS_WANTED]
    try:
        subprocess.run(install, check=True, capture_output=True, text=True)
        asked = "\n".join(
            json.dumps({
                "weights": {s: float(w) for s, w in each.weights.items()}, "equity": each.equity,
                "prices": {s: float(p) for s, p in each.prices.items()},
            })
            for each in accounts
        )  # fmt: skip
        said = subprocess.run(
            [python, "-c", PEER], input=asked, check=True, capture_output=True, text=True, timeout=PEERS_PATIENCE
        )
    except subprocess.SubprocessError as failure:
        told = str(getattr(failure, "stderr", "") or failure).strip().splitlines()
        return [], f"skipped: {told[-1] if told else failure}"
    # The peer's solver prints lines of its own in between.
    return [json.loads(line) for line in said.stdout.splitlines() if line.startswith("{")], ""


def measure() -> dict[str, Any]:
    """Return the tracking errors as ratios to the bound, who is nearer, and the seconds that it takes."""
    accounts = [account_of(number) for number in range(ACCOUNTS)]
    bounds = [bound_of(account) for account in accounts if account.situation]  # built here, so that it is not timed
    answers = {
        "ours": [timed(lambda account=account: ours(account)) for account in accounts],
        "nearest within cash": [timed(lambda account=account: nearest_within_cash(account)) for account in accounts],
    }
    said, skipped = peers_said(accounts)
    for name in ("greedy", "lp") if said else ():
        each = [one[name] for one in said]
        answers[f"PyPortfolioOpt {name}"] = [(one.get("shares"), one.get("seconds", math.nan)) for one in each]
    figures: dict[str, Any] = {
        f"tracking error of {name}": compared(accounts, bounds, answered) for name, answered in answers.items()
    }
    if skipped:
        figures["PyPortfolioOpt"] = skipped
    return {
        **figures,
        "ours against every peer": nearer(accounts, answers),
        "where all budgets bind": bound_budgets(),
        **times(),
    }


def compared(accounts: list[Account], bounds: list[float], answered: list[tuple[Any, float]]) -> dict[str, Any]:
    """Return how far above the bound one way is, over all accounts."""
    known = [
        (each, bound, *said)
        for each, bound, said in zip(accounts, bounds, answered, strict=True)
        if said[0] is not None
    ]
    above = [float(account.away(shares)) / bound - 1 for account, bound, shares, _ in known]
    return {
        "accounts answered": len(known),
        "beyond cash": sum(account.cost(shares) > account.equity for account, _, shares, _ in known),
        "above the bound, median %": 100 * statistics.median(above),
        "above the bound, mean %": 100 * statistics.mean(above),
        "above the bound, worst %": 100 * max(above),
        "at the bound (to a millionth)": sum(each <= 1e-6 for each in above),
        "milliseconds, median": 1000 * statistics.median(seconds for *_, seconds in known),
        "milliseconds, worst": 1000 * max(seconds for *_, seconds in known),
    }


def nearer(accounts: list[Account], answers: Mapping[str, list[tuple[Any, float]]]) -> dict[str, int]:
    """Count the accounts where ours is at or below each other way, exactly, and all of them.

    An answer that costs more than there is, or that failed, is no answer.
    """
    mine, others = answers["ours"], {name: answered for name, answered in answers.items() if name != "ours"}
    held = {
        name: [
            shares is None or account.cost(shares) > account.equity or account.away(own) <= account.away(shares)
            for account, (own, _), (shares, _) in zip(accounts, mine, answered, strict=True)
        ]
        for name, answered in others.items()
    }
    figures = {f"at or below {name}": sum(each) for name, each in held.items()}
    return {"accounts": len(accounts), **figures, "at or below all": sum(map(all, zip(*held.values(), strict=True)))}


def bound_budgets() -> dict[str, Any]:
    """Return how held portfolios are sized where cash, turnover, number and size of orders bind together."""
    sizings = [draft(drifted(20 + 5 * seed % 481, seed)).sizing for seed in range(ACCOUNTS // 2)]
    told = [sizing for sizing in sizings if sizing]
    gaps = [float(sizing.gap) for sizing in told]
    methods = {method: sum(sizing.method == method for sizing in told) for method in ("nearest", "greedy", "milp")}
    return {**methods, "gap told, median %": 100 * statistics.median(gaps), "gap told, worst %": 100 * max(gaps)}


def times() -> dict[str, Any]:
    """Return median seconds of draft and verify, and of the command from cold."""
    figures: dict[str, Any] = {}
    for size in SIZES:
        for kind, situation in (
            ("cash binds", account_of(size, size).situation),
            ("all budgets bind", drifted(size, size)),
        ):
            drafts = [timed(lambda asked=situation: draft(asked)) for _ in range(RUNS)]
            orders, sizing = drafts[0][0].orders, drafts[0][0].sizing
            verdicts = [timed(lambda asked=situation, given=orders: verify(asked, given)) for _ in range(RUNS)]
            assert verdicts[0][0].approved
            figures[f"{size} symbols, {kind}"] = {
                "sized by": sizing.method,
                "orders": len(orders),
                "draft, seconds": statistics.median(seconds for _, seconds in drafts),
                "verify, seconds": statistics.median(seconds for _, seconds in verdicts),
                "draft from cold, seconds": statistics.median(
                    timed(lambda asked=situation: cold(asked))[1] for _ in range(3)
                ),
            }
    return figures


def cold(situation: Situation) -> None:
    """Draft on the command line."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "situation.json"
        path.write_text(situation.model_dump_json(exclude_none=True))
        subprocess.run([TRADEWRIGHT, "draft", path, "--json"], check=True, capture_output=True)


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """Return what it returns, and its seconds."""
    began = time.perf_counter()
    done = work()
    return done, time.perf_counter() - began


def show(figures: Mapping[str, Any], depth: int = 0) -> None:
    """Print the figures, one a line."""
    for name, value in figures.items():
        if isinstance(value, dict):
            print(f"{'  ' * depth}{name}")
            show(value, depth + 1)
        else:
            print(
                f"{'  ' * depth}{name:<44}{value:.4g}"
                if isinstance(value, float)
                else f"{'  ' * depth}{name:<44}{value}"
            )


if __name__ == "__main__":
    show(measure())
