"""Test errors of linear classifiers with one class against the rest, and with pairs of classes.

The default of ``LinearRelativeMarginClassifier(multi_class=...)`` rests on this table. ``C`` is
chosen for each by the errors of three folds of the training rows; columns have mean zero and
variance one, and rows about unit length, so that the same penalties fit all sets.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp
from _harness import parse_arguments, write
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.preprocessing import normalize

from oblong import LinearRelativeMarginClassifier, datasets

SETS = [
    "isolet",
    "usps",
    "optdigits",
    "pendigits",
    "letter",
    "satimage",
    "segment",
    "dna",
    "waveform",
    "news20_bydate",
]
PENALTIES = [0.1, 1.0, 10.0]
# Columns of embeddings of text.
COLUMNS_OF_TEXT = 384
SPREADS = [1.0, 0.5]
COLUMNS = ["data", "rows", "classes", "spread", "one against the rest (%)", "pairs (%)", "fit (s)"]


def standardised(name: str, data: str | None) -> tuple[np.ndarray, ...]:
    """Rows in single precision: to train on, to test on, and their labels."""
    loaded = datasets.load(name, data_home=data)
    X, y = loaded.X, np.asarray(loaded.y)
    X_test, y_test = getattr(loaded, "X_test", None), getattr(loaded, "y_test", None)
    if X_test is None:
        X, X_test, y, y_test = train_test_split(X, y, test_size=0.3, random_state=0, stratify=y)
    if sp.issparse(X):
        weights = TfidfTransformer(sublinear_tf=True).fit(X)
        svd = TruncatedSVD(COLUMNS_OF_TEXT, random_state=0)
        X = normalize(svd.fit_transform(weights.transform(X)))
        X_test = normalize(svd.transform(weights.transform(X_test)))
    else:
        X, X_test = np.asarray(X, dtype=np.float64), np.asarray(X_test, dtype=np.float64)
        mean, scale = X.mean(axis=0), X.std(axis=0)
        scale = np.where(scale > 0.0, scale, 1.0) * np.sqrt(X.shape[1])
        X, X_test = (X - mean) / scale, (X_test - mean) / scale
    return X.astype(np.float32), X_test.astype(np.float32), y, np.asarray(y_test)


def compared(data: str | None) -> Iterator[dict]:
    """Rows of the table."""
    for name in SETS:
        X, X_test, y, y_test = standardised(name, data)
        for spread in SPREADS:
            row = {
                "data": name,
                "rows": f"{len(y)} + {len(y_test)}",
                "classes": len(np.unique(y)),
                "spread": spread,
            }
            times = []
            for kind, title in ("ovr", COLUMNS[4]), ("ovo", COLUMNS[5]):
                model = LinearRelativeMarginClassifier(
                    spread=spread, tol=1e-3, multi_class=kind, max_iter=5000
                )
                search = GridSearchCV(model, {"C": PENALTIES}, cv=3).fit(X, y)
                start = time.process_time()
                best = search.best_estimator_.fit(X, y)
                times.append(f"{time.process_time() - start:.2f}")
                row[title] = f"{100.0 * np.mean(best.predict(X_test) != y_test):.2f}"
            row["fit (s)"] = " / ".join(times)
            print(row, flush=True)
            yield row


if __name__ == "__main__":
    arguments = parse_arguments(__doc__)
    title = "Linear classifiers: one class against the rest, or pairs"
    note = (
        "Test errors, and seconds of processor time of the last fit, rest / pairs; C is chosen by "
        "three folds. `benchmarks/one_or_pairs.py`."
    )
    write("one_or_pairs", title, note, COLUMNS, list(compared(arguments.data)))
