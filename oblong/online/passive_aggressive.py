"""Passive-aggressive learning."""

import math
from dataclasses import dataclass
from typing import Literal

from oblong._core.estimator import Positive
from oblong.online._linear import LinearOnlineClassifier
from oblong.solvers.online.rules import Rule, passive_aggressive


@dataclass(kw_only=True, eq=False, repr=False)
class PassiveAggressiveClassifier(LinearOnlineClassifier):
    r"""Passive-aggressive learning: the smallest step that gives an example its margin.

    Each example with a margin below 1 moves the weights to the minimum [1]_ of

    .. math::

        \tfrac12 \|w - w_t\|^2 + C \xi^p
        \quad \text{such that} \quad y \, w \cdot x \ge 1 - \xi, \quad \xi \ge 0,

    with :math:`\xi = 0` (PA, variant 0), :math:`p = 1` (PA-I) or :math:`p = 2` (PA-II). It is a
    first-order method: the baseline of the learners with a covariance. The intercept is the
    weight of a constant feature and counts in the norm.

    With several classes the constraint is on the right class against the best other one, or on
    the best few in turn (``multi_class``).

    Parameters
    ----------
    C : float, default=1.0
        Penalty of a violation, larger than zero. Variant 0 does not use it.
    variant : {0, 1, 2}, default=0
        PA, PA-I or PA-II.
    multilabel : {"ovr", "rank"}, default="ovr"
        What an indicator matrix means: a binary problem for each label, or a ranking in which the
        lowest relevant label should score higher than the highest irrelevant one, with a learned
        threshold between the two.
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

    References
    ----------
    .. [1] K. Crammer, O. Dekel, J. Keshet, S. Shalev-Shwartz and Y. Singer, "Online
       Passive-Aggressive Algorithms", Journal of Machine Learning Research 7, 551-585, 2006.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from oblong import PassiveAggressiveClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = PassiveAggressiveClassifier(variant=1, average=True, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.9
    True
    """

    C: Positive = 1.0
    variant: Literal[0, 1, 2] = 0
    multilabel: Literal["ovr", "rank"] = "ovr"

    _multilabel = True

    def _rule(self, n_features: int) -> Rule:
        cap = float(self.C) if self.variant == 1 else math.inf
        ridge = 0.5 / float(self.C) if self.variant == 2 else 0.0
        return passive_aggressive(cap=cap, ridge=ridge, soft=self.variant > 0)
