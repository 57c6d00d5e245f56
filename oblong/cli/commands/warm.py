"""``oblong warm``: compile in advance what the first fits would compile.

Compile the loops of all estimators and of streams, once per installation: later fits find them on
disk. Useful when a container is built. It takes some minutes; a second run has nothing to do.
"""

import argparse
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from functools import partial
from typing import Any

from oblong.cli.shared.options import add_command


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add the subcommand."""
    parser = add_command(subparsers, "warm", __doc__)
    parser.add_argument("--online", action="store_true", help="only online learners and streams")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    began = time.perf_counter()
    for name, job in [*([] if args.online else _batch()), *_online()]:
        print(f"{time.perf_counter() - began:6.1f} s  {name}", flush=True)
        with warnings.catch_warnings(action="ignore"):
            try:
                job()
            except ImportError as error:
                # A part that needs an extra which is not there.
                print(f"left out: {error}", file=sys.stderr)
    print(f"{time.perf_counter() - began:6.1f} s  done")
    return 0


def _data(n: int) -> tuple[Any, Any]:
    """Rows of three classes; of two, if what is above the first is one."""
    import numpy as np

    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 6))
    return X, (X[:, 0] + 0.5 * rng.normal(size=n) > 0).astype(int) + (X[:, 1] > 0.5)


def _batch() -> Iterator[tuple[str, Callable[[], Any]]]:
    import oblong

    for name in oblong.__all__:
        kind = getattr(oblong, name)
        if isinstance(kind, type) and hasattr(kind, "fit") and not hasattr(kind, "partial_fit"):
            kernels = ("rbf", "linear", "poly") if "kernel" in kind().get_params() else (None,)
            for kernel in kernels:
                options = {} if kernel is None else {"kernel": kernel}
                yield ", ".join([name, *options.values()]), partial(_fit, kind, options)


def _fit(kind: Any, options: dict[str, Any]) -> None:
    """Fit small problems, which may be solved otherwise, and larger ones."""
    for n, classes in ((60, 2), (60, 3), (700, 2)):
        X, y = _data(n)
        target = X[:, 0] if "Regressor" in kind.__name__ else y if classes == 3 else y > 0
        more = {"X_universum": X[:5]} if "Universum" in kind.__name__ else {}
        model = kind(**options).fit(X, target, **more)
        if hasattr(model, "predict"):
            model.predict(X[:3])


def _online() -> Iterator[tuple[str, Callable[[], Any]]]:
    from oblong.cli.streaming.learners import LEARNERS

    for name, (kind, _) in LEARNERS.items():
        yield kind, partial(_learn, kind)
        yield f"stream --learner {name}", partial(_stream, name)


def _learn(name: str) -> None:
    import numpy as np
    import scipy.sparse as sp

    import oblong

    X, y = _data(60)
    for target in (y > 0, y):
        for rows in (X, X.astype(np.float32), sp.csr_matrix(X)):
            model = getattr(oblong, name)(max_iter=1).fit(rows, target)
            model.predict(rows[:3])


def _stream(learner: str) -> None:
    import numpy as np
    from sklearn.datasets import dump_svmlight_file

    from oblong.cli import main

    X, y = _data(60)
    with tempfile.TemporaryDirectory() as folder, open(os.devnull, "w") as out:
        for target in (y > 0, y):
            files = [f"{folder}/rows.libsvm", f"{folder}/rows.csv"]
            dump_svmlight_file(X, target.astype(int), files[0], zero_based=False)
            np.savetxt(files[1], np.column_stack([X, target]), "%.9g", delimiter=",")
            for file in files:
                for more in ([], ["--hash-bits", "10"]):
                    with redirect_stdout(out):
                        code = main(["stream", file, "--learner", learner, *more])
                    if code:
                        # SIGTERM, which a stream takes as the wish to end it.
                        raise SystemExit(code)
