"""The command line, as a user calls it: answers, exit statuses, and one clear line for whatever cannot be used."""

import copy
import json
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any, Protocol

import pytest

from blocks.clock import wall
from blocks.errors import UnusableInput
from blocks.ledger import Ledger
from deployments.run_command import moment

Json = dict[str, Any]
Change = Callable[[Json], object]

COMMANDS = {
    "run",
    "init",
    "replan",
    "approve",
    "deploy",
    "refuse",
    "plan",
    "draft",
    "verify",
    "ingest",
    "transfer",
    "status",
    "explain",
    "doctor",
    "halt",
    "resume",
    "up",
    "down",
}
NOW = "2026-03-02T15:05:00Z"


class Said(Protocol):
    """What the command line answered."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any: ...


class Call(Protocol):
    """The command line: see the fixture `tradewright`."""

    def __call__(self, *arguments: object, cwd: Path = ...) -> Said: ...


def lines_of(said: Said) -> list[Any]:
    """Return what stands on standard output, each line one JSON value without a float in it."""
    values = [json.loads(line, parse_float=pytest.fail) for line in said.out.splitlines()]
    assert all(isinstance(value, dict) for value in values)
    return values


def complaint(said: Said) -> str:
    """Return the one line that stands on standard error, where nothing else was said."""
    assert (2, "") == (said.status, said.out)
    assert 1 == len(said.err.splitlines()), said.err
    assert said.err.startswith("tradewright: ")
    return said.err.strip().removeprefix("tradewright: ")


# Situations written by hand


def quote(symbol: str, price: str, **more: Any) -> Json:
    usual = {"bid": price, "ask": price, "at": "2026-03-02T15:04:50Z", "previous_close": price, "currency": "USD"}
    return {"symbol": symbol, **usual, "tick": "0.01", "adv": "1000000", "delayed": False, **more}


def situation() -> Json:
    """Return an account of 100,000 in which OAK is 10,000 above its target, ELM as much below, and ASH on it."""
    limits = {"max_turnover": "1", "max_order_notional": "60000", "restricted": []}
    return {
        "now": NOW,
        "mandate": {
            "account": "DU777",
            "base_currency": "USD",
            "limits": limits,
            "policy": {"weights": {"OAK": "0.50", "ELM": "0.30", "ASH": "0.18"}, "cash_buffer": "0.02"},
        },
        "account": {
            "id": "DU777",
            "as_of": "2026-03-02T15:04:00Z",
            "cash": {"USD": "2000.00"},
            "settled_cash": {"USD": "2000.00"},
            "positions": [
                {"symbol": "OAK", "quantity": "600"},
                {"symbol": "ELM", "quantity": "400"},
                {"symbol": "ASH", "quantity": "720"},
            ],
        },
        "quotes": [quote("OAK", "100.00"), quote("ELM", "50.00"), quote("ASH", "25.00")],
        "open_orders": [],
    }


def order(symbol: str, side: str, quantity: str, limit: str) -> Json:
    return {"symbol": symbol, "side": side, "quantity": quantity, "limit": limit}


def working(symbol: str, side: str, quantity: str, limit: str) -> Json:
    return {"order_ref": "w1", "filled": "0", **order(symbol, side, quantity, limit)}


def put(*path: Any) -> Change:
    """Return a change that puts the last of `path` where the others lead."""
    *way, last, value = path

    def change(content: Json) -> None:
        here: Any = content
        for key in way:
            here = here[key]
        here[last] = value

    return change


def both(*changes: Change) -> Change:
    return lambda content: [change(content) for change in changes]


def nothing(content: Json) -> None:
    return None


def written(folder: Path, name: str, change: Change = nothing, **more: Any) -> Path:
    content = copy.deepcopy(situation()) | more
    change(content)
    path = folder / f"{name}.json"
    path.write_text(json.dumps(content))
    return path


SELL, BUY = order("OAK", "sell", "100", "100.00"), order("ELM", "buy", "200", "50.00")

DRAFTS: dict[str, tuple[Change, list[Json]]] = {
    "plain drift": (nothing, [SELL, BUY]),
    "in band": (
        both(put("account", "positions", 0, "quantity", "504"), put("account", "positions", 1, "quantity", "592")),
        [],
    ),
    "buy only": (
        both(
            put("mandate", "direction", "buy_only"),
            put("account", "cash", {"USD": "10000"}),
            put("account", "positions", 0, "quantity", "520"),
        ),
        [{**BUY, "quantity": "160"}],
    ),
    "sell only": (put("mandate", "direction", "sell_only"), [SELL]),
    "open orders": (
        put("open_orders", [working("OAK", "sell", "40", "100.00"), working("ELM", "buy", "150", "50.00")]),
        [{**SELL, "quantity": "60"}],
    ),
    "a holding outside the mandate": (
        lambda content: content["account"]["positions"].append({"symbol": "PINE", "quantity": "9"}),
        [SELL, BUY],
    ),
    "a fraction held": (  # worth 40 more, of which the buffer keeps 80 cents: a share too much
        put("account", "positions", 0, "quantity", "600.4"),
        [SELL, {**BUY, "quantity": "199"}],
    ),
    "fractional": (
        both(put("mandate", "fractional", True), put("account", "positions", 2, "quantity", "719.9999")),
        [SELL, BUY],
    ),
    "restricted": (put("mandate", "limits", "restricted", ["OAK"]), []),
    "frozen": (
        both(put("mandate", "frozen", ["ASH"]), put("quotes", 2, {"symbol": "ASH", "previous_close": "25.00"})),
        [SELL, BUY],
    ),
    "nothing there": (both(put("account", "cash", {}), put("account", "positions", [])), []),
}


def test_draft_and_verify_agree_on_files(tradewright: Call, home: Path) -> None:
    paths = [written(home, name, change) for name, (change, _) in DRAFTS.items()]
    drafted = tradewright("draft", "--json", *paths)
    answers = dict(zip(DRAFTS, lines_of(drafted), strict=True))

    assert (0, "") == (drafted.status, drafted.err)
    assert {name: sorted(orders, key=str) for name, (_, orders) in DRAFTS.items()} == {
        name: sorted(answer["orders"], key=str) for name, answer in answers.items()
    }
    assert "2000.00" == answers["plain drift"]["cash_after"]
    assert {"OAK", "ELM", "ASH"} == {skip["symbol"] for skip in answers["in band"]["skipped"]}
    assert "PINE" in {skip["symbol"] for skip in answers["a holding outside the mandate"]["skipped"]}

    for path in paths:
        path.write_text(json.dumps(json.loads(path.read_text()) | {"orders": answers[path.stem]["orders"]}))
    verified = tradewright("verify", "--json", *paths)

    assert (0, "") == (verified.status, verified.err)
    assert [(True, [])] * len(paths) == [(answer["approved"], answer["reasons"]) for answer in lines_of(verified)]


NO_DRAFT: dict[str, tuple[Change, tuple[str, str]]] = {
    "a quote that is no number": (put("quotes", 1, "bid", "NaN"), ("quotes_are_usable", "ELM")),
    "a quote in no number at all": (put("quotes", 1, "bid", float("nan")), ("quotes_are_usable", "ELM")),
    "no quote": (lambda content: content["quotes"].pop(1), ("quotes_are_usable", "ELM")),
    "a year-old quote": (put("quotes", 1, "at", "2025-03-02T15:04:50Z"), ("quotes_are_usable", "ELM")),
    "a delayed quote": (put("quotes", 1, "delayed", True), ("quotes_are_usable", "ELM")),
    "another account": (put("account", "id", "DU778"), ("account_is_the_mandates", "")),
    "old positions": (put("account", "as_of", "2026-03-02T14:00:00Z"), ("positions_are_fresh", "")),
}


def test_a_situation_that_allows_no_draft_says_why(tradewright: Call, home: Path) -> None:
    paths = [written(home, name, change) for name, (change, _) in NO_DRAFT.items()]
    said = tradewright("draft", "--json", *paths, written(home, "well"))
    *refused, well = lines_of(said)

    assert (1, "") == (said.status, said.err)
    assert [([], [reason]) for _, reason in NO_DRAFT.values()] == [
        (answer["orders"], [(reason["check"], reason["symbol"]) for reason in answer["reasons"]]) for answer in refused
    ]
    assert ([SELL, BUY], False) == (well["orders"], "reasons" in well)


# The change to an account whose orders are SELL and BUY, and one of the reasons that verify gives.
REFUSED: dict[str, tuple[Change, tuple[str, str]]] = {
    "wrong account": (put("account", "id", "DU778"), ("account_is_the_mandates", "")),
    "year-old quote": (put("quotes", 0, "at", "2025-03-02T15:04:50Z"), ("quote_is_fresh", "OAK")),
    "quote from the future": (put("quotes", 0, "at", "2026-03-02T15:05:01Z"), ("quote_is_fresh", "OAK")),
    "crossed": (put("quotes", 0, "bid", "100.02"), ("quote_is_not_crossed", "OAK")),
    "minus one": (put("quotes", 0, "bid", "-1"), ("bid_and_ask_are_prices", "OAK")),
    "not a number": (put("quotes", 0, "ask", "NaN"), ("bid_and_ask_are_prices", "OAK")),
    "no quote": (lambda content: content["quotes"].pop(2), ("needed_symbol_has_a_quote", "ASH")),
    "delayed": (put("quotes", 0, "delayed", True), ("quote_is_not_delayed", "OAK")),
    "another currency": (put("quotes", 0, "currency", "GBP"), ("quote_is_in_the_base_currency", "OAK")),
    "hundred times the price": (
        both(put("quotes", 0, "bid", "10000"), put("quotes", 0, "ask", "10000"), put("orders", 0, "limit", "10000")),
        ("middle_is_near_the_previous_close", "OAK"),
    ),
    "off the tick": (put("orders", 0, "limit", "100.005"), ("limit_is_on_the_tick", "OAK")),
    "outside the collar": (put("orders", 0, "limit", "99.49"), ("limit_is_within_the_collar", "OAK")),
    "limit zero": (put("orders", 0, "limit", "0"), ("limit_is_a_positive_number", "OAK")),
    "limit no number": (put("orders", 0, "limit", "NaN"), ("limit_is_a_positive_number", "OAK")),
    "quantity no number": (put("orders", 0, "quantity", float("nan")), ("quantity_is_a_positive_number", "OAK")),
    "quantity zero": (put("orders", 0, "quantity", "0"), ("quantity_is_a_positive_number", "OAK")),
    "half a share": (put("orders", 0, "quantity", "0.5"), ("quantity_is_in_whole_units", "OAK")),
    "oversell": (put("orders", 0, "quantity", "601"), ("nothing_is_sold_short", "OAK")),
    "too large": (
        put("mandate", "limits", "max_order_notional", "9999.99"),
        ("notional_is_within_max_order_notional", "OAK"),
    ),
    "too small": (put("orders", 0, "quantity", "0.99"), ("notional_reaches_min_trade", "OAK")),
    "too much turnover": (put("mandate", "limits", "max_turnover", "0.1999"), ("turnover_is_within_max_turnover", "")),
    "too many": (put("mandate", "limits", "max_orders", 1), ("orders_are_within_max_orders", "")),
    "restricted": (put("mandate", "limits", "restricted", ["ELM"]), ("symbol_is_not_restricted", "ELM")),
    "unknown symbol": (put("orders", 0, "symbol", "YEW"), ("symbol_is_in_the_universe", "YEW")),
    "away from the target": (put("orders", 0, "side", "buy"), ("order_brings_its_symbol_nearer", "OAK")),
    "past the target": (put("orders", 0, "quantity", "200"), ("order_brings_its_symbol_nearer", "OAK")),
    "already working": (
        put("open_orders", [working("OAK", "sell", "100", "100.00")]),
        ("order_brings_its_symbol_nearer", "OAK"),
    ),
    "twice": (lambda content: content["orders"].append(content["orders"][0]), ("symbol_is_ordered_once", "OAK")),
    "beyond the cash": (put("orders", [BUY]), ("buys_are_covered_by_cash", "")),
    "against the direction": (put("mandate", "direction", "buy_only"), ("side_is_the_mandates", "OAK")),
    "flatten the book": (
        put(
            "orders",
            [
                order("OAK", "sell", "600", "100.00"),
                order("ELM", "sell", "400", "50.00"),
                order("ASH", "sell", "720", "25.00"),
            ],
        ),
        ("order_brings_its_symbol_nearer", "ELM"),
    ),
}


def test_verify_refuses_whatever_is_wrong_and_names_it(tradewright: Call, home: Path) -> None:
    paths = [written(home, name, change, orders=copy.deepcopy([SELL, BUY])) for name, (change, _) in REFUSED.items()]
    said = tradewright("verify", "--json", *paths, written(home, "well", orders=[SELL, BUY]))
    *answers, well = lines_of(said)

    assert (1, "") == (said.status, said.err)
    assert {"approved": True, "reasons": []} == {key: well[key] for key in ("approved", "reasons")}
    assert {} == {
        path.stem: answer["reasons"]
        for path, answer, (_, expected) in zip(paths, answers, REFUSED.values(), strict=True)
        if answer["approved"] or expected not in [(reason["check"], reason["symbol"]) for reason in answer["reasons"]]
    }
    assert all(reason["reason"] for answer in answers for reason in answer["reasons"])


def test_people_are_told_in_words(tradewright: Call, home: Path) -> None:
    drafted = tradewright("draft", written(home, "one"))
    refused = tradewright(
        "verify", written(home, "one", orders=[SELL, BUY]), written(home, "two", put("account", "id", "X"), orders=[])
    )

    assert "sell 100 OAK at 100.00" == drafted.out.splitlines()[0]
    assert "cash after: 2000.00" == drafted.out.splitlines()[-1]
    assert (1, True) == (refused.status, "two.json:\nrefused:" in refused.out)
    assert "account_is_the_mandates: account 'X' answered, the mandate is for 'DU777'" in refused.out


# Files that cannot be used

UNUSABLE: dict[str, tuple[Change, str]] = {
    "weights": (
        put("mandate", "policy", "weights", "OAK", "0.53"),
        "mandate.policy: weights sum to 1.01 and cash_buffer is 0.02: together at most 1 is allowed",
    ),
    "negative": (
        put("mandate", "policy", "weights", "OAK", "-0.5"),
        "mandate.policy.weights.OAK: '-0.5': should be zero or more",
    ),
    "weight": (
        put("mandate", "limits", "max_weight", "0.4"),
        "mandate: policy.weights.OAK: 0.5 is above limits.max_weight 0.4",
    ),
    "typo": (put("mandate", "min_trad", 1), "mandate.min_trad: unknown key (did you mean 'min_trade'?)"),
    "key": (put("quote", []), "quote: unknown key (did you mean 'quotes'?)"),
    "when": (put("now", "2026-03-02T15:05:00"), "now: '2026-03-02T15:05:00': should name its offset from UTC"),
    "number": (
        put("account", "cash", {"USD": "much"}),
        "account.cash.USD: 'much': should be a number, or a number in quotes",
    ),
    "cash": (put("account", "cash", {"USD": "NaN"}), "account.cash.USD: 'NaN': should be a finite number"),
    "side": (put("orders", 0, "side", "short"), "orders.0.side: 'short': should be 'buy' or 'sell'"),
    "absent": (lambda content: content.pop("account"), "account: missing, and it has no default"),
    "targets": (
        put("mandate", "policy", "method", "equal"),
        "targets: missing; method 'equal' needs one for each symbol",
    ),
    "again": (lambda content: content["quotes"].append(content["quotes"][0]), "quotes: 'OAK' stands more than once"),
}


def bad_files(folder: Path) -> dict[Path, str]:
    """Write files that no command can use; return what is to be said of each."""
    contents: dict[str, tuple[bytes | None, str]] = {
        "missing.json": (None, "no such file"),
        "empty.json": (b"", "the file is empty"),
        "binary.json": (b"\x89PNG\r\n\x1a\n\x00\xff", "not a text file (UTF-8 is needed)"),
        "broken.json": (b'{"now": ', "not JSON that can be used: Expecting value: line 1 column 9 (char 8)"),
        "list.json": (b"[1, 2]", "should hold one JSON object, holds list"),
        "deep.json": (b"[" * 100_000, "nested too deeply to be read"),
        "twice.json": (b'{"now": 1, "now": 2}', "not JSON that can be used: the key 'now' stands twice in one object"),
        "mandate.toml": (b'account = "X"', "not JSON that can be used: Expecting value: line 1 column 1 (char 0)"),
        "parquet.json": (b"PAR1\x15\x00\x80", "not a text file (UTF-8 is needed)"),
    }
    for name, (content, _) in contents.items():
        if content is not None:
            (folder / name).write_bytes(content)
    (folder / "folder.json").mkdir()
    return {folder / name: said for name, (_, said) in contents.items()} | {
        folder / "folder.json": "a folder, not a file"
    }


def told(said: Said, files: dict[Path, str]) -> bool:
    """Tell whether each file has its one line on standard error, which names it and begins as it should."""
    lines = said.err.splitlines()
    right = [
        line.startswith(f"tradewright: {path}: {what}") for line, (path, what) in zip(lines, files.items(), strict=True)
    ]
    assert all(right), "\n".join(lines)
    return said.status == 2


def test_situation_files_that_cannot_be_used_are_told_in_a_line_each(tradewright: Call, home: Path) -> None:
    files = bad_files(home)
    for name, (change, what) in UNUSABLE.items():
        files[written(home, name, change, orders=copy.deepcopy([SELL]))] = what
    no_orders = {written(home, "no-orders"): "orders: missing; verify judges them"}
    verified = tradewright("verify", "--json", written(home, "well", orders=[SELL, BUY]), *files, *no_orders)
    well, *others = lines_of(verified)

    assert told(verified, files | no_orders)
    assert well["approved"]
    assert [str(path) for path in [*files, *no_orders]] == [answer["error"].partition(": ")[0] for answer in others]

    files.pop(home / "side.json")  # what `orders` holds is nothing to a draft
    drafted = tradewright("draft", *files)

    assert told(drafted, files)
    assert "" == drafted.out


def test_plan_files_that_cannot_be_used_are_told_in_a_line_each(tradewright: Call, home: Path) -> None:
    files = bad_files(home)
    more: dict[str, tuple[Json, str]] = {
        "no-steps.json": ({"objective": "x"}, "steps: missing, and it has no default"),
        "no-objective.json": ({"steps": []}, "objective: missing, and it has no default"),
        "blank.json": ({"objective": " ", "steps": []}, "objective: ' ': should say what is wanted"),
        "one-step.json": ({"objective": "x", "steps": {}}, "steps: should be a valid list"),
        "typo.json": ({"objective": "x", "steps": [], "step": []}, "step: unknown key (did you mean 'steps'?)"),
        "nameless.json": ({"objective": "x", "steps": [], "id": ""}, "id: '': should have at least 1 character"),
        "naive.json": (
            {"objective": "x", "steps": [], "created_at": "2026-03-02"},
            "created_at: '2026-03-02': should name its offset",
        ),
    }
    for name, (content, what) in more.items():
        (home / name).write_text(json.dumps(content))
        files[home / name] = what
    checked, shown = tradewright("plan", "check", "--json", *files), tradewright("plan", "show", *files)

    assert told(checked, files)
    assert [["error"]] * len(files) == [list(answer) for answer in lines_of(checked)]
    assert told(shown, files)


MANDATE = 'account = "PAPER"\nbase_currency = "USD"\n[policy]\nweights = { AAPL = 0.5, MSFT = 0.4 }\n'

BAD_MANDATES: dict[str, tuple[str, str]] = {
    "empty": ("", "the file is empty"),
    "broken": ("account = ", "not TOML that can be used: "),
    "unknown": (
        MANDATE.replace("account", "acount"),
        "account: missing, and it has no default; acount: unknown key (did you mean 'account'?)",
    ),
    "above-one": (
        MANDATE.replace("0.5", "0.6"),
        "policy: weights sum to 1 and cash_buffer is 0.02: together at most 1 is allowed",
    ),
    "nan": (MANDATE.replace("0.5", "nan"), "policy.weights.AAPL: NaN: should be a finite number"),
}


@pytest.mark.parametrize("name", BAD_MANDATES)
def test_a_mandate_that_cannot_be_used_is_told_in_a_line(tradewright: Call, home: Path, name: str) -> None:
    path = home / f"{name}.toml"
    path.write_text(BAD_MANDATES[name][0])

    assert complaint(tradewright("plan", "make", "--mandate", path)).startswith(f"{path}: {BAD_MANDATES[name][1]}")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("missing.toml", "no such file"),
        ("folder.toml", "a folder, not a file"),
        ("plan.json", "a mandate is a TOML file, its name ends in .toml"),
    ],
)
def test_a_run_with_a_mandate_that_cannot_be_carried_out_starts_nothing(
    tradewright: Call, home: Path, name: str, said: str
) -> None:
    (home / "folder.toml").mkdir()
    (home / "plan.json").write_text("{}")

    assert complaint(tradewright("run", "--json", "--mandate", home / name)).endswith(said)
    assert not (home / "server.json").exists()


# Words of the command line


def test_help_names_every_command(tradewright: Call) -> None:
    said, bare, plan = tradewright("--help"), tradewright(), tradewright("plan", "--help")
    listed = said.out.partition("Commands:")[2]

    assert (0, "", 0) == (said.status, said.err, plan.status)
    assert COMMANDS == {line.split()[0] for line in listed.splitlines() if line[2:3].strip()}
    assert said.out == bare.out
    assert all(f"  {word} " in plan.out for word in ("make", "show", "check"))


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["rebalance"], "'rebalance'"),
        (["plan"], "Missing command"),
        (["plan", "mak"], "'mak'"),
        (["run", "--bogus"], "--bogus"),
        (["run", "--broker", "mars"], "'mars' is not one of 'paper', 'ib'"),
        (["run", "--planner", "oracle"], "'oracle' is not one of 'rules', 'model'"),
        (["run", "--mandate"], "--mandate"),
        (["verify"], "SITUATION.json"),
        (["run", "--planner", "model", "--replay", "gone.db"], "no such file; name the ledger.db of the recorded run"),
        (["run", "--replay", "gone.db"], "answers what models were asked; add --planner model"),
        (["run", "--broker", "ib"], "--broker ib: this version carries out 'paper' only"),
        (["replan", "p404"], "plan p404: the ledger knows of none; `tradewright status` lists plans"),
        (["approve", "r404"], "run 'r404': the ledger knows of none; `tradewright status` lists them"),
        (["refuse", "r404"], "run 'r404': the ledger knows of none; `tradewright status` lists them"),
    ],
)
def test_a_word_that_is_not_known_is_named(tradewright: Call, arguments: list[str], named: str) -> None:
    assert named in complaint(tradewright(*arguments))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("garbage", "should be a session such as 2020-03-16, or a moment such as 2020-03-16T20:01:00Z"),
        ("2020-02-30", "should be a session such as 2020-03-16, or a moment such as 2020-03-16T20:01:00Z"),
        ("", "should be a session such as 2020-03-16, or a moment such as 2020-03-16T20:01:00Z"),
        ("2020-W12-1", "should be a session such as 2020-03-16, or a moment such as 2020-03-16T20:01:00Z"),
        ("20200316T200100Z", "should be a session such as 2020-03-16, or a moment such as 2020-03-16T20:01:00Z"),
        ("2020-03-16T20:01:00", "should name its offset from UTC, such as 2020-03-16T20:01:00Z"),
        ("0001-01-01T00:00:00+05:00", "should lie in the years 1 to 9999"),
    ],
)
def test_a_moment_that_is_none_is_named(text: str, said: str) -> None:
    with pytest.raises(UnusableInput) as caught:
        moment(text)

    assert f"--as-of {text!r}: {said}" == str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("2020-03-15", "--as-of 2020-03-15: no session of XNYS; the one before is 2020-03-13"),
        ("1995-13-01", "--as-of '1995-13-01': should be a session such as 2020-03-16"),
        ("2026-03-02", "--as-of 2026-03-02: outside the stored prices, which allow 1990-01-03 to 2022-12-28"),
        ("1990-01-02T23:00:00Z", "--as-of 1990-01-02: outside the stored prices, which allow 1990-01-03 to 2022-12-28"),
        ("1980-03-03", "calendar XNYS: 1980-03-03 is outside what it knows, 1990-01-02 to"),
    ],
)
def test_a_run_at_a_moment_without_a_market_starts_nothing(tradewright: Call, home: Path, text: str, said: str) -> None:
    assert complaint(tradewright("run", "--json", "--as-of", text)).startswith(said)
    assert not (home / "server.json").exists()


# Plans


def test_a_plan_made_is_a_plan_that_can_be_carried_out_through_a_pipe_too(tradewright: Call, home: Path) -> None:
    tool = shlex_quoted(Path(sys.executable).with_name("tradewright"))
    piped = subprocess.run(
        ["/bin/sh", "-c", f"{tool} plan make | {tool} plan check --json /dev/stdin"],
        cwd=home,
        capture_output=True,
        text=True,
        check=False,
    )
    made = tradewright("plan", "make", "--json")
    (home / "plan.json").write_text(made.out)
    shown = tradewright("plan", "show", "plan.json")

    assert (0, {"ok": True, "problems": []}, "") == (piped.returncode, json.loads(piped.stdout), piped.stderr)
    assert {"id", "revision", "parent", "objective", "mandate_hash", "steps", "created_at", "hash"} == set(made.json)
    assert (0, "") == (shown.status, shown.err)
    assert "critical path: targets → drift → draft (3 of 5 steps)" == shown.out.splitlines()[-1]


def shlex_quoted(path: Path) -> str:
    return f"'{path}'"


def test_several_plans_are_checked_in_one_call_and_the_worst_counts(tradewright: Call, home: Path) -> None:
    step = {"id": "send", "tool": "submit_orders", "params": {}, "inputs": {}, "why": "\ud800 because"}
    contents = {
        "held.json": json.loads(tradewright("plan", "make").out),
        "send.json": {"objective": "x", "steps": [step]},
        "none.json": {"objective": "x", "steps": []},
        "odd.json": {"objective": "x", "steps": [7]},
    }
    for name, content in contents.items():
        (home / name).write_text(json.dumps(content))
    said, words = tradewright("plan", "check", "--json", *contents), tradewright("plan", "check", *contents)

    assert (1, "") == (said.status, said.err)
    assert [[], ["forbidden-tool", "no-proposal", "dead-step"], ["empty-plan"], ["bad-step", "no-proposal"]] == [
        [problem["code"] for problem in answer["problems"]] for answer in lines_of(said)
    ]
    assert all(
        {"code", "step", "message"} == set(problem) for answer in lines_of(said) for problem in answer["problems"]
    )
    assert (1, "") == (words.status, words.err)
    assert "held.json:\nthe plan can be carried out\nsend.json:\nforbidden-tool in send: " in words.out


def test_a_plan_is_checked_against_the_mandate_that_is_named(tradewright: Call, home: Path) -> None:
    (home / "small.toml").write_text(MANDATE)
    plan = tradewright("plan", "make").json
    plan["steps"][0]["params"] = {"symbols": ["AAPL", "XOM"]}
    (home / "plan.json").write_text(json.dumps(plan))
    said = tradewright("plan", "check", "--mandate", "small.toml", "plan.json")

    assert (1, "unknown-symbol in quotes: params.symbols.1: XOM is not in the mandate's universe\n") == (
        said.status,
        said.out,
    )


# A mandate to begin with


def test_a_mandate_is_made_from_symbols_and_never_over_another(tradewright: Call, home: Path) -> None:
    made = tradewright("init", "mine.toml", "--symbols", "AAPL, MSFT,XOM")
    before = (home / "mine.toml").read_text()
    plan = tradewright("plan", "make", "--mandate", "mine.toml")
    again = tradewright("init", "mine.toml", "--symbols", "KO")

    assert (0, "", 0) == (made.status, made.err, plan.status)
    assert "mine.toml: is there already, and is not overwritten" == complaint(again)
    assert before == (home / "mine.toml").read_text()
    assert '"AAPL" = 0.3266' in before


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["x.toml", "--symbols", " , "], "--symbols ' , ': names no symbol"),
        (["x.toml", "--symbols", "AAPL,A&B"], "'A&B'"),
        (["x.toml", "--symbols", "AAPL", "--currency", "usd"], "base_currency: 'usd'"),
        (["x.toml", "--symbols", "AAPL", "--account", ""], "account: ''"),
        (["x.json", "--symbols", "AAPL"], "x.json: a mandate file's name ends in .toml"),
        (["no/where/x.toml", "--symbols", "AAPL"], "no/where/x.toml: cannot be written: No such file or directory"),
        (["x.toml"], "account PAPER holds nothing: name the symbols to begin with"),
    ],
)
def test_a_mandate_that_could_not_be_used_is_not_written(
    tradewright: Call, home: Path, arguments: list[str], said: str
) -> None:
    assert said in complaint(tradewright("init", *arguments))
    assert [] == [*home.glob("x.*")]


# Price files


def test_a_price_file_with_a_bad_row_leaves_nothing_behind(tradewright: Call, home: Path) -> None:
    rows = {
        "good.csv": "date,symbol,close\n2024-01-02,SPY,100\n2024-01-03,SPY,101\n",
        "bad.csv": "date,symbol,close\n2024-01-02,QQQ,100\n2024-01-03,QQQ,-1\n",
        "word.csv": "date,symbol,close\n2024-01-02,QQQ,dear\n",
        "twice.csv": "date,symbol,close\n2024-01-02,QQQ,100\n2024-01-02,QQQ,100\n",
        "empty.csv": "",
        "odd.txt": "date,symbol,close\n",
    }
    for name, content in rows.items():
        (home / name).write_text(content)
    (home / "binary.parquet").write_bytes(b"\x00\x01nothing of the kind")
    bad = [*list(rows)[1:], "binary.parquet", "missing.csv", "."]

    before = tradewright("status", "--json").json["entries"]
    refused = tradewright("ingest", "--json", *bad)
    between = tradewright("status", "--json").json["entries"]
    mixed = tradewright("ingest", "--json", "bad.csv", "good.csv")
    after = tradewright("status", "--json").json["entries"]

    lines = refused.err.splitlines()
    assert (2, bad) == (refused.status, [answer["file"] for answer in lines_of(refused)])
    assert all(line.startswith(f"tradewright: {name}: ") for line, name in zip(lines, bad, strict=True)), refused.err
    assert "line 3: close: '-1'" in lines[0]
    assert before == between
    assert (2, 1) == (mixed.status, len(mixed.err.splitlines()))
    assert (2, "2024-01-03") == (lines_of(mixed)[1]["rows"], lines_of(mixed)[1]["last"])
    assert after > between


# Where state is kept


@pytest.mark.parametrize("arguments", [["status"], ["down"], ["run", "--dry-run"]])
def test_a_state_folder_that_cannot_be_one_is_told_in_a_line(
    tradewright: Call, home: Path, arguments: list[str]
) -> None:
    shutil.rmtree(home)
    home.write_text("a file")
    said = complaint(tradewright(*arguments, cwd=home.parent))

    assert str(home) in said


NOWHERE = "/dev/null/x"


@pytest.mark.parametrize("arguments", [["halt"], ["up"], ["ingest", "prices.csv"], ["init", "x.toml"]])
def test_a_state_folder_where_there_can_be_none_is_told_in_a_line(home: Path, arguments: list[str]) -> None:
    done = subprocess.run(
        [Path(sys.executable).with_name("tradewright"), *arguments],
        env={"TRADEWRIGHT_HOME": NOWHERE, "PATH": ""},
        cwd=home,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (2, "", 1) == (done.returncode, done.stdout, len(done.stderr.splitlines())), done.stderr
    assert NOWHERE in done.stderr


@pytest.mark.parametrize("arguments", [["status"], ["resume"], ["run", "--dry-run"]])
def test_a_ledger_that_is_no_database_is_told_in_a_line(tradewright: Call, home: Path, arguments: list[str]) -> None:
    (home / "ledger.db").write_text("this is no database, and it is long enough to have been one" * 100)

    assert f"{home / 'ledger.db'}: the ledger cannot be opened: file is not a database" == complaint(
        tradewright(*arguments)
    )


def test_a_ledger_of_a_newer_version_is_told_in_a_line(tradewright: Call, home: Path) -> None:
    tradewright("status")
    connection = sqlite3.connect(home / "ledger.db")
    connection.execute("update ledger_version set version = 99")
    connection.commit()
    connection.close()

    for command in ("status", "halt"):
        assert "the ledger is of version 99; this program knows up to" in complaint(tradewright(command))


def test_halting_and_resuming_show_in_the_status(tradewright: Call) -> None:
    tradewright("halt", "--reason", "war")
    halted = tradewright("status", "--json")
    resumed, again = tradewright("resume"), tradewright("resume")

    assert (0, "war", "") == (halted.status, halted.json["halted"], halted.err)
    assert ("no longer halted (it was: war)\n", "nothing was halted\n") == (resumed.out, again.out)


def test_halting_names_the_orders_that_it_does_not_stop(tradewright: Call, home: Path) -> None:
    ledger, order = Ledger(home / "ledger.db", wall), {"plan": "p1", "revision": 1, "proposal_hash": "h"}
    ledger.append("run", {"broker": "paper", "account": "A"}, key="r1", subject="A")
    for ref, state in (("tw1", "sent"), ("tw2", "working"), ("tw3", "filled"), ("tw4", "intended")):
        order |= {"order_ref": ref, "account": "A", "broker": "paper", "symbol": "SPY", "side": "buy"}
        ledger.append("intent", order | {"quantity": "3", "limit": "396.1"}, key=ref, subject="paper/A")
        if state != "intended":
            ledger.append("order", {"state": state, "quantity": "3"}, subject=ref)

    halted = tradewright("halt", "--reason", "war")
    assert [
        "halted: war. The gate refuses everything until `tradewright resume`",
        "not stopped by this: tw1 buy 3 SPY, which is on its way",
        "not stopped by this: tw2 buy 3 SPY, which is at the broker",
    ] == halted.out.splitlines()


def test_what_one_holds_is_brought_into_the_paper_account(tradewright: Call) -> None:
    said = tradewright("transfer", "--cash", "12000", "--shares", "KO=100", "--shares", "JNJ=20.5", "--json")
    taken = tradewright("transfer", "--cash=-2000.25", "--shares", "KO=-100", "--note", "a new roof")

    assert {
        "account": "PAPER",
        "currency": "USD",
        "cash": "12000.00",
        "positions": {"JNJ": "20.5", "KO": "100"},
    } == said.json
    assert "account PAPER: 9999.75 USD in cash, 20.5 JNJ\n" == taken.out
    assert "account PAPER at paper: 9999.75 USD in cash, 20.5 JNJ" in tradewright("status").out.splitlines()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--cash", "much"], "--cash 'much': should be a number such as 2500 or -99.50"),
        (["--cash", "NaN"], "--cash 'NaN': should be a number such as 2500 or -99.50"),
        (["--cash=-1"], "account PAPER: 0 USD in cash, and no more can be taken out"),
        (["--shares", "KO"], "--shares 'KO': should be a symbol and a number, such as KO=100 or KO=-20"),
        (["--shares", "KO=some"], "--shares KO 'some': should be a number such as 2500 or -99.50"),
        (["--shares", "KO=1", "--shares", "KO=2"], "--shares: a symbol stands more than once"),
    ],
)
def test_a_transfer_that_cannot_be_is_refused_in_a_line(tradewright: Call, arguments: list[str], said: str) -> None:
    assert said == complaint(tradewright("transfer", *arguments)).removeprefix("tradewright: ").strip()


def test_no_float_stands_in_an_answer(tradewright: Call, home: Path) -> None:
    path = written(home, "one", orders=[SELL, BUY])
    drafted, verified = (lines_of(tradewright(command, "--json", path))[0] for command in ("draft", "verify"))

    assert [("100", "100.00"), ("200", "50.00")] == [(each["quantity"], each["limit"]) for each in drafted["orders"]]
    assert Decimal(drafted["cash_after"]) == Decimal(2000)
    assert all(isinstance(check["figure"], str) and isinstance(check["limit"], str) for check in verified["checks"])
