"""The online learners as classifiers of River.

`River <https://riverml.xyz>`_ is a library for streams of dictionaries. The rest of the package
does not import this module, so River is needed only by those who use it.
"""

from collections.abc import Hashable, Iterator
from importlib import import_module
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import ndtr
from sklearn.base import clone

from oblong.online._linear import LinearOnlineClassifier
from oblong.online._rule_based import against_best_other, has_probabilities, standardised
from oblong.online.arow import AROWClassifier
from oblong.online.incremental import IncrementalLearner

try:
    _Base: Any = import_module("river.base").MiniBatchClassifier
except ImportError:
    _Base = object


class RiverClassifier(_Base):
    """An online learner of oblong as a classifier of River.

    Features may appear and disappear, and classes need not be declared: a feature that was not seen
    before counts as zero until then, and a new class gets its own weights. Examples of the first
    class are learned from once there is a second one.

    Parameters
    ----------
    learner : LinearOnlineClassifier
        A linear learner such as :class:`~oblong.AROWClassifier`. It is cloned for its parameters
        and not changed.

    Notes
    -----
    With ``covariance="auto"``, the default, the covariance is full up to 256 features; of a model
    that grows beyond, the diagonal is kept. Text and categories have to be turned into numbers
    first, as for every linear model of River.

    The trained learner is ``model_``; it can be saved and merged, and predicts whole matrices.
    ``learn_many`` takes a data frame and gives the same result as ``learn_one`` row by row.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics, preprocessing  # doctest: +SKIP
    >>> from oblong import AROWClassifier
    >>> from oblong.online.river import RiverClassifier
    >>> learner = RiverClassifier(AROWClassifier())  # doctest: +SKIP
    >>> model = preprocessing.StandardScaler() | learner  # doctest: +SKIP
    >>> metric = metrics.Accuracy()  # doctest: +SKIP
    >>> evaluate.progressive_val_score(datasets.Phishing(), model, metric)  # doctest: +SKIP
    Accuracy: 88.95%
    """

    def __init__(self, learner: LinearOnlineClassifier) -> None:
        if _Base is object:
            raise ImportError('the adapter needs River: pip install "oblong[river]"')
        if not isinstance(learner, LinearOnlineClassifier):
            raise TypeError(
                f"expected a linear online learner of oblong that accepts new features, got "
                f"{type(learner).__name__}; River wraps other estimators of scikit-learn with "
                f"river.compat"
            )
        self.learner = learner
        self.model_ = clone(learner)

    def learn_one(self, x: dict[Hashable, Any], y: Any, w: float = 1.0) -> None:
        """Learn from an example.

        Parameters
        ----------
        x : dict
            Values by feature.
        y : label
            Its class.
        w : float, default=1.0
            Its weight; a whole number for learners without a cost.
        """
        self.model_.learn_one(x, y, sample_weight=w)

    def predict_one(self, x: dict[Hashable, Any], **kwargs: Any) -> Any:
        """Predict the class of an example.

        Parameters
        ----------
        x : dict
            Values by feature.
        **kwargs : dict
            Ignored.

        Returns
        -------
        label or None
            The class; None if no example was learned from yet.
        """
        return _plain(self.model_.predict_one(x)) if self._started else None

    def predict_proba_one(self, x: dict[Hashable, Any], **kwargs: Any) -> dict[Any, float]:
        """Predict the probabilities of the classes seen so far.

        Parameters
        ----------
        x : dict
            Values by feature.
        **kwargs : dict
            Ignored.

        Returns
        -------
        dict
            Probabilities by class, as ``predict_proba`` gives them; empty if no example was learned
            from yet. Learners with neither a Gaussian nor a
            calibration have none and raise ``NotImplementedError``.
        """
        model = self.model_
        if not has_probabilities(model):
            raise NotImplementedError(f"{type(model).__name__} has no probabilities")
        if not self._started:
            return {}
        found = model._outputs_one(x)
        if found is None:
            return {_plain(model._only): 1.0}
        # The outputs lie in memory that the next call overwrites.
        outputs = np.array(found, dtype=np.float64)[None]
        if model._is_calibrated():
            p = model._calibrated(outputs)[0]
        elif outputs.size == 1:
            z = float(standardised(outputs, model._variances_one(x))[0, 0])
            p = ndtr([-z, z])
        else:
            p = against_best_other(outputs, model._variances_one(x))[0]
        return dict(zip(model.classes_.tolist(), p.tolist()))

    # Mini-batches --------------------------------------------------------------------------------

    def learn_many(self, X: Any, y: Any, w: float = 1.0) -> None:
        """Learn from the rows of a frame, one after the other but in one go.

        Parameters
        ----------
        X : DataFrame
            Values, with features as columns.
        y : Series
            The classes.
        w : float, default=1.0
            Weight of every row.
        """
        model, labels = self.model_, y.tolist()
        names, start = X.columns.tolist(), 0
        # Nothing is learned before there is a second class.
        while start < len(labels) and vars(model).get("_state") is None:
            model.learn_one(dict(zip(names, X.iloc[start].tolist())), labels[start], w)
            start += 1
        if start == len(labels):
            return
        new = [name for name in names if name not in model._names()]
        rows = X.iloc[start:].to_numpy(dtype=model._state.table.dtype)
        if not np.isfinite(np.einsum("ij,ij->i", rows, rows)).all():
            raise ValueError("The rows contain NaN, infinity or numbers that are too large")
        if new:
            model._add_names(new)
        columns = np.array([model._names()[name] for name in names], dtype=np.int32)
        matrix = _matrix(rows, columns, model.n_features_in_)
        kinds, codes = np.unique(labels[start:], return_inverse=True)
        weights = np.full(len(rows), model._one_weight(w))
        IncrementalLearner(model, width=model.n_features_in_).learn(
            matrix, codes, kinds.tolist(), weights
        )

    def predict_proba_many(self, X: Any) -> Any:
        """Predict the probabilities of the classes seen so far for the rows of a frame.

        Parameters
        ----------
        X : DataFrame
            Values, with features as columns.

        Returns
        -------
        DataFrame
            One column per class; without any if no example was learned from yet. Learners without
            a Gaussian have none and raise ``NotImplementedError``.
        """
        import pandas as pd

        model = self.model_
        if not has_probabilities(model):
            raise NotImplementedError(f"{type(model).__name__} has no probabilities")
        if not self._started:
            return pd.DataFrame(index=X.index)
        if vars(model).get("_state") is None:
            return pd.DataFrame({_plain(model._only): 1.0}, index=X.index)
        found = model.predict_proba(self._matrix(X))
        return pd.DataFrame(found, columns=model.classes_.tolist(), index=X.index)

    def predict_many(self, X: Any) -> Any:
        """Predict the classes of the rows of a frame.

        Parameters
        ----------
        X : DataFrame
            Values, with features as columns.

        Returns
        -------
        Series
            The classes; empty if no example was learned from yet.
        """
        import pandas as pd

        if not self._started:
            return pd.Series(dtype="object")
        if vars(self.model_).get("_state") is None:
            found = [self.model_._only] * len(X)
        else:
            found = self.model_.predict(self._matrix(X)).tolist()
        return pd.Series(found, index=X.index)

    @property
    def _started(self) -> bool:
        """Whether there was an example."""
        state = vars(self.model_)
        return state.get("_state") is not None or "_only" in state

    def _matrix(self, X: Any) -> sp.csr_matrix:
        """The known features of the rows of a frame."""
        model = self.model_
        vocabulary = model._names()
        known = [name for name in X.columns if name in vocabulary]
        columns = np.array([vocabulary[name] for name in known], dtype=np.int32)
        values = X[known].to_numpy(dtype=model._state.table.dtype)
        return _matrix(values, columns, model._state.n_features)

    # What River asks -----------------------------------------------------------------------------

    @property
    def _multiclass(self) -> bool:
        return True

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"learner": AROWClassifier()}


def _matrix(values: np.ndarray, columns: np.ndarray, width: int) -> sp.csr_matrix:
    """Rows whose values belong to given columns."""
    n = len(values)
    spans = np.arange(n + 1) * len(columns)
    parts = (values.ravel(), np.tile(columns, n), spans)
    matrix = sp.csr_matrix(parts, shape=(n, width))
    matrix.sort_indices()
    return matrix


def _plain(label: Any) -> Any:
    """A label as Python's own type, by which River finds it in its dictionaries."""
    return label.item() if isinstance(label, np.generic) else label
