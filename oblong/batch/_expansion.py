"""Models that are kernel expansions: validation, kernels, evaluation, certificates.

Classifiers and regressors share what is here; nothing of it knows of classes or targets.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from oblong._core.estimator import Estimator
from oblong._core.progress import ProgressCallback, Run, print_progress
from oblong._core.threads import available_threads, chunks
from oblong.batch._rows import validated_rows
from oblong.kernels import Kernel, KernelRows, resolve_gamma
from oblong.linalg.definite import check_kernel_definite
from oblong.linalg.kernel_matrix import KernelMatrix
from oblong.linalg.products import add_product
from oblong.solvers.margin.options import DEFAULTS

# Entries of rows that are multiplied by a weight vector at a time.
_PREDICTION_BLOCK = 1 << 22
# Rows that are prepared for a prediction at a time, and entries that are not worth another thread.
_PREDICTION_ROWS = 1 << 14
_ONE_THREAD = 1 << 17
# Coefficients of support vectors that are spread out at a time.
_COEFFICIENTS = 1 << 22
# A matrix that is factorised takes differences of rows as if gamma were larger by this factor.
_BY_DIFFERENCES = 1e4
# Support vectors of fitted estimators, prepared for prediction: vectors, kernel, shift and rows. No
# attributes: predictions leave the estimator as it is, and pickles need none of it.
_PREPARED: WeakKeyDictionary[Any, tuple] = WeakKeyDictionary()


@dataclass(frozen=True)
class PairFit:
    """The solution of one problem, ``f(x) = Σ c_i k(x_i, x) + b``.

    Attributes
    ----------
    solution : object
        The solver's result.
    coef : ndarray of shape (n,)
        Coefficients ``c`` of the rows.
    bias : float
        The bias ``b``.
    objective, relative_gap : float
        Primal objective, and by how much of it the dual objective lies below.
    n_iter : int
        Steps taken.
    status : str
        ``"converged"``, or why not.
    direction : ndarray of shape (n_features,), default=None
        For the linear kernel: the weight vector, which the certificate is computed with.
    rounded : bool, default=False
        Whether most of the gap is rounding.
    """

    solution: Any
    coef: np.ndarray
    bias: float
    objective: float
    relative_gap: float
    n_iter: int
    status: str = "converged"
    direction: np.ndarray | None = None
    rounded: bool = False

    @classmethod
    def of_linear(cls, found: Any, /, **other: Any) -> Self:
        """The model of a weight vector; its ``dual_coef`` are the coefficients of the rows."""
        rounded = found.rounding > 0.5 * found.gap
        own = {"coef": found.dual_coef, "direction": found.coef, "rounded": rounded}
        return cls.of(found, **own | other)

    @classmethod
    def of(cls, found: Any, /, **other: Any) -> Self:
        """The model of a solution that has these fields, but for the ``other`` ones."""
        names = [field.name for field in fields(cls) if hasattr(found, field.name)]
        same = {name: getattr(found, name) for name in names}
        return cls(**{"solution": found} | same | other)


class KernelExpansion(Estimator):
    """Base of estimators whose outputs are ``f(x) = Σ c_i k(x_i, x) + b``."""

    # Parameters and attributes that subclasses have.
    kernel: Any
    gamma: Any
    degree: int
    coef0: float
    support_: np.ndarray
    support_vectors_: Any
    n_support_: np.ndarray
    dual_coef_: np.ndarray
    coef_: np.ndarray
    intercept_: np.ndarray
    n_iter_: Any
    _gamma: float

    # Negative eigenvalues up to this share of the diagonal are round-off.
    _round_off = 1e-5

    def _training_data(
        self, X: Any, y: Any, sample_weight: Any, **targets: Any
    ) -> tuple[Any, np.ndarray, np.ndarray]:
        """Check the rows, the targets and the sample weights."""
        X, y = validated_rows(self, X, y, **targets)
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        if self.kernel == "precomputed" and X.shape[0] != X.shape[1]:
            raise ValueError(
                f"Precomputed matrix must be a square matrix. Input is a {X.shape[0]}x"
                f"{X.shape[1]} matrix."
            )
        if self.kernel == "precomputed" and sp.issparse(X):
            raise TypeError("Sparse precomputed kernels are not supported.")
        return X, y, weights

    def _kept(
        self, X: Any, y: np.ndarray, weights: np.ndarray, kept: np.ndarray
    ) -> tuple[Any, np.ndarray, np.ndarray]:
        """Rows, targets and weights without the rows that are dropped."""
        if kept.size == X.shape[0]:
            return X, y, weights
        return self._select(X, kept), y[kept], weights[kept]

    def _resolve_gamma(self, X: Any, weights: np.ndarray | None) -> float:
        needs_gamma = self.kernel in ("rbf", "poly", "sigmoid")
        return resolve_gamma(self.gamma, X, weights) if needs_gamma else 1.0

    def _kernel(self) -> Kernel:
        return Kernel(self.kernel, self._gamma, int(self.degree), float(self.coef0))

    def _check_definite(self, X: Any, consequence: str) -> None:
        """Refuse an indefinite kernel; ``consequence`` says what it would mean and what to do."""
        kernel = self._kernel()

        def matrix(rows: np.ndarray) -> np.ndarray:
            return np.asarray(kernel(self._select(X, rows)))

        check_kernel_definite(kernel, matrix, X.shape[0], consequence, self._round_off)

    def _select(self, X: Any, rows: np.ndarray) -> Any:
        return X[np.ix_(rows, rows)] if self.kernel == "precomputed" else X[rows]

    def _support_rows(self, X: Any) -> Any:
        """The rows of ``support_``; none of a precomputed kernel, which has no rows."""
        if self.kernel == "precomputed":
            return np.empty((0, 0), dtype=X.dtype)
        return X[self.support_]

    def _matrix(
        self, X: Any, threads: int
    ) -> tuple[np.ndarray, float, tuple[Any, np.ndarray, np.ndarray] | None]:
        """Kernel matrix in double precision, and its rounding, see :meth:`Kernel.rounding`.

        For the linear kernel, the rows and their shift too: far from the origin, the centred
        matrix is a small difference of large numbers.
        """
        kernel = self._kernel()
        if kernel.name == "precomputed":
            return X, 0.0, None
        shift = None
        doubled = X.astype(np.float64, copy=False)
        if kernel.shift_invariant and not sp.issparse(X):
            shift = doubled.mean(axis=0)
        rows = kernel.prepare(doubled, np.float64, shift)
        # The model is evaluated by products; beside a factorisation, differences cost nothing.
        unit = kernel.rounding(rows) * float(np.finfo(np.float64).eps)
        rows = replace(rows, coarse=rows.is_coarse(_BY_DIFFERENCES))
        K = kernel.block(rows, rows, threads=threads)
        if kernel.name != "linear":
            return K, unit, None
        return K, unit, (X, np.zeros(X.shape[1]) if shift is None else shift, rows.left)

    def _expansion(self, some: slice = slice(None)) -> tuple[Any, np.ndarray]:
        """Rows and their coefficients, of shape (n_outputs, n_rows), that make some outputs."""
        return self.support_vectors_, self.dual_coef_[some]

    def _outputs(self, X: Any, rounded: bool = False) -> np.ndarray:
        """Outputs of rows, of shape (n, n_outputs), perhaps in the precision of the rows.

        Votes count signs, and sums of outputs may cancel: both take them in double precision.
        """
        check_is_fitted(self)
        X = validated_rows(self, X, reset=False)
        with np.errstate(over="ignore", invalid="ignore"):
            outputs = self._evaluate(X)
            Kernel.check_finite(outputs, "the decision value of")
            if not rounded:
                return outputs
            # Outputs beyond single precision stay as they are.
            fewer_digits = outputs.astype(X.dtype, copy=False)
        return fewer_digits if np.isfinite(fewer_digits).all() else outputs

    def _evaluate(self, X: Any) -> np.ndarray:
        """Outputs of validated rows, in double precision whatever that of the rows.

        An output is often a small difference of large numbers.
        """
        outputs = np.empty((X.shape[0], self.intercept_.size))
        if self.kernel == "linear":
            entries = X.nnz / max(1, X.shape[0]) if sp.issparse(X) else X.shape[1]
            for start, stop in chunks(X.shape[0], int(_PREDICTION_BLOCK / max(1.0, entries)) + 1):
                outputs[start:stop] = X[start:stop] @ self.coef_.T + self.intercept_
            return outputs
        outputs[...] = self.intercept_
        # With many classes all coefficients, most of them zeros, take far more than the model.
        at_once = max(1, _COEFFICIENTS // max(1, self.support_.size))
        for first, last in chunks(self.intercept_.size, at_once):
            self._add_expansion(X, slice(first, last), outputs[:, first:last])
        return outputs

    def _add_expansion(self, X: Any, some: slice, outputs: np.ndarray) -> None:
        """Add the sums over support vectors of some outputs."""
        vectors, coef = self._expansion(some)
        coef = coef.T
        if self.kernel == "precomputed":
            outputs += X[:, self.support_] @ coef
            return
        if vectors.shape[0] == 0:
            return
        if sp.issparse(X) != sp.issparse(vectors):
            X, vectors = sp.csr_matrix(X), sp.csr_matrix(vectors)
        kernel = self._kernel()
        shift, right = self._prepared(kernel, vectors)
        entries = X.shape[0] * right.n
        threads = available_threads() if entries > _ONE_THREAD else 1
        # A product with a vector needs no tile in memory.
        coef = coef[:, 0] if coef.shape[1] == 1 else coef
        for start, stop in chunks(X.shape[0], _PREDICTION_ROWS):
            left = kernel.prepare(X[start:stop], np.float64, shift)
            out = outputs[start:stop, 0] if coef.ndim == 1 else outputs[start:stop]
            add_product(kernel, left, right, coef, out, threads)

    def _prepared(self, kernel: Kernel, vectors: Any) -> tuple[np.ndarray | None, KernelRows]:
        """Shift and rows prepared for products with others, once per fit."""
        held = _PREPARED.get(self)
        if held is None or held[0] is not vectors or held[1] != kernel:
            shift = None if sp.issparse(vectors) else kernel.centre(vectors)
            rows = kernel.prepare(vectors, np.float64, shift)
            if isinstance(rows.right, np.ndarray):
                right = np.asfortranarray(rows.right)
                rows = replace(rows, left=right, right=right)
            held = _PREPARED[self] = (vectors, kernel, shift, rows)
        return held[2:]

    def _store_solutions(self, fits: Sequence[PairFit]) -> None:
        """Keep the biases, and what solvers say of their solutions."""
        self.intercept_ = np.array([fit.bias for fit in fits])
        self.dual_gap_ = np.array([fit.relative_gap for fit in fits])
        self.objective_ = np.array([fit.objective for fit in fits])
        self.n_iter_ = np.array([fit.n_iter for fit in fits], dtype=np.int64)
        self.converged_ = all(fit.status == "converged" for fit in fits)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "dual_coef_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.kernel != "precomputed"
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags


class CertifiedExpansion(KernelExpansion):
    """Base of expansions that the margin solver finds, to a tolerance and with a certificate."""

    C: float
    tol: float
    max_iter: int
    cache_size: float
    verbose: int
    converged_: bool

    # Whether the last fit found the kernel matrix to be indefinite.
    _indefinite = False
    # What has units.
    _in_units = "the columns"

    @property
    def _title(self) -> str:
        """Name of the estimator in messages."""
        return type(self).__name__

    @property
    def _remedy(self) -> str:
        """What to do where the solver makes no further progress."""
        return f"Lower C (now {self.C:g}) or scale {self._in_units}."

    def _if_indefinite(self) -> str | None:
        """What an indefinite kernel would mean and what to do; None if it does no harm."""
        return None

    def _check_kernel(self, X: Any) -> None:
        consequence = self._if_indefinite()
        self.__dict__.pop("_indefinite", None)
        try:
            self._check_definite(X, str(consequence))
        except ValueError:
            if consequence is not None:
                raise
            # The solver still finds a stationary point, but no duality bounds its objective.
            self._indefinite = True

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

    def _run(self) -> Run:
        """When a solver stops, and how it reports progress."""
        return {"tol": self.tol, "max_iter": self.max_iter, "progress": self._progress()}

    def _columns(self, X: Any, threads: int = 1) -> KernelMatrix:
        if isinstance(X, KernelMatrix):
            return X
        if self.kernel == "precomputed":
            return KernelMatrix(X, threads=threads)
        cache = self.cache_size * 2.0**20
        return KernelMatrix.of_rows(self._kernel(), X, cache_bytes=cache, threads=threads)

    def _warn_unconverged(self, fits: Sequence[PairFit]) -> None:
        worst = max(
            (fit for fit in fits if fit.status != "converged"),
            key=lambda fit: fit.relative_gap,
            default=None,
        )
        if worst is not None:
            if worst.status == "max_iter":
                limit = f"max_iter={self.max_iter}" if self.max_iter >= 0 else "its own limit"
                why, remedy = f"{limit} was reached", "Increase max_iter."
            elif worst.status == "indefinite":
                why = (
                    "the kernel matrix is not positive semidefinite, so the solution is only a "
                    "stationary point and no gap can be proved"
                )
                remedy = "Use another kernel."
            elif worst.rounded:
                why = "the rest of the gap is rounding error"
                remedy = f"Scale {self._in_units}, for example with StandardScaler."
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
