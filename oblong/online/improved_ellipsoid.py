"""The improved ellipsoid method as an online learner."""

import math
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np

from oblong._core.estimator import FractionBelowOne, Positive, PositiveFraction
from oblong.online._linear import SecondOrderClassifier
from oblong.solvers.online.balance import rebalance
from oblong.solvers.online.rows import Rows
from oblong.solvers.online.rules import MISTAKE, Rule, improved_ellipsoid
from oblong.solvers.online.slots import DIAGONAL

# Variances of a diagonal covariance, of which only ratios matter, are held above this fraction of
# the initial one, far from underflow.
_FLOOR = 1e-30
# How far the logarithms of the factors of a diagonal covariance may drift apart.
_DRIFT = 40.0


@dataclass(kw_only=True, eq=False, repr=False)
class ImprovedEllipsoidClassifier(SecondOrderClassifier):
    r"""Improved ellipsoid method (IELLIP): an ellipsoid method for data with noise.

    An example with a margin below :math:`\gamma` moves the centre until it has that margin, in the
    metric of the ellipsoid, which is updated with every such example [1]_:

    .. math::

        w \leftarrow w + \frac{\gamma - y \, w \cdot x}{x^\top P x} \, y P x, \qquad
        P \leftarrow \frac{1}{1 - c_k}
        \left(P - c_k \frac{P x x^\top P}{x^\top P x}\right), \qquad c_k = c \, b^{k-1},

    where :math:`k` counts the updates.

    Parameters
    ----------
    gamma : float, default=0.1
        The margin, larger than zero.
    b : float, default=0.3
        How fast the ellipsoid stops changing, above 0 and at most 1. With 1 it never stops, which
        gives a second-order method with exponential forgetting; with the default, it hardly
        changes after a dozen updates, and the learner is close to passive-aggressive learning.
    c : float, default=0.1
        Weight of the first example in the update of the ellipsoid, at least 0 and below 1.
    initial_scale : float, default=1.0
        Scale of the first ellipsoid. It cancels in the update and does not change the weights.
    trigger : {"margin", "mistake"}, default="margin"
        Whether examples with a margin below :math:`\gamma` lead to updates, or mistakes only, as
        in the paper.
    decay_on : {"updates", "rounds"}, default="updates"
        What :math:`k` counts.
    multilabel : {"ovr", "rank"}, default="ovr"
        What an indicator matrix means: a binary problem for each label, or a ranking in which the
        lowest relevant label should score higher than the highest irrelevant one [1]_, with a
        learned threshold between the two.
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

    Notes
    -----
    Decisions do not change if the covariance is multiplied by a constant; the learner rescales it
    when it would underflow or overflow.

    References
    ----------
    .. [1] L. Yang, R. Jin and J. Ye, "Online Learning by Ellipsoid Method", International
       Conference on Machine Learning, 2009.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.preprocessing import normalize
    >>> from oblong import ImprovedEllipsoidClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = ImprovedEllipsoidClassifier(b=1, random_state=0).fit(normalize(X), y)
    >>> model.score(normalize(X), y) > 0.95
    True
    """

    gamma: Positive = 0.1
    b: PositiveFraction = 0.3
    c: FractionBelowOne = 0.1
    initial_scale: Positive = 1.0
    trigger: Literal["margin", "mistake"] = "margin"
    decay_on: Literal["updates", "rounds"] = "updates"
    multilabel: Literal["ovr", "rank"] = "ovr"

    _multilabel = True
    _product = False

    def _rule(self, n_features: int) -> Rule:
        gamma = float(self.gamma)
        return improved_ellipsoid(
            gamma,
            float(self.c),
            float(self.b),
            limit=gamma if self.trigger == "margin" else MISTAKE,
            by_rounds=self.decay_on == "rounds",
            floor=_FLOOR,
        )

    def _variance(self) -> float:
        return float(self.initial_scale)

    # A diagonal that never stops changing --------------------------------------------------------

    def _span(self, state: Any) -> int:
        """Examples after which the factors of a diagonal have drifted apart; 0 for never."""
        if state.structure != DIAGONAL or self.b < 1.0:
            return 0
        return max(1, int(_DRIFT / -math.log1p(-self.c) / self._steps()))

    def _learn(
        self, state: Any, rows: Rows, labels: np.ndarray, weights: np.ndarray, order: Any = None
    ) -> None:
        span = self._span(state)
        if not span:
            super()._learn(state, rows, labels, weights, order)
            return
        order = np.arange(len(labels)) if order is None else order
        # Copies of a row change a diagonal covariance as rows do.
        ends = (state.rounds + np.cumsum(np.ceil(weights[order]))) // span
        full = np.flatnonzero(np.diff(ends, prepend=state.rounds // span)) + 1
        parts = np.split(order, full)
        for part in parts[:-1]:
            super()._learn(state, rows, labels, weights, part)
            rebalance(state)
        super()._learn(state, rows, labels, weights, parts[-1])

    def learn_one(self, x: Any, y: Any, sample_weight: float = 1.0) -> Self:
        """Learn from one example.

        Parameters
        ----------
        x : dict or ndarray of shape (n_features,)
            The example: values by feature, where new features may appear at any time and missing
            ones are zero; or all values.
        y : label
            Its class. A learner that has not seen a batch takes classes as they come.
        sample_weight : float, default=1.0
            Its weight.

        Returns
        -------
        self : object
            The learner.
        """
        super().learn_one(x, y, sample_weight)
        state = vars(self).get("_state")
        if state is not None and (span := self._span(state)) and state.rounds % span == 0:
            rebalance(state)
        return self
