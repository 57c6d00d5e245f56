"""The relative margin machine as a scikit-learn classifier."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import scipy.sparse as sp

from oblong._core.class_weights import row_penalties
from oblong._core.estimator import AtLeastOne, Fraction, NotNegative, Positive
from oblong._core.progress import ProgressCallback
from oblong._core.threads import single_threaded_blas
from oblong.batch._base import KernelClassifier
from oblong.batch._device import ArraysAnywhere, out_of_memory, select
from oblong.batch._pair_batch import PairBatch, unconverged
from oblong.batch._pairwise import PairFit
from oblong.batch._parameters import MarginParameters, check_bound
from oblong.batch._workers import threads_of
from oblong.linalg.kernel_matrix import KernelMatrix
from oblong.solvers.linear.relative import (
    LinearRelativeMarginResult,
    solve_linear_relative_margin,
)
from oblong.solvers.margin.batch.problem import BatchResult, GramTiles, MarginBatch, RowTiles
from oblong.solvers.margin.batch.solve import solve_batch
from oblong.solvers.margin.options import DEFAULTS
from oblong.solvers.margin.relative import RelativeMarginResult, solve_relative_margin
from oblong.solvers.margin.variable_bound import solve_variable_bound

# Classes, and rows in all, up to which pairs are solved one by one.
_FEW_CLASSES, _FEW_ROWS = 5, 1024
# Entries of sparse rows, or of the matrix of a kernel function, that are worth a dense array.
_DENSE = 1 << 24


@dataclass(kw_only=True, eq=False, repr=False)
class RelativeMarginClassifier(MarginParameters, ArraysAnywhere, KernelClassifier):
    r"""Relative margin machine: a support vector machine with bounded outputs.

    A support vector machine makes the margin large, whatever the spread of the data. The
    relative margin machine [1]_ makes it large *relative to that spread*: it keeps every
    training output :math:`f_i = w \cdot \varphi(x_i) + b` between :math:`-B` and :math:`B`,

    .. math::

        \min_{w, b} \ \tfrac12 \|w\|^2 + \sum_i C_i \, [1 - y_i f_i]_+
        \quad \text{subject to} \quad -B \le f_i \le B .

    The bound is given (``B``), or relative to the support vector machine (``spread``), or
    learned with a penalty on its size (``D``), with outliers allowed beyond it (``nu``):

    .. math::

        \min_{w, b, t \ge 1} \ \tfrac12 \|w\|^2 + \sum_i C_i \, [1 - y_i f_i]_+ + D \, t
        + \sum_i U_i \, [|f_i| - t]_+ .

    Without ``nu`` the penalties :math:`U_i` are infinite, that is, :math:`|f_i| \le t`; with it
    they are :math:`D \nu s_i / \sum_j s_j`, where :math:`s` are the sample weights.

    Parameters
    ----------
    C : float, default=1.0
        Penalty of margin violations, larger than zero.
    B : float, default=None
        The bound itself, at least 1. Takes precedence over ``spread``.
    spread : float, default=0.5
        The bound relative to the support vector machine of the same ``C``: with ``theta`` the
        largest absolute training output of that one, ``B = 1 + spread * (theta - 1)``. Between 0
        (the tightest) and 1, which is the support vector machine itself.
    D : float, default=None
        Penalty of the bound, at least zero: the bound is a variable ``t``, and the objective
        contains ``D * t``. Zero gives the support vector machine; above some value the bound is 1.
        Takes precedence over ``spread`` and cannot be combined with ``B``. Setting ``B`` to the
        ``t`` that was found gives the same model.
    nu : float, default=None
        With ``D``: lets rows exceed the bound, each with the penalty ``U_i``. Larger than zero. If
        the bound found is above 1, at most a fraction ``1 / nu`` of the rows (by weight) lies
        beyond it and at least that fraction on it or beyond. The useful range is therefore ``nu >=
        1``; below 1 the bound is always 1. As ``nu`` grows, the bound approaches the hard one of
        ``nu=None``.
    kernel : {"linear", "poly", "rbf", "sigmoid", "precomputed"} or callable, default="rbf"
        The kernel function. The sigmoid is indefinite, so a bound has no solution: use it with
        ``spread=1`` and neither ``B`` nor ``D``.
    gamma : {"scale", "auto"} or float, default="scale"
        Coefficient of "rbf", "poly" and "sigmoid": ``1 / (n_features * X.var())``,
        ``1 / n_features``, or the number itself. With ``sample_weight`` the variance is the
        weighted one.
    degree : int, default=3
        Degree of the polynomial kernel.
    coef0 : float, default=0.0
        Constant term of "poly" and "sigmoid".
    tol : float, default=1e-3
        Largest violation of the optimality conditions, on the scale of the outputs: LIBSVM's
        stopping rule.
    max_iter : int, default=-1
        Limit on the solver's steps, or -1 for none.
    class_weight : dict or "balanced", default=None
        Factors of ``C`` by class. They do not change the penalties of ``D`` and ``nu``.
    cache_size : float, default=1024
        Memory limit of the kernel cache in MB, for each pair of classes that is being solved.
        Memory is taken only as it is needed.
    decision_function_shape : {"ovr", "ovo"}, default="ovr"
        Shape of :meth:`decision_function` with more than two classes.
    break_ties : {"first", "confidence", "random"} or bool, default="first"
        Which of several classes with equal votes is predicted: the first, the one with the
        largest summed outputs, or one at random, as in the paper. The values of
        :class:`sklearn.svm.SVC` are accepted too: False is "first" and True is "confidence".
    shrinking : bool, default=True
        Accepted so that code written for :class:`sklearn.svm.SVC` runs; it has no effect.
    probability : bool, default=False
        Only False: for probabilities wrap the classifier in
        :class:`CalibratedMarginClassifier`.
    n_jobs : int, default=None
        Threads of a fit, over which the pairs of classes are distributed; BLAS has one thread in
        each of them. -1 stands for all processors. The default is as many as BLAS may use when the
        fit begins: all processors, unless ``OMP_NUM_THREADS``, threadpoolctl or a parallel search
        in several processes sets a limit. Small problems take fewer.
    verbose : int, default=0
        Whether to report progress on standard error.
    random_state : int, RandomState instance or None, default=None
        Source of random ties.

    Attributes
    ----------
    B_ : ndarray of shape (n_pairs,)
        Bound of each binary problem: ``B``, or what ``spread`` makes of ``theta_``, or the
        ``t`` found for ``D``. For ``D`` with ``nu`` several ``t`` can be optimal for the same
        model; this is the middle of them.
    theta_ : ndarray of shape (n_pairs,)
        Largest absolute training output of the support vector machine; NaN where it was not
        solved: if ``B`` was given, or ``nu`` is at most 1.
    relative_margin_ : ndarray of shape (n_pairs,)
        Margin over the spread of the training outputs, ``1 / max |f_i|``.
    classes_ : ndarray of shape (n_classes,)
        The class labels.
    support_ : ndarray of shape (n_SV,)
        Rows with a nonzero coefficient, grouped by class; they include rows held back
        by the bound.
    support_vectors_ : {ndarray, CSR matrix} of shape (n_SV, n_features)
        Those rows. Empty for a precomputed kernel.
    n_support_ : ndarray of shape (n_classes,)
        Their number by class.
    dual_coef_ : ndarray of shape (n_classes - 1, n_SV)
        Their signed coefficients, laid out as in :class:`sklearn.svm.SVC`.
    coef_ : ndarray of shape (n_pairs, n_features)
        Weight vectors, for the linear kernel only.
    intercept_ : ndarray of shape (n_pairs,)
        Biases.
    objective_ : ndarray of shape (n_pairs,)
        Primal objective of each binary problem, the term ``D * t`` included.
    dual_gap_ : ndarray of shape (n_pairs,)
        The certificate: primal minus dual objective, rounding included, over the primal. No
        solution is better than this model by more than this fraction.
    n_iter_ : ndarray of shape (n_pairs,)
        Steps taken by the solver.
    converged_ : bool
        Whether every binary problem met ``tol`` and has a ``dual_gap_`` of at most
        ``max(tol, 1e-3)``.
    n_features_in_ : int
        Number of features seen in :meth:`fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if ``X`` had string names.

    See Also
    --------
    sklearn.svm.SVC : The case ``spread=1``.

    Notes
    -----
    With ``B >= theta`` the bound does nothing. More than two classes are split into pairs that
    vote, each with a bound of its own; ``D`` is the penalty in each of them.

    References
    ----------
    .. [1] P. K. Shivaswamy and T. Jebara, "Maximum Relative Margin and Data-Dependent
       Regularization", Journal of Machine Learning Research 11, 747-788, 2010.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from oblong import RelativeMarginClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), RelativeMarginClassifier(spread=0.25))
    >>> round(model.fit(X, y).score(X, y), 2)
    0.99
    >>> bool(model[-1].dual_gap_ < 1e-3)
    True

    With ``D`` the bound is learned, here with at most a tenth of the rows beyond it, up
    to ``tol``:

    >>> model = make_pipeline(StandardScaler(), RelativeMarginClassifier(D=10.0, nu=10.0))
    >>> outputs = model.fit(X, y).decision_function(X)
    >>> bool((abs(outputs) > model[-1].B_[0] + model[-1].tol).mean() <= 0.1)
    True
    """

    B: AtLeastOne | None = None
    spread: Fraction = 0.5
    D: NotNegative | None = None
    nu: Positive | None = None
    shrinking: bool = True
    probability: bool | Literal["deprecated"] = False

    # Coefficients that a search found for two classes, for its last fit.
    _starts: ClassVar[np.ndarray | None] = None

    def _check_rows(self, X: Any) -> None:
        super()._check_rows(X)
        if self.probability not in (False, "deprecated"):
            raise ValueError(
                "probability=True is not supported: wrap the classifier in "
                "oblong.CalibratedMarginClassifier"
            )
        check_bound(self.B, self.D, self.nu)

    def _if_indefinite(self) -> str | None:
        if self.B is None and self.D is None and self.spread == 1.0:
            return None
        return "a bound has no solution; use another kernel, or no bound (spread=1)"

    def _solve_pair(
        self, columns: KernelMatrix, y: np.ndarray, C: np.ndarray,
        progress: ProgressCallback | None, weights: np.ndarray,
    ) -> RelativeMarginResult:  # fmt: skip
        limits: Any = {"tol": self.tol, "max_iter": self.max_iter, "progress": progress}
        if self.D is not None:
            return solve_variable_bound(
                columns, y, C, D=self.D, nu=self.nu, weights=weights, **limits
            )
        return solve_relative_margin(
            columns, y, C, B=self.B, spread=self.spread, starts=self._starts, **limits
        )

    def _one_by_one(self, rows: Any, labels: np.ndarray) -> bool:
        """Whether pairs are solved one by one, and not in one batch."""
        device = self._rows_on_device is not None
        if self._indefinite or self.kernel == "sigmoid" or (device and callable(self.kernel)):
            return True
        if device:
            return False
        counts = np.bincount(labels)
        # Of a few small pairs each can have the last digits, and large ones their own threads.
        few = len(counts) == 2 or (len(counts) <= _FEW_CLASSES and len(labels) <= _FEW_ROWS)
        large = np.sort(counts)[-2:].sum() > DEFAULTS.batch_rows
        return self.D is not None or few or large or not self._dense(rows)

    def _dense(self, X: Any) -> bool:
        """Whether the rows, or their kernel matrix, can be one dense array."""
        size = X.shape[0] * (X.shape[0] if callable(self.kernel) else X.shape[1])
        return size <= _DENSE or not (sp.issparse(X) or callable(self.kernel))

    def _tiles(self, kept: np.ndarray, rows: Any, order: np.ndarray) -> GramTiles | RowTiles:
        """The kernel matrix of the rows in this order, on cores or on a device."""
        gram = self.kernel == "precomputed" or callable(self.kernel)
        if self._rows_on_device is not None:
            sorted_rows = select(self._rows_on_device, kept[order], gram)
        else:
            sorted_rows = self._select(rows, order)
            if sp.issparse(sorted_rows) and not callable(self.kernel):
                sorted_rows = sorted_rows.toarray()
            sorted_rows = self._kernel()(sorted_rows) if gram else sorted_rows
        return GramTiles(sorted_rows) if gram else RowTiles(self._kernel(), sorted_rows)

    def _fit_rows(
        self, X: Any, kept: np.ndarray, rows: Any,
        labels: np.ndarray, penalties: np.ndarray, weights: np.ndarray,
    ) -> Sequence[PairFit]:  # fmt: skip
        def one_by_one() -> Sequence[PairFit]:
            return super(RelativeMarginClassifier, self)._fit_rows(
                X, kept, rows, labels, penalties, weights
            )

        if self._one_by_one(rows, labels):
            return one_by_one()
        row_penalties(self.C, penalties)
        pairs = PairBatch.of(labels)
        given = self.B is not None or self.D is not None
        batch = pairs.problems(
            self._tiles(kept, rows, pairs.order),
            penalties,
            Cs=np.array([float(self.C)]),
            spreads=np.array([] if given else [self.spread]),
            bounds=None if self.B is None else np.full(len(pairs.pairs), float(self.B)),
            tol=self.tol,
            max_iter=self.max_iter,
        )
        found: BatchResult | list[PairFit]
        threads = threads_of(self.n_jobs)
        try:
            with single_threaded_blas():
                if self.D is None:
                    found = solve_batch(
                        batch,
                        threads=threads,
                        cache_bytes=self.cache_size * 2.0**20,
                        progress=self._progress(),
                    )
                else:
                    found = self._search_bounds(batch, weights[pairs.order])
        except Exception as error:
            if self._rows_on_device is None or not out_of_memory(error):
                raise
            # Cores need less memory.
            return one_by_one()
        fits = unconverged(found) if isinstance(found, BatchResult) else found
        if self.kernel == "linear" and "stalled" in [fit.status for fit in fits]:
            # Pairs one by one can be solved for their weights.
            self._products_fail = True
            try:
                return one_by_one()
            finally:
                del self._products_fail
        if isinstance(found, BatchResult):
            self._store_table(X, kept, labels, pairs.table(found))
            self._keep(found)
        else:
            self._store(X, kept, labels, pairs.members(), found)
            self._keep([fit.solution for fit in found])
        return fits

    def _search_bounds(self, batch: MarginBatch, weights: np.ndarray) -> list[PairFit]:
        """Solve the pairs on a device, for the bounds that ``D`` and ``nu`` make the best."""
        from oblong.solvers.margin.batch.cuda_bounds import solve_bounds_on_device

        assert self.D is not None
        results = solve_bounds_on_device(
            batch, self.D, self.nu, weights, cache_bytes=self.cache_size * 2.0**20
        )
        models = [(result, result.margin) for result in results]
        return [self._pair_fit(found, m.coef, m.bias, m.direction) for found, m in models]

    def _shared_threads(self, pairs: int) -> tuple[int, int]:
        # Pairs side by side keep cores busier than the threads of one.
        threads = threads_of(self.n_jobs)
        jobs = min(pairs, threads)
        return jobs, threads // jobs

    def _rows_of_pairs(
        self, X: Any, labels: np.ndarray, pairs: Sequence[tuple[int, int]], threads: int
    ) -> tuple[Sequence[Any], list[np.ndarray], np.ndarray]:
        """Let large pairs share rows that are prepared once."""
        batch = PairBatch.of(labels)
        spans = batch.spans
        dense = isinstance(X, np.ndarray) and self.kernel in ("linear", "poly", "rbf")
        if len(pairs) == 1 or not dense or np.diff(spans).sum(axis=1).min() <= DEFAULTS.batch_rows:
            return super()._rows_of_pairs(X, labels, pairs, threads)
        shared = self._columns(X[batch.order], self._shared_threads(len(pairs))[1])
        if shared.exact:
            return super()._rows_of_pairs(X, labels, pairs, threads)
        rows = [np.concatenate([np.arange(*span) for span in both]) for both in spans]
        parts = [shared.restricted(some) for some in rows]
        return parts, batch.members(), np.arange(len(pairs))

    def _fit_pair(
        self, X: Any, y: np.ndarray, penalties: np.ndarray, weights: np.ndarray, threads: int
    ) -> PairFit:
        fit = None
        if not getattr(self, "_products_fail", False):
            fit = super()._fit_pair(X, y, penalties, weights, threads)
            if self.kernel != "linear" or fit.status != "stalled":
                return fit
        # Products of rows have lost what the rows still tell: solve for the weights themselves.
        U = None
        if self.D is not None and self.nu is not None:
            U = self.D * self.nu * weights / weights.sum()
        C = row_penalties(self.C, penalties)
        rows = X.given if isinstance(X, KernelMatrix) else X
        found = solve_linear_relative_margin(
            rows, y, C, B=self.B, spread=self.spread, D=self.D, U=U, tol=self.tol
        )
        linear = found.solution
        if fit is None and linear.status != "converged":
            fit = super()._fit_pair(X, y, penalties, weights, threads)
        if fit is not None and not linear.relative_gap < fit.relative_gap:
            return fit
        coef = np.where(np.abs(linear.dual_coef) > 1e-9 * self.C, linear.dual_coef, 0.0)
        n_iter = found.n_iter + (0 if fit is None else fit.n_iter)
        return PairFit.of_linear(linear, solution=found, coef=coef, n_iter=n_iter)

    def _keep(
        self,
        solutions: BatchResult | Sequence[RelativeMarginResult | LinearRelativeMarginResult],
    ) -> None:
        if isinstance(solutions, BatchResult):
            self.B_, self.theta_ = solutions.bound[:, -1], solutions.theta[:, -1]
            largest = solutions.largest[:, -1]
        else:
            self.B_ = np.array([solution.B for solution in solutions])
            self.theta_ = np.array([solution.theta for solution in solutions])
            largest = np.array([np.abs(solution.outputs).max() for solution in solutions])
        with np.errstate(divide="ignore", over="ignore"):
            self.relative_margin_ = 1.0 / largest
