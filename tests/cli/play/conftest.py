"""The server of the page, and a real browser, where Playwright and a Chromium are found."""

from __future__ import annotations

import os
import shutil
import threading

import pytest

from oblong.cli.play.server import PlayServer
from tests.cli.play.browsing import complaint, foreign, settle

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@pytest.fixture(scope="module")
def server():
    with PlayServer() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def browser():
    api = pytest.importorskip("playwright.sync_api")
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    with api.sync_playwright() as driver:
        if found is None and not os.path.exists(driver.chromium.executable_path):
            pytest.skip("no Chromium: install one, or run playwright install chromium")
        # The sandbox of Chromium does not start for the superuser of a container.
        root = hasattr(os, "geteuid") and os.geteuid() == 0
        browser = driver.chromium.launch(
            executable_path=found, args=["--no-sandbox"] if root else []
        )
        yield browser
        browser.close()


@pytest.fixture
def visit(browser, server):
    # What no page may have: requests to elsewhere, errors, and breaches of its own policy.
    contexts, problems = [], []

    def visit(state="", scheme="light", **size):
        context = browser.new_context(
            color_scheme=scheme,
            viewport={"width": 1200, "height": 900} | size,
            permissions=["clipboard-read", "clipboard-write"],
        )
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda told: problems.extend(complaint(told.text)))
        page.on("request", lambda sent: problems.extend(foreign(sent.url, server)))
        page.goto(server.url + state)
        settle(page)
        return page

    yield visit
    for context in contexts:
        context.close()
    assert problems == []
