"""The confidence loss (figure 4)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtr

from oblong import ConfidenceWeightedClassifier
from oblong_reproduction._data import Sets
from oblong_reproduction._experiment import Cell, Experiment, Results
from oblong_reproduction._figure import INK, figure, model_style
from oblong_reproduction._papers import CW
from oblong_reproduction._verdict import Row, statement, value_row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PHIS = (0.5, 1.0, 2.0)


def confidence_loss(margin: np.ndarray, phi: float) -> np.ndarray:
    r"""Loss of equations (23) and (24) at margins in units of their deviation.

    .. math::

        \ell_\varphi(m) = \frac{\bigl(-m \psi + \sqrt{m^2 \varphi^4 / 4 + \varphi^2 \xi}\bigr)^2}
        {\varphi^2 \xi} \ \text{ for } m < \varphi , \qquad
        \psi = 1 + \varphi^2 / 2 , \quad \xi = 1 + \varphi^2 .

    Examples
    --------
    >>> import numpy as np
    >>> from oblong_reproduction.cw.loss import confidence_loss
    >>> confidence_loss(np.array([0.0, 1.0, 2.0]), 1.0).round(6).tolist()
    [1.0, 0.0, 0.0]
    """
    psi, xi = 1.0 + phi**2 / 2.0, 1.0 + phi**2
    root = -margin * psi + np.sqrt(margin**2 * phi**4 / 4.0 + phi**2 * xi)
    return np.where(margin < phi, root**2 / (phi**2 * xi), 0.0)


def _cell(sets: Sets, rng: np.random.Generator, *, phi: float, rounds: int) -> dict:
    """Properties of the loss, and what it says about the steps of the learner."""
    line = np.linspace(-6.0, phi, 2001)
    values = confidence_loss(line, phi)
    steps, losses, updates = [], [], 0
    model = ConfidenceWeightedClassifier(confidence=float(ndtr(phi)), fit_intercept=False)
    direction = rng.standard_normal(8)
    for _ in range(rounds):
        x = rng.standard_normal((1, 8))
        sign = 1.0 if x[0] @ direction > 0.0 else -1.0
        # A step from nowhere has no margin in the learner yet: all weights are zero.
        mean = model.coef_[0].copy() if hasattr(model, "coef_") else np.zeros(8)
        covariance = model.covariance_.copy() if hasattr(model, "coef_") else np.eye(8)
        margin, variance = float(sign * (x[0] @ mean)), float(x[0] @ covariance @ x[0])
        model.partial_fit(x, [int(sign > 0)], classes=[0, 1])
        step = float(sign * (x[0] @ (model.coef_[0] - mean))) / variance
        updates += step != 0.0
        steps.append((1.0 + phi**2) / phi**2 * step**2 * variance)
        losses.append(float(confidence_loss(np.array(margin / np.sqrt(variance)), phi)))
    far = -1e4
    return {
        "at_zero": float(confidence_loss(np.array(0.0), phi)),
        "at_phi": float(values[-1]),
        "least_left": float(values[line <= 0.0].min()),
        "falls": bool(np.all(np.diff(values) <= 1e-12)),
        "convex": bool(np.all(np.diff(values, 2) >= -1e-10)),
        "far": float(confidence_loss(np.array(far), phi)) / far**2,
        "left": float(confidence_loss(np.array(-1.0), phi)),
        "right": float(confidence_loss(np.array(0.25), phi)),
        "updates": int(updates),
        "step_error": float(np.max(np.abs(np.subtract(steps, losses)))),
    }


def _cells(quick: bool) -> list[Cell]:
    return [Cell(f"phi-{phi:g}", _cell, {"phi": phi, "rounds": 500}) for phi in _PHIS]


def _rows(results: Results) -> Iterator[Row]:
    for cell in results:
        phi, exact = cell["phi"], "arithmetic"
        for what, published, key in (
            ("at margin 0", 1.0, "at_zero"),
            (f"at margin {phi:g}", 0.0, "at_phi"),
        ):
            name = f"φ = {phi:g}: loss {what}"
            yield value_row(name, published, cell[key], tolerance=1e-12, basis=exact)
        yield statement(
            f"φ = {phi:g}: convex, decreasing, at least 1 for wrong predictions",
            "lemma 5, 1 to 3",
            f"convex {cell['convex']}, decreasing {cell['falls']}, least {cell['least_left']:.3f}",
            cell["convex"] and cell["falls"] and cell["least_left"] >= 1.0 - 1e-12,
            "2,001 margins from -6 to φ",
        )
        yield value_row(
            f"φ = {phi:g}: loss over the square of a large negative margin",
            (1.0 + phi**2) / phi**2,
            cell["far"],
            tolerance=1e-3,
            basis="an asymptotic statement",
        )
        yield value_row(
            f"φ = {phi:g}: largest difference of loss and (1 + φ²)/φ² α² v over steps",
            0.0,
            cell["step_error"],
            tolerance=1e-7,
            basis=f"rounding; {cell['updates']} steps of the learner",
            digits=9,
        )
    if len(results) == len(_PHIS):
        left, right = results["left"], results["right"]
        yield statement(
            "larger φ: tighter for wrong predictions, looser for right ones",
            "a trade-off",
            f"at −1: {_listed(left)}; at 0.25: {_listed(right)}; for φ = {_listed(_PHIS)}",
            bool(np.all(np.diff(left) < 0.0) and np.all(np.diff(right) > 0.0)),
            "order of the values",
        )


def _listed(values: np.ndarray | tuple[float, ...]) -> str:
    return ", ".join(f"{value:.3g}" for value in values)


def _draw(results: Results) -> Figure | None:
    page, axes = figure(width=4.6, height=3.4)
    ax = axes[0, 0]
    line = np.linspace(-2.0, 2.5, 400)
    for position, phi in enumerate(_PHIS):
        ax.plot(line, confidence_loss(line, phi), label=f"φ = {phi:g}", **model_style(position))
    ax.plot(line, np.maximum(1.0 - line, 0.0) ** 2, color=INK, linestyle=":", label="squared hinge")
    ax.step([-2.0, 0.0, 2.5], [1.0, 1.0, 0.0], color=INK, linewidth=0.8, label="0-1")
    ax.set(xlabel="margin over its deviation", ylabel="loss", ylim=(-0.1, 6.0))
    ax.legend(frameon=False)
    return page


FIGURE_4 = Experiment(
    name="cw-fig4",
    paper=CW,
    title="the confidence loss, its properties and the steps of the learner",
    cells=_cells,
    rows=_rows,
    draw=_draw,
    minutes=0.1,
    protocol=(
        "The loss of equation (24), in which ψ and ξ are those of (13), against the properties of "
        "lemma 5. Property 6 ties it to the steps α of the algorithm: it is checked on 500 rounds "
        "of the learner in eight features. The values of φ are not stated in the paper."
    ),
)
