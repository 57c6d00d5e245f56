"""
The smallest ellipsoid: outliers and whitening
==============================================

The ellipsoid of least volume around some points says where they lie, how far they reach, and which
of them are on the edge. New points outside are anomalies. Mapping it to the unit ball
removes the units and the correlations of the features. None of this needs labels or random numbers.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.covariance import EllipticEnvelope
from sklearn.metrics import roc_auc_score

from oblong import MinimumVolumeEllipsoid
from oblong.display import EllipsoidDisplay

# %%
# A tilted cloud. With ``coverage=1`` every point is inside, and the few outermost ones determine
# the ellipse. With a smaller coverage the others may stay outside.
rng = np.random.default_rng(0)
mixture = np.array([[3.0, 1.0], [0.0, 0.6]])
X = rng.normal(size=(190, 2)) @ mixture

models = {
    f"coverage {coverage:g}": MinimumVolumeEllipsoid(coverage=coverage).fit(X)
    for coverage in (1.0, 0.95, 0.65)
}
EllipsoidDisplay.from_estimator(models, X)
plt.show()

# %%
# The certificate ``gap_`` bounds how much smaller the volume could be. ``support_`` contains the
# rows on the boundary or outside; without the others the ellipsoid would be the same.
print("coverage   inside   area      gap   rows that matter")
for model in models.values():
    print(
        f"{model.coverage:8g} {model.coverage_:8.3f} {model.volume_:6.1f} {model.gap_:8.0e}"
        f" {len(model.support_):12d}"
    )

# %%
# Anomalies
# ---------
# If the training data is known to be normal, the ellipsoid around all of it is the region seen so
# far. ``predict`` says -1 outside. Here are a thousand new points of the same kind, and ten odd
# ones from anywhere.
new = rng.normal(size=(1000, 2)) @ mixture
odd = rng.uniform(-9, 9, size=(10, 2))
print("coverage   false alarms   odd points found")
for model in models.values():
    alarms, found = np.mean(model.predict(new) == -1), np.sum(model.predict(odd) == -1)
    print(f"{model.coverage:8g} {alarms:14.1%} {found:14d} of 10")

# %%
# Outliers among the data itself
# ------------------------------
# This is harder, because the odd points are part of the data. A row outside has a weight, like
# those on the boundary, and so it influences the shape. ``coverage`` limits the weight of a single
# row: one over the number of rows that may be outside. Leave out many more rows than there are
# outliers, and rank the rows by ``score_samples``. Scikit-learn's estimator, which fits a
# covariance to the most compact half of the points, resists the odd ones better.
both = np.vstack([X, odd])
truth = np.repeat([1, -1], [len(X), len(odd)])
spoiled = {
    f"coverage {coverage:g}": MinimumVolumeEllipsoid(coverage=coverage).fit(both)
    for coverage in (1.0, 0.95, 0.65)
}
EllipsoidDisplay.from_estimator(spoiled, both, truth, class_names=["odd", "regular"])
plt.show()

spoiled["EllipticEnvelope"] = EllipticEnvelope(random_state=0).fit(both)
print("                   area under the ROC curve")
for name, model in spoiled.items():
    print(f"{name:18} {roc_auc_score(truth, model.score_samples(both)):24.3f}")

# %%
# Whitening
# ---------
# ``transform`` maps the ellipsoid to the unit ball. Any change of units and any mixture of the
# features gives the same result up to a rotation, so the distances from the centre stay as they
# are. The second panel shows the points of the first after such a change, the third and the fourth
# their images.
changed = X @ np.array([[1000.0, 3.0], [-400.0, 1.0]]) + 50
fig, axes = plt.subplots(1, 4, figsize=(12, 3), layout="constrained")
whitened = []
for rows, above, below in ((X, axes[0], axes[2]), (changed, axes[1], axes[3])):
    model = MinimumVolumeEllipsoid().fit(rows)
    whitened.append(model.transform(rows))
    EllipsoidDisplay.from_estimator(model, rows, ax=above)
    below.scatter(*whitened[-1].T, s=8, color="#8a93a3")
    below.add_patch(plt.Circle((0, 0), 1, fill=False, color="#3b4252"))
    below.set_aspect("equal")
titles = ("as measured", "in other units", "as measured, mapped", "in other units, mapped")
for ax, title in zip(axes, titles):
    ax.set_title(title)
    ax.spines[["top", "right"]].set_visible(False)
plt.show()
lengths = [np.linalg.norm(rows, axis=1) for rows in whitened]
print(f"largest difference of the lengths: {np.abs(lengths[0] - lengths[1]).max():.0e}")

# %%
# Not an ellipse
# --------------
# Points on a ring are not like an ellipse at all. With a kernel the ellipsoid lies in the feature
# space, on the first ``rank`` principal directions there. The five features of a quadratic kernel
# are enough for a ring. The boundary in the plane is where the squared distance is one.
angle = rng.uniform(0, 2 * np.pi, size=300)
ring = np.column_stack([np.cos(angle), np.sin(angle)]) + 0.08 * rng.normal(size=(300, 2))
quadratic = {"kernel": "poly", "degree": 2, "gamma": 1, "coef0": 1, "rank": 5}
forms = {
    "linear": MinimumVolumeEllipsoid(coverage=0.95).fit(ring),
    "quadratic kernel": MinimumVolumeEllipsoid(coverage=0.95, **quadratic).fit(ring),
}
EllipsoidDisplay.from_estimator(forms, ring).ax_.set_aspect("equal")
plt.show()
