"""Save small models of every kind with their predictions, as test data for later releases.

Run with a released oblong: ``python -m tests.persistence.save_release FOLDER``. The folder then
holds model files, checkpoints of streams, and what was predicted with them.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import warnings
from pathlib import Path

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.datasets import make_blobs
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import oblong
from oblong.cli import main

ROWS = np.random.default_rng(1).normal(scale=4.0, size=(6, 3))
STREAM_ROWS, CHECKPOINT_AT = 40, 25


def models() -> dict[str, object]:
    """Fitted models: those that keep different things inside."""
    X, y = make_blobs(18, centers=3, n_features=3, cluster_std=2.0, random_state=0)
    three, two = np.array(["apple", "pear", "quince"])[y], np.array(["no", "yes"])[y % 2]
    both = {"linear": {"kernel": "linear"}, "rbf": {"kernel": "rbf"}}
    covariances = {
        "full": {"covariance": "full"},
        "diag": {"covariance": "diag", "average": True},
        "sketch": {"covariance": "sketch", "sketch_size": 2},
    }
    settings = {
        "RelativeMarginClassifier": both,
        "UniversumSVC": both,
        "EllipsoidalSVC": both,
        "BayesPointClassifier": both,
        "SigmaSVC": both,
        "EllipsoidalKernelClassifier": {"rbf": {"rank": 4}},
        "KernelFisherClassifier": {"": {}},
        "LinearRelativeMarginClassifier": {"": {}},
        "RelativeMarginClassifierCV": {"": {"Cs": [1.0], "spreads": [0.5, 1.0], "cv": 2}},
        "MinimumVolumeEllipsoid": both,
        "AROWClassifier": {**covariances, "platt": {"calibration": "platt"}},
        "ConfidenceWeightedClassifier": {"full": {}, "exact": {"covariance": "diag"}},
        "SoftConfidenceWeightedClassifier": {"": {}},
        "PassiveAggressiveClassifier": {"": {}},
        "NormalHerdClassifier": {"": {}},
        "SecondOrderPerceptron": {"": {}},
        "ClassicalEllipsoidClassifier": {"": {}},
        "ImprovedEllipsoidClassifier": {"": {}},
        "KernelConfidenceWeightedClassifier": {"": {}},
        "OnlineEllipsoidalSVC": {"": {}},
    }
    settings["ConfidenceWeightedClassifier"]["exact"]["diag_update"] = "exact"
    found: dict[str, object] = {}
    for name, cases in settings.items():
        for case, parameters in cases.items():
            model = getattr(oblong, name)(**parameters)
            if "random_state" in model.get_params():
                model.set_params(random_state=0)
            key = f"{name}-{case}" if case else name
            if name == "MinimumVolumeEllipsoid":
                found[key] = model.fit(X)
            elif name == "UniversumSVC":
                found[key] = model.fit(X, three, X_universum=X[::3] + 0.5)
            else:
                found[key] = model.fit(X, two if "rbf" in key else three)
    numbers = make_pipeline(SimpleImputer(), StandardScaler(), oblong.AROWClassifier())
    gaps = X.copy()
    gaps[::4, 1] = np.nan
    found["pipeline"] = numbers.fit(gaps, three)
    columns = ColumnTransformer(
        [
            ("numbers", StandardScaler(), [0, 1]),
            ("words", OneHotEncoder(handle_unknown="ignore"), [2]),
        ]
    )
    table = X.astype(object)
    table[:, 2] = np.where(X[:, 2] > 0, "up", "down")
    found["pipeline-words"] = make_pipeline(columns, oblong.SigmaSVC()).fit(table, two)
    return found


def predictions(name: str, model: object) -> dict[str, list]:
    """What a model says about a few rows."""
    rows = ROWS
    if name == "pipeline-words":
        rows = rows.astype(object)
        rows[:, 2] = np.where(ROWS[:, 2] > 0, "up", "new")
    methods = ("predict", "decision_function", "predict_proba", "mahalanobis")
    return {
        method: getattr(model, method)(rows).tolist()
        for method in methods
        if hasattr(model, method)
    }


def stream_file(kind: str) -> str:
    """Rows of a stream in one of three formats."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(STREAM_ROWS, 3)).round(2)
    y = np.array(["a", "b", "c"])[np.argmax(X + 0.5 * rng.normal(size=X.shape), axis=1)]
    if kind == "csv":
        rows = [",".join([*map(str, x), label]) for x, label in zip(X, y)]
        return "\n".join(["u,v,w,class", *rows]) + "\n"
    if kind == "libsvm":
        codes = {"a": 1, "b": 2, "c": 3}
        rows = [
            " ".join([str(codes[label]), *(f"{j + 1}:{v}" for j, v in enumerate(x))])
            for x, label in zip(X, y)
        ]
        return "\n".join(rows) + "\n"
    rows = [
        json.dumps({"u": u, f"word{i % 5}": v, "class": label})
        for i, ((u, v, _), label) in enumerate(zip(X.tolist(), y.tolist()))
    ]
    return "\n".join(rows) + "\n"


STREAMS = {
    "csv": ["arow"],
    "libsvm": ["scw", "--param", "covariance=diag"],
    "jsonl": ["pa"],
}


def stream_words(kind: str) -> list[str]:
    """Command line of a stream."""
    words = ["stream", f"rows.{kind}", "--learner", *STREAMS[kind], "--json"]
    if kind != "libsvm":
        words += ["--target", "class"]
    return [*words, "--every", str(CHECKPOINT_AT), "--checkpoint", f"stream-{kind}.ckpt"]


def run_stream(kind: str, *more: str) -> dict[str, object]:
    """Run a stream in the current folder; what it counted, and the weights it learned."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main([*stream_words(kind), "-o", "learned.oblong", *more]) == 0
    last = json.loads(out.getvalue().splitlines()[-1])
    coef = oblong.load("learned.oblong").coef_.tolist()
    Path("learned.oblong").unlink()
    return {"coef": coef, **{name: last[name] for name in ("rows", "mistakes", "classes")}}


def save_all(folder: Path) -> None:
    """Write the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(folder)
    known = {}
    for name, model in models().items():
        oblong.save(model, f"{name}.oblong")
        known[name] = predictions(name, model)
    for kind in STREAMS:
        path, text = Path(f"rows.{kind}"), stream_file(kind)
        header = kind == "csv"
        path.write_text("".join(text.splitlines(keepends=True)[: CHECKPOINT_AT + header]))
        run_stream(kind)
        checkpoint = Path(f"stream-{kind}.ckpt").read_bytes()
        path.write_text(text)
        known[f"stream-{kind}"] = run_stream(kind)
        Path(f"stream-{kind}.ckpt").write_bytes(checkpoint)
        path.unlink()
    Path("predictions.json").write_text(json.dumps(known, separators=(",", ":")))


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        save_all(Path(sys.argv[1]))
