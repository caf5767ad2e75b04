"""What a person sees in the Prefect UI after a run, in a real browser.

With TRADEWRIGHT_SCREENSHOTS naming a folder, the pages are kept there as pictures: so docs/images is made.
"""

import json
import os
import shutil
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

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
    body = json.dumps({"flow_runs": {"id": {"any_": [run]}}}).encode()
    request = urllib.request.Request(
        f"{server.api_url}/artifacts/filter", data=body, headers={"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        (found,) = json.loads(answer.read())
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
