"""Soft confidence-weighted learning."""

from dataclasses import dataclass
from typing import Literal

from scipy.special import ndtri

from oblong._core.estimator import Confidence, Positive
from oblong.online._linear import GaussianClassifier
from oblong.online.confidence_weighted import FLOOR
from oblong.solvers.online.rules import Rule, soft_confidence_weighted


@dataclass(kw_only=True, eq=False, repr=False)
class SoftConfidenceWeightedClassifier(GaussianClassifier):
    r"""Soft confidence-weighted learning (SCW): with slack, for noisy data.

    Each example moves the Gaussian to the minimum [1]_ of

    .. math::

        D_{KL}(N(\mu, \Sigma) \,\|\, N(\mu_t, \Sigma_t)) + C \, \ell^p, \qquad
        \ell = \max\left(0, \varphi \sqrt{x^\top \Sigma x} - y \, \mu \cdot x\right),
        \quad \varphi = \Phi^{-1}(\eta),

    with :math:`p = 1` (SCW-I) or :math:`p = 2` (SCW-II). As :math:`C` grows, it approaches
    confidence-weighted learning, which does badly on noisy labels.

    Parameters
    ----------
    confidence : float, default=0.9
        The probability :math:`\eta`, between 0.5 and 1, both excluded.
    C : float, default=1.0
        Penalty of a violation, larger than zero.
    variant : {1, 2}, default=1
        SCW-I or SCW-II.
    initial_variance : float, default=1.0
        Variance of the weights at the start.
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
    Where the step is at its cap :math:`C`, an update adds about :math:`C \varphi / 2` to
    :math:`1/\sqrt{v}` for the variance :math:`v` of the output. The variance then falls with the
    square of the number of updates, the steps :math:`C v` add up to a finite sum, and the learner
    keeps what it has learned from the first examples, wrong labels among them. A smaller
    :math:`C`, or features of a smaller scale, put that off: above :math:`v` of about
    :math:`(\varphi / C)^2` the rule is that of confidence-weighted learning.

    References
    ----------
    .. [1] J. Wang, P. Zhao and S. C. H. Hoi, "Exact Soft Confidence-Weighted Learning",
       International Conference on Machine Learning, 2012. The step of SCW-II printed there and
       in the authors' code differs from the solution of the problem, which is used here.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from oblong import SoftConfidenceWeightedClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = SoftConfidenceWeightedClassifier(C=0.1, random_state=0).fit(scale(X), y)
    >>> model.score(scale(X), y) > 0.97
    True
    """

    confidence: Confidence = 0.9
    C: Positive = 1.0
    variant: Literal[1, 2] = 1
    initial_variance: Positive = 1.0

    def _rule(self, n_features: int) -> Rule:
        phi, squared = float(ndtri(self.confidence)), self.variant == 2
        return soft_confidence_weighted(phi, float(self.C), squared=squared, floor=FLOOR)

    def _variance(self) -> float:
        return float(self.initial_variance)
