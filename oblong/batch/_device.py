"""Models that are fitted to arrays of other libraries, and predict with them, where these are.

Arrays are those of the array API that scikit-learn knows, with ``array_api_dispatch=True``. CuPy
and PyTorch arrays on a CUDA device are worked on there; all others are moved to NumPy and back.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn import get_config
from sklearn.utils._array_api import _convert_to_numpy, get_namespace_and_device
from sklearn.utils.validation import check_is_fitted

from oblong._core.threads import chunks
from oblong.batch._fold_models import PairModels
from oblong.batch._one_vs_one import pairs_of
from oblong.batch._pairwise import PairwiseKernelClassifier
from oblong.kernels import Kernel
from oblong.solvers.margin.batch.problem import BatchResult, MarginBatch, RowTiles
from oblong.solvers.margin.batch.solve import solve_batch

# Rows up to which the cores have solved a problem before a device is warm.
_FEW_ROWS = 2000
# Fraction of the free memory for each kernel matrix and for the state of the folds of a search.
_SHARE = 0.35
# Bytes of the state per row of a problem.
_STATE_BYTES = 64
# Size of an array that is copied to page-locked memory.
_LOCKED_BYTES = 1 << 30
# Kernel values of a prediction block, in double precision on the device.
_PREDICTION_BLOCK = 1 << 27


class ArrayPlace:
    """The library and the device of an array that is not NumPy's.

    Parameters
    ----------
    X : array
        An array of the array API.
    """

    def __init__(self, X: Any) -> None:
        self.xp, _, self.device = get_namespace_and_device(X)
        self.cuda = _on_cuda(X)

    @staticmethod
    def of(X: Any) -> ArrayPlace | None:
        """Return the place of an array, or None for all that becomes an array of NumPy."""
        if isinstance(X, np.ndarray) or sp.issparse(X) or not hasattr(X, "__dlpack__"):
            return None
        if get_config().get("array_api_dispatch"):
            return ArrayPlace(X)
        if _on_cuda(X):
            raise TypeError(
                "X is on a CUDA device: use sklearn.set_config(array_api_dispatch=True) to fit and "
                "predict there, or move X to NumPy"
            )
        return None

    def take(self, values: Any) -> Any:
        """Move an array of NumPy here; labels that are not numbers stay."""
        if isinstance(values, np.ndarray) and values.dtype.kind not in "OSUM":
            return self.xp.asarray(np.ascontiguousarray(values), device=self.device)
        return values


def _on_cuda(X: Any) -> bool:
    return bool(getattr(X, "is_cuda", type(X).__module__.partition(".")[0] == "cupy"))


def to_numpy(X: Any) -> Any:
    """Move an array of any library to NumPy; leave all else as it is."""
    if isinstance(X, np.ndarray) or sp.issparse(X) or not hasattr(X, "__dlpack__"):
        return X
    if getattr(X, "is_cuda", False) and X.nbytes <= _LOCKED_BYTES:
        # PyTorch keeps page-locked memory for the next time; copies to other memory are slow.
        torch: Any = __import__("torch")
        return torch.empty(X.shape, dtype=X.dtype, pin_memory=True).copy_(X.detach()).numpy()
    return np.asarray(_convert_to_numpy(X, get_namespace_and_device(X)[0]))


def select(X: Any, rows: np.ndarray, square: bool) -> Any:
    """Rows of an array on a device, or a principal block."""
    return X[rows][:, rows] if square else X[rows]


def out_of_memory(error: BaseException) -> bool:
    """Whether an error says that the memory of a device is too small."""
    words = f"{type(error).__name__} {error}".lower()
    return isinstance(error, MemoryError) or "out of memory" in words or "out_of_memory" in words


def fit_anywhere(model: Any, fit: Callable[..., None], X: Any, y: Any, *others: Any) -> None:
    """Fit a model to NumPy's copies of arrays, and move what it fitted to where ``X`` is.

    Meanwhile ``model._rows_on_device`` are the rows on a CUDA device, if they are on one.
    """
    place = ArrayPlace.of(X)
    if place is not None and place.cuda and X.ndim == 2 and X.shape[0] > _FEW_ROWS:
        _check_ready()
        model._rows_on_device = X
    try:
        fit(*map(to_numpy, (X, y, *others)))
    finally:
        vars(model).pop("_rows_on_device", None)
    if place is None:
        return
    parts = [model, *(value for name, value in vars(model).items() if name == "best_estimator_")]
    for part in parts:
        given = part.get_params(deep=False)
        for name, value in list(vars(part).items()):
            if name in given:
                continue
            if name == "support_vectors_" and place.cuda and len(value):
                # Quicker than to carry them there once more.
                part.support_vectors_ = X[part.support_]
            elif isinstance(value, np.ndarray) and name != "classes_":
                setattr(part, name, place.take(value))


def same_place(model: Any, X: Any, method: str) -> ArrayPlace | None:
    """Return the place of ``X``; raise if the model was fitted elsewhere."""
    with suppress(ImportError):
        from sklearn.utils._array_api import check_same_namespace

        check_same_namespace(X, model, attribute="intercept_", method=method)
    return ArrayPlace.of(X)


class KnownOutputs(PairModels):
    """Models whose ``coefs`` are their outputs on the test rows."""

    def outputs(self, K: np.ndarray, starts: np.ndarray) -> list[np.ndarray]:
        """Outputs on the test rows whose numbers ``K`` are."""
        return [own[:, K] for own in self.coefs]


class SearchOnDevice:
    """The models of all folds of a search, solved side by side on a CUDA device.

    Parameters
    ----------
    X : array of shape (n, d)
        All rows.
    """

    def __init__(self, X: Any) -> None:
        self.X = X

    def solve(self, folds: Sequence[Any], tol: float, max_iter: int) -> None:
        """Set the ``known`` models of folds, gamma by gamma."""
        from oblong.solvers.margin.batch.cuda_matrix import DeviceArrays

        n, grid = self.X.shape[0], folds[0].search.grid
        pairs = max(len(pairs_of(fold.classes.size)) for fold in folds)
        state = _STATE_BYTES * n * pairs * len(grid.Cs) * (len(grid.spreads) + 1)
        memory = _SHARE * DeviceArrays(self.X).free_bytes()
        for place, kernel in enumerate(folds[0].gammas):
            fits = int(memory // state)
            if any(fold.gammas[place] != kernel for fold in folds):
                # Each fold has its own matrix.
                fits = min(fits, int(memory // (n * n * 8)) if kernel.name == "rbf" else 1)
            for first, last in chunks(len(folds), max(1, fits)):
                self._solve(folds[first:last], place, tol, max_iter)

    def _solve(self, folds: Sequence[Any], place: int, tol: float, max_iter: int) -> None:
        """Solve some folds in one batch, whose rows are sorted by class and by folds."""
        n = self.X.shape[0]
        classes = np.unique(np.concatenate([fold.classes for fold in folds]))
        label, inside = np.zeros(n, dtype=np.int64), np.zeros((n, len(folds)), dtype=np.bool_)
        for f, fold in enumerate(folds):
            names = np.searchsorted(classes, fold.classes)
            label[fold.train] = np.repeat(names, np.diff(fold.starts))
            inside[fold.train, f] = True
        kinds, kind = np.unique(np.column_stack([label, inside]), axis=0, return_inverse=True)
        order = np.argsort(kind.ravel(), kind="stable")
        position = np.argsort(order, kind="stable")
        ends = np.searchsorted(kind.ravel()[order], np.arange(len(kinds) + 1))
        spans = np.column_stack([ends[:-1], ends[1:]])
        segments, signs, penalties, kernels, others = [], [], [], [], []
        for f, fold in enumerate(folds):
            own = np.zeros(n)
            own[position[fold.train]] = fold.solvers[place].penalties
            for pair in pairs_of(fold.classes.size):
                is_of = [(kinds[:, 0] == np.searchsorted(classes, fold.classes[k])) for k in pair]
                member = (is_of[0] | is_of[1]) & (kinds[:, 1 + f] > 0)
                segments.append(np.where(member[:, None], spans, 0))
                signs.append(np.where(is_of[0], 1.0, -1.0))
                penalties.append(own)
                kernels.append(fold.gammas[place])
                others.append(position[fold.test])
        solver = folds[0].solvers[place]
        found = solve_batch(
            MarginBatch(
                RowTiles(kernels[0], self.X[order]), np.array(segments), np.array(signs),
                np.array(penalties), solver.Cs, solver.spreads, tol=tol, max_iter=max_iter,
                polish=False, kernels=kernels, others=others,
            )
        )  # fmt: skip
        first = 0
        for fold in folds:
            last = first + len(pairs_of(fold.classes.size))
            mine = {name: v[first:last] for name, v in vars(found).items() if v is not None}
            mine["coefs"] = mine.pop("outputs")
            wanted = np.ones((solver.Cs.size, solver.spreads.size), dtype=np.bool_)
            models = fold.solvers[place].models(BatchResult(**mine), wanted)
            fold.known[place] = KnownOutputs(**vars(models))
            first = last


class ArraysAnywhere:
    """Mixin of kernel classifiers that take arrays of other libraries.

    Everything but the solver's work and outputs is done with copies in NumPy.
    """

    _rows_on_device: Any = None
    support_vectors_: Any

    def _fit(self, *data: Any) -> None:
        fit_anywhere(self, super()._fit, *data)  # type: ignore[misc]

    def _resolve_gamma(self, X: Any, weights: np.ndarray | None) -> float:
        rows = self._rows_on_device
        usable = rows is not None and weights is None and len(X) == rows.shape[0]
        if usable and self.gamma == "scale" and self.kernel in ("rbf", "poly"):  # type: ignore[attr-defined]
            variance = _variance(rows)
            if variance > 1e-20 * float(np.abs(X[0]).max()) ** 2:
                return 1.0 / (X.shape[1] * variance)
        return super()._resolve_gamma(X, weights)  # type: ignore[misc]

    def _anywhere(self, X: Any, method: str) -> Any:
        """Answer with an array of the library of ``X``, computed where it is."""
        check_is_fitted(self)
        place = same_place(self, X, method)
        if place is None:
            return getattr(super(), method)(X)
        twin = copy.copy(self)
        for name, value in vars(self).items():
            if name != "support_vectors_" or not place.cuda:
                setattr(twin, name, to_numpy(value))
        if place.cuda:
            return place.take(twin._answer_on_device(X, method))
        return place.take(getattr(twin, method)(to_numpy(X)))

    def _answer_on_device(self, X: Any, method: str) -> Any:
        """Compute outputs on the device and the answer from them; ``self`` has NumPy's arrays."""
        _check_ready()
        if self.kernel not in ("linear", "poly", "rbf") or X.ndim != 2:  # type: ignore[attr-defined]
            self.support_vectors_ = to_numpy(self.support_vectors_)
            return getattr(self, method)(to_numpy(X))
        if X.shape[1] != self.n_features_in_:  # type: ignore[attr-defined]
            raise ValueError(
                f"X has {X.shape[1]} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input"  # type: ignore[attr-defined]
            )
        outputs = _outputs(self, X)
        dtype = np.dtype(str(X.dtype).rpartition(".")[2])

        def known(_: Any, rounded: bool = False) -> np.ndarray:
            return outputs.astype(dtype, copy=False) if rounded else outputs

        self._outputs = known
        return getattr(self, method)(np.empty((1, 1)))

    def decision_function(self, X: Any) -> Any:
        return self._anywhere(X, "decision_function")

    def predict(self, X: Any) -> Any:
        return self._anywhere(X, "predict")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.array_api_support = True
        return tags


for _method in ("decision_function", "predict"):
    getattr(ArraysAnywhere, _method).__doc__ = getattr(PairwiseKernelClassifier, _method).__doc__


def _check_ready() -> None:
    """Raise unless Numba can compile for CUDA and a device is there."""
    try:
        from numba import cuda

        ready = cuda.is_available()
        # What its kernels are made with, which may use names that NumPy has removed.
        import_module("numba.cuda.cudaimpl")
    except ImportError:
        ready = False
    except AttributeError as error:
        raise ImportError(
            f"numba-cuda does not work with NumPy {np.__version__} ({error}): install an older "
            "NumPy"
        ) from error
    if not ready:
        raise ImportError(
            "X is on a CUDA device, which Numba cannot use: pip install 'oblong[gpu]', or move X "
            "to NumPy"
        )


def _variance(X: Any) -> float:
    """Variance of all entries, in double precision."""
    from oblong.solvers.margin.batch.cuda_matrix import DeviceArrays

    arrays, (n, d) = DeviceArrays(X), X.shape
    parts = [slice(*ends) for ends in chunks(n, 1 << 16)]
    mean = sum(float(arrays.cast(X[part], np.float64).sum()) for part in parts) / (n * d)
    total = 0.0
    for part in parts:
        centred = arrays.cast(X[part], np.float64) - mean
        total += float((centred * centred).sum())
    return total / (n * d)


def _outputs(model: Any, X: Any) -> np.ndarray:
    """Outputs of a model whose support vectors are on the device of ``X``, as NumPy's array."""
    from oblong.solvers.margin.batch.cuda_matrix import DeviceArrays, DeviceRows

    arrays, n = DeviceArrays(X), X.shape[0]
    out = np.empty((n, model.intercept_.size))
    if model.kernel == "linear":
        weights = arrays.put(np.asarray(model.coef_, dtype=np.float64).T)
        for first, last in chunks(n, max(1, _PREDICTION_BLOCK // X.shape[1])):
            out[first:last] = arrays.get(arrays.cast(X[first:last], np.float64) @ weights)
    else:
        vectors, coef = model._expansion()
        right = DeviceRows(RowTiles(model._kernel(), vectors))
        values = arrays.put(np.ascontiguousarray(coef.T))
        for first, last in chunks(n, max(1, _PREDICTION_BLOCK // max(1, vectors.shape[0]))):
            out[first:last] = arrays.get(right.values(X[first:last]) @ values)
    out += model.intercept_
    Kernel.check_finite(out, "the decision value of")
    return out
