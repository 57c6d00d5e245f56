"""Online learners with a full covariance in the feature space of a kernel.

The learner keeps a dictionary of examples ``Z`` and the Cholesky factor ``L`` of their kernel
matrix. In the orthonormal coordinates ``q(x) = L⁻¹ k_Z(x)`` of their span, together with the one
coordinate ``√δ``, ``δ = k(x, x) - |q|²``, in which ``x`` sticks out of it, an example is a vector
like any other, and the learner is the linear one. Directions that no example has had keep the
initial variance. After an update the example joins the dictionary if it sticks out enough, and the
dictionary has room; otherwise the last coordinate is dropped, which leaves the covariance
positive definite.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import solve_triangular

from oblong._core.compile import compiled
from oblong._core.threads import chunks
from oblong.kernels import Kernel, resolve_gamma
from oblong.solvers.online.growth import grow
from oblong.solvers.online.options import DEFAULT, OnlineOptions
from oblong.solvers.online.passes.general import learn_rows
from oblong.solvers.online.protocol import Health
from oblong.solvers.online.rows import Rows
from oblong.solvers.online.slots import UPDATES
from oblong.solvers.online.state import OnlineState

# What sticks out of the span by less than this fraction of k(x, x) is round-off, and would have the
# whole initial variance where that of the learner has long vanished.
_ROUND_OFF = 1e-12


@compiled
def _drop(model, row):
    """Forget a coordinate: it gets the initial variance, which the last row holds."""
    table, total, covariance = model.table, model.total, model.covariance
    n_outputs, size = covariance.shape[0], covariance.shape[1]
    for k in range(n_outputs):
        table[row, k] = 0.0
        if total.shape[0] > 0:
            total[row, k] = 0.0
        for r in range(size):
            covariance[k, row, r] = 0.0
            covariance[k, r, row] = 0.0
        covariance[k, row, row] = covariance[k, size - 1, size - 1]


@compiled
def _learn_kernel_rows(
    start, m, budget, tol, kernel, among, diagonal, factor, chosen, labels, weights, columns, model
):
    """Learn from rows of kernel values; stop when there is no room for another coordinate.

    ``kernel`` has the values against the dictionary, ``among`` those of the rows themselves.
    Returns the rows done and the size of the dictionary.
    """
    values, ones, nothing = np.zeros(columns.size), np.ones(1), np.empty((0, 0))
    order, span = np.zeros(1, dtype=np.int64), np.zeros(2, dtype=np.int64)
    # True, and not as a constant, for which the loop over rows would be compiled once more.
    dense = m >= 0
    for i in range(start, diagonal.size):
        copies = int(weights[i])
        for copy in range(copies):
            if m + 3 > model.table.shape[0]:
                # The copies that are left.
                weights[i] = copies - copy
                return i, m
            rest = diagonal[i]
            for r in range(m):
                t, row = kernel[i, r], factor[r]
                for c in range(r):
                    t -= row[c] * values[c]
                t /= row[r]
                values[r] = t
                rest -= t * t
            if rest < _ROUND_OFF * diagonal[i]:
                rest = 0.0
            values[m] = rest**0.5
            span[1] = m + 1
            updates = model.counters[UPDATES]
            learn_rows(
                values, columns, span, order, labels[i : i + 1], ones, dense,
                model.table, model.covariance, model.scale, model.total, model.counters,
                model.work, model.settings, model.codes, model.units, nothing,
            )  # fmt: skip
            if model.counters[UPDATES] == updates:
                continue
            if rest > 0.0 and rest > tol * diagonal[i] and m < budget:
                row = factor[m]
                for c in range(m + 1):
                    row[c] = values[c]
                for r in range(diagonal.size):
                    kernel[r, m] = among[r, i]
                chosen[m] = i
                m += 1
            else:
                _drop(model, m + 1)
    return diagonal.size, m


def _inner(name: str) -> Any:
    return property(lambda state: getattr(state.inner, name))


class _Inner:
    """What estimators look at, which is that of the learner inside."""

    __slots__ = ()

    task: int = _inner("task")
    updates: int = _inner("updates")
    mistakes: int = _inner("mistakes")
    health: Health = _inner("health")
    rounds: int = _inner("rounds")
    n_outputs: int = _inner("n_outputs")


@dataclass(slots=True)
class KernelState(_Inner):
    """A learner in the coordinates of its dictionary.

    Attributes
    ----------
    inner : OnlineState
        The learner.
    kernel : Kernel
        The kernel, or what is known of it before there are rows: gamma may be a word.
    dictionary : {ndarray, CSR matrix} of shape (n_dictionary, n_features), or None
        The dictionary.
    factor : ndarray
        Cholesky factor of its kernel matrix, in the corner of a larger array.
    budget : int
        Largest size of the dictionary.
    tol : float
        An example sticks out if ``δ`` is above this fraction of ``k(x, x)``.
    """

    inner: OnlineState
    kernel: Kernel
    dictionary: Any
    factor: np.ndarray
    budget: int
    tol: float

    @classmethod
    def initial(cls, inner: OnlineState, kernel: Kernel, budget: int, tol: float) -> KernelState:
        """A learner that has seen nothing; ``inner`` has no features yet."""
        grow(inner, 16)
        # Coordinates come one by one: they all have their variance beforehand.
        grow(inner, len(inner.table) - 1)
        inner.n_features = 0
        return cls(inner, kernel, None, np.zeros((32, 32)), budget, tol)

    # What the estimators look at ------------------------------------------------------------------

    @property
    def n_features(self) -> int:
        """Number of features of the examples; 0 as long as the dictionary is empty."""
        return 0 if self.dictionary is None else int(self.dictionary.shape[1])

    @property
    def size(self) -> int:
        """Size of the dictionary."""
        return self.inner.n_features

    def copy(self) -> KernelState:
        """A model of its own."""
        return replace(self, inner=self.inner.copy(), factor=self.factor.copy())

    def promote(self, dtype: Any) -> None:
        """Nothing to do: the coordinates are in double precision."""

    # Learning -------------------------------------------------------------------------------------

    def calibrates(self, learns: bool) -> None:
        """Say whether the sigmoids of the outputs are learned."""
        self.inner.calibrates(learns)

    def learn(
        self, rows: Rows, labels: np.ndarray, weights: np.ndarray,
        order: np.ndarray | None = None, options: OnlineOptions = DEFAULT,
    ) -> None:  # fmt: skip
        """Learn from rows, one after the other; see :meth:`OnlineState.learn`."""
        n = len(rows.indptr) - 1
        if rows.dense:
            X = rows.data.reshape(n, rows.width)
        else:
            X = sp.csr_matrix((rows.data, rows.indices, rows.indptr), shape=(n, rows.width))
        if isinstance(self.kernel.gamma, str):
            self.kernel = replace(self.kernel, gamma=resolve_gamma(self.kernel.gamma, X, weights))
        order = np.arange(n) if order is None else order
        order = order[weights[order] > 0.0]
        for start, stop in chunks(len(order), options.kernel_rows):
            part = order[start:stop]
            self._learn_batch(X[part], labels[part], weights[part])

    def _block(self, A: Any, B: Any) -> np.ndarray:
        if sp.issparse(A) != sp.issparse(B):
            A, B = sp.csr_matrix(A), sp.csr_matrix(B)
        kernel = self.kernel
        values = kernel.block(kernel.prepare(A, np.float64), kernel.prepare(B, np.float64))
        return np.asarray(values, dtype=np.float64)

    def _learn_batch(self, X: Any, labels: np.ndarray, weights: np.ndarray) -> None:
        inner, m = self.inner, self.size
        among = self._block(X, X)
        diagonal = among.diagonal().copy()
        known = self._block(X, self.dictionary) if m else np.empty((len(diagonal), 0))
        chosen = np.zeros(len(self.factor), dtype=np.int64)
        position, old = 0, m
        while True:
            room = len(inner.table)
            if len(self.factor) < room:
                factor = np.zeros((room, room))
                factor[:m, :m] = self.factor[:m, :m]
                self.factor = factor
            chosen = np.append(chosen, np.zeros(max(0, room - len(chosen)), dtype=np.int64))
            kernel = np.zeros((len(diagonal), room))
            kernel[:, : known.shape[1]] = known
            columns, model = np.arange(room, dtype=np.int32), inner.model
            position, m = _learn_kernel_rows(
                position, m, self.budget, self.tol, kernel, among, diagonal, self.factor,
                chosen, labels, weights, columns, model,
            )  # fmt: skip
            inner.n_features = m
            if position == len(diagonal):
                break
            known = kernel[:, :m]
            # Room for more coordinates, in the present unit.
            priors = inner.covariance[:, -1, -1].copy()
            grow(inner, room + room // 8 + 8)
            inner.n_features = m
            new = np.arange(room, len(inner.table))
            inner.covariance[:, new, new] = priors[:, None]
        if m > old:
            new = X[chosen[old:m]]
            if self.dictionary is None:
                self.dictionary = new
            elif sp.issparse(new) or sp.issparse(self.dictionary):
                self.dictionary = sp.vstack([self.dictionary, new], format="csr")
            else:
                self.dictionary = np.vstack([self.dictionary, new])

    # Prediction -----------------------------------------------------------------------------------

    def dual_coef(self) -> np.ndarray:
        """Coefficients of the dictionary, of shape (n_outputs, n_dictionary)."""
        m = self.size
        return solve_triangular(
            self.factor[:m, :m], self.inner.weights()[1:], lower=True, trans=1
        ).T

    def scores(self, X: Any) -> np.ndarray:
        """Outputs of all weight vectors, of shape (n_rows, n_outputs)."""
        outputs = np.zeros((X.shape[0], self.n_outputs))
        if self.size:
            coef = self.dual_coef().T
            for start, stop in chunks(X.shape[0], max(1, DEFAULT.prediction_entries // self.size)):
                outputs[start:stop] = self._block(X[start:stop], self.dictionary) @ coef
        return outputs + self.inner.bias * self.inner.weights()[0]

    def variances(self, X: Any) -> np.ndarray:
        """Variances of the outputs, of shape (n_rows, n_outputs)."""
        inner, m = self.inner, self.size
        priors = inner.prior()
        parts = []
        for start, stop in chunks(
            X.shape[0], max(1, min(4096, DEFAULT.prediction_entries // max(1, m)))
        ):
            rows = X[start:stop]
            norms = self._diagonal(rows)
            rest = norms
            Q = np.zeros((rows.shape[0], 0))
            if m:
                values = self._block(rows, self.dictionary)
                Q = solve_triangular(self.factor[:m, :m], values.T, lower=True).T
                rest = rest - np.einsum("ij,ij->i", Q, Q)
            rest = np.where(rest < _ROUND_OFF * norms, 0.0, rest)
            parts.append(inner.variances(Q) + rest[:, None] * priors)
        return np.concatenate(parts)

    def logits(self, outputs: np.ndarray) -> np.ndarray:
        """Logits of the sigmoids of the outputs."""
        return self.inner.logits(outputs)

    def _diagonal(self, X: Any) -> np.ndarray:
        if not callable(self.kernel.name):
            return self.kernel.diagonal(self.kernel.prepare(X, np.float64))
        return np.array([self._block(X[i : i + 1], X[i : i + 1])[0, 0] for i in range(X.shape[0])])
