"""The base of kernel classifiers that the margin solver fits."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions

from oblong._core.class_weights import class_factors
from oblong._core.progress import ProgressCallback, print_progress
from oblong._core.threads import single_threaded_blas
from oblong.batch._pairwise import PairFit, PairwiseKernelClassifier
from oblong.linalg.columns import ExplicitColumns, KernelColumns, SymmetricColumns
from oblong.linalg.definite import check_kernel_definite
from oblong.solvers.margin.options import DEFAULTS

__all__ = ["KernelClassifier"]

# Least number of columns for which products of rows are worth the threads of BLAS.
_WIDE = 256


class KernelClassifier(PairwiseKernelClassifier):
    """Base of kernel classifiers with a penalty ``C``, solved to a tolerance.

    A subclass says how one binary problem is solved, from the columns of its kernel matrix
    (:meth:`_solve_pair`) or from its rows (:meth:`_fit_pair`), and keeps what it needs of the
    solutions (:meth:`_keep`).
    """

    # Whether the last fit found the kernel matrix to be indefinite.
    _indefinite = False
    _parameter_constraints: ClassVar[dict] = {
        **PairwiseKernelClassifier._parameter_constraints,
        "C": [Interval(Real, 0.0, None, closed="neither")],
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "tol": [Interval(Real, 0.0, None, closed="neither")],
        "max_iter": [Interval(Integral, -1, None, closed="left")],
        "cache_size": [Interval(Real, 0.0, None, closed="neither")],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        *,
        C: float = 1.0,
        kernel: Any = "rbf",
        gamma: Any = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        tol: float = 1e-3,
        max_iter: int = -1,
        class_weight: Any = None,
        cache_size: float = 1024,
        decision_function_shape: str = "ovr",
        break_ties: str | bool = "first",
        n_jobs: int | None = None,
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.tol = tol
        self.max_iter = max_iter
        self.class_weight = class_weight
        self.cache_size = cache_size
        self.decision_function_shape = decision_function_shape
        self.break_ties = break_ties
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    def _solve_pair(
        self,
        columns: SymmetricColumns,
        y: np.ndarray,
        C: np.ndarray,
        progress: ProgressCallback | None,
        weights: np.ndarray,
    ) -> Any:
        """Solve one binary problem; the result has ``margin`` and ``n_iter``.

        ``weights`` are the sample weights alone, of which ``C`` has the class weights on top.
        """
        raise NotImplementedError

    def _keep(self, solutions: Sequence[Any]) -> None:
        """Keep nothing but what all kernel classifiers keep."""
        return

    def _penalties(self, labels: np.ndarray, weights: np.ndarray) -> np.ndarray:
        return weights * class_factors(self.class_weight, self.classes_, labels, weights)[labels]

    @property
    def _title(self) -> str:
        """Name of the classifier in messages."""
        return type(self).__name__

    @property
    def _remedy(self) -> str:
        """What to do where the solver makes no further progress."""
        return f"Lower C (now {self.C:g}) or scale the columns."

    def _if_indefinite(self) -> str | None:
        """What an indefinite kernel would mean and what to do; None if it does no harm."""
        return None

    def _check_kernel(self, X: Any) -> None:
        kernel = self._kernel()
        consequence = self._if_indefinite()
        self.__dict__.pop("_indefinite", None)

        def matrix(rows: np.ndarray) -> np.ndarray:
            return np.asarray(kernel(self._select(X, rows)), dtype=np.float64)

        try:
            check_kernel_definite(kernel, matrix, X.shape[0], str(consequence))
        except ValueError:
            if consequence is not None:
                raise
            # The solver still finds a stationary point, but no duality bounds its objective.
            self._indefinite = True

    def _fit_pair(
        self, X: Any, y: np.ndarray, penalties: np.ndarray, weights: np.ndarray, threads: int
    ) -> PairFit:
        columns = self._columns(X)
        C, progress = self.C * penalties, self._progress()
        # Thin products take less time than starting the threads of BLAS.
        with single_threaded_blas() if X.shape[1] < _WIDE else nullcontext():
            solution = self._solve_pair(columns, y, C, progress, weights)
        margin = solution.margin
        bias = margin.bias - columns.offset(margin.coef, margin.direction)
        return self._pair_fit(solution, margin.coef, bias, margin.direction)

    def _pair_fit(
        self, solution: Any, coef: np.ndarray, bias: float, direction: np.ndarray | None = None
    ) -> PairFit:
        """Put a solution's certificate and its model together."""
        margin = solution.margin
        return PairFit(
            solution,
            coef,
            bias,
            margin.objective,
            np.inf if self._indefinite else margin.relative_gap,
            solution.n_iter,
            "indefinite" if self._indefinite else margin.status,
            direction,
            margin.rounding > 0.5 * margin.gap,
        )

    def _progress(self) -> ProgressCallback | None:
        return print_progress if self.verbose else None

    def _columns(self, X: Any) -> SymmetricColumns:
        if self.kernel == "precomputed":
            return ExplicitColumns(X)
        return KernelColumns(self._kernel(), X, cache_bytes=self.cache_size * 2.0**20)

    def _warn_unconverged(self, fits: Sequence[PairFit]) -> None:
        worst = max(
            (fit for fit in fits if fit.status != "converged"),
            key=lambda fit: fit.relative_gap,
            default=None,
        )
        if worst is not None:
            if worst.status == "max_iter":
                why, remedy = f"max_iter={self.max_iter} was reached", "Increase max_iter."
            elif worst.status == "indefinite":
                why = (
                    "the kernel matrix is not positive semidefinite, so that the solution is a "
                    "stationary point and no gap can be proved"
                )
                remedy = "Use another kernel."
            elif worst.rounded:
                why = "the rest of the gap is rounding error"
                remedy = "Scale the columns, for example with StandardScaler."
            else:
                why = "the solver makes no further progress"
                remedy = self._remedy
            promise = DEFAULTS.promise(self.tol)
            warnings.warn(
                f"{self._title} did not converge to tol={self.tol:g} and a relative "
                f"duality gap of {promise:g}: {why}. The gap reached is "
                f"{worst.relative_gap:.3g}. {remedy}",
                ConvergenceWarning,
                stacklevel=5,
            )
