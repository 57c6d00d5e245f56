"""The base of kernel classifiers that the margin solver fits."""

from abc import abstractmethod
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from oblong._core.class_weights import class_factors, row_penalties
from oblong._core.progress import ProgressCallback
from oblong._core.threads import single_threaded_blas
from oblong.batch._expansion import CertifiedExpansion
from oblong.batch._pairwise import PairFit, PairwiseKernelClassifier
from oblong.linalg.kernel_matrix import KernelMatrix


class KernelClassifier(CertifiedExpansion, PairwiseKernelClassifier):
    """Base of kernel classifiers with a penalty ``C``, solved to a tolerance.

    A subclass says how one binary problem is solved, from the columns of its kernel matrix
    (:meth:`_solve_pair`) or from its rows (:meth:`_fit_pair`), and keeps what it needs of the
    solutions (:meth:`_keep`).
    """

    @abstractmethod
    def _solve_pair(
        self, columns: KernelMatrix, y: np.ndarray, C: np.ndarray,
        progress: ProgressCallback | None, weights: np.ndarray,
    ) -> Any:  # fmt: skip
        """Solve one binary problem; the result has ``margin`` and ``n_iter``.

        ``weights`` are the sample weights alone, of which ``C`` has the class weights on top.
        """

    def _keep(self, solutions: Sequence[Any]) -> None:
        """Keep nothing but what all kernel classifiers keep."""
        return

    def _penalties(self, labels: np.ndarray, weights: np.ndarray) -> np.ndarray:
        return weights * class_factors(self.class_weight, self.classes_, labels, weights)[labels]

    def _fit_pair(
        self, X: Any, y: np.ndarray, penalties: np.ndarray, weights: np.ndarray, threads: int
    ) -> PairFit:
        columns = self._columns(X, threads)
        C, progress = row_penalties(self.C, penalties), self._progress()
        with single_threaded_blas() if threads == 1 else nullcontext():
            solution = self._solve_pair(columns, y, C, progress, weights)
        margin = solution.margin
        bias = margin.bias - columns.offset(margin.coef, margin.direction)
        columns.release()
        return self._pair_fit(solution, margin.coef, bias, margin.direction)
