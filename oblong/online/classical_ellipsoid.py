"""The classical ellipsoid method as an online learner."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from oblong._core.estimator import Positive, PositiveFraction
from oblong.online._linear import SecondOrderClassifier
from oblong.solvers.online.rows import Rows
from oblong.solvers.online.rules import MISTAKE, Rule, classical_ellipsoid


@dataclass(kw_only=True, eq=False, repr=False)
class ClassicalEllipsoidClassifier(SecondOrderClassifier):
    r"""Classical ellipsoid method (CELLIP): an ellipsoid around the separating weight vectors.

    The learner keeps an ellipsoid :math:`\{z : (z - w)^\top P^{-1} (z - w) \le 1\}` in which the
    weight vectors lie that separate the examples with a margin. An example with too small a margin
    cuts off the half in which :math:`y \, z \cdot x < a \gamma`, and an ellipsoid around the rest
    takes its place [1]_: with :math:`A = (a \gamma - y \, w \cdot x) / \sqrt{x^\top P x}`,

    .. math::

        w \leftarrow w + A \, y \frac{P x}{\sqrt{x^\top P x}}, \qquad
        P \leftarrow (1 - A^2) \left(P - \frac{2 A}{1 + A} \frac{P x x^\top P}{x^\top P x}\right).

    It is meant for separable examples of norm at most 1, on which it makes at most
    :math:`(1 + 2 (1 - a) \gamma) / (a \gamma)^2` mistakes if the margin is :math:`\gamma`. On
    others the ellipsoid becomes empty sooner or later, and :class:`AROWClassifier` does better.

    Parameters
    ----------
    gamma : float, default=0.1
        The margin, larger than zero.
    a : float, default=1.0
        Fraction of the margin that a cut requires, above 0 and at most 1.
    trigger : {"margin", "mistake"}, default="margin"
        Whether examples with a margin below :math:`a \gamma` cut, or mistakes only.
    ellipsoid : {"paper", "minvol"}, default="paper"
        The new ellipsoid: that of the formula, or the one with the smallest volume.
    on_infeasible : {"reset", "skip", "raise"}, default="reset"
        What to do if an example makes the ellipsoid empty: restart with a new one around the
        present weights, skip the example, or raise an error and undo the batch.
    multilabel : {"ovr", "rank"}, default="ovr"
        What an indicator matrix means: a binary problem for each label, or a ranking in which the
        lowest relevant label should score higher than the highest irrelevant one, with a learned
        threshold between the two.
    covariance : {"auto", "full", "diag", "sketch"}, default="auto"
        The covariance of the weights: "full", one matrix per class; "diag", variances only, for
        many features; or "sketch", a diagonal plus a matrix of low rank, for many features that are
        correlated. "auto" is "full" up to 256 features and "diag" beyond; of a model that grows
        beyond, the diagonal is kept.
    sketch_size : int, default=16
        Rank of the sketch. It collects twice as many directions before it drops the weakest.
    fit_intercept : bool, default=True
        Whether to learn an intercept, as the weight of a constant feature.
    multi_class : {"top1", "kbest", "ovr"}, default="top1"
        With more than two classes: "top1" compares each example with the highest-scoring wrong
        class, "kbest" with the ``k_best`` highest-scoring ones, one after the other, and "ovr"
        learns a binary model per class.
    k_best : int, default=3
        Number of wrong classes for "kbest".
    max_iter : int, default=5
        Maximum number of passes of :meth:`fit`.
    tol : float, default=1e-3
        :meth:`fit` stops when the fraction of mistakes during a pass, or the error on the held-out
        rows, no longer decreases by this much. With None it makes all passes.
    shuffle : bool, default=True
        Whether each pass of :meth:`fit` takes the rows in a new random order, which does not depend
        on the order in which they are given.
    early_stopping : bool, default=False
        Whether to hold out rows, stop when their error no longer decreases, and keep the model with
        the lowest error on them.
    validation_fraction : float, default=0.1
        Fraction of the rows to hold out.
    n_iter_no_change : int, default=5
        Number of passes without improvement before :meth:`fit` stops.
    average : bool, default=False
        Whether predictions use the mean of the weights over all rounds.
    allow_new_classes : bool, default=False
        Whether :meth:`partial_fit` and :meth:`learn_one` accept classes that were not declared.
    calibration : {"platt"}, default=None
        "platt" fits a sigmoid to the outputs, each computed before its label is learned, for
        :meth:`predict_proba` and :meth:`predict`.
    normalize : bool, default=False
        Whether to divide every feature by its largest absolute value so far, so that decisions do
        not depend on the units of the columns. A single huge value makes a feature small from then
        on.
    random_state : int, RandomState instance or None, default=None
        Determines the order of the rows.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The class labels.
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        The weights.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        The intercepts.
    covariance_ : ndarray
        The covariance of the weights, of shape (n_features, n_features), or its diagonal if it is
        not full; one per class if there are more than two.
    n_updates_ : int
        Number of updates of the model.
    n_mistakes_ : int
        Number of examples that were misclassified before they were learned from.
    n_skipped_ : int
        Number of examples that were skipped because the variance of their output was zero.
    t_ : int
        Number of examples seen.
    n_iter_ : int
        Number of passes of the last call to :meth:`fit`.
    multilabel_ : bool
        Whether the labels are an indicator matrix.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if ``X`` had string names.
    n_infeasible_ : int
        How often the ellipsoid became empty.

    Notes
    -----
    The ellipsoid starts as the ball of radius :math:`1 + (1 - a) \gamma`, which the mistake bound
    needs; the square is missing in the paper, and its bound differs.

    References
    ----------
    .. [1] L. Yang, R. Jin and J. Ye, "Online Learning by Ellipsoid Method", International
       Conference on Machine Learning, 2009.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.preprocessing import normalize
    >>> from oblong import ClassicalEllipsoidClassifier
    >>> X = normalize(np.random.default_rng(0).normal(size=(2000, 10)))
    >>> X = X[abs(X[:, 0]) > 0.1]
    >>> y = X[:, 0] > 0
    >>> model = ClassicalEllipsoidClassifier(gamma=0.1, fit_intercept=False)
    >>> model = model.partial_fit(X, y, classes=[False, True])
    >>> model.n_mistakes_ <= 1 / 0.1**2
    True
    >>> model.score(X, y)
    1.0
    """

    gamma: Positive = 0.1
    a: PositiveFraction = 1.0
    trigger: Literal["margin", "mistake"] = "margin"
    ellipsoid: Literal["paper", "minvol"] = "paper"
    on_infeasible: Literal["reset", "skip", "raise"] = "reset"
    multilabel: Literal["ovr", "rank"] = "ovr"

    _multilabel = True
    _product = False

    def _rule(self, n_features: int) -> Rule:
        margin = float(self.a * self.gamma)
        return classical_ellipsoid(
            margin,
            n_features + bool(self.fit_intercept),
            limit=margin if self.trigger == "margin" else MISTAKE,
            smallest=self.ellipsoid != "paper",
            skips=self.on_infeasible != "reset",
        )

    def _variance(self) -> float:
        return (1.0 + (1.0 - self.a) * self.gamma) ** 2

    @property
    def n_infeasible_(self) -> int:
        """How often nothing was left of the ellipsoid."""
        return self._learned().health.resets

    def _learn(
        self, state: Any, rows: Rows, labels: np.ndarray, weights: np.ndarray, order: Any = None
    ) -> None:
        if self.on_infeasible != "raise":
            super()._learn(state, rows, labels, weights, order)
            return
        trial = state.copy()
        trial.learn(rows, labels, weights, order)
        if trial.health.resets > state.health.resets:
            raise ValueError(
                f"No weight vector has the margin a * gamma = {self.a * self.gamma:g} on all "
                f"examples: they are not separable, gamma is too large, or rows are longer than 1"
            )
        state.assign(trial)
