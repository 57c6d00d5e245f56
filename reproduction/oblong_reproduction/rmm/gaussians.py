"""Two long Gaussians: boundaries, growth of the sample, stretch, and the bound (figures 3 to 6)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from oblong_reproduction._data import Sets
from oblong_reproduction._experiment import Cell, Choice, Experiment, Results
from oblong_reproduction._figure import class_style, figure, line_across, model_style
from oblong_reproduction._papers import RMM
from oblong_reproduction._verdict import Row, after_the_fact, claim, statement, value_row
from oblong_reproduction.rmm._gaussians import angle, errors_of, fit_line, sample
from oblong_reproduction.rmm._grid import SPREADS, best_on_grid

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SIZES = (25, 50, 100, 200, 400, 800, 1600, 3200, 6400, 12_800)
_STRETCHES = (1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0)
_PENALTIES = tuple(10.0**k for k in range(-1, 6))
# Stretched rows in the unit box are narrow: larger weights, and penalties, part them.
_LARGER = tuple(10.0**k for k in range(-1, 9))
_BOUNDS = (1.0, 1.1, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0, 5.0, 7.0, 10.0, 15.0, 20.0, 30.0)
_BAYES = 0.817
# From this many rows on both are near the best error: more draws are needed to tell them apart.
_LARGE, _DRAWS = 3200, 200


def _selected_cell(
    sets: Sets,
    rng: np.random.Generator,
    *,
    n: int,
    stretch: float,
    draw: int,
    held: int,
    fixed: float | None = None,
    penalties: Sequence[float] = _PENALTIES,
) -> dict:
    """SVM and RMM with parameters chosen on validation rows, and their test errors."""
    X, y, Z, z, normal, offset = sample(rng, n, stretch, held)
    lines, settings = [], []
    for C in penalties if fixed is None else (fixed,):
        svm, theta = fit_line(X, y, C, None)
        for spread in SPREADS:
            B = 1.0 + spread * (max(theta, 1.0) - 1.0)
            lines.append(svm if spread == 1.0 else fit_line(X, y, C, B)[0])
            settings.append((C, spread))
    validation, test = errors_of(Z, z, np.array(lines))
    result: dict = {"bayes": errors_of(Z, z, np.array([[*normal, offset]]))[1, 0]}
    for name, spreads in (("svm", (1.0,)), ("rmm", SPREADS)):
        k = best_on_grid(validation, settings, spreads)
        result |= {
            name: test[k],
            f"{name}_C": settings[k][0],
            f"{name}_spread": settings[k][1],
            f"{name}_angle": angle(lines[k][:2], normal),
        }
        if n == 100 and draw < 2:
            result[f"{name}_line"] = lines[k]
    if n == 100 and draw < 2:
        result |= {"points": X.round(4), "labels": y, "bayes_line": [*normal, offset]}
    return result


def _selected(n: int, stretch: float, draw: int, quick: bool, owner: str | None = None) -> Cell:
    return Cell(
        f"n-{n}/stretch-{stretch:g}/draw-{draw}",
        _selected_cell,
        {"n": n, "stretch": stretch, "draw": draw, "held": 20_000 if quick else 200_000},
        draw=f"n-{n}/draw-{draw}",
        owner=owner,
    )


def _selected_choices(results: Results) -> Iterator[Choice]:
    for cell in _free(results):
        for name, title in (("svm", "SVM"), ("rmm", "RMM")):
            yield Choice(f"{title}, C", cell[f"{name}_C"], cell.get("penalties", _PENALTIES))


def _figure_3_cells(quick: bool) -> list[Cell]:
    return [_selected(100, 1.0, i, quick, "rmm-fig4") for i in range(10 if quick else 50)]


def _figure_3_rows(results: Results) -> Iterator[Row]:
    yield claim(
        "angle between the boundary and the best one, RMM below SVM",
        "RMM significantly closer to the Bayes optimal solution",
        results["rmm_angle"],
        results["svm_angle"],
        unit="°",
    )


def _figure_3_draw(results: Results) -> Figure | None:
    found = results.having("points")
    if not found:
        return None
    page, axes = figure(1, len(found), width=3.6, height=3.4)
    for ax, cell in zip(axes.flat, found):
        points, labels = np.array(cell["points"]), np.array(cell["labels"])
        for label in (0, 1):
            ax.scatter(*points[labels == label].T, s=12, **class_style(label))
        ax.set(xlim=(0, 1), ylim=(0, 1), title=f"draw {cell['draw']}")
        for position, name in enumerate(("svm", "rmm", "bayes")):
            *w, b = cell[f"{name}_line"]
            title = {"svm": "SVM", "rmm": "RMM", "bayes": "Bayes"}[name]
            line_across(ax, w, b, label=title, **model_style(position))
    axes[0, 0].legend(frameon=False)
    return page


FIGURE_3 = Experiment(
    name="rmm-fig3",
    paper=RMM,
    title="boundaries of SVM and RMM on two long Gaussians, next to the best one",
    cells=_figure_3_cells,
    rows=_figure_3_rows,
    draw=_figure_3_draw,
    minutes=0.5,
    protocol=(
        "100 training rows; parameters by validation as in rmm-fig4, whose cells these are. The "
        "paper shows two draws; here the claim is tested on 50, and the first two are drawn."
    ),
    quick="10 draws instead of 50, 20,000 held-out rows instead of 200,000",
)


def _figure_4_cells(quick: bool) -> list[Cell]:
    if quick:
        return [_selected(n, 1.0, i, quick) for n in (25, 100, 400, 1600) for i in range(10)]
    draws = {n: _DRAWS if n >= _LARGE else 50 for n in _SIZES}
    free = [_selected(n, 1.0, i, quick) for n, number in draws.items() for i in range(number)]
    # The same rows with one C for both.
    fixed = [
        replace(cell, name=f"C-100/{cell.name}", parameters={**cell.parameters, "fixed": 100.0})
        for cell in free
        if cell.parameters["n"] >= _LARGE
    ]
    return free + fixed


def _figure_4_rows(results: Results) -> Iterator[Row]:
    free, fixed = _free(results), results.having("fixed")
    if free:
        tested = float(free["held"].sum()) / 2.0
        yield value_row(
            "error of the Bayes rule (34), next to the exact one, Φ(−4.8023/2)",
            _BAYES,
            float(free["bayes"].mean()),
            tolerance=round(3.0 * 100.0 * np.sqrt(0.00817 / tested), 3),
            basis="three deviations of the share of errors in a sample of this size",
            unit="%",
        )
    for part, words in ((free, ""), (fixed, ", C = 100")):
        for n in sorted({cell["n"] for cell in part}):
            found = part.where(n=n)
            row = claim(
                f"n = {n}{words}: test error of RMM below SVM",
                "RMM lower, significant at 5 %" if n <= 6400 else "RMM lower, less significant",
                found["rmm"],
                found["svm"],
                digits=3,
                unit="%",
            )
            yield after_the_fact(row) if words else row
    sizes = sorted({cell["n"] for cell in free})
    if len(sizes) > 1:
        gaps = [f["svm"] - f["rmm"] for f in (free.where(n=n) for n in sizes)]
        # Draws of different sizes are paired by their number, which both must have.
        number = min(len(gaps[0]), len(gaps[-1]))
        yield claim(
            f"the advantage at n = {sizes[-1]} below that at n = {sizes[0]}",
            "shrinks as the sample grows",
            gaps[-1][:number],
            gaps[0][:number],
            digits=3,
            unit="%",
        )


def _free(results: Results) -> Results:
    """Cells in which C was chosen."""
    return Results(cell for cell in results if "fixed" not in cell)


def _curves(results: Results, key: str, label: str, log: bool) -> Figure | None:
    if not results:
        return None
    page, axes = figure(width=5.2, height=3.4)
    ax = axes[0, 0]
    places = sorted({cell[key] for cell in results})
    for position, (name, title) in enumerate((("svm", "SVM"), ("rmm", "RMM"), ("bayes", "Bayes"))):
        found = [results.where(**{key: place})[name] for place in places]
        means = np.array([values.mean() for values in found])
        errors = [values.std() / np.sqrt(max(len(values) - 1, 1)) for values in found]
        ax.errorbar(places, means, errors, label=title, capsize=2, **model_style(position))
    if log:
        ax.set_xscale("log")
    ax.set(xlabel=label, ylabel="test error, %")
    ax.legend(frameon=False)
    return page


FIGURE_4 = Experiment(
    name="rmm-fig4",
    paper=RMM,
    title="test error on two long Gaussians as the sample grows",
    cells=_figure_4_cells,
    rows=_figure_4_rows,
    choices=_selected_choices,
    draw=lambda results: _curves(_free(results), "n", "training rows", True),
    minutes=15,
    finding=(
        "The RMM leads up to 6,400 rows, as in the paper; from 3,200 rows on the lead is a few "
        "thousandths of a point, within 0.01 points of the best possible error, and took more "
        "than 50 draws to see. At 12,800 rows, where the paper still has a lead, there is none. "
        "With one C = 100 for both the lead at 3,200 and 6,400 rows is about three times as "
        "large: how near the SVM comes depends on the search for C, which the paper does not "
        "state."
    ),
    protocol=(
        "Both classes Gaussian with the paper's means and covariance, all rows scaled into the "
        "unit box. 200,000 held-out rows, half for the choice of C and B, half for the test; 50 "
        "draws. Of 3,200 rows and more 200 draws, there with C = 100 as well; they were added when "
        "the first 50 had been seen. C from 10⁻¹ to 10⁵ by tens; B = 1 + ρ(θ − 1), ρ 1, 0.5, 0.25, "
        "0.1, 0.05, 0.02, 0, with θ the largest output of the SVM of the same C. Grids, the sizes "
        "below 6,400 and the split of the held-out rows are not stated in the paper."
    ),
    quick="10 draws instead of 50, 4 sizes, 20,000 held-out rows instead of 200,000",
)


def _figure_5_cells(quick: bool) -> list[Cell]:
    stretches = (1.0, 4.0, 10.0) if quick else _STRETCHES
    cells = [_selected(100, s, i, quick) for s in stretches for i in range(10 if quick else 50)]
    own = {"penalties": list(_LARGER)}
    return [replace(cell, parameters={**cell.parameters, **own}) for cell in cells]


def _figure_5_rows(results: Results) -> Iterator[Row]:
    for stretch in _STRETCHES:
        found = results.where(stretch=stretch)
        if found:
            yield claim(
                f"s = {stretch:g}: test error of RMM below SVM",
                "RMM lower, significant at 1 %",
                found["rmm"],
                found["svm"],
                level=0.01,
                digits=3,
                unit="%",
            )
    first, last = results.where(stretch=1.0), results.where(stretch=_STRETCHES[-1])
    if len(first) != len(last) or not first:
        return
    yield claim(
        f"the error of the SVM rises from s = 1 to s = {_STRETCHES[-1]:g}",
        "deteriorates significantly",
        first["svm"],
        last["svm"],
        digits=3,
        unit="%",
    )
    svm, rmm = (float(np.mean(last[name] - first[name])) for name in ("svm", "rmm"))
    yield statement(
        "the error of the RMM does not move",
        "remains resilient",
        f"rises by {rmm:.3f} %, that of the SVM by {svm:.3f} %",
        rmm <= 0.1 * svm,
        "a tenth of the rise of the SVM, or less",
    )


FIGURE_5 = Experiment(
    name="rmm-fig5",
    paper=RMM,
    title="test error as the data are stretched along the best boundary",
    cells=_figure_5_cells,
    rows=_figure_5_rows,
    choices=_selected_choices,
    draw=lambda results: _curves(results, "stretch", "stretch s", False),
    minutes=4,
    protocol=(
        "As rmm-fig4 with 100 training rows, all rows stretched along the best boundary by s "
        "(35), then scaled into the unit box; C from 10⁻¹ to 10⁸. The range of s is not stated in "
        "the text."
    ),
    quick="10 draws instead of 50, 3 stretches, 20,000 held-out rows instead of 200,000",
)


def _figure_6_cell(sets: Sets, rng: np.random.Generator, *, draw: int, held: int) -> dict:
    """Test errors along the bounds, for C = 100."""
    X, y, Z, z, _, _ = sample(rng, 100, 1.0, held)
    svm, theta = fit_line(X, y, 100.0, None)
    lines = [svm] + [svm if theta <= B else fit_line(X, y, 100.0, B)[0] for B in _BOUNDS]
    test = errors_of(Z, z, np.array(lines))[1]
    return {"svm": test[0], "along": test[1:], "theta": theta}


def _figure_6_cells(quick: bool) -> list[Cell]:
    held = 20_000 if quick else 200_000
    return [
        Cell(f"draw-{i}", _figure_6_cell, {"draw": i, "held": held})
        for i in range(10 if quick else 50)
    ]


def _figure_6_rows(results: Results) -> Iterator[Row]:
    # The bound is chosen on every other draw and tested on the rest.
    chosen, tested = results["along"][::2], results["along"][1::2]
    best = int(np.argmin(chosen.mean(axis=0)))
    yield claim(
        f"test error at B = {_BOUNDS[best]:g}, the best on other draws, below that of the SVM",
        "falls from the SVM to a minimum",
        tested[:, best],
        results["svm"][1::2],
        digits=3,
        unit="%",
    )
    yield claim(
        f"test error at B = {_BOUNDS[best]:g} below that at B = 1",
        "rises again for smaller B",
        tested[:, best],
        tested[:, 0],
        digits=3,
        unit="%",
    )


def _figure_6_draw(results: Results) -> Figure:
    page, axes = figure(width=5.2, height=3.4)
    ax = axes[0, 0]
    ax.plot(_BOUNDS, results["along"].mean(axis=0), label="RMM", marker="o", **model_style(1))
    ax.axhline(results["svm"].mean(), label="SVM", **model_style(0))
    ax.set(xlabel="B", ylabel="test error, %", xscale="log")
    ax.legend(frameon=False)
    return page


FIGURE_6 = Experiment(
    name="rmm-fig6",
    paper=RMM,
    title="test error along the bound B for C = 100",
    cells=_figure_6_cells,
    rows=_figure_6_rows,
    draw=_figure_6_draw,
    minutes=0.5,
    protocol=(
        "Data of rmm-fig4 with 100 training rows, 50 draws: 25 say which bound is the best, the "
        "other 25 compare it. The number of training rows is not stated for this figure."
    ),
    quick="10 draws instead of 50, 20,000 held-out rows instead of 200,000",
)
