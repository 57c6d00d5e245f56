"""How fast support vector and quantile regression are next to scikit-learn's and Intel's.

Same kernel, same tolerance, same data; the dual objectives are compared as well. Linear quantile
regression is compared with the linear program of scikit-learn's QuantileRegressor and, where it is
installed, with ReHLine, by the value of the loss. ``--only small`` leaves out 10,000 rows.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

import numpy as np
from _harness import WARM_MEMORY, interleaved, parse_arguments, run_per_thread_count, write
from problems import settled
from sklearn.datasets import load_diabetes, make_friedman1, make_regression
from sklearn.linear_model import QuantileRegressor
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR

from oblong import MarginRegressor
from oblong.kernels import Kernel

COLUMNS = [
    "data",
    "rows x columns",
    "loss",
    "C",
    "threads",
    "oblong (s)",
    "peer",
    "peer (s)",
    "intelex (s)",
    "peer / oblong",
    "intelex / oblong",
    "objective difference",
    "dual gap",
]
QUANTILE = 0.9


def problems(small: bool) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Data sets, rows and targets scaled to a standard deviation of one."""
    sets = [("diabetes", *load_diabetes(return_X_y=True))]
    sizes = (2000,) if small else (2000, 10_000)
    for n in sizes:
        sets.append(("Friedman 1", *make_friedman1(n, 20, noise=1.0, random_state=0)))
        sets.append(
            ("generated", *make_regression(n, 50, n_informative=20, noise=50.0, random_state=0))
        )
    for name, X, y in sets:
        yield name, StandardScaler().fit_transform(X), (y - y.mean()) / y.std()


def dual_objective(model: object, X: np.ndarray, y: np.ndarray, kernel: Kernel) -> float:
    """Value of ``y'c - ε|c| - ½ c'Kc`` in double precision."""
    c = np.asarray(model.dual_coef_)[0]
    K = kernel(X[model.support_])
    return float(y[model.support_] @ c - model.epsilon * np.abs(c).sum() - 0.5 * c @ K @ c)


def pinball(y: np.ndarray, f: np.ndarray) -> float:
    return float(np.maximum(QUANTILE * (y - f), (QUANTILE - 1.0) * (y - f)).sum())


def support_vector_rows(name, X, y, threads, repeats) -> Iterator[dict]:
    try:
        from sklearnex.svm import SVR as IntelSVR
    except ImportError:
        IntelSVR = None
    for C in (1.0, 10.0):
        parameters = {**settled({"kernel": "rbf"}, X), "C": C}
        models = {
            "oblong": MarginRegressor(**parameters),
            "peer": SVR(cache_size=1000, **parameters),
        }
        if IntelSVR is not None:
            models["intelex"] = IntelSVR(cache_size=1000, **parameters)
        tasks = {n: lambda m=m: m.fit(X, y) for n, m in models.items()}
        seconds = interleaved(tasks, repeats)
        kernel = Kernel("rbf", parameters["gamma"], 3, 0.0)
        ours, theirs = (dual_objective(models[m], X, y, kernel) for m in ("oblong", "peer"))
        yield {
            "data": name,
            "rows x columns": f"{X.shape[0]} x {X.shape[1]}",
            "loss": "epsilon, rbf",
            "C": C,
            "threads": threads,
            "peer": "SVR",
            **{f"{n} (s)": s for n, s in seconds.items()},
            **{f"{n} / oblong": seconds[n] / seconds["oblong"] for n in list(models)[1:]},
            "objective difference": abs(ours - theirs) / abs(theirs),
            "dual gap": models["oblong"].dual_gap_,
        }


def quantile_rows(name, X, y, threads, repeats) -> Iterator[dict]:
    C = 100.0
    model = MarginRegressor(loss="quantile", quantile=QUANTILE, kernel="linear", C=C)
    peers = {"QuantileRegressor": QuantileRegressor(quantile=QUANTILE, alpha=0.0)}
    try:
        from rehline import plqERM_Ridge

        with_bias = np.hstack([X, np.ones((len(X), 1))])
        peers["ReHLine"] = plqERM_Ridge(loss={"name": "QR", "qt": QUANTILE}, C=C, max_iter=10**5)
    except ImportError:
        with_bias = X
    for label, peer in peers.items():
        rows = with_bias if label == "ReHLine" else X
        tasks = {"oblong": lambda: model.fit(X, y), "peer": lambda p=peer, r=rows: p.fit(X=r, y=y)}
        seconds = interleaved(tasks, repeats)
        f = rows @ np.ravel(peer.coef_) if label == "ReHLine" else peer.predict(X)
        ours, theirs = pinball(y, model.predict(X)), pinball(y, f)
        yield {
            "data": name,
            "rows x columns": f"{X.shape[0]} x {X.shape[1]}",
            "loss": f"quantile {QUANTILE}, linear",
            "C": C,
            "threads": threads,
            "peer": label,
            **{f"{n} (s)": s for n, s in seconds.items()},
            "peer / oblong": seconds["peer"] / seconds["oblong"],
            "objective difference": abs(ours - theirs) / abs(theirs),
            "dual gap": model.dual_gap_,
        }


def measure(threads: int, repeats: int, small: bool) -> list[dict]:
    rows = []
    for name, X, y in problems(small):
        for found in (support_vector_rows, quantile_rows):
            for row in found(name, X, y, threads, repeats):
                print(row, file=sys.stderr)
                rows.append(row)
    return rows


def main() -> None:
    arguments = parse_arguments(__doc__)
    if arguments.child:
        small = arguments.only == "small"
        print(json.dumps(measure(arguments.child, arguments.repeats, small)))
        return
    write(
        "regression_against_peers",
        "Regression next to its peers",
        "Median seconds of a warm fit at tol 1e-3, in turns, in a process that keeps the memory it "
        "has freed; a ratio above one means that oblong is faster. SVR and intelex have a cache of "
        "1 GB. The objective difference is relative: of the dual objectives for the epsilon loss, "
        "of the losses for quantiles, where the peers have another penalty of the weights or a "
        "penalty of the bias.",
        COLUMNS,
        run_per_thread_count(__file__, arguments, WARM_MEMORY),
    )


if __name__ == "__main__":
    main()
