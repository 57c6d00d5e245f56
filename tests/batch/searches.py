"""Plain grid searches that RelativeMarginClassifierCV is compared with."""

from __future__ import annotations

import numpy as np
from sklearn.model_selection import GridSearchCV

from oblong import RelativeMarginClassifier

GRID = {"Cs": (0.3, 3.0, 30.0), "gammas": ("scale", 0.3), "spreads": (1.0, 0.4, 0.1, 0.0)}
# All combinations are solved to the end.
EXACT = {"fold_tol": 1e-9}


def plain_search(grid, **params):
    """The same search as scikit-learn does it."""
    names = {"C": grid["Cs"], "gamma": grid["gammas"], "spread": grid["spreads"]}
    options = {key: params.pop(key) for key in ("cv", "scoring") if key in params}
    return GridSearchCV(RelativeMarginClassifier(**params), names, **options)


def same_scores(ours, theirs, slips=0.0):
    """Compare the scores of all folds."""
    ours, theirs = ours.cv_results_, theirs.cv_results_
    assert ours["params"] == theirs["params"]
    for key in theirs:
        if key.startswith("split") or key in ("mean_test_score", "std_test_score"):
            np.testing.assert_allclose(ours[key], theirs[key], atol=slips + 1e-12, err_msg=key)
