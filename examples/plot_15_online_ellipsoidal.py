"""
An ellipsoid that learns from a stream
======================================

The ellipsoidal support vector machine takes the centre of a large ellipsoid of weight vectors that
classify the rows correctly. :class:`oblong.EllipsoidalSVC` solves for it with all rows in memory;
:class:`oblong.OnlineEllipsoidalSVC` takes small batches, one after the other, and reports after a
fit how far it is from the solution at most.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_classification
from sklearn.preprocessing import scale

from oblong import EllipsoidalSVC, OnlineEllipsoidalSVC

X, y = make_classification(
    4000, 12, n_informative=6, n_redundant=0, class_sep=0.8, flip_y=0.05, random_state=0
)
X = scale(X)
X_train, X_test, y_train, y_test = X[:2000], X[2000:], y[:2000], y[2000:]

# %%
# The same problem
# ----------------
# The online learner bounds the trace of the matrix :math:`B`; the batch model penalises it, with a
# weight set by ``r``. With the trace of the batch solution as the bound, both solve the same
# problem.
batch = EllipsoidalSVC(kernel="linear", r=0.5, fit_intercept="augment").fit(X_train, y_train)
trace = np.trace(batch.B_)
best = (batch.objective_[0] - (1 - batch.r) * trace) / batch.r

passes = np.unique(np.geomspace(1, 200, 12).astype(int))
certified, actual = [], []
for n in passes:
    model = OnlineEllipsoidalSVC(trace_bound=trace, max_iter=n, tol=None, random_state=0)
    model.fit(X_train, y_train)
    certified.append(model.dual_gap_[0])
    actual.append((model.objective_[0] - best) / 13)

fig, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
ax.loglog(passes, certified, "-", color="#ee3377", label="certified gap")
ax.loglog(passes, actual, ":", color="#0077bb", label="distance from the batch objective")
ax.set(xlabel="passes over 2,000 rows", ylabel="objective, a feature")
ax.legend(frameon=False)
ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# The gap is a proof: the objective is never farther from the optimum than it says. It is obtained
# by counting how often each row was found to violate its constraint.
#
# One pass
# --------
# A stream is seen once. The result does not depend on the batches in which it arrives.
stream = OnlineEllipsoidalSVC()
for start in range(0, 2000, 100):
    part = slice(start, start + 100)
    stream.partial_fit(X_train[part], y_train[part], classes=[0, 1])
print(f"mistakes on the way     {stream.n_mistakes_} of {stream.t_}")
print(f"test accuracy, stream   {stream.score(X_test, y_test):.3f}")
print(f"test accuracy, batch    {batch.score(X_test, y_test):.3f}")
