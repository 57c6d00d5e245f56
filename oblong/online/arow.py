"""Adaptive regularisation of weights."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

from sklearn.utils._param_validation import Interval, StrOptions

from oblong.online._linear import GaussianClassifier
from oblong.solvers.online.rules import Rule, arow


@dataclass(kw_only=True, eq=False, repr=False)
class AROWClassifier(GaussianClassifier):
    r"""Adaptive regularisation of weights (AROW): a Gaussian over weight vectors, for noisy data.

    Each example with a margin below 1 moves the Gaussian to the minimum [1]_ of

    .. math::

        D_{KL}(N(\mu, \Sigma) \,\|\, N(\mu_t, \Sigma_t))
        + \tfrac{1}{2r} \max(0, 1 - y \, \mu \cdot x)^2 + \tfrac{1}{2r} x^\top \Sigma x .

    The learner is ridge regression on the labels -1 and 1, of the examples that it updated on.

    Parameters
    ----------
    r : float, default=1.0
        How little an example counts, relative to the squared length of the rows. Larger than
        zero.
    covariance : {"full", "diag", "sketch"}, default="full"
        The covariance of the weights: all of it, one matrix per class; its diagonal, for many
        features; or a diagonal and a few directions, kept up to date, for many features that go
        together.
    sketch_size : int, default=16
        Directions that a sketch keeps; it collects as many again before it drops some.
    fit_intercept : bool, default=True
        Whether to learn an intercept, as the weight of a constant feature.
    multi_class : {"top1", "kbest", "ovr"}, default="top1"
        With more than two classes, an example must outscore the best wrong class, the best
        ``k_best`` wrong ones in turn, or each class has a binary model of its own.
    k_best : int, default=3
        Number of wrong classes for "kbest".
    max_iter : int, default=5
        Largest number of passes of :meth:`fit`.
    tol : float, default=1e-3
        :meth:`fit` stops when the share of mistakes made during a pass, or the error on the
        held-out rows, has not gone down by this much. None for all passes.
    shuffle : bool, default=True
        Whether each pass of :meth:`fit` takes the rows in another random order, which depends on
        the rows and not on the order in which they are given.
    early_stopping : bool, default=False
        Whether to hold out rows, stop by their error, and keep the model that was best on them.
    validation_fraction : float, default=0.1
        Share of the held-out rows.
    n_iter_no_change : int, default=5
        Number of passes without improvement before :meth:`fit` stops.
    average : bool, default=False
        Whether predictions use the mean of the weights over all rounds.
    allow_new_classes : bool, default=False
        Whether :meth:`partial_fit` and :meth:`learn_one` take in classes that were not declared.
    calibration : {"platt"}, default=None
        Whether to fit a sigmoid to the outputs, each before its label is learned.
        :meth:`predict_proba` and :meth:`predict` are then by it, not by the Gaussian.
    class_weight : dict or "balanced", default=None
        Factors of the weights of the rows by class; "balanced" for :meth:`fit` only.
    forgetting : float, default=1.0
        Factor, at most 1, by which the precision goes down after every update, so that examples
        count the less the more updates came after them. Variances stay below twice their initial
        value, those of a diagonal below the value itself.
    normalize : bool, default=False
        Whether to measure every feature in units of its largest absolute value so far, so that
        decisions do not depend on the units of the columns. A single huge value makes the unit of
        its feature large for good.
    random_state : int, RandomState instance or None, default=None
        Source of the order of the rows.

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
        Number of changes of the model.
    n_mistakes_ : int
        Examples that were predicted wrongly before they were learned from.
    n_skipped_ : int
        Examples that could not be learned from, because their output had no variance left.
    t_ : int
        Number of examples seen.
    n_iter_ : int
        Passes of the last call to :meth:`fit`.
    multilabel_ : bool
        Whether the labels are an indicator matrix.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if ``X`` had string names.

    References
    ----------
    .. [1] K. Crammer, A. Kulesza and M. Dredze, "Adaptive Regularization of Weight Vectors",
       Advances in Neural Information Processing Systems 22, 2009.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from oblong import AROWClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = AROWClassifier(random_state=0).fit(scale(X), y)
    >>> model.score(scale(X), y) > 0.97
    True
    >>> model.margin_variance(scale(X)).shape
    (569,)
    """

    r: float = 1.0
    class_weight: Any = None

    _parameter_constraints: ClassVar[dict] = {
        **GaussianClassifier._parameter_constraints,
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "r": [Interval(Real, 0.0, None, closed="neither")],
    }

    def _rule(self, n_features: int) -> Rule:
        return arow(float(self.r))
