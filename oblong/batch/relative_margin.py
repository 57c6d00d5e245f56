"""The relative margin machine as a scikit-learn classifier."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from oblong._core.class_weights import row_penalties
from oblong._core.estimator import AtLeastOne, Fraction, NotNegative, Positive
from oblong.batch._base import KernelClassifier
from oblong.batch._pair_batch import REASONS, ClassPairs, PairSolutions
from oblong.batch._pairwise import PairFit
from oblong.batch._parameters import MarginParameters, check_bound
from oblong.batch._workers import in_threads, threads_of
from oblong.linalg.kernel_matrix import KernelMatrix
from oblong.solvers.linear.relative import solve_linear_relative_margin
from oblong.solvers.margin.grid import solve_grid, variants_of
from oblong.solvers.margin.grid_matrix import EXACT
from oblong.solvers.margin.options import DEFAULTS
from oblong.solvers.margin.relative import RelativeMarginResult
from oblong.solvers.margin.variable_bound import solve_variable_bound


@dataclass(kw_only=True, eq=False, repr=False)
class RelativeMarginClassifier(MarginParameters, KernelClassifier):
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

    def _fit_rows(
        self, X: Any, kept: np.ndarray, rows: Any,
        labels: np.ndarray, penalties: np.ndarray, weights: np.ndarray,
    ) -> Sequence[PairFit]:  # fmt: skip
        pairs = ClassPairs.of(labels)
        threads = threads_of(self.n_jobs)
        C = row_penalties(self.C, penalties)
        matrix = self._columns(rows, threads)
        if self.D is None:
            found = self._fixed_bounds(matrix, pairs, C, threads)
        else:
            found = self._variable_bounds(matrix, pairs, C, weights, threads)
        if self.kernel == "linear":
            self._solve_for_weights(found, rows, pairs, C, weights)
        if self._indefinite:
            found.withdraw()
        self._store_table(X, kept, labels, pairs.table(found))
        self.B_, self.theta_ = found.B, found.theta
        with np.errstate(divide="ignore", over="ignore"):
            self.relative_margin_ = 1.0 / found.largest
        return found.unconverged()

    def _fixed_bounds(
        self, matrix: KernelMatrix, pairs: ClassPairs, C: np.ndarray, threads: int
    ) -> PairSolutions:
        """Solve all pairs for the bound, or for that which the spread makes of each."""
        svm = self.B is None and self.spread == 1.0
        spreads = None if self.B is not None or svm else [self.spread]
        bounds = (np.inf if self.B is None else float(self.B),)
        found = solve_grid(
            matrix,
            pairs.groups(pairs.svm_pieces(C)),
            variants_of(tol=self.tol, spreads=spreads, bounds=bounds),
            promise=DEFAULTS.promise(self.tol),
            max_iter=self.max_iter,
            polish=matrix.n <= EXACT,
            threads=threads,
            progress=self._progress(),
            stage="svm" if svm else "relative margin",
        )
        solutions = PairSolutions.of_grid(found)
        if svm:
            solutions.theta[:] = solutions.largest
            solutions.B[:] = np.maximum(1.0, solutions.theta)
        elif self.B is not None:
            solutions.theta[:] = np.nan
        return solutions

    def _variable_bounds(
        self, matrix: KernelMatrix, pairs: ClassPairs, C: np.ndarray, weights: np.ndarray,
        threads: int,
    ) -> PairSolutions:  # fmt: skip
        """Solve every pair for the bound that its penalty makes the best."""
        assert self.D is not None
        D = self.D
        jobs = min(len(pairs.members), threads)

        def solve(members: np.ndarray, y: np.ndarray) -> tuple[RelativeMarginResult, PairFit]:
            own = matrix if len(pairs.members) == 1 else matrix.restricted(members)
            solution = solve_variable_bound(
                own, y, C[members], D=D, nu=self.nu,
                weights=weights[members], **self._run(),
            )  # fmt: skip
            margin = solution.margin
            bias = margin.bias - own.offset(margin.coef, margin.direction)
            return solution, self._pair_fit(solution, margin.coef, bias, margin.direction)

        found = in_threads(solve, list(zip(pairs.members, pairs.y)), jobs)
        return PairSolutions.of_fits([fit for _, fit in found], [result for result, _ in found])

    def _solve_for_weights(
        self, found: PairSolutions, rows: Any, pairs: ClassPairs, C: np.ndarray,
        weights: np.ndarray,
    ) -> None:  # fmt: skip
        """Where products of rows have lost what the rows still tell, solve for the weights."""
        for k in np.flatnonzero(found.status == REASONS.index("stalled")):
            members, U = pairs.members[k], None
            if self.D is not None and self.nu is not None:
                U = self.D * self.nu * weights[members] / weights[members].sum()
            result = solve_linear_relative_margin(
                rows[members], pairs.y[k], C[members],
                B=self.B, spread=self.spread, D=self.D, U=U, tol=self.tol,
            )  # fmt: skip
            linear = result.solution
            if not linear.relative_gap < found.relative_gap[k]:
                continue
            small = np.abs(linear.dual_coef) <= 1e-9 * self.C
            coef = np.where(small, 0.0, linear.dual_coef)
            n_iter = result.n_iter + int(found.n_iter[k])
            fit = PairFit.of_linear(linear, solution=result, coef=coef, n_iter=n_iter)
            found.replace(int(k), fit, result)
