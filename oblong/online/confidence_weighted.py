"""Confidence-weighted learning."""

from dataclasses import dataclass
from typing import Literal

from scipy.special import ndtri

from oblong._core.estimator import Confidence, Positive
from oblong.online._linear import GaussianClassifier
from oblong.solvers.online.rules import Rule, confidence_weighted

# Variances of a diagonal covariance below this fraction of the initial one are held there.
FLOOR = 1e-12


@dataclass(kw_only=True, eq=False, repr=False)
class ConfidenceWeightedClassifier(GaussianClassifier):
    r"""Confidence-weighted learning: a Gaussian over weight vectors, for separable data.

    Each example moves the Gaussian as little as necessary for it to be classified correctly with
    probability :math:`\eta` [1]_:

    .. math::

        \min_{\mu, \Sigma} \ D_{KL}(N(\mu, \Sigma) \,\|\, N(\mu_t, \Sigma_t))
        \quad \text{such that} \quad y \, \mu \cdot x \ge \varphi \sqrt{x^\top \Sigma x},
        \qquad \varphi = \Phi^{-1}(\eta).

    This is the variant "stdev", solved exactly in closed form; "var" has the variance in place
    of the standard deviation.

    Parameters
    ----------
    confidence : float, default=0.9
        The probability :math:`\eta`, between 0.5 and 1, both excluded.
    variant : {"stdev", "var"}, default="stdev"
        The constraint. Only "stdev" does not depend on the scale of the data and on the initial
        variance.
    initial_variance : float, default=1.0
        Variance of the weights at the start. It makes no difference to "stdev".
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
        "platt" fits a sigmoid to the outputs, each computed before its label is learned.
        :meth:`predict_proba` and :meth:`predict` then use it instead of the Gaussian.
    forgetting : float, default=1.0
        Factor, from 1e-6 to 1, of the precision after every update, so that older
        examples count less. Variances stay below twice their initial value, those of a diagonal
        below the initial value.
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
    The rule requires that every example be classified correctly: with noisy labels the Gaussian
    keeps shrinking, and a rule with slack does better
    (:class:`SoftConfidenceWeightedClassifier`, :class:`AROWClassifier`). The variant "stdev" does
    not change if weights are multiplied by :math:`2^k` and variances by :math:`4^k`. With a full
    covariance the learner rescales in this way when variances would underflow or overflow, which
    changes no prediction. With a diagonal covariance, variances are kept above :math:`10^{-12}`
    times the initial one. Both give a warning.

    References
    ----------
    .. [1] K. Crammer, M. Dredze and F. Pereira, "Exact Convex Confidence-Weighted Learning",
       Advances in Neural Information Processing Systems 21, 2008.

    Examples
    --------
    >>> import numpy as np
    >>> from oblong import ConfidenceWeightedClassifier
    >>> X = np.random.default_rng(0).normal(size=(500, 20)) * np.linspace(1, 5, 20)
    >>> y = X[:, 0] > 0
    >>> model = ConfidenceWeightedClassifier().partial_fit(X, y, classes=[False, True])
    >>> model.n_mistakes_
    51
    >>> model.predict(X[:3])
    array([ True, False, False])
    """

    confidence: Confidence = 0.9
    variant: Literal["stdev", "var"] = "stdev"
    initial_variance: Positive = 1.0

    _warns_unit = True

    def _rule(self, n_features: int) -> Rule:
        phi, of_variance = float(ndtri(self.confidence)), self.variant == "var"
        return confidence_weighted(phi, of_variance=of_variance, floor=FLOOR)

    def _variance(self) -> float:
        return float(self.initial_variance)
