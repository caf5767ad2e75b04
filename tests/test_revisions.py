"""Revisions: of all who replan one, one does; what ended well, or is being sent, is left alone."""

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from blocks.clock import wall
from blocks.errors import LeaseTaken, LedgerError, NothingToReplan, PlanError, StalePlan, UnusableInput
from blocks.ledger import Ledger
from blocks.mandate import sample_path
from blocks.market.bar_table import BarTable
from flows.asked import Asked
from flows.beginning import begin_rebalance, begin_replan
from flows.job import job_of, opened
from flows.world import World, open_world
from tasks.intents import commit
from tasks.lease import renew
from tasks.plan import Plan
from tasks.revisions import newest_revision, open_revisions, revision_of, superseded_by
from tasks.situation import Proposal, Situation
from tasks.verification.gate import Inspection
from tasks.verification.verdict import verify

SAMPLE = Asked(str(sample_path()), None, "paper", "rules", dry_run=False)


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Return a state folder with the sample prices."""
    return open_world(tmp_path)


def begun(world: World, run: str = "run-1", asked: Asked = SAMPLE) -> Plan:
    begin_rebalance(world, run, asked)
    body = world.ledger.get("run", run)
    assert body
    return revision_of(world.ledger, body.body["plan"], body.body["revision"]).plan


def ends(world: World, run: str, state: str, message: str = "") -> None:
    moment = datetime(2022, 12, 28, 21, 2, tzinfo=UTC)
    world.ledger.append("outcome", {"state": state, "message": message, "ended_at": moment}, subject=run)


def commits(world: World, run: str) -> None:
    """Have a run commit to orders; there need be none for the revision to be bound."""
    job = job_of(world, run)
    now = job.desk.now()
    account = {"cash": {"USD": "1"}, "as_of": now, "id": job.desk.mandate.account}
    quotes = [
        {"symbol": symbol, "bid": 1, "ask": 1, "previous_close": 1, "at": now} for symbol in job.desk.mandate.universe
    ]
    situation = Situation.model_validate(
        {"now": now, "mandate": job.desk.mandate, "account": account, "quotes": quotes}
    )
    inspection = Inspection(situation=situation, proposal=Proposal(), verdict=verify(situation, ()))
    commit(world.ledger, job.plan, inspection, job.desk.mandate, "paper", now)


def test_a_replan_makes_the_next_revision_of_the_same_plan(world: World) -> None:
    plan = begun(world)
    ends(world, "run-1", "stale")
    begin_replan(world, "run-2", plan.id, 1, "prices moved")

    new = revision_of(world.ledger, plan.id, 2)
    assert (plan.id, 2, plan.hash, plan.hash) == (new.plan.id, new.plan.revision, new.plan.parent, new.plan.hash)
    assert ("run-2", "run-1", "prices moved", "") == (new.run, new.asked["instead_of"], new.asked["cause"], new.state)
    assert (2, 2, None) == (
        newest_revision(world.ledger, plan.id),
        superseded_by(world.ledger, plan.id, 1),
        superseded_by(world.ledger, plan.id, 2),
    )


def test_of_many_that_race_for_the_next_revision_one_claims_it(world: World) -> None:
    plan = begun(world)
    home = world.store.home

    def claim(number: int) -> str:
        other = World(Ledger(home / "ledger.db", wall), world.store)
        try:
            begin_replan(other, f"replan-{number}", plan.id, 1, "a race")
        except NothingToReplan as reason:
            return str(reason)
        return "claimed"

    with ThreadPoolExecutor(8) as pool:
        said = list(pool.map(claim, range(8)))

    assert 1 == said.count("claimed")
    assert {f"plan {plan.id} revision 1 was followed by revision 2 already"} == set(said) - {"claimed"}
    assert 1 == sum(entry.body["revision"] == 2 for entry in world.ledger.all("plan", plan.id))


@pytest.mark.parametrize("state", ["completed", "held"])
def test_what_ended_well_is_not_replanned(world: World, state: str) -> None:
    plan = begun(world)
    ends(world, "run-1", state)

    with pytest.raises(NothingToReplan, match=f"revision 1 is {state}: a new run makes a new plan"):
        begin_replan(world, "run-2", plan.id, 1, "by hand")


@pytest.mark.parametrize("state", ["stale", "failed", "partial", "waiting", ""])
def test_what_went_wrong_waits_or_was_left_behind_may_be_replanned(world: World, state: str) -> None:
    plan = begun(world)
    if state:
        ends(world, "run-1", state)
    begin_replan(world, "run-2", plan.id, 1, "by hand")

    assert 2 == newest_revision(world.ledger, plan.id)


def test_a_plan_that_was_rejected_is_not_made_again(world: World) -> None:
    plan = begun(world)
    ends(world, "run-1", "rejected", "turnover is above its limit")

    with pytest.raises(NothingToReplan, match="makes the same plan again: turnover is above its limit"):
        begin_replan(world, "run-2", plan.id, 1, "rejected")
    assert 1 == newest_revision(world.ledger, plan.id)


def test_after_max_revisions_the_next_replan_fails_with_its_reason(world: World) -> None:
    plan = begun(world)
    for revision in range(1, 5):
        begin_replan(world, f"run-{revision + 1}", plan.id, revision, "prices moved")

    said = r"has been revised 4 times \(freshness.max_revisions\) and its results went stale again: prices moved"
    with pytest.raises(PlanError, match=said):
        begin_replan(world, "run-6", plan.id, 5, "prices moved")
    assert 5 == newest_revision(world.ledger, plan.id)


def test_orders_that_are_on_their_way_are_not_replanned_while_their_process_lives(world: World) -> None:
    plan = begun(world)
    with opened(world, "run-1", lambda: None):
        commits(world, "run-1")
        with pytest.raises(NothingToReplan, match="is sending its orders"):
            begin_replan(world, "run-2", plan.id, 1, "prices moved")
    begin_replan(world, "run-3", plan.id, 1, "its process is gone")

    assert 2 == newest_revision(world.ledger, plan.id)


def test_a_revision_that_was_replaced_commits_to_nothing(world: World) -> None:
    plan = begun(world)
    begin_replan(world, "run-2", plan.id, 1, "prices moved")

    with pytest.raises(StalePlan, match=f"revision 2 of plan {plan.id} has replaced revision 1"):
        commits(world, "run-1")
    assert [] == world.ledger.all("intent")


def test_the_account_is_taken_over_from_the_run_that_is_replaced_and_from_no_other(world: World) -> None:
    plan = begun(world)
    with opened(world, "run-1", lambda: None):
        begin_rebalance(world, "other", SAMPLE)
        with pytest.raises(LeaseTaken, match="is being rebalanced by run run-1"), opened(world, "other", lambda: None):
            pass
        begin_replan(world, "run-2", plan.id, 1, "prices moved")
        with opened(world, "run-2", lambda: None), pytest.raises(LeaseTaken):
            renew(world.ledger, "PAPER", "run-1", wall())


def test_a_plan_that_nobody_knows_is_named(world: World) -> None:
    with pytest.raises(PlanError, match="plan p404: the ledger knows of none"):
        begin_replan(world, "run-2", "p404", 1, "by hand")


def test_open_is_what_may_still_lead_to_orders(world: World) -> None:
    plan = begun(world)
    now = wall()

    def are_open(later: timedelta = timedelta(0)) -> list[int]:
        return [each.plan.revision for each in open_revisions(world.ledger, now + later)]

    assert ([1], []) == (are_open(), are_open(timedelta(days=1)))
    ends(world, "run-1", "waiting")
    assert [1] == are_open()
    begin_replan(world, "run-2", plan.id, 1, "prices moved")
    assert [2] == are_open()
    commits(world, "run-2")
    assert [] == are_open()
    begun(world, "run-3", Asked(SAMPLE.mandate, None, "paper", "rules", dry_run=True))
    assert [] == are_open()


def test_a_run_that_came_to_nothing_takes_no_open_ones_place(world: World) -> None:
    begun(world)
    ends(world, "run-1", "waiting")
    begun(world, "dry", replace(SAMPLE, dry_run=True))
    begun(world, "beside", SAMPLE)
    ends(world, "beside", "failed", "account PAPER is being rebalanced by run run-1")

    assert ["run-1"] == [each.run for each in open_revisions(world.ledger, wall())]
    plan = begun(world, "older")
    begin_replan(world, "newer", plan.id, 1, "its process is gone")
    ends(world, "newer", "failed")
    assert ["run-1"] == [each.run for each in open_revisions(world.ledger, wall())]
    begun(world, "later", SAMPLE)
    ends(world, "later", "held")
    assert [] == list(open_revisions(world.ledger, wall()))


def test_a_retry_that_is_sending_is_not_replanned_though_its_first_attempt_has_ended(world: World) -> None:
    plan = begun(world)
    with opened(world, "run-1", lambda: None):
        commits(world, "run-1")
    ends(world, "run-1", "partial")

    with opened(world, "run-1", lambda: None), pytest.raises(NothingToReplan, match="is sending its orders"):
        begin_replan(world, "run-2", plan.id, 1, "prices moved")


def test_nothing_is_done_by_a_ledger_whose_entries_were_altered(world: World) -> None:
    begun(world)
    with closing(sqlite3.connect(world.ledger.path)) as file, file:
        for trigger in [row[0] for row in file.execute("select name from sqlite_master where type = 'trigger'")]:
            file.execute(f"drop trigger {trigger}")
        file.execute("update entries set body = replace(body, 'paper', 'pqper') where kind = 'run'")

    with pytest.raises(LedgerError, match=r"does not follow .*: nothing is done by a ledger"):
        opened(world, "run-1", lambda: None).__enter__()


def test_a_retry_catches_up_with_the_newest_prices_unless_a_moment_was_asked_for(world: World) -> None:
    begun(world)
    begun(world, "run-2", Asked(SAMPLE.mandate, datetime(2022, 12, 20, 21, 1, tzinfo=UTC), "paper", "rules", False))

    newest, asked = datetime(2022, 12, 28, 21, 1, tzinfo=UTC), datetime(2022, 12, 20, 21, 1, tzinfo=UTC)
    assert (newest, asked) == (job_of(world, "run-1").started, job_of(world, "run-2").started)


def test_the_time_that_a_person_takes_counts_and_the_time_after_a_failure_does_not(world: World) -> None:
    begun(world)
    ends(world, "run-1", "waiting")
    waited = job_of(world, "run-1").started
    ends(world, "run-1", "failed")

    assert waited > datetime(2022, 12, 28, 21, 2, tzinfo=UTC) == job_of(world, "run-1").started


def filled(world: World, at: str) -> None:
    body = {"order_ref": "o", "exec_id": "e", "at": at}
    world.ledger.append("fill", body, key="e", subject="paper/PAPER")


def test_a_past_from_before_the_accounts_last_fill_is_not_traded_but_may_be_tried(world: World) -> None:
    filled(world, "2022-12-28T21:01:05Z")
    past = datetime(2022, 12, 20, 21, 1, tzinfo=UTC)
    asked = Asked(str(own_prices(world)), past, "paper", "rules", dry_run=False)

    with pytest.raises(UnusableInput, match="--as-of 2022-12-20: account PAPER has traded on 2022-12-28 already"):
        begin_rebalance(world, "run-1", asked)
    begin_rebalance(world, "run-2", replace(asked, dry_run=True))
    begin_rebalance(world, "run-3", replace(asked, as_of=datetime(2022, 12, 28, 21, 1, tzinfo=UTC)))
    begin_rebalance(world, "run-4", replace(SAMPLE, as_of=past))  # the sample's runs are rehearsals


def own_prices(world: World) -> Path:
    """Bring in prices of one's own, and return a mandate for them."""
    sessions = tuple(date(2022, 12, day) for day in (19, 20, 21, 28))
    none, closes = (None,) * len(sessions), (Decimal(10),) * len(sessions)
    world.store.put_bars("csv", BarTable(("OWN",) * len(sessions), sessions, none, none, none, closes, none))
    path = world.store.home / "own.toml"
    path.write_text('account = "PAPER"\nbase_currency = "USD"\npolicy = { weights = { OWN = 0.9 } }\n')
    return path


def test_the_price_of_a_saturday_keeps_nobody_from_running(world: World) -> None:
    none, closes = (None,), (Decimal("129.60"),)
    world.store.put_bars("csv", BarTable(("AAPL",), (date(2022, 12, 31),), none, none, none, closes, none))
    begun(world)

    assert datetime(2022, 12, 30, 21, 1, tzinfo=UTC) == job_of(world, "run-1").started
