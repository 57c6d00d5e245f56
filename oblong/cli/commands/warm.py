"""``oblong warm``: compile ahead what the first fits would compile."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

__all__ = ["add_parser"]

_DESCRIPTION = """\
Compile the loops of all estimators and of the command line, once per installation: fits and
streams that come later find them on disk. Of use in the build of a container. It takes a minute or
two; a second run finds everything there.
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser("warm", description=_DESCRIPTION)
    parser.add_argument("--online", action="store_true", help="only online learners and streams")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    began = time.perf_counter()
    jobs = list(_online()) if args.online else [*_batch(), *_online()]
    for name, job in jobs:
        print(f"{time.perf_counter() - began:6.1f} s  {name}", flush=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                job()
            except ImportError as error:
                # A part that needs an extra which is not there.
                print(f"          left out: {error}", file=sys.stderr)
    print(f"{time.perf_counter() - began:6.1f} s  done")
    return 0


def _data() -> tuple[Any, Any]:
    import numpy as np

    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 6))
    return X, (X[:, 0] + 0.5 * rng.normal(size=60) > 0).astype(int) + (X[:, 1] > 0.5)


def _batch() -> Iterator[tuple[str, Callable[[], Any]]]:
    import oblong

    X, y = _data()
    # More rows than small problems have, which are solved otherwise.
    import numpy as np

    many = np.tile(X, (12, 1)) + np.random.default_rng(1).normal(size=(720, 6))
    labels = np.tile(y > 0, 12)
    # An estimator may have no kernel, or take no sparse rows.
    for name in oblong.__all__:
        kind = getattr(oblong, name)
        if not isinstance(kind, type) or not hasattr(kind, "fit") or name.endswith("Online"):
            continue
        if hasattr(kind, "partial_fit"):
            continue
        kernels = ("rbf", "linear", "poly") if "kernel" in kind().get_params() else (None,)
        for kernel in kernels:

            def job(kind: Any = kind, kernel: str | None = kernel) -> None:
                options = {} if kernel is None else {"kernel": kernel}
                for rows, target in ((X, y > 0), (X, y), (many, labels)):
                    model = kind(**options)
                    if hasattr(model, "predict_quantiles") or "Regressor" in kind.__name__:
                        target = rows[:, 0]
                    if kind.__name__ == "UniversumSVC":
                        model.fit(rows, target, X_universum=X[:5])
                    else:
                        model.fit(rows, target)
                    if hasattr(model, "predict"):
                        model.predict(rows[:3])

            yield f"{name}{'' if kernel is None else f', {kernel}'}", job


def _online() -> Iterator[tuple[str, Callable[[], Any]]]:
    from oblong.cli.streaming.learners import LEARNERS

    for name, (kind, _) in LEARNERS.items():
        yield kind, partial(_learn, kind)
        yield f"oblong stream --learner {name}", partial(_stream, name)


def _learn(name: str) -> None:
    import numpy as np
    import scipy.sparse as sp

    import oblong

    X, y = _data()
    for target in (y > 0, y):
        for rows in (X, X.astype(np.float32), sp.csr_matrix(X)):
            model = getattr(oblong, name)(max_iter=1).fit(rows, target)
            model.predict(rows[:3])
            if hasattr(model, "learn_one"):
                model.learn_one(X[0], target[0])


def _stream(learner: str) -> None:
    from oblong.cli.streaming.command import stream

    X, y = _data()
    parser = argparse.ArgumentParser()
    from oblong.cli.commands.stream import add_parser as add_stream

    add_stream(parser.add_subparsers())
    with tempfile.TemporaryDirectory() as folder, open(Path(folder) / "out", "w") as out:
        for name, target in (("two", y > 0), ("more", y)):
            rows = [
                f"{int(label)} " + " ".join(f"{j + 1}:{value:.4f}" for j, value in enumerate(row))
                for row, label in zip(X, target)
            ]
            files = {f"{name}.libsvm": rows}
            files[f"{name}.csv"] = [
                ",".join([f"{value:.4f}" for value in row] + [str(int(label))])
                for row, label in zip(X, target)
            ]
            for file, lines in files.items():
                path = Path(folder) / file
                path.write_text("\n".join(lines) + "\n")
                for more in ([], ["--hash-bits", "10"]):
                    words = ["stream", str(path), "--learner", learner, "--json", *more]
                    stream(parser.parse_args(words), out)
