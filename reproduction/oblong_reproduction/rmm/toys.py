"""Three scalings of one picture (figure 1) and bounds of two toys (figure 2 and table 1)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from oblong import RelativeMarginClassifier
from oblong.bounds import data_terms
from oblong.datasets import make_bound_toys, make_parallel_lines
from oblong_reproduction._data import Sets
from oblong_reproduction._experiment import Cell, Experiment, Results
from oblong_reproduction._figure import class_style, figure, line_across, model_style
from oblong_reproduction._papers import RMM
from oblong_reproduction._verdict import Row, not_comparable, statement

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Absolute margins and relative margins in per cent of the SVM; those of the RMM are 0.71 and 100.
_PUBLISHED = ((1.24, 41), (1.51, 28), (2.08, 21))
# With half the distance of the lines 0.71, these bring the SVM's margins near those in print.
_GAP, _OFFSET, _LENGTH_SCALES = 0.71, 1.0, (1.017, 1.333, 1.955)


def _figure_1_cell(sets: Sets, rng: np.random.Generator, *, stretch: float) -> dict:
    """Margins of both classifiers on the lines, stretched."""
    X, y = make_parallel_lines(40, gap=_GAP, offset=_OFFSET, stretch=stretch, random_state=0)
    result: dict = {"points": X.round(5), "labels": y}
    bounds: dict[str, dict[str, Any]] = {"svm": {"spread": 1.0}, "rmm": {"B": 1.0 + 1e-6}}
    for name, bound in bounds.items():
        model = RelativeMarginClassifier(kernel="linear", C=1e6, tol=1e-6, **bound).fit(X, y)
        outputs = np.abs(model.decision_function(X))
        norm = float(np.linalg.norm(model.coef_))
        result |= {
            f"{name}_line": [*model.coef_[0], model.intercept_[0]],
            f"{name}_margin": float(outputs.min() / norm),
            f"{name}_relative": float(100.0 * outputs.min() / outputs.max()),
            f"{name}_outputs": model.decision_function(X).round(5),
        }
    return result


def _figure_1_cells(quick: bool) -> list[Cell]:
    return [Cell(f"stretch-{s:g}", _figure_1_cell, {"stretch": s}) for s in _LENGTH_SCALES]


def _figure_1_rows(results: Results) -> Iterator[Row]:
    why = "the points of the figure are not in print; two lines stand in for them"
    for (margin, relative), cell in zip(_PUBLISHED, results):
        yield not_comparable(
            f"SVM, stretch {cell['stretch']:g}: margin, relative margin",
            f"{margin:.2f}, {relative} %",
            f"{cell['svm_margin']:.2f}, {cell['svm_relative']:.0f} %",
            why,
        )
        yield not_comparable(
            f"RMM, stretch {cell['stretch']:g}: margin, relative margin",
            "0.71, 100 %",
            f"{cell['rmm_margin']:.2f}, {cell['rmm_relative']:.0f} %",
            why,
        )
    if len(results) < len(_LENGTH_SCALES):
        return
    relative, margins = results["svm_relative"], results["rmm_margin"]
    yield statement(
        "stretching lowers the relative margin of the SVM",
        "41 %, 28 %, 21 %",
        ", ".join(f"{r:.0f} %" for r in relative),
        bool((np.diff(relative) < 0).all()),
        "each stretch",
    )
    yield statement(
        "the RMM does not move",
        "margin 0.71 and relative margin 100 % at every stretch",
        ", ".join(f"{m:.3f}" for m in margins),
        bool(np.ptp(margins) < 1e-3 and results["rmm_relative"].min() > 99.9),
        "margins equal to 0.001, relative margins above 99.9 %",
    )


def _figure_1_draw(results: Results) -> Figure:
    page, axes = figure(len(results), 2, width=3.8, height=2.0)
    for (left, right), cell in zip(axes, results):
        points, labels = np.array(cell["points"]), np.array(cell["labels"])
        for label in (0, 1):
            left.scatter(*points[labels == label].T, s=14, **class_style(label))
        left.set(xlim=(-4.2, 4.2), ylim=(-2.0, 2.0), aspect="equal")
        for position, name in enumerate(("svm", "rmm")):
            *w, b = cell[f"{name}_line"]
            line_across(left, w, b, label=name.upper(), **model_style(position))
            outputs = np.array(cell[f"{name}_outputs"]) / np.linalg.norm(w)
            for label in (0, 1):
                chosen = outputs[labels == label]
                right.scatter(chosen, np.full(len(chosen), -position), s=14, **class_style(label))
        right.set(xlim=(-5.0, 5.0), ylim=(-1.6, 0.6))
        right.set_yticks([0, -1], ["SVM", "RMM"])
    axes[0, 0].legend(frameon=False, fontsize=8)
    return page


FIGURE_1 = Experiment(
    name="rmm-fig1",
    paper=RMM,
    title="largest margin and largest relative margin as the data are stretched",
    cells=_figure_1_cells,
    rows=_figure_1_rows,
    draw=_figure_1_draw,
    minutes=0.1,
    protocol=(
        "Two classes on two lines at ±0.71, C = 10⁶, with stretches that bring the margins of the "
        "SVM near those in print; the RMM has its bound at 1."
    ),
)

_CIRCULAR = "the four constants of the stand-in were fitted to this table"
_BOUNDS = {
    "svm": ("SVM bound", 0.0, (0.643, 0.643)),
    "sigma_0": ("Σ-SVM bound, D = 0", 0.0, (0.643, 0.643)),
    "sigma": ("Σ-SVM bound, D = 0.999", 0.999, (0.859, 0.281)),
    "rmm_0": ("RMM bound, D = 0", 0.0, (0.643, 0.643)),
    "rmm": ("RMM bound, D = 0.999", 0.999, (1.355, 0.315)),
}


def _table_1_cell(sets: Sets, rng: np.random.Generator, *, toy: int) -> dict:
    """Terms of the bounds that depend on the data, for one labelling."""
    X, y = make_bound_toys(toy)
    plain, shaped = data_terms(X, y, D=0.0), data_terms(X, y, D=0.999)
    return {
        "svm": plain.svm,
        "sigma_0": plain.sigma,
        "rmm_0": plain.rmm,
        "sigma": shaped.sigma,
        "rmm": shaped.rmm,
    }


def _table_1_cells(quick: bool) -> list[Cell]:
    return [Cell(f"toy-{toy}", _table_1_cell, {"toy": toy}) for toy in (1, 2)]


def _table_1_rows(results: Results) -> Iterator[Row]:
    for cell in results:
        for key, (title, _, published) in _BOUNDS.items():
            number = f"{published[cell['toy'] - 1]:.3f}"
            yield not_comparable(
                f"toy {cell['toy']}, {title}", number, f"{cell[key]:.3f}", _CIRCULAR
            )
    first, second = results.where(toy=1), results.where(toy=2)
    if not first or not second:
        return
    for key, title in (("sigma", "Σ-SVM"), ("rmm", "RMM")):
        yield not_comparable(
            f"{title}: D = 0.999 helps in toy 2 and hurts in toy 1",
            "D = 0 is better in toy 1, D close to 1 in toy 2",
            f"toy 1 {first[0]['svm']:.3f} → {first[0][key]:.3f}, "
            f"toy 2 {second[0]['svm']:.3f} → {second[0][key]:.3f}",
            _CIRCULAR,
        )


def _table_1_draw(results: Results) -> Figure:
    """The two labellings of one cloud, which are figure 2 of the paper."""
    page, axes = figure(1, 2, width=4.0, height=1.7)
    for ax, toy in zip(axes.flat, (1, 2)):
        X, y = make_bound_toys(toy)
        for position, label in enumerate(np.unique(y)):
            ax.scatter(*X[y == label].T, s=12, **class_style(position))
        ax.set(title=f"toy {toy}", aspect="equal")
    return page


TABLE_1 = Experiment(
    name="rmm-table1",
    paper=RMM,
    title="risk bounds of SVM, Σ-SVM and RMM on two labellings of the same points",
    cells=_table_1_cells,
    rows=_table_1_rows,
    draw=_table_1_draw,
    minutes=0.1,
    protocol=(
        "Terms of the bounds (29) to (31) that depend on the data. The points are in print as a "
        "picture only; oblong.datasets.make_bound_toys is a cloud of the same kind, whose four "
        "constants were fitted so that the table comes out. That ten numbers are consistent with "
        "one cloud is all that is seen here; the table itself is not tested. Drawn is the cloud "
        "with its two labellings, in the place of figure 2."
    ),
)
