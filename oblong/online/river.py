"""The online learners as classifiers of River.

`River <https://riverml.xyz>`_ is a library for streams of dictionaries. This module is not imported
by the rest of the package, so that River has to be there only for those who use it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import ndtr
from sklearn.base import clone

from oblong.online._base import OnlineClassifier
from oblong.online._prediction import _against_best_other, _standardised
from oblong.online.arow import AROWClassifier

try:
    from river.base import Classifier as _Base
except ImportError:
    _Base = None

__all__ = ["RiverClassifier"]


class RiverClassifier(_Base or object):
    """An online learner of oblong as a classifier of River.

    Features may come and go, and classes need not be declared: every feature that was never seen
    is zero so far, every class that comes up gets its own weights. Examples of the very first
    class only teach the learner something once there is a second one.

    Parameters
    ----------
    learner : OnlineClassifier
        A linear learner such as :class:`~oblong.AROWClassifier`, for its parameters. It is cloned,
        and stays as it is.

    Notes
    -----
    With many features that come up over time, ``covariance="diag"`` is the choice: a full shape
    matrix has the square of their number of entries. Text and categories have to be turned into
    numbers before, as for every linear model of River.

    The learner that has learned is ``model_``; it can be saved, merged, and asked for predictions
    of whole matrices.

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

    def __init__(self, learner: OnlineClassifier) -> None:
        if _Base is None:
            raise ImportError('the adapter needs River: pip install "oblong[river]"')
        # With a kernel, features cannot come and go.
        if not isinstance(learner, OnlineClassifier) or hasattr(learner, "kernel"):
            raise TypeError(
                f"expected a linear online learner of oblong, got {type(learner).__name__}; River "
                f"wraps other estimators of scikit-learn with river.compat"
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
            from yet. Learners without a Gaussian have none and raise ``NotImplementedError``.
        """
        model = self.model_
        if not model._gaussian:
            raise NotImplementedError(f"{type(model).__name__} has no probabilities")
        if not self._started:
            return {}
        scores = model._scores_one(x)
        if scores is None:
            return {_plain(model._only): 1.0}
        # The scores lie in memory that the next call overwrites.
        outputs = np.array(scores, dtype=np.float64)[None]
        variances = model._variances(self._row(x)).astype(np.float64)
        if outputs.size == 1:
            z = float(_standardised(outputs, variances)[0, 0])
            return dict(zip(model.classes_.tolist(), (float(ndtr(-z)), float(ndtr(z)))))
        p = _against_best_other(outputs, variances)[0]
        return dict(zip(model.classes_.tolist(), p.tolist()))

    @property
    def _started(self) -> bool:
        """Whether there was an example."""
        state = vars(self.model_)
        return state.get("_state") is not None or "_only" in state

    def _row(self, x: dict[Hashable, Any]) -> sp.csr_array:
        """The known features of an example as a matrix of one row."""
        model = self.model_
        columns, values = model._columns(model._one_row, x, False)
        shape = (1, model._state.n_features)
        row = sp.csr_array((values, columns, np.array([0, len(values)])), shape=shape)
        row.sort_indices()
        return row

    # What River asks -----------------------------------------------------------------------------

    @property
    def _multiclass(self) -> bool:
        return True

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"learner": AROWClassifier()}


def _plain(label: Any) -> Any:
    """A label as Python's own type, by which River finds it in its dictionaries."""
    return label.item() if isinstance(label, np.generic) else label
