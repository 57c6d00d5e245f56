"""The picture and the table below it in a real browser."""

from __future__ import annotations

import io

import numpy as np
import pytest

import oblong
from oblong.cli.play.models import State
from tests.cli.play.browsing import state_of

image = pytest.importorskip("PIL.Image")


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
