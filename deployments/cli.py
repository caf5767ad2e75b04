"""The command line: `tradewright …`. Each command imports what it needs when called, so that `--help` is quick."""

import io
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

app = typer.Typer(
    name="tradewright", add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False,
    help="Rebalance a portfolio: planned with judgement, checked by rules, carried out on Prefect.",
)  # fmt: skip
plan_app = typer.Typer(rich_markup_mode=None, help="Make a plan without running it; print it; check it.")
app.add_typer(plan_app, name="plan")

MandateFile = Annotated[
    Path | None, typer.Option("--mandate", metavar="FILE", help="mandate (TOML); the sample mandate if none is named")
]
Json = Annotated[bool, typer.Option("--json", help="JSON alone on standard output")]
Situations = Annotated[
    list[Path], typer.Argument(metavar="SITUATION.json...", help="situation files; one JSON line each with --json")
]
Plans = Annotated[list[Path], typer.Argument(metavar="PLAN.json...", help="plan files; one JSON line each with --json")]

Mandates = Annotated[
    list[Path] | None,
    typer.Argument(metavar="[MANDATE.toml...]", help="mandates; without any, those deployed before, or the sample"),
]
Waiting = Annotated[str, typer.Argument(metavar="RUN", help="the flow run's id; `tradewright status` lists what waits")]
Note = Annotated[str, typer.Option(help="why; kept in the ledger")]


@app.command()
def run(
    mandate: MandateFile = None,
    as_of: Annotated[
        str | None, typer.Option(metavar="T", help="a past session (2020-03-16) or moment (2020-03-16T20:01:00Z)")
    ] = None,
    broker: Annotated[Literal["paper", "ib"], typer.Option(help="where orders go")] = "paper",
    planner: Annotated[Literal["rules", "model"], typer.Option(help="who makes the plan")] = "rules",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="go as far as the verdict, submit nothing")] = False,
    replay: Annotated[
        Path | None, typer.Option(metavar="LEDGER.db", help="call no model: it answers as in that run's ledger")
    ] = None,
    json: Json = False,
) -> int:
    """Rebalance once: plan, carry out, verify, submit, report."""
    from blocks.mandate import sample_path  # noqa: PLC0415
    from deployments import run_command  # noqa: PLC0415
    from flows.asked import Asked  # noqa: PLC0415

    recorded = str(replay.absolute()) if replay else None
    asked = Asked(str(mandate or sample_path()), None, broker, planner, dry_run, recorded)
    return run_command.run(asked, as_of, as_json=json)


@app.command()
def replan(
    plan: Annotated[str, typer.Argument(metavar="PLAN", help="the plan's id; `tradewright status` lists plans")],
    cause: Annotated[str, typer.Option(help="why; kept in the ledger")] = "by hand",
    json: Json = False,
) -> int:
    """Replace a plan that went stale by its next revision, and carry that out."""
    from deployments import run_command  # noqa: PLC0415

    return run_command.replan(plan, cause, as_json=json)


@app.command()
def approve(run: Waiting, note: Note = "") -> int:
    """Approve the orders of a run that waits: it goes on, looks again, and sends them if they still hold."""
    from deployments import approval_command  # noqa: PLC0415

    return approval_command.answer(run, note, approve=True)


@app.command()
def refuse(run: Waiting, note: Note = "") -> int:
    """Refuse the orders of a run that waits: it ends, and sends nothing."""
    from deployments import approval_command  # noqa: PLC0415

    return approval_command.answer(run, note, approve=False)


@app.command()
def init(
    target: Annotated[Path, typer.Argument(metavar="FILE.toml", help="the mandate file to write; never overwritten")],
    symbols: Annotated[
        str | None, typer.Option(help="symbols, comma-separated, at equal weights; none: the account as it is")
    ] = None,
    account: Annotated[str, typer.Option(help="the account's name")] = "PAPER",
    currency: Annotated[str, typer.Option(help="the base currency")] = "USD",
) -> int:
    """Write a mandate file, from a list of symbols or from the account as it is."""
    from deployments import init_command  # noqa: PLC0415

    return init_command.init(target, symbols, account, currency)


@plan_app.command()
def make(mandate: MandateFile = None, json: Json = False) -> int:
    """Make a plan by rules and print it as JSON."""
    from deployments import from_files  # noqa: PLC0415

    return from_files.make_plan(mandate, as_json=json)


@plan_app.command()
def show(
    files: Annotated[list[Path], typer.Argument(metavar="PLAN.json...", help="plan files")], mandate: MandateFile = None
) -> int:
    """Draw a plan, and say its critical path."""
    from deployments import from_files  # noqa: PLC0415

    return from_files.show_plans(files, mandate)


@plan_app.command()
def check(files: Plans, mandate: MandateFile = None, json: Json = False) -> int:
    """Check a plan: everything wrong with it, each fault with its code."""
    from deployments import from_files  # noqa: PLC0415

    return from_files.check_plans(files, mandate, as_json=json)


@app.command()
def draft(files: Situations, json: Json = False) -> int:
    """Draft the orders for a situation."""
    from deployments import from_files  # noqa: PLC0415

    return from_files.draft_orders(files, as_json=json)


@app.command()
def verify(files: Situations, json: Json = False) -> int:
    """Judge a situation's orders by every rule."""
    from deployments import from_files  # noqa: PLC0415

    return from_files.verify_orders(files, as_json=json)


@app.command()
def ingest(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="CSV or Parquet: long (date,symbol,…,close) or wide")
    ],
    json: Json = False,
) -> int:
    """Take price files into the store."""
    from deployments import ingest_command  # noqa: PLC0415

    return ingest_command.ingest(files, as_json=json)


@app.command()
def transfer(
    mandate: MandateFile = None,
    cash: Annotated[str, typer.Option(metavar="SUM", help="base currency; below zero is taken out")] = "0",
    shares: Annotated[
        list[str] | None, typer.Option(metavar="SYMBOL=N", help="shares, as often as needed; below zero is taken out")
    ] = None,
    note: Annotated[str, typer.Option(help="why; kept in the ledger")] = "",
    json: Json = False,
) -> int:
    """Bring cash and shares into the paper account, or take them out."""
    from deployments import transfer_command  # noqa: PLC0415

    return transfer_command.move(mandate, cash, shares or (), note, as_json=json)


@app.command()
def status(
    plans: Annotated[bool, typer.Option("--plans", help="what each plan took to make, instead")] = False,
    json: Json = False,
) -> int:
    """Show accounts, the last runs, open orders, leases, and whether everything is halted."""
    from deployments import status_command  # noqa: PLC0415

    return status_command.plans(as_json=json) if plans else status_command.status(as_json=json)


@app.command()
def explain(
    order: Annotated[
        str, typer.Argument(metavar="ORDER_REF", help="an order's reference, or a symbol: its newest order")
    ],
    json: Json = False,
) -> int:
    """Say why an order exists: weight, verdict, step results, snapshots, plan, objective."""
    from deployments import explain_command  # noqa: PLC0415

    return explain_command.explain(order, as_json=json)


@app.command()
def doctor(mandate: MandateFile = None, json: Json = False) -> int:
    """Look at ledger, store, server, calendar, prices and orders; say what is wrong and what to do."""
    from deployments import doctor as doctor_command  # noqa: PLC0415

    return doctor_command.doctor(mandate, as_json=json)


@app.command()
def halt(reason: Annotated[str, typer.Option(help="why; everybody who is refused reads it")] = "by hand") -> int:
    """Throw the kill switch: from now on the gate refuses everything."""
    from deployments import status_command  # noqa: PLC0415

    return status_command.halt(reason)


@app.command()
def resume() -> int:
    """Lift the kill switch."""
    from deployments import status_command  # noqa: PLC0415

    return status_command.resume()


@app.command()
def deploy(
    mandates: Mandates = None,
    pool: Annotated[str, typer.Option(help="work pool; made of process type where there is none")] = "tradewright",
    yes: Annotated[bool, typer.Option("--yes", help="remove the deployments of other mandates without asking")] = False,
    planner: Annotated[
        Literal["rules", "model"] | None, typer.Option(help="who makes the scheduled plans; none: as it is, or rules")
    ] = None,
    json: Json = False,
) -> int:
    """Register deployments, schedules and automations on the Prefect server; again is the same."""
    from deployments import deploy_command  # noqa: PLC0415

    return deploy_command.deploy(mandates or [], pool, planner, yes=yes, as_json=json)


@app.command()
def up(mandates: Mandates = None) -> int:
    """Start server and worker, deploy, and watch; they stay until `tradewright down`."""
    from deployments import serving  # noqa: PLC0415

    return serving.up(mandates or [])


@app.command()
def down() -> int:
    """Stop the server and the worker that Tradewright has started here."""
    from deployments import serving  # noqa: PLC0415

    return serving.down()


def main() -> None:
    """Run the command line; end with 0 for yes, 1 for no, 2 for input that cannot be used."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a file may hold what the terminal cannot write
    sys.exit(_status(sys.argv[1:] or ["--help"]))


def _status(arguments: list[str]) -> int:
    from blocks.errors import LedgerError, TradewrightError, UnusableInput  # noqa: PLC0415

    try:
        answer: Any = typer.main.get_command(app).main(arguments, prog_name="tradewright", standalone_mode=False)
    except (UnusableInput, LedgerError) as error:
        return _say(f"tradewright: {error}", 2)
    except TradewrightError as error:
        return _say(f"tradewright: {error}", 1)
    except (KeyboardInterrupt, typer.Abort):
        return _say("tradewright: interrupted", 130)
    except BrokenPipeError:
        sys.stdout = None  # the reader has gone: there is nobody left to tell
        return 1
    except Exception as error:
        # typer does not export the class of its errors of usage; they alone have a message for the user
        if not hasattr(error, "format_message"):
            raise
        return _say(f"tradewright: {error.format_message().replace('Value error, ', '')}", 2)
    return int(answer or 0)


def _say(text: str, status: int) -> int:
    print(" ".join(text.split()), file=sys.stderr)
    return status


if __name__ == "__main__":
    main()
