"""Confidence-weighted learning with kernels."""

from dataclasses import dataclass, field
from typing import Annotated, Any, Self

import numpy as np
from scipy.special import ndtri
from sklearn.utils._param_validation import StrOptions

from oblong._core.estimator import Confidence, Count, Finite, FractionBelowOne, Gamma, Natural
from oblong.kernels import KERNELS, Kernel
from oblong.online._rule_based import RuleClassifier
from oblong.solvers.online.kernel import KernelState
from oblong.solvers.online.rules import Rule, confidence_weighted
from oblong.solvers.online.slots import FULL
from oblong.solvers.online.state import OnlineState


@dataclass(kw_only=True, eq=False, repr=False)
class KernelConfidenceWeightedClassifier(RuleClassifier):
    r"""Confidence-weighted learning in the feature space of a kernel.

    The rule is that of :class:`ConfidenceWeightedClassifier` with the variant "stdev" and a full
    covariance: each example moves a Gaussian over functions as little as necessary for it to be
    classified correctly with probability :math:`\eta` [1]_. The Gaussian is represented in the
    span of a dictionary: the examples that caused updates and are not close to the span of earlier
    ones.

    Parameters
    ----------
    confidence : float, default=0.9
        The probability :math:`\eta`, between 0.5 and 1, both excluded.
    kernel : {"linear", "poly", "rbf", "sigmoid"} or callable, default="rbf"
        The kernel function. It has to be positive semidefinite.
    gamma : {"scale", "auto"} or float, default="scale"
        Coefficient of "rbf", "poly" and "sigmoid": ``1 / (n_features * X.var())``,
        ``1 / n_features``, or the number itself. "scale" uses the variance of the first batch.
    degree : int, default=3
        Degree of the polynomial kernel.
    coef0 : float, default=0.0
        Constant term of "poly" and "sigmoid".
    budget : int, default=None
        Maximum size of the dictionary; None for no limit. Once it is reached, updates are projected
        onto the span of the dictionary.
    dictionary_tol : float, default=1e-4
        An example joins the dictionary if the squared distance from its span is larger than this
        fraction of the squared length of the example.
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
    calibration : {"platt"}, default=None
        "platt" fits a sigmoid to the outputs, each computed before its label is learned.
        :meth:`predict_proba` and :meth:`predict` then use it instead of the Gaussian.
    random_state : int, RandomState instance or None, default=None
        Determines the order of the rows.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The class labels.
    dictionary_ : {ndarray, CSR matrix} of shape (n_dictionary, n_features)
        The examples in the dictionary.
    dual_coef_ : ndarray of shape (1, n_dictionary) or (n_classes, n_dictionary)
        Their coefficients.
    gamma_ : float
        The coefficient of the kernel.
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        The weights, for the linear kernel only.
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

    See Also
    --------
    ConfidenceWeightedClassifier : The same with linear outputs, for long streams.

    Notes
    -----
    An update costs the square of the size of the dictionary. The kernel recursions of the paper
    lose accuracy, and their covariance becomes indefinite; the coordinates here are orthonormal, so
    with a linear kernel the learner equals the linear one up to rounding. Models of different
    shards have no common dictionary and cannot be merged.

    References
    ----------
    .. [1] K. Crammer, M. Dredze and F. Pereira, "Exact Convex Confidence-Weighted Learning",
       Advances in Neural Information Processing Systems 21, 2008.

    Examples
    --------
    >>> from sklearn.datasets import make_circles
    >>> from oblong import KernelConfidenceWeightedClassifier
    >>> X, y = make_circles(500, factor=0.5, noise=0.05, random_state=0)
    >>> model = KernelConfidenceWeightedClassifier(random_state=0).fit(X, y)
    >>> model.score(X, y)
    1.0
    >>> len(model.dictionary_) < 50
    True
    """

    confidence: Confidence = 0.9
    kernel: Annotated[Any, StrOptions(set(KERNELS) - {"precomputed"}), callable] = "rbf"
    gamma: Gamma = "scale"
    degree: Natural = 3
    coef0: Finite = 0.0
    budget: Count | None = None
    dictionary_tol: FractionBelowOne = 1e-4

    _has_covariance = True
    _gaussian = True
    _warns_unit = True
    _state: KernelState = field(init=False)

    def _rule(self, n_features: int) -> Rule:
        return confidence_weighted(float(ndtri(self.confidence)))

    def _new_state(self, dtype: Any) -> KernelState:
        rule = self._rule(self.n_features_in_)
        outputs = {2: 1}.get(len(self.classes_), len(self.classes_))
        inner = OnlineState.initial(
            rule,
            0,
            outputs,
            structure=FULL,
            task=self._task(),
            steps=self._steps(),
            bias=float(self.fit_intercept),
            average=self.average,
            calibrated=self._is_calibrated(),
        )
        kernel = Kernel(self.kernel, self.gamma, self.degree, self.coef0)
        budget = np.iinfo(np.int64).max if self.budget is None else int(self.budget)
        return KernelState.initial(inner, kernel, budget, float(self.dictionary_tol))

    @property
    def dictionary_(self) -> Any:
        """Examples that span the learner, of shape (n_dictionary, n_features)."""
        return self._learned().dictionary

    @property
    def dual_coef_(self) -> np.ndarray:
        """Coefficients of the dictionary, of shape (1 or n_classes, n_dictionary)."""
        return self._learned().dual_coef()

    @property
    def coef_(self) -> np.ndarray:
        """Weights, for the linear kernel only, of shape (1 or n_classes, n_features)."""
        state = self._learned()
        if self.kernel != "linear":
            raise AttributeError("coef_ exists for the linear kernel only")
        return np.asarray(state.dual_coef() @ state.dictionary)

    @property
    def intercept_(self) -> np.ndarray:
        """Intercepts, of shape (1,) or (n_classes,)."""
        state = self._learned()
        return state.inner.bias * state.inner.weights()[0]

    @property
    def gamma_(self) -> float:
        """The coefficient of the kernel that ``gamma`` stands for."""
        return self._learned().kernel.gamma

    def learn_one(self, x: Any, y: Any, sample_weight: float = 1.0) -> Self:
        """Learn from one example, as a batch of one.

        Parameters
        ----------
        x : ndarray of shape (n_features,)
            The example.
        y : label
            Its class, one of those declared to :meth:`partial_fit`.
        sample_weight : float, default=1.0
            Its weight.

        Returns
        -------
        self : object
            The learner.
        """
        return self.partial_fit(np.asarray(x)[None], [y], sample_weight=[sample_weight])

    def predict_one(self, x: Any) -> Any:
        """Predict the class of one example.

        Parameters
        ----------
        x : ndarray of shape (n_features,)
            The example.

        Returns
        -------
        label
            The class.
        """
        return self.predict(np.asarray(x)[None])[0]
