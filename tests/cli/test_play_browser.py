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
from oblong.cli.play.models import State, fit
from oblong.cli.play.program import as_python
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
        "stretched": given["f"] == "1",
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
    # Behind the help and the table.
    for _ in range(3):
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
    turned = {name: float(texts[4].rstrip("°")) for name, texts in cells.items()}
    assert turned["svm"] > 45
    assert turned["ekm"] < 0.1
    assert all(float(texts[2]) < 1e-3 for texts in cells.values())
    page.click("#python")
    page.wait_for_selector("#code:not([hidden])")
    program = page.text_content("#code")
    assert program == as_python(node)
    assert page.evaluate("navigator.clipboard.readText()") == program
    pytest.importorskip("matplotlib.pyplot").switch_backend("Agg")
    exec(compile(program.replace("plt.show()", ""), "copied", "exec"), {})
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
    assert page.inner_text("#note") == "t.csv."


def table(text, name="t.csv"):
    return {"name": name, "mimeType": "text/csv", "buffer": text.encode()}


SHEET = "Datum;Kunde;Größe;Umsatz;Rabatt;Art\n" + "".join(
    f"{i % 28 + 1}.03.2024;Kunde {i};{i},5;{i * i};{i % 5};{'ja' if i % 3 else 'nein'}\n"
    for i in range(20)
)


def open_table(page, *given):
    with page.expect_response("**/fit", timeout=120_000):
        page.set_input_files("#file", table(*given))
    settle(page)


def test_a_table_with_text_and_dates_is_drawn_and_says_what_is_not(visit):
    page = visit()
    open_table(page, SHEET, "Umsätze 2024.csv")
    assert state_of(page)["points"][1] == [1.5, 1.0, 0]
    told = page.inner_text("#note")
    assert told == 'Umsätze 2024.csv. Columns left out: "Datum" (dates), "Kunde" (text).'
    columns = page.locator("#y option").all_inner_texts()
    assert columns == ["Größe", "Umsatz", "Rabatt"]
    with page.expect_response("**/fit"):
        page.select_option("#y", "Rabatt")
    settle(page)
    assert state_of(page)["points"][1] == [1.5, 1.0, 0]
    assert state_of(page)["points"][7] == [7.5, 2.0, 0]
    # A column that cannot be the class: the points and the choice stay.
    before = page.url
    page.select_option("#target", "Kunde")
    page.get_by_text("at most 6 classes").wait_for()
    assert page.input_value("#target") == "Art"
    assert page.url == before


def test_tables_as_excel_writes_them(visit):
    page = visit()
    for encoding in ("cp1252", "utf-16"):
        sent = table("") | {"buffer": SHEET.encode(encoding)}
        with page.expect_response("**/fit", timeout=120_000):
            page.set_input_files("#file", sent)
        assert page.locator("#x option").first.inner_text() == "Größe"
    page.set_input_files("#file", table("PK\x03\x04", "book.xlsx"))
    page.get_by_text("book.xlsx is an Excel workbook").wait_for()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_an_error_is_seen_where_it_happens(visit, scheme):
    page = visit(scheme=scheme, width=400, height=800)
    page.evaluate("document.querySelector('#said').textContent = 'of before'")
    page.locator("#file").evaluate("e => e.labels[0].scrollIntoView({block: 'center'})")
    page.set_input_files("#file", table("one column\n1\n", "short.csv"))
    problem = page.locator("#problem")
    problem.get_by_text("short.csv, row 1: expected columns separated by").wait_for()
    box = problem.bounding_box()
    assert box["y"] >= 0
    assert box["y"] + box["height"] <= 800
    colour = problem.evaluate("e => getComputedStyle(e).color")
    assert colour != page.locator("#status").evaluate("e => getComputedStyle(e).color")
    red, green, blue = map(int, re.findall(r"\d+", colour))
    assert red > 1.4 * max(green, blue)
    # Nothing old is left to be read out, and the old picture is still there.
    assert page.inner_text("#said") == ""
    assert len(state_of(page)["points"]) == 60
    problem.get_by_role("button").click()
    assert problem.is_hidden()
    page.set_input_files("#file", table("one column\n1\n", "short.csv"))
    problem.get_by_text("short.csv").wait_for()
    page.check("#standardize")
    assert problem.is_hidden()


def test_undo_brings_back_what_was_removed_or_replaced(visit):
    page = visit()
    assert page.is_disabled("#undo")
    first = state_of(page)["points"]

    def changes_to(count):
        api.expect(page.locator("#points path")).to_have_count(count)
        settle(page)
        return state_of(page)["points"]

    page.click("#clear")
    assert changes_to(0) == []
    page.keyboard.press("Control+z")
    assert changes_to(60) == first
    page.keyboard.press("Control+Shift+z")
    assert changes_to(0) == []
    page.click("#undo")
    assert changes_to(60) == first
    page.select_option("#preset", "moons")
    changes_to(100)
    open_table(page, SHEET)
    changes_to(20)
    assert page.is_visible("#columns")
    page.go_back()
    changes_to(100)
    assert page.is_hidden("#columns")
    page.go_back()
    assert changes_to(60) == first
    assert page.is_disabled("#undo")
    for count in (100, 20):
        page.click("#redo")
        changes_to(count)
    assert page.is_disabled("#redo")
    # The columns of the table can be chosen again.
    with page.expect_response("**/fit"):
        page.select_option("#y", "Rabatt")
    changes_to(20)
    # A page that is loaded again has its steps, and so has one that was left.
    page.reload()
    settle(page)
    page.click("#undo")
    page.click("#undo")
    changes_to(100)
    page.goto("about:blank")
    page.go_back()
    settle(page)
    changes_to(100)


def test_a_drag_and_a_slider_are_one_step_each(visit):
    page = visit()
    box = page.locator("#plot").bounding_box()
    x, y = box["x"] + 0.3 * box["width"], box["y"] + 0.2 * box["height"]
    page.mouse.move(x, y)
    page.mouse.down()
    for k in range(4):
        page.mouse.move(x + 20 * k, y)
        page.wait_for_timeout(250)
    page.mouse.up()
    settle(page)
    page.wait_for_timeout(250)
    assert page.evaluate("history.state.step") == 1
    page.keyboard.press("Control+z")
    api.expect(page.locator("#points path")).to_have_count(60)
    page.press("#s-stretch", "ArrowRight")
    page.wait_for_timeout(250)
    # The keys of the page, while a slider has the focus.
    page.press("#s-stretch", "Control+z")
    api.expect(page.locator("#s-stretch")).to_have_value("0")


def test_the_copied_program_goes_when_it_is_stale(visit):
    page = visit()
    page.click("#python")
    page.wait_for_selector("#code:not([hidden])")
    assert page.inner_text("#copied") == "The program is copied."
    open_table(page, SHEET)
    assert page.is_hidden("#code")
    assert page.inner_text("#copied") == ""
    page.click("#python")
    page.wait_for_selector("#code:not([hidden])")
    assert "[1.5, 1.0]" in page.text_content("#code")
    assert "xlabel='Größe'" in page.text_content("#code")
    page.press("#s-C", "ArrowRight")
    assert page.is_hidden("#code")


def test_points_as_text_take_effect_at_once_and_name_the_line_that_is_wrong(visit):
    page = visit()
    page.get_by_text("Points as text").click()
    page.fill("#text", "0, 0, 1\n\n1 1 2\n0;1;1")
    api.expect(page.locator("#points path")).to_have_count(3)
    assert page.evaluate("document.activeElement.id") == "text"
    assert page.input_value("#text") == "0, 0, 1\n\n1 1 2\n0;1;1"
    page.fill("#text", "0, 0, 1\n1, 1, 2\nabc\n2, 2, 9")
    page.press("#text", "Tab")
    page.get_by_text("line 3: expected x, y and a class from 1 to 6").wait_for()
    assert "“abc”" in page.inner_text("#problem")
    # Nothing was dropped, here or there.
    assert "abc" in page.input_value("#text")
    assert len(state_of(page)["points"]) == 3


@pytest.mark.parametrize("width", [400, 800, 1300])
def test_the_table_is_whole_and_the_picture_is_large(visit, width):
    page = visit("#m=svm,rmm,mve,sop&stretch=4&k=rbf", width=width, height=800)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    scroll = page.locator(".scroll")
    assert scroll.evaluate("e => e.scrollWidth <= e.clientWidth")
    plot = page.locator("#plot").bounding_box()
    if width == 400:
        assert plot["width"] >= 360
    elif width == 800:
        assert plot["width"] >= 480
        # The stretch is beside the picture.
        assert page.locator("#s-stretch").bounding_box()["x"] > plot["x"] + plot["width"]
    else:
        assert plot["width"] >= 620


def test_on_a_laptop_everything_is_seen_at_once(visit):
    page = visit("#m=svm,rmm,ekm,mve&stretch=4", width=1300, height=800)
    for name in ("#s-stretch", "#s-nu", "#preset", "label[for=file]", "#python", "#results"):
        box = page.locator(name).bounding_box()
        assert box["y"] + box["height"] <= 800


def test_the_first_fit_does_not_show_how_long_loading_takes(visit, monkeypatch):
    def slow(node):
        answer = fit(node)
        answer["delay"] += 3600.0
        return answer

    monkeypatch.setattr("oblong.cli.play.server.fit", slow)
    page = visit("#C=1.125")
    told = page.inner_text("#status")
    assert re.search(r", after (3600|7200)\.0 s of loading\.$", told)


def test_a_command_that_has_ended_is_an_error(visit, server):
    page = visit()
    page.route("**/fit", lambda route: route.abort())
    page.check("#standardize")
    page.locator("#problem").get_by_text("The command has ended").wait_for()
    assert page.inner_text("#status") == ""
    page.unroute("**/fit")
    page.uncheck("#standardize")
    settle(page)
    assert page.locator("#problem").is_hidden()
    assert "fitted and drawn" in page.inner_text("#status")
