"""The page and its controls in a real browser."""

from __future__ import annotations

import re

import pytest

from oblong.cli.play.models import fit
from oblong.cli.play.program import as_python
from tests.cli.play.browsing import SHEET, open_table, settle, state_of, table

api = pytest.importorskip("playwright.sync_api")


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
