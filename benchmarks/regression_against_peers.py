"""How fast support vector and quantile regression are next to scikit-learn's and Intel's.

Same kernel, same tolerance, same data; the dual objectives are compared as well. Linear models are
compared with the linear program of QuantileRegressor, with LinearSVR and, where it is installed,
with ReHLine, by the value of the problem that the peer solves. The search over a grid is compared
with a grid search over SVR. A peer that takes more than five seconds is timed once, one that takes
more than a minute is stopped. ``--only small`` leaves out 10,000 rows and more.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from _harness import WARM_MEMORY, interleaved, parse_arguments, run_per_thread_count, write
from problems import settled
from sklearn.datasets import load_diabetes, make_friedman1, make_regression
from sklearn.linear_model import QuantileRegressor
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR, LinearSVR

from oblong import MarginRegressor, MarginRegressorCV
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
# Seconds after which a peer is not timed again, and after which it is stopped.
SLOW, LIMIT = 5.0, 60.0


def problems(small: bool) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Data sets, rows and targets scaled to a standard deviation of one."""
    sets = [("diabetes", *load_diabetes(return_X_y=True))]
    sizes = (2000,) if small else (2000, 10_000)
    for n in sizes:
        sets.append(("Friedman 1", *make_friedman1(n, 50, noise=1.0, random_state=0)))
        sets.append(
            ("generated", *make_regression(n, 50, n_informative=20, noise=50.0, random_state=0))
        )
    if not small:
        many = make_regression(100_000, 50, n_informative=20, noise=50.0, random_state=0)
        sets.append(("generated", *many))
    for name, X, y in sets:
        yield name, StandardScaler().fit_transform(X), (y - y.mean()) / y.std()


def limited(task: Callable[[], Any]) -> tuple[float, Any]:
    """Processor seconds and result of a task in a process of its own; infinite if it is stopped."""
    receiver, sender = multiprocessing.Pipe(duplex=False)

    def work() -> None:
        start = time.process_time()
        found = task()
        sender.send((time.process_time() - start, found))

    process = multiprocessing.get_context("fork").Process(target=work)
    process.start()
    seconds, found = receiver.recv() if receiver.poll(LIMIT) else (np.inf, None)
    process.kill()
    process.join()
    return seconds, found


def dual_objective(model: object, X: np.ndarray, y: np.ndarray, kernel: Kernel) -> float:
    """Value of ``y'c - ε|c| - ½ c'Kc`` in double precision."""
    c = np.asarray(model.dual_coef_)[0]
    K = kernel(X[model.support_])
    return float(y[model.support_] @ c - model.epsilon * np.abs(c).sum() - 0.5 * c @ K @ c)


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
        seconds = interleaved(tasks, repeats, processor=threads == 1)
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


def linear_rows(name, X, y, threads, repeats) -> Iterator[dict]:
    """Linear models; the difference is by how much of it a peer misses the best of the losses."""
    n = len(X)
    C = 1.0
    with_bias = np.hstack([X, np.ones((n, 1))])
    quantile = {"loss": "quantile", "quantile": QUANTILE}
    tube = {"loss": "epsilon", "epsilon": 0.1}
    # A penalty that leaves next to nothing of that of the weights, where a peer has none.
    cases = [
        ("QuantileRegressor", QuantileRegressor(quantile=QUANTILE, alpha=0.0), X, quantile, 1e4),
        ("LinearSVR", LinearSVR(epsilon=0.1, C=C, random_state=0, max_iter=10**5), X, tube, C),
    ]
    try:
        from rehline import plqERM_Ridge

        peer = plqERM_Ridge(loss={"name": "QR", "qt": QUANTILE}, C=C, max_iter=10**6, tol=1e-6)
        cases.append(("ReHLine", peer, with_bias, quantile, C))
        peer = plqERM_Ridge(loss={"name": "SVR", "epsilon": 0.1}, C=C, max_iter=10**6, tol=1e-6)
        cases.append(("ReHLine", peer, with_bias, tube, C))
    except ImportError:
        pass
    for label, peer, rows, loss, penalty in cases:
        if label == "QuantileRegressor" and n > 20_000:
            continue
        model = MarginRegressor(kernel="linear", C=penalty, **loss)
        tasks = {"oblong": lambda m=model: m.fit(X, y), "peer": lambda p=peer, r=rows: p.fit(r, y)}
        facts = {"data": name, "rows x columns": f"{n} x {X.shape[1]}", "C": penalty}
        facts |= {"loss": f"{loss['loss']}, linear", "threads": threads, "peer": label}
        slow, fitted = limited(tasks["peer"])
        if slow > SLOW:
            del tasks["peer"]
            peer = fitted
        seconds = interleaved(tasks, repeats, processor=threads == 1)
        facts |= {"oblong (s)": seconds["oblong"], "dual gap": model.dual_gap_}
        if peer is None:
            yield facts
            continue
        seconds.setdefault("peer", slow)
        coef = np.ravel(peer.coef_)
        f = rows @ coef if label == "ReHLine" else peer.predict(X)
        theirs = penalty * loss_of(y, f, loss) + 0.5 * coef[: X.shape[1]] @ coef[: X.shape[1]]
        yield {
            **facts,
            "peer (s)": seconds["peer"],
            "peer / oblong": seconds["peer"] / seconds["oblong"],
            "objective difference": float(theirs - model.objective_) / model.objective_,
        }


def loss_of(y: np.ndarray, f: np.ndarray, loss: dict) -> float:
    if loss["loss"] == "epsilon":
        return float(np.maximum(np.abs(y - f) - loss["epsilon"], 0.0).sum())
    return float(np.maximum(QUANTILE * (y - f), (QUANTILE - 1.0) * (y - f)).sum())


def search_rows(name, X, y, threads, repeats) -> Iterator[dict]:
    Cs, epsilons, gammas = (0.1, 1.0, 10.0), (0.05, 0.1, 0.3), ("scale", "auto")
    if len(X) > 5000:
        return
    ours = MarginRegressorCV(Cs=Cs, epsilons=epsilons, gammas=gammas, n_jobs=threads)
    grid = {"C": Cs, "epsilon": epsilons, "gamma": gammas}
    peer = GridSearchCV(SVR(cache_size=1000), grid, n_jobs=threads)
    tasks = {"oblong": lambda: ours.fit(X, y), "peer": lambda: peer.fit(X, y)}
    seconds = interleaved(tasks, 1, processor=threads == 1)
    scores = [np.asarray(m.cv_results_["mean_test_score"]) for m in (ours, peer)]
    yield {
        "data": name,
        "rows x columns": f"{X.shape[0]} x {X.shape[1]}",
        "loss": "epsilon, rbf, 18 combinations x 5 folds",
        "threads": threads,
        "peer": "GridSearchCV(SVR)",
        **{f"{n} (s)": s for n, s in seconds.items()},
        "peer / oblong": seconds["peer"] / seconds["oblong"],
        "objective difference": float(np.abs(scores[0] - scores[1]).max()),
        "dual gap": ours.best_estimator_.dual_gap_,
    }


def measure(threads: int, repeats: int, small: bool) -> list[dict]:
    rows = []
    for name, X, y in problems(small):
        large = len(X) > 20_000
        for found in (linear_rows,) if large else (support_vector_rows, linear_rows, search_rows):
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
        "Median seconds of a warm fit at tol 1e-3, alternating, in a process that keeps the memory "
        "it has freed, by processor time on one thread; a ratio above one means that oblong is "
        "faster. SVR and intelex have a cache of 1 GB. Linear peers that take more than five "
        "seconds are timed once; those without a time were stopped after a minute. The objective "
        "difference is relative: of the dual objectives for kernels; for linear models by how much "
        "the objective of the peer, of which some have another penalty of the weights or one of "
        "the bias, is above that of oblong; and for searches the largest difference of a score.",
        COLUMNS,
        run_per_thread_count(__file__, arguments, WARM_MEMORY),
    )


if __name__ == "__main__":
    main()
