"""Estimators whose fit and prediction run on a Dask cluster."""

import inspect
from typing import Any, ClassVar

import dask
import numpy as np
from sklearn.base import BaseEstimator, clone

from oblong.batch import (
    EllipsoidalKernelClassifier,
    LinearRelativeMarginClassifier,
    SigmaSVC,
)
from oblong.dask._passes import CollectionRows, DaskPasses, find_client
from oblong.geometry import MinimumVolumeEllipsoid
from oblong.io.row_source import as_bytes
from oblong.linalg.row_passes import RowSource

_PARAMETERS = """
    client : distributed.Client, default=None
        The cluster; by default the current client, or the threads of this process if there is
        none. It is not copied, cloned or pickled with the estimator.
"""


class DaskEstimator(BaseEstimator):
    """What estimators on a cluster share: the client, lazy results, and the way back."""

    _local: ClassVar[type]
    _own: ClassVar[tuple[str, ...]] = ("client",)
    client: Any

    @property
    def client_(self) -> Any:
        """The client that the estimator uses; None for the threads of this process."""
        return find_client(self.client)

    def __getstate__(self) -> dict[str, Any]:
        state: Any = super().__getstate__()
        return {**state, "client": None}

    def __sklearn_clone__(self) -> Any:
        params = self.get_params(deep=False)
        client = params.pop("client")
        return type(self)(client=client, **{k: clone(v, safe=False) for k, v in params.items()})

    def to_local(self) -> Any:
        """The fitted estimator without Dask, which can be saved and exported.

        Returns
        -------
        model : object
            An instance of the class without "Dask" in its name.
        """
        model = self._blank()
        params = self.get_params(deep=False)
        vars(model).update({k: v for k, v in vars(self).items() if k not in params})
        return model

    def _blank(self, **changed: Any) -> Any:
        """The estimator without Dask, unfitted, perhaps with other parameters."""
        params = self.get_params(deep=False)
        own = {name: value for name, value in params.items() if name not in self._own}
        return self._local(**own | changed)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy, computed at once.

        Parameters
        ----------
        X, y, sample_weight : Dask collections or arrays
            Rows, labels and weights.

        Returns
        -------
        score : float
            Fraction of the rows that are predicted correctly.
        """
        found, y, weight = dask.compute(self._lazy("predict", X), y, sample_weight)
        return float(np.average(np.asarray(found) == np.asarray(y).reshape(-1), weights=weight))

    def _lazy(self, method: str, X: Any, *arguments: Any) -> Any:
        """Call a method of the local estimator, block by block for Dask collections."""
        model = self.to_local()
        call = getattr(model, method)
        if not dask.is_dask_collection(X):
            return call(X, *arguments)
        probe = np.zeros((1, X.shape[1]))
        if hasattr(X, "columns"):
            probe = X._meta_nonempty.iloc[:1]
        result = np.asarray(call(probe, *arguments))
        if hasattr(X, "columns"):
            return _of_frame(X, model, method, arguments, result)
        how: dict[str, Any] = {"dtype": result.dtype, "meta": result[:0]}
        if result.ndim == 1:
            how["drop_axis"] = 1
        else:
            how["chunks"] = (X.chunks[0], (result.shape[1],))
        return X.map_blocks(_call, model, method, arguments, **how)


def _call(X: Any, model: Any, method: str, arguments: tuple[Any, ...]) -> Any:
    # Dask asks for the result of no rows.
    if X.shape[0] == 0:
        probe = np.asarray(getattr(model, method)(np.zeros((1, X.shape[1])), *arguments))
        return probe[:0]
    return getattr(model, method)(X, *arguments)


def _of_frame(X: Any, model: Any, method: str, arguments: Any, result: np.ndarray) -> Any:
    """A Dask array of the results for a data frame, whose rows nobody has counted."""
    import dask.array as da

    parts = [
        da.from_delayed(
            dask.delayed(_call, pure=False)(part, model, method, arguments),
            (np.nan, *result.shape[1:]),
            dtype=result.dtype,
        )
        for part in X.to_delayed()
    ]
    return da.concatenate(parts, allow_unknown_chunksizes=True)


def over_a_cluster(*methods: str, parameters: str = "", **defaults: Any) -> Any:
    """Make a class that has a client, further parameters, and lazy forms of some methods."""

    def decorate(cls: Any) -> Any:
        local = cls._local
        before = inspect.signature(local.__init__)
        more = {"client": None, **defaults}
        kind = inspect.Parameter.KEYWORD_ONLY

        def __init__(self: Any, **params: Any) -> None:
            own = {name: params.pop(name, default) for name, default in more.items()}
            local.__init__(self, **params)
            for name, value in own.items():
                setattr(self, name, value)

        extra = [inspect.Parameter(name, kind, default=value) for name, value in more.items()]
        # Scikit-learn reads the parameters of an estimator from here.
        signature = before.replace(parameters=[*before.parameters.values(), *extra])
        vars(__init__)["__signature__"] = signature
        cls.__init__ = __init__
        cls._own = tuple(more)
        for method in methods:
            setattr(cls, method, _lazy_method(local, method))
        cls.__doc__ = f"""{cls.__doc__}

    Parameters
    ----------{_PARAMETERS.rstrip()}{parameters.rstrip()}
    **others
        Parameters of :class:`~oblong.{local.__name__}`, whose attributes it has as well.
    """
        return cls

    return decorate


def _lazy_method(local: Any, method: str) -> Any:
    def call(self: Any, X: Any) -> Any:
        return self._lazy(method, X)

    call.__name__, call.__doc__ = method, getattr(local, method).__doc__
    return call


class DaskPassEstimator(DaskEstimator):
    """Estimators that are fitted in passes."""

    memory: Any

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Fit to Dask collections, or to a row source that the workers read.

        Parameters
        ----------
        X : dask.array.Array, dask.dataframe.DataFrame or row source
            The rows; their columns are in one chunk. A row source, see
            :func:`oblong.io.open_rows`, has its own labels and weights.
        y : Dask array or series, default=None
            Labels, in the same partitions.
        sample_weight : Dask array or series, default=None
            Weights, in the same partitions.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        if not hasattr(X, "n_blocks"):
            X = CollectionRows(X, y, sample_weight, as_bytes(self.memory))
            y = sample_weight = None
        return super().fit(X, y, sample_weight)

    def _passes(self, source: RowSource) -> DaskPasses:
        return DaskPasses(source, self.client_)


_MEMORY = """
    memory : str or float, default="256MB"
        Memory of this process for rows that are kept between passes.
"""


@over_a_cluster("predict", "decision_function", parameters=_MEMORY, memory="256MB")
class DaskLinearRelativeMarginClassifier(DaskPassEstimator, LinearRelativeMarginClassifier):
    """:class:`~oblong.LinearRelativeMarginClassifier` on a Dask cluster."""

    _local = LinearRelativeMarginClassifier


@over_a_cluster("predict", "decision_function", parameters=_MEMORY, memory="256MB")
class DaskSigmaSVC(DaskPassEstimator, SigmaSVC):
    """:class:`~oblong.SigmaSVC` with ``kernel="linear"`` on a Dask cluster."""

    _local = SigmaSVC


@over_a_cluster("predict", "decision_function", parameters=_MEMORY, memory="256MB")
class DaskEllipsoidalKernelClassifier(DaskPassEstimator, EllipsoidalKernelClassifier):
    """:class:`~oblong.EllipsoidalKernelClassifier` with ``kernel="linear"`` on a Dask cluster."""

    _local = EllipsoidalKernelClassifier


@over_a_cluster(
    "predict",
    "decision_function",
    "transform",
    "mahalanobis",
    "score_samples",
    parameters=_MEMORY,
    memory="256MB",
)
class DaskMinimumVolumeEllipsoid(DaskPassEstimator, MinimumVolumeEllipsoid):
    """:class:`~oblong.MinimumVolumeEllipsoid` on a Dask cluster."""

    _local = MinimumVolumeEllipsoid
