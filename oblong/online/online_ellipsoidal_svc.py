"""The linear ellipsoidal support vector machine, learned online."""

import warnings
from dataclasses import dataclass, field
from numbers import Real
from typing import Annotated, Any, Literal, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from oblong._core.estimator import Count, NotNegative, Numbers, Positive
from oblong.online._base import OnlineClassifier
from oblong.online._labels import encode
from oblong.online.growing import columns_of
from oblong.solvers.esvm.online.state import (
    LARGEST_TRACE,
    LEAST_TRACE,
    Certificate,
    OnlineEllipsoidalState,
    certify,
    largest_length,
    merge_models,
)
from oblong.solvers.online.rows import Rows

TraceBound = Annotated[float, Numbers(Real, LEAST_TRACE, LARGEST_TRACE, closed="both")]

# Passes after which all rows that are worth it have a weight.
_PATIENCE = 20
# What only a fit knows.
_OF_A_FIT = ("objective_", "dual_gap_", "converged_")


@dataclass(kw_only=True, eq=False, repr=False)
class OnlineEllipsoidalSVC(OnlineClassifier):
    r"""Linear ellipsoidal support vector machine for streams, with a certificate after a fit.

    The weights :math:`w` are the centre of a large ellipsoid of weight vectors that classify the
    rows correctly [1]_. With rows :math:`u_i = x_i / t_i` of length one, which include the constant
    feature, the problem is

    .. math::

        \min_{B \succ 0,\, w} \ -\ln|B| + \frac{c}{n} \sum_i
        \max(0,\ \tau_i\, u_i^\top B\, u_i - y_i\, w \cdot u_i)
        \quad \text{s.t.} \quad \operatorname{tr} B \le T , \quad \|w\| \le 1 .

    Each batch of rows makes a step: rows that violate their constraint change the inverse of
    :math:`B` and :math:`w`, then the bounds are restored. The model is the mean over all steps,
    with increasing weights.

    Parameters
    ----------
    nu : float, default=0.2
        Inverse penalty of errors, above zero: larger values tolerate more errors.
    trace_bound : {"auto"}, float or None, default="auto"
        The bound :math:`T`. "auto" is one over the largest :math:`\tau` seen so far; None is no
        bound, for rows that span all features. Each bound :math:`T` corresponds to some ``r`` of
        :class:`EllipsoidalSVC`; smaller bounds correspond to smaller ``r``. Numbers from
        1e-100 to 1e10.
    formulation : {"consistent", "paper"}, default="consistent"
        "consistent": :math:`\tau_i = 1`, :math:`c = p / \nu` with the number p of features and the
        constant one; the lengths of the rows do not matter. "paper": equation (14) of the paper,
        :math:`\tau_i = t_i`, :math:`c = 1 / \nu`.
    batch_size : int or "auto", default="auto"
        Number of rows per step. "auto" is the number of features, including the constant one, so
        that a step costs about as much as reading its rows. The first batches are smaller.
    fit_intercept : bool, default=True
        Whether to learn an intercept, as the weight of a constant feature.
    max_iter : int, default=1000
        Maximum number of passes of :meth:`fit`.
    tol : float, default=1e-2
        :meth:`fit` stops when the certified gap is at most this large. None for all passes.
    shuffle : bool, default=True
        Whether each pass of :meth:`fit` takes the rows in a new random order, which does not depend
        on the order in which they are given.
    early_stopping : bool, default=False
        Whether to hold out rows, stop also when their error no longer decreases, and keep the model
        with the lowest error on them.
    validation_fraction : float, default=0.1
        Fraction of the rows to hold out.
    n_iter_no_change : int, default=5
        Number of passes without improvement on the held-out rows before :meth:`fit` stops.
    average : bool, default=True
        Whether predictions use the mean of the weights over the steps, with weights 1, 2, 3, ...
    random_state : int, RandomState instance or None, default=None
        Determines the order of the rows.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The class labels.
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        The weights. With more than two classes they are scaled to :math:`\|w\| = 1`, so that
        outputs can be compared.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        The intercepts.
    B_ : ndarray of shape (n_features, n_features) or (n_classes, n_features, n_features)
        The matrix :math:`B`. With an intercept it has one row and one column more, at the end.
    objective_ : ndarray of shape (n_problems,)
        Objective, after :meth:`fit`.
    dual_gap_ : ndarray of shape (n_problems,)
        The certificate: objective minus that of the dual problem, over the number p of features
        and the constant one. After :meth:`fit`.
    converged_ : bool
        Whether every problem met the tolerance, after :meth:`fit`.
    n_updates_ : int
        Number of steps.
    n_mistakes_ : int
        Number of examples that the weights of the last step misclassified before they were learned
        from.
    n_skipped_ : int
        Always zero.
    t_ : int
        Number of examples seen.
    n_iter_ : int
        Number of passes of the last call to :meth:`fit`.
    multilabel_ : bool
        Whether the labels are an indicator matrix: always False.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if ``X`` had string names.

    See Also
    --------
    EllipsoidalSVC : The same for rows in memory: kernels, and a far smaller gap.

    Notes
    -----
    This is the paper's algorithm 1 with corrections: step sizes :math:`1/t` for the inverse of
    :math:`B` (the proof does not hold for the printed :math:`1/2t`), the bound :math:`1/R` on the
    trace instead of R, the update of the inverse, and, for the weights, which the proof does not
    cover, steps divided by the root of the sum of their squares. The paper's stopping rule is not
    valid. Instead, the dual weight of a row is the fraction of its visits at which it violated its
    constraint. These weights are feasible, so the gap is proven. This takes memory for one number
    per row and class, and one more pass over the rows.

    Batches continue across calls of :meth:`partial_fit`, so the sizes of the calls make no
    difference; the rows of an unfinished batch have no effect on predictions yet.

    With more than two classes there is one problem per class, against all others. Each has its own
    matrix, and a step takes time proportional to the cube of the number of features: the learner is
    for a few hundred features at most. A row of weight two counts as two rows, and one of weight
    zero is ignored.

    References
    ----------
    .. [1] M. Momma, K. Hatano and H. Nakayama, "Ellipsoidal Support Vector Machines", Proceedings
       of the 2nd Asian Conference on Machine Learning, 31-46, 2010.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from oblong import OnlineEllipsoidalSVC
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = OnlineEllipsoidalSVC(random_state=0).fit(scale(X), y)
    >>> model.score(scale(X), y) > 0.95
    True
    >>> bool(model.dual_gap_[0] <= 1e-2)
    True
    """

    nu: Positive = 0.2
    trace_bound: Literal["auto"] | TraceBound | None = "auto"
    formulation: Literal["consistent", "paper"] = "consistent"
    batch_size: Literal["auto"] | Count = "auto"
    max_iter: Count = 1000
    tol: NotNegative | None = 1e-2
    average: bool = True

    # There is one binary problem per class.
    multi_class = "ovr"
    _state: OnlineEllipsoidalState = field(init=False)
    _forgotten = ("_state", "_vocabulary")

    # The model -----------------------------------------------------------------------------------

    def _is_soft(self) -> bool:
        return True

    def _new_state(self, dtype: Any) -> OnlineEllipsoidalState:
        n_classes, d = len(self.classes_), self.n_features_in_
        dimension = d + bool(self.fit_intercept)
        unit = self.formulation == "consistent"
        bound = None
        if self.trace_bound != "auto":
            bound = np.inf if self.trace_bound is None else float(self.trace_bound)
        return OnlineEllipsoidalState.initial(
            d,
            1 if n_classes == 2 else n_classes,
            penalty=(dimension if unit else 1.0) / float(self.nu),
            trace_bound=bound,
            unit=unit,
            batch_size=dimension if self.batch_size == "auto" else int(self.batch_size),
            bias=float(self.fit_intercept),
            averaged=self.average,
        )

    # Learning ------------------------------------------------------------------------------------

    def _partial_fit(self, X: Any, y: Any, classes: Any, sample_weight: Any) -> None:
        super()._partial_fit(X, y, classes, sample_weight)
        self._forget_certificate()

    def _passes(
        self,
        state: OnlineEllipsoidalState,
        rows: Rows,
        labels: np.ndarray,
        weights: np.ndarray,
        X: Any,
    ) -> OnlineEllipsoidalState:
        """Pass over the rows until the gap is small, or held-out rows tell to stop."""
        self._forget_certificate()
        orders, present, held = self._orders(rows, labels, weights)
        learned = weights.copy()
        learned[held] = 0.0
        state.announce(1.0 if state.unit else largest_length(X[present], state.bias))
        hits = np.zeros((len(weights), state.n_outputs + 1))
        best, kept, stale, look = np.inf, state, 0, 1
        certificates: list[Certificate] = []
        for iteration, order in enumerate(orders, 1):
            self.n_iter_ = iteration
            state.learn(rows, labels, weights, order, hits)
            if self.early_stopping:
                error = self._held_out_error(state, X, labels, weights, held)
                stale = 0 if error < best else stale + 1
                if error < best:
                    best, kept = error, state.copy()
            enough = stale >= self.n_iter_no_change
            last = enough or iteration == self.max_iter
            if last or (self.tol is not None and iteration >= look):
                # The rate of convergence is known: looks at ever larger distances suffice.
                look = iteration + 1 + iteration // 8
                certificates = certify(state, X, labels, learned, hits)
                gap = max(c.gap for c in certificates)
                # Rows that do not span all features leave the problem without a solution.
                hopeless = gap == np.inf and iteration >= _PATIENCE
                last = last or hopeless or (self.tol is not None and gap <= self.tol)
            if last:
                break
        if self.early_stopping:
            certificates = certify(kept, X, labels, learned, hits)
        self._store(certificates, stopped_early=self.early_stopping)
        return kept if self.early_stopping else state

    def _store(self, certificates: list[Certificate], *, stopped_early: bool) -> None:
        self.objective_ = np.array([c.objective for c in certificates])
        self.dual_gap_ = np.array([c.gap for c in certificates])
        tol = np.inf if self.tol is None else self.tol
        self.converged_ = bool(self.dual_gap_.max() <= tol)
        if self.converged_ or stopped_early:
            return
        advice = "Increase max_iter, or scale the data."
        if self.dual_gap_.max() == np.inf:
            advice = "The rows do not seem to span all features: bound the trace."
        warnings.warn(
            f"{type(self).__name__} stopped after {self.n_iter_} passes with a gap of "
            f"{self.dual_gap_.max():.2g}, above tol={self.tol:g}. {advice}",
            ConvergenceWarning,
            stacklevel=6,
        )

    def _forget_certificate(self) -> None:
        for name in _OF_A_FIT:
            self.__dict__.pop(name, None)

    def learn_one(self, x: Any, y: Any, sample_weight: float = 1.0) -> Self:
        """Learn from one example, at the cost of its row and a fraction of a step.

        Parameters
        ----------
        x : dict or ndarray of shape (n_features,)
            The example: values by feature, where missing ones are zero, or all values.
        y : label
            Its class, one of those declared to :meth:`partial_fit`.
        sample_weight : float, default=1.0
            Its weight.

        Returns
        -------
        self : object
            The learner.
        """
        if vars(self).get("_state") is None:
            raise ValueError("Call partial_fit with all classes before learn_one")
        if y not in self.classes_:
            raise ValueError(f"{y!r} is not among the classes {self.classes_.tolist()}")
        columns, values = self._one_example(x)
        if len(columns) < len(x):
            raise ValueError("The example has features that the first batch did not have")
        weight = self._one_weight(sample_weight)
        rows = Rows(values, columns, np.array([0, values.size]), not isinstance(x, dict))
        self._state.learn(rows, encode([y], self.classes_), np.array([weight]))
        self._forget_certificate()
        return self

    def _one_example(self, x: Any) -> tuple[np.ndarray, np.ndarray]:
        """Columns and values of an array, or of the known features of a dict."""
        if isinstance(x, dict):
            columns, values, _ = columns_of(self._names(), x, np.float64)
            return columns, values
        values = self._values(x)
        return np.arange(values.size, dtype=np.int32), values

    def predict_one(self, x: Any) -> Any:
        """Predict the class of one example.

        Parameters
        ----------
        x : dict or ndarray of shape (n_features,)
            The example; unknown features are ignored.

        Returns
        -------
        label
            The class.
        """
        state = self._fitted_state()
        columns, values = self._one_example(x)
        weights = state.weights()
        return self._label_of(values @ weights[1:][columns] + state.bias * weights[0])

    def merge(self, *others: Any, prior: Any = None) -> Self:
        """Take in what other learners of the same kind have learned from other examples.

        Parameters
        ----------
        *others : object
            Fitted learners with the same parameters, features and classes.
        prior : object, default=None
            Not used: all learners have the same weight in the mean.

        Returns
        -------
        self : object
            The merged learner.

        Notes
        -----
        Everything is averaged by the weights of the examples. The problem is convex, so the
        objective of the merged learner on all examples is at most the mean of those of its parts
        on all examples; it is not the learner that one stream would give. Counters add up.
        """
        states = [self._fitted_state()]
        for other in others:
            if type(other) is not type(self):
                raise ValueError(f"Cannot merge {type(other).__name__} into {type(self).__name__}")
            state = other._fitted_state()
            same = (
                np.array_equal(other.classes_, self.classes_)
                and state.w.shape == states[0].w.shape
                and np.array_equal(state.settings, states[0].settings)
            )
            if not same:
                raise ValueError("Merged models must have the same parameters, features, classes")
            states.append(state)
        self._state = merge_models(states)
        self._forget_certificate()
        return self

    # Attributes ----------------------------------------------------------------------------------

    @property
    def n_skipped_(self) -> int:
        """Always zero: every example has its part in a step."""
        self._learned()
        return 0

    @property
    def B_(self) -> np.ndarray:
        """The matrix of the ellipsoid, that of the constant feature at the end."""
        state = self._learned()
        found = state.matrices
        # The constant feature comes first inside.
        order = np.roll(np.arange(found.shape[1]), -int(state.bias != 0.0))
        found = found[:, order[:, None], order]
        return found[0] if state.n_outputs == 1 else found
