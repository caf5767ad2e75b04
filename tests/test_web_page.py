"""What a person sees and does in the Prefect UI, in a real browser.

With TRADEWRIGHT_SCREENSHOTS naming a folder, the pages are kept there as pictures: so docs/images is made.
"""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from blocks.clock import wall
from blocks.ledger import Ledger
from tests.prefect_server import ask, wait_for_end

pytestmark = [pytest.mark.prefect, pytest.mark.browser]

CHROMIUM = shutil.which("chromium")
FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
STEPS = ("quotes", "positions", "targets", "drift", "draft")


@pytest.fixture
def page() -> Iterator[Any]:
    """Return a page of a headless Chromium."""
    if CHROMIUM is None:
        pytest.skip("no chromium on this machine: Debian's package `chromium` brings it")
    from playwright.sync_api import sync_playwright  # noqa: PLC0415  slow to import, and often not needed

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield browser.new_page(viewport={"width": 1400, "height": 1000})
        browser.close()


def keep(page: Any, name: str) -> None:
    """Keep a picture of the page where the environment asks for it."""
    if folder := os.environ.get("TRADEWRIGHT_SCREENSHOTS"):
        page.screenshot(path=Path(folder) / name)


def artifact_of(server: Any, run: str) -> str:
    """Return the id of a run's artifact."""
    (found,) = ask(server, "artifacts/filter", flow_runs={"id": {"any_": [run]}})
    return str(found["id"])


def test_the_pages_of_a_run_show_its_steps_and_its_pictures(served: Any, server: Any, page: Any) -> None:
    said = served("run", "--json").json
    run = said["flow_run_id"]

    page.goto(said["ui_url"])
    page.get_by_text("Task Runs", exact=True).first.click()
    for step in (*STEPS, "verify", "submit"):
        page.get_by_text(step, exact=True).first.wait_for(timeout=60_000)
    page.wait_for_timeout(3_000)  # the graph is drawn on a canvas, which tells nobody when it is done
    keep(page, "flow-run.png")

    page.goto(f"{server.ui_url}/artifacts/artifact/{artifact_of(server, run)}")
    pictures = page.locator("img[src^='data:image/svg+xml;base64,']")
    pictures.first.wait_for(timeout=60_000)

    sizes = pictures.evaluate_all("images => images.map(each => [each.complete, each.naturalWidth > 300])")
    assert [[True, True], [True, True]] == sizes
    text = page.inner_text("body")
    assert [] == [step for step in STEPS if step not in text]
    assert {"Orders", "Verdict", "Weights"} <= set(text.split())
    keep(page, "report.png")


MANDATE = """
account = "WEB"
base_currency = "USD"
policy = { weights = { AAPL = 0.50, %s = 0.45 } }
limits = { max_turnover = 1 }
"""
NEWCO = "date,symbol,close\n2022-12-27,NEWCO,50.00\n2022-12-28,NEWCO,50.50\n"


@pytest.mark.slow
def test_a_person_approves_the_orders_in_the_form(served: Any, server: Any, page: Any, home: Path, down: None) -> None:
    mandate = home / "web.toml"
    mandate.write_text(MANDATE % "MSFT" + 'approval = { mode = "always" }\n')
    assert 0 == served("up", mandate).status
    said = served("run", "--mandate", mandate, "--json").json
    assert "waiting" == said["state"]

    page.goto(said["ui_url"])
    page.get_by_role("button", name="Resume").click(timeout=60_000)
    form = page.get_by_role("dialog")
    form.get_by_text("2 orders wait for approval").wait_for()
    assert {"AAPL", "MSFT", "94,942.98", "turnover", "Verdict"} <= set(form.inner_text().replace(":", " ").split())
    form.get_by_role("switch").click()
    form.get_by_role("textbox").last.fill("as planned")
    page.wait_for_timeout(1_000)
    keep(page, "approval.png")
    form.get_by_role("button", name="Submit").click()

    ended = wait_for_end(server, said["flow_run_id"], after=0)
    assert ("Completed", "2 orders filled") == (ended["state_name"], ended["state"]["message"][:15])
    (answer,) = [e.body for e in Ledger(home / "ledger.db", wall).all("approval") if e.body["state"] == "approved"]
    assert "as planned" == answer["note"]


@pytest.mark.slow
def test_a_failed_run_is_retried_with_the_button_of_its_page(
    served: Any, server: Any, page: Any, home: Path, down: None
) -> None:
    mandate = home / "web.toml"
    mandate.write_text(MANDATE % "NEWCO")
    failed = served("run", "--mandate", mandate, "--json").json
    assert "failed" == failed["state"]
    (home / "newco.csv").write_text(NEWCO)
    assert 0 == served("ingest", home / "newco.csv").status
    assert 0 == served("up", mandate).status

    page.goto(failed["ui_url"])
    page.get_by_role("button", name="Retry").first.click(timeout=60_000)
    page.get_by_role("dialog").get_by_role("button", name="Retry").click()
    ended = wait_for_end(server, failed["flow_run_id"], after=1)
    assert ("Completed", "2 orders filled") == (ended["state_name"], ended["state"]["message"][:15])
    page.get_by_text("Completed", exact=True).first.wait_for(timeout=60_000)


@pytest.mark.slow
def test_the_page_of_automations_shows_ours_and_what_each_is_for(
    served: Any, server: Any, page: Any, home: Path
) -> None:
    mandate = home / "web.toml"
    mandate.write_text(MANDATE % "MSFT")
    deployed = served("deploy", mandate, "--json").json

    page.goto(f"{server.ui_url}/automations")
    page.get_by_text("Tradewright: plan is stale").wait_for(timeout=60_000)
    text = page.inner_text("body")
    assert [] == [name for name in deployed["automations"] if name not in text]
    assert "What a plan was made from no longer holds: the plan is made anew." in text
    keep(page, "automations.png")
