"""Undo and redo in a real browser."""

from __future__ import annotations

import pytest

from tests.cli.play.browsing import SHEET, open_table, settle, state_of

api = pytest.importorskip("playwright.sync_api")


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
