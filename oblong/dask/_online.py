"""Online learners on shards, which are merged."""

import copy
from typing import Any

import numpy as np
from dask import delayed

from oblong import online
from oblong.batch._passes import take_columns
from oblong.dask._estimators import DaskEstimator, over_a_cluster
from oblong.dask._passes import CollectionRows, blocks_of, compute
from oblong.linalg.row_passes import Block

_SHARDS = """
    shards : int, default=8
        Number of models that learn at the same time. The partitions are dealt out to them in turn.
        The result depends on this number, but not on that of the workers. Keep 1,000 rows per
        shard or more; eight shards of AROW learn better with an eighth of ``r``.
    rounds : int, default=2
        How often the models learn from their shards and are merged: by the product of their
        Gaussians after the first round, by the mean after later ones. One round reads the rows
        once and may cost a percent of the accuracy of one stream.
"""


def _labels(block: Block) -> np.ndarray:
    return np.unique(np.asarray(block.y))


def _all_labels(parts: list[np.ndarray]) -> np.ndarray:
    return np.unique(np.concatenate(parts))


def _learn(model: Any, block: Block, classes: np.ndarray) -> Any:
    if not block.X.shape[0]:
        return model
    # What workers exchange may be used again.
    model = copy.deepcopy(model)
    return model.partial_fit(block.X, block.y, classes=classes, sample_weight=block.weight)


def _merged(models: list[Any], how: str) -> Any:
    seen = [copy.deepcopy(model) for model in models if hasattr(model, "classes_")]
    return seen[0].merge(*seen[1:], how=how) if len(seen) > 1 else seen[0]


class DaskOnlineEstimator(DaskEstimator):
    """Learners on shards of the partitions."""

    shards: int
    rounds: int

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Learn from shards of Dask collections or of a row source, and merge.

        Parameters
        ----------
        X : dask.array.Array, dask.dataframe.DataFrame or row source
            The rows, dense or CSR. A row source, see :func:`oblong.io.open_rows`, has its own
            labels and weights, and is read by the workers.
        y : Dask array or series, default=None
            Labels, in the same partitions.
        sample_weight : Dask array or series, default=None
            Weights, in the same partitions.

        Returns
        -------
        self : object
            The merged learner.
        """
        for name in ("shards", "rounds"):
            value = getattr(self, name)
            if not (isinstance(value, (int, np.integer)) and value >= 1):
                raise ValueError(f"{name} must be a whole number of at least 1, got {value!r}")
        rows = X if hasattr(X, "n_blocks") else CollectionRows(X, y, sample_weight, 0.0)
        if not getattr(rows, "labelled", getattr(rows, "y", None) is not None):
            raise ValueError(f"{type(self).__name__} needs labels: y, or target= of a row source")
        client, blocks = self.client_, list(blocks_of(rows, range(rows.n_blocks)))
        found = delayed(_all_labels)([delayed(_labels)(block) for block in blocks])
        (classes,) = compute(client, [found])
        names = delayed(classes, traverse=False)
        count = min(self.shards, rows.n_blocks)
        merged: Any = delayed(self._blank(), traverse=False)
        for turn in range(self.rounds):
            models = []
            for shard in range(count):
                learned = merged
                for block in blocks[shard::count]:
                    learned = delayed(_learn, pure=False)(learned, block, names)
                models.append(learned)
            merged = delayed(_merged, pure=False)(models, "mean" if turn else "product")
        (model,) = compute(client, [merged])
        params = self.get_params(deep=False)
        self.__dict__.update({k: v for k, v in vars(model).items() if k not in params})
        take_columns(self, rows)
        return self


def _learner(local: type) -> Any:
    methods = [
        name
        for name in ("predict", "decision_function", "predict_proba", "margin_variance")
        if hasattr(local, name)
    ]
    doc = f":class:`~oblong.{local.__name__}` on a Dask cluster: shards, which are merged."
    body = {"_local": local, "__doc__": doc, "__module__": __name__}
    kind = type(f"Dask{local.__name__}", (DaskOnlineEstimator, local), body)
    return over_a_cluster(*methods, parameters=_SHARDS, shards=8, rounds=2)(kind)


DaskAROWClassifier = _learner(online.AROWClassifier)
DaskConfidenceWeightedClassifier = _learner(online.ConfidenceWeightedClassifier)
DaskNormalHerdClassifier = _learner(online.NormalHerdClassifier)
DaskPassiveAggressiveClassifier = _learner(online.PassiveAggressiveClassifier)
DaskSecondOrderPerceptron = _learner(online.SecondOrderPerceptron)
DaskSoftConfidenceWeightedClassifier = _learner(online.SoftConfidenceWeightedClassifier)
