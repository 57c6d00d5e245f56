"""Training and prediction of folders and of many files, which are read in passes."""

import argparse
import operator
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

from oblong._core.threads import available_threads
from oblong.batch._passes import PassClassifier
from oblong.cli.shared.options import (
    RunError,
    plain_warnings,
    require,
    save_model,
    tell_saved,
)
from oblong.io.dataset import Schema
from oblong.io.errors import DataFileError, first_line
from oblong.io.row_source import FileRows, open_rows
from oblong.linalg.first_pass import look
from oblong.linalg.row_passes import Block, LocalPasses, Part, Place, Present, in_order

# Seconds to wait for a cluster.
_CONNECT = 10


class _ScaledRows:
    """A row source whose columns are shifted and divided."""

    def __init__(self, source: FileRows, scaler: Any) -> None:
        self._source, self._scaler = source, scaler
        self.n_features, self.n_blocks = source.n_features, source.n_blocks
        self.lengths, self.memory = source.lengths, source.memory

    def block(self, k: int) -> Block:
        X, y, weight = self._source.block(k)
        return Block(self._scaler.transform(X.astype(np.float64)), y, weight)

    def place(self, k: int) -> Place:
        return self._source.place(k)


def train(args: argparse.Namespace, classifier: Any) -> int:
    """Fit a classifier in passes, on this computer or a cluster, and save it with its scaling."""
    if not isinstance(classifier, PassClassifier) or classifier.kernel != "linear":
        problem = "folders and several files need rmm-linear, ekm-linear or SigmaSVC kernel=linear"
        raise DataFileError("--model", problem)
    wanted = ("cv", "impute", "proba", "threshold", "class_weight", "drop", "dates", "text")
    if args.categorical != "none" or any(getattr(args, name, None) for name in wanted):
        problem = (
            "--cv, --proba and options that change columns or weights need one file that fits into "
            "memory"
        )
        raise DataFileError(args.data[0], problem)
    started = time.perf_counter()
    source = _opened(args)
    names = source.feature_names
    classifier.set_params(verbose=1 if sys.stderr.isatty() or args.cluster else classifier.verbose)
    with plain_warnings():
        try:
            pipeline, wrong = _fit(args, classifier, source)
        except (ValueError, ConnectionError, OSError) as error:
            if isinstance(error, DataFileError):
                raise
            raise RunError(f"{args.model} failed: {first_line(error)}") from None
    model = pipeline[-1]
    seconds = time.perf_counter() - started
    rows, d = len(source), source.n_features
    classes = [str(label) for label in model.classes_]
    schema = Schema(d, names, [], args.target if not source.sparse else None)
    training = {
        "source": args.data[0],
        "rows": rows,
        "features": d,
        "target_names": classes,
        "schema": schema.to_json(),
        "gaps": False,
        "model": args.model,
        "training_error": wrong / rows,
        "cross_validation": None,
        "seed": args.seed,
        "passes": int(model.n_passes_),
    }
    save_model(pipeline, args.output, training)
    passes = f"{model.n_passes_} passes over the rows, relative gap {model.dual_gap_.max():.1e}"
    lines = [passes, f"error {100 * wrong / rows:.2f} % on the training rows"]
    tell_saved(args, type(model).__name__, training, seconds, ["passes"], lines)
    return 0


def _opened(args: argparse.Namespace) -> FileRows:
    try:
        source = open_rows(args.data, target=args.target, memory=args.memory or "256MB")
    except ValueError as error:
        if isinstance(error, DataFileError):
            raise
        raise DataFileError("--memory", str(error)) from None
    assert isinstance(source, FileRows)
    if not source.labelled:
        if source.feature_names is None:
            raise DataFileError(args.data[0], "name the label column with --target")
        # The last column of a table, as for a single file.
        args.target = source.feature_names[-1]
        return _opened(args)
    return source


def _errors(rows: Present, pipeline: Pipeline) -> Part:
    """Count the rows of a block that are predicted wrongly."""
    return Part({"wrong": int(np.sum(pipeline.predict(rows.X) != rows.y))}, {})


def _fit(args: argparse.Namespace, classifier: Any, source: FileRows) -> tuple[Pipeline, int]:
    """Fit the scaling and the classifier, and count the errors on the training rows."""
    client: Any = None
    passes: Any = LocalPasses(source, available_threads())
    if args.cluster:
        client = _connected(args.cluster)
        import oblong.dask
        from oblong.dask._passes import DaskPasses

        passes = DaskPasses(source, client)
        kind = getattr(oblong.dask, f"Dask{type(classifier).__name__}")
        classifier = kind(client=client, **classifier.get_params())
    try:
        seen = look(passes, 0.0)
        moments = seen.of(range(len(seen.moments)))
        S = moments.covariance
        deviation = np.sqrt(S if S.ndim == 1 else S.diagonal())
        scaler: Any = MaxAbsScaler() if source.sparse else StandardScaler()
        if source.sparse:
            # Sizes of the columns, without a shift, which would fill the zeros.
            scaler.max_abs_ = deviation = np.sqrt(deviation**2 + moments.mean**2)
        else:
            scaler.mean_, scaler.var_ = moments.mean, deviation**2
        scaler.scale_ = np.where(deviation > 0.0, deviation, 1.0)
        scaler.n_features_in_, scaler.n_samples_seen_ = source.n_features, np.int64(len(source))
        model = classifier.fit(_ScaledRows(source, scaler))
        model = model if client is None else model.to_local()
        pipeline = Pipeline([("scale", scaler), ("model", model)])
        wrong = passes.run(_errors, pipeline).sums["wrong"]
        model.n_passes_ += passes.n_passes
        return pipeline, wrong
    finally:
        if client is not None:
            client.close()


def _connected(address: str) -> Any:
    """Connect to a cluster."""
    require("--cluster", "distributed", extra="dask")
    from distributed import Client

    try:
        return Client(address, timeout=_CONNECT, set_as_default=False)
    except (OSError, ValueError) as error:
        raise RunError(f"no cluster at {address}: {error}") from None


def predictions(
    data: list[str], schema: Schema, predict: Callable[..., str], cluster: str | None
) -> Iterator[str]:
    """What ``predict(X, head=...)`` says of a folder or of several files, block by block.

    ``head`` is true for the first block. The blocks are read by threads of this process or by the
    workers of a cluster, a few at a time.
    """
    try:
        source = open_rows(data, columns=schema.feature_names)
    except DataFileError as error:
        if error.cause != "unnamed":
            raise
        # Columns without names are those of training, in their order.
        source = open_rows(data)
    assert isinstance(source, FileRows)
    work = partial(_predicted, source, schema, predict)
    if cluster is None:
        yield from in_order(work, range(source.n_blocks), available_threads())
        return
    with _connected(cluster) as client:
        held = client.scatter(work)

        def ask(k: int) -> str:
            return client.submit(operator.call, held, k, pure=False).result()

        yield from in_order(ask, range(source.n_blocks), sum(client.nthreads().values()) + 1)


def _predicted(source: FileRows, schema: Schema, predict: Callable[..., str], k: int) -> str:
    X = source.block(k).X
    width = X.shape[1]
    if sp.issparse(X) and width < schema.n_features:
        X.resize(X.shape[0], schema.n_features)
    elif width != schema.n_features:
        problem = f"expected {schema.n_features} features as in training, got {width}"
        raise DataFileError(source.place(k).name, problem)
    return predict(X, head=not k)
