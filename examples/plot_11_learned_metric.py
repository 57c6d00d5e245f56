"""
A metric from the ellipsoidal support vector machine
====================================================

A nearest-neighbour classifier is only as good as its distance. The ellipsoidal support vector
machine finds a matrix along with its weights: large in directions in which the labels leave much
room, small in those along which the important rows are long. This example uses it as the metric of
nearest neighbours, without and with a kernel.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.model_selection import RepeatedStratifiedKFold
from sklearn.neighbors import KNeighborsClassifier

from oblong import EllipsoidalSVC

# %%
# Two stretched stripes
# ---------------------
# Only the second feature separates the classes, but the first has a much larger range: the nearest
# neighbour of a point is often on the other stripe. The ellipses are points at the same distance
# from the centre, for the plain distance and for the learned one; the picture shortens the first
# feature.
rng = np.random.default_rng(0)
y = np.repeat([-1, 1], 40)
X = np.column_stack([rng.uniform(-20, 20, size=80), 0.5 * y + 0.1 * rng.normal(size=80)])
model = EllipsoidalSVC(kernel="linear", nu=0.1, r=0.99).fit(X, y)

angle = np.linspace(0, 2 * np.pi, 200)
circle = np.column_stack([np.cos(angle), np.sin(angle)])
values, vectors = np.linalg.eigh(model.B_)
ellipse = circle / np.sqrt(values) @ vectors.T
fig, ax = plt.subplots(figsize=(8, 4), layout="constrained")
for label, color in zip(np.unique(y), ("#0077bb", "#ee7733")):
    ax.scatter(*X[y == label].T, s=14, color=color)
for curve, name, style in ((circle, "plain", ":"), (ellipse, "learned", "-")):
    size = 0.9 * np.abs(X[:, 1]).max() / np.abs(curve[:, 1]).max()
    ax.plot(*(size * curve).T, style, color="#3b4252", label=name)
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False)
plt.show()

# %%
# With the linear kernel the metric is a matrix, which scikit-learn's nearest neighbours accept
# directly.
folds = RepeatedStratifiedKFold(n_splits=5, n_repeats=4, random_state=0)


def neighbours(B=None):
    """Five nearest neighbours, by a matrix or by the plain distance."""
    if B is None:
        return KNeighborsClassifier(5)
    return KNeighborsClassifier(5, metric="mahalanobis", metric_params={"VI": B}, algorithm="brute")


def errors(X, y, learn):
    """Test errors with the plain and with the learned distance; the test rows take no part."""
    found = []
    for train, test in folds.split(X, y):
        B = learn(X[train], y[train])
        models = (neighbours(), neighbours(B))
        found.append([1 - m.fit(X[train], y[train]).score(X[test], y[test]) for m in models])
    return np.mean(found, axis=0)


def linear_metric(X, y):
    """The matrix of the model, averaged over the classes if there are more than two."""
    B = EllipsoidalSVC(kernel="linear", nu=0.1, r=0.99).fit(X, y).B_
    return B if B.ndim == 2 else B.mean(axis=0)


plain, learned = errors(X, y, linear_metric)
print(f"stripes: plain distance {plain:.1%} errors, learned distance {learned:.1%}")

# %%
# Real data
# ---------
# The thirteen features of the wines have units as different as per cent and milligrams. The units
# are left as they are, but the origin is moved to the mean, since the model measures from there.
# Plain distances are dominated by the feature with the largest numbers.
X, y = load_wine(return_X_y=True)
X = X - X.mean(axis=0)
plain, learned = errors(X, y, linear_metric)
print(f"wine: plain distance {plain:.1%} errors, learned distance {learned:.1%}")

# %%
# With a kernel
# -------------
# There is no matrix then, but ``metric`` gives the squared distances between any rows. Nearest
# neighbours take their roots. A moderate ``r`` keeps new rows from being far from everything. The
# features are standardised now, which helps either distance more than anything else.
X = X / X.std(axis=0)
plain, learned = errors(X, y, linear_metric)
print(f"wine, standardised: plain distance {plain:.1%} errors, learned distance {learned:.1%}")
train, test = next(folds.split(X, y))
model = EllipsoidalSVC(nu=0.1, r=0.5, gamma=0.02).fit(X[train], y[train])
near, far = (np.sqrt(model.metric(X[rows], X[train]).mean(axis=-1)) for rows in (train, test))
model = KNeighborsClassifier(5, metric="precomputed").fit(near, y[train])
print(f"wine, RBF kernel: {1 - model.score(far, y[test]):.1%} errors on one fold")
