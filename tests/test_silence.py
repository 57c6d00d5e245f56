"""Nothing is printed that nobody asked for, not even by BLAS."""

from __future__ import annotations

import subprocess
import sys
import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import oblong
from oblong import batch, svm
from oblong.svm import LinearSVC
from tests.online.learners import VARIETY

KERNELS = ("linear", "poly", "rbf", "sigmoid", lambda X, Z: (X @ Z.T) ** 2)


def estimators():
    """Every estimator of the package with every kernel and every solver that it has."""
    names = [name for name in (*batch.__all__, "MinimumVolumeEllipsoid") if name[0].isupper()]
    classes = [getattr(oblong, name) for name in names] + [getattr(svm, n) for n in svm.__all__]
    for kind in classes:
        if kind in (oblong.RelativeMarginPath, oblong.CalibratedMarginClassifier):
            continue
        options = kind().get_params()
        for kernel in KERNELS if "kernel" in options else [None]:
            yield kind() if kernel is None else kind(kernel=kernel)
    for solver in ("auto", "ipm", "newton", "smo"):
        for margin in ("soft", "hard"):
            for kernel in ("linear", "rbf"):
                yield oblong.EllipsoidalSVC(kernel=kernel, solver=solver, margin=margin)
    for solver in ("interior-point", "descent", "bands"):
        yield oblong.LinearRelativeMarginClassifier(solver=solver)
    yield LinearSVC(loss="hinge")
    for coverage in (1e-6, 0.9):
        yield oblong.MinimumVolumeEllipsoid(coverage=coverage)
        yield oblong.EllipsoidalKernelClassifier(coverage=coverage)
    yield oblong.EllipsoidalKernelClassifier(E=9e-4)
    yield oblong.CalibratedMarginClassifier(oblong.RelativeMarginClassifier())
    yield from VARIETY


def tables():
    """Few rows, in one column, all alike, and with three classes."""
    rng = np.random.default_rng(0)
    for n, d in ((12, 2), (6, 1), (40, 3)):
        X = rng.normal(size=(n, d))
        yield X, (np.arange(n) % 2)
    yield np.zeros((8, 2)), np.arange(8) % 2
    yield rng.normal(size=(30, 2)), np.arange(30) % 3


def fit_all():
    """Fit all estimators to all tables, and predict; a process of its own runs this."""
    warnings.simplefilter("error")
    for category in (ConvergenceWarning, UserWarning):
        warnings.simplefilter("ignore", category)
    for estimator in estimators():
        for X, y in tables():
            try:
                estimator.fit(X, y).predict(X)
            except ValueError:
                continue


def fit_a_rare_class():
    """A table with few positive rows, which an ellipsoid need not round."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 3))
    y = (rng.random(2000) < 0.04).astype(int)
    X[y == 1] += 1.5
    for solver in ("auto", "newton"):
        oblong.EllipsoidalSVC(kernel="linear", solver=solver).fit(X, y).predict(X)


@pytest.mark.parametrize("work", [fit_all, fit_a_rare_class])
def test_fits_and_predictions_print_nothing(work):
    # BLAS writes past Python, and what it wrote appears when the process ends.
    program = f"from tests.test_silence import {work.__name__} as work; work()"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
