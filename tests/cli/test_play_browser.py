"""The page of ``oblong play`` in a real browser, where Playwright and a Chromium are found."""

from __future__ import annotations

import io
import os
import re
import shutil
import threading

import numpy as np
import pytest

import oblong
from oblong.cli.play.models import State, as_python
from oblong.cli.play.server import PlayServer

api = pytest.importorskip("playwright.sync_api")
image = pytest.importorskip("PIL.Image")

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# What no page may have: requests to elsewhere, errors, and breaches of its own policy.
PROBLEMS: list[str] = []


@pytest.fixture(scope="module")
def browser():
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


@pytest.fixture(scope="module")
def server():
    with PlayServer() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def visit(browser, server):
    contexts = []

    def visit(state="", scheme="light", **size):
        context = browser.new_context(
            color_scheme=scheme,
            viewport={"width": 1200, "height": 900} | size,
            permissions=["clipboard-read", "clipboard-write"],
        )
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: PROBLEMS.append(str(error)))
        page.on("console", lambda told: PROBLEMS.extend(complaint(told.text)))
        page.on("request", lambda sent: PROBLEMS.extend(foreign(sent.url, server)))
        page.goto(server.url + state)
        settle(page)
        return page

    yield visit
    for context in contexts:
        context.close()
    told, PROBLEMS[:] = list(PROBLEMS), []
    assert told == []


def foreign(url, server):
    here = url.startswith((f"http://127.0.0.1:{server.server_port}/", "data:"))
    return [] if here else [f"asked for {url}"]


def complaint(text):
    # An answer 400, which the page shows.
    return [] if text.startswith("Failed to load resource") else [text]


def settle(page):
    page.wait_for_selector("#plot[data-state=ready]", timeout=120_000)


def state_of(page):
    """What the address holds, as a request."""
    page.wait_for_timeout(250)
    given = dict(part.split("=", 1) for part in page.url.partition("#")[2].split("&"))
    points = [[*map(float, p.split(",")[:2]), int(p[-1])] for p in given["p"].split(";") if p]
    names = ("C", "gamma", "spread", "D", "coverage", "nu", "stretch", "angle")
    return {
        "points": points,
        "models": given["m"].split(","),
        "kernel": given["k"],
        "settings": {name: float(given[name]) for name in names},
        "standardize": given["z"] == "1",
    }


POINTS = ";".join(
    f"{x:.4f},{y:.4f},{int(x * x + y > 0.3)}"
    for x, y in np.random.default_rng(0).uniform(-1, 1, size=(40, 2))
)


@pytest.mark.parametrize(
    ("scheme", "kernel", "colour"),
    [("light", "rbf", (214, 36, 106)), ("dark", "linear", (255, 111, 165))],
)
def test_the_lines_are_where_the_decision_function_says(visit, scheme, kernel, colour):
    page = visit(f"#m=rmm&k={kernel}&C=8&spread=0.4&p={POINTS}", scheme)
    # The axes of the picture, from where the page has put two of the points.
    state = State.from_json(state_of(page))
    X, y = state.arrays()
    places = page.evaluate(
        "[...document.querySelectorAll('#points path')].map(p => {"
        " const m = p.getCTM(); return [m.e, m.f]; })"
    )
    shot = page.locator("#plot").screenshot()
    pixels = np.asarray(image.open(io.BytesIO(shot)).convert("RGB")).astype(float)
    affine = np.linalg.lstsq(
        np.column_stack([np.array(places), np.ones(len(places))]), X, rcond=None
    )[0]
    rows, columns = np.nonzero(np.abs(pixels - colour).max(axis=2) <= 12)
    assert len(rows) > 300
    # The middle of a pixel; the picture has a border of one pixel around the plot.
    drawn = np.column_stack([columns - 0.5, rows - 0.5, np.ones(len(rows))]) @ affine
    model = oblong.RelativeMarginClassifier(C=8.0, spread=0.4, kernel=kernel).fit(X, y)
    pixel = np.abs(affine[:2]).max()

    def distance(points, level):
        """To the level set in pixels, to first order."""
        step = 0.5 * pixel * np.eye(2)
        slope = [
            (model.decision_function(points + e) - model.decision_function(points - e)) / pixel
            for e in step
        ]
        return (model.decision_function(points) - level) / np.hypot(*slope) / pixel

    levels = (0.0, model.B_[0], -model.B_[0])
    apart = np.min([np.abs(distance(drawn, level)) for level in levels], axis=0)
    assert apart.max() < 2.5
    # And where it vanishes, there is a line, unless a point lies on it.
    height, width = pixels.shape[:2]
    v, u = np.mgrid[10 : height - 10, 10 : width - 10]
    every = np.column_stack([u.ravel() - 0.5, v.ravel() - 0.5, np.ones(u.size)]) @ affine
    outputs = model.decision_function(every).reshape(u.shape)
    above = outputs > 0
    crossed = (above[:-1, :-1] != above[:-1, 1:]) | (above[:-1, :-1] != above[1:, :-1])
    coloured = np.abs(pixels - colour).max(axis=2) <= 60
    near = np.zeros_like(coloured)
    for down in range(-2, 3):
        for right in range(-2, 3):
            near |= np.roll(coloured, (down, right), axis=(0, 1))
    covered = near[10:-11, 10:-11][crossed]
    assert covered.size > 100
    assert covered.mean() > 0.9


def test_points_are_added_dragged_and_removed_and_the_address_keeps_them(visit):
    page = visit()
    before = state_of(page)
    assert len(before["points"]) == 60
    box = page.locator("#plot").bounding_box()
    x, y = box["x"] + 0.3 * box["width"], box["y"] + 0.2 * box["height"]
    page.mouse.click(x, y)
    settle(page)
    put = state_of(page)["points"]
    assert put[:-1] == before["points"]
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 50, y + 80, steps=4)
    page.mouse.up()
    settle(page)
    dragged = state_of(page)["points"]
    assert dragged[:-1] == before["points"]
    assert dragged[-1][0] > put[-1][0]
    assert dragged[-1][1] < put[-1][1]
    lines = page.locator("#lines path").evaluate_all("all => all.map(p => p.getAttribute('d'))")
    page.reload()
    settle(page)
    assert state_of(page)["points"] == dragged
    again = page.locator("#lines path").evaluate_all("all => all.map(p => p.getAttribute('d'))")
    assert again == lines
    # The view fits the points again, so the point may be elsewhere.
    mark = page.locator("#points path").last.bounding_box()
    page.mouse.dblclick(mark["x"] + mark["width"] / 2, mark["y"] + mark["height"] / 2)
    settle(page)
    assert state_of(page)["points"] == before["points"]
    # Clicks do not mark the numbers at the axes.
    assert page.evaluate("() => getSelection().toString()") == ""


def test_keys_and_names_are_enough(visit):
    page = visit(width=480, height=800)
    unnamed = page.evaluate(
        "[...document.querySelectorAll('input, select, textarea, button')].filter("
        "e => !(e.labels?.length || e.textContent.trim() || e.getAttribute('aria-label')))"
        ".map(e => e.outerHTML)"
    )
    assert unnamed == []
    # Nothing is wider than a small screen.
    assert page.evaluate("document.documentElement.scrollWidth") <= 480
    plot = page.locator("#plot")
    plot.focus()
    for key in ("Shift+ArrowUp", "ArrowRight", "3"):
        page.keyboard.press(key)
    # Before the summary of the models, which follows, is said.
    assert page.inner_text("#said").startswith("added point 61 of 61, class 3, x ")
    settle(page)
    assert state_of(page)["points"][-1][2] == 2
    for key in ("p", "Enter", "Shift+ArrowLeft", "Enter"):
        page.keyboard.press(key)
    assert page.inner_text("#said").startswith("dropped point 60 of 61")
    page.keyboard.press("Delete")
    settle(page)
    assert len(state_of(page)["points"]) == 60
    for _ in range(2):
        page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "s-stretch"


def test_sliders_models_and_the_copied_program(visit, capsys):
    page = visit("#m=svm,rmm&stretch=1")
    page.check("#batch input[value=ekm]")
    for _ in range(16):
        page.press("#s-stretch", "ArrowRight")
    page.check("#standardize")
    page.check("#stretched")
    settle(page)
    node = state_of(page)
    assert node["models"] == ["svm", "rmm", "ekm"]
    assert node["settings"]["stretch"] == 4.0
    cells = {
        row.get_attribute("data-model"): row.inner_text().split("\t")
        for row in page.locator("#results tr").all()
    }
    turned = {name: float(texts[5].rstrip("°")) for name, texts in cells.items()}
    assert turned["svm"] > 45
    assert turned["ekm"] < 0.1
    assert all(float(texts[3]) < 1e-3 for texts in cells.values())
    page.click("#python")
    page.wait_for_selector("#code:not([hidden])")
    program = page.text_content("#code")
    assert program == as_python(node)
    assert page.evaluate("navigator.clipboard.readText()") == program
    exec(compile(program, "copied", "exec"), {})
    assert re.search(r"EKM: \d+ errors", capsys.readouterr().out)
    page.click("#link")
    assert page.evaluate("navigator.clipboard.readText()") == page.url


def test_a_table_is_loaded_and_markup_in_it_is_text(visit):
    page = visit()
    text = "a,<b>b</b>,c,kind\n" + "".join(f"{i},{-i},{i % 3},{'xy'[i % 2]}\n" for i in range(9))
    file = {"name": "t.csv", "mimeType": "text/csv", "buffer": text.encode()}
    # The first table may compile its reader.
    with page.expect_response("**/fit", timeout=120_000):
        page.set_input_files("#file", file)
    page.wait_for_selector("#columns:not([hidden])")
    settle(page)
    assert [p[:2] for p in state_of(page)["points"]] == [[i, -i] for i in range(9)]
    assert page.locator("#axes b").count() == 0
    with page.expect_response("**/fit"):
        page.select_option("#y", "c")
    settle(page)
    assert [p[1] for p in state_of(page)["points"]] == [i % 3 for i in range(9)]
    page.set_input_files("#file", file | {"buffer": b"one column\n1\n"})
    page.get_by_text("expected columns separated by").wait_for()
