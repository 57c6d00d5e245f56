"""
What a confidence-weighted learner knows after 50 examples
==========================================================

The model of a confidence-weighted learner is a Gaussian over weight vectors: a best guess, and how
uncertain it is in each direction. This repeats figure 3 of Crammer, Dredze and Pereira, "Exact
Convex Confidence-Weighted Learning" (2008).
"""

import matplotlib.pyplot as plt
import numpy as np

from oblong import ConfidenceWeightedClassifier
from oblong.datasets import make_rotated_stripe

# %%
# Two informative features, from a Gaussian rotated by 45 degrees whose long axis separates the
# classes, and 18 features of noise.
X, y = make_rotated_stripe(1000, random_state=0)
true = np.array([-1.0, 1.0]) / np.sqrt(2.0)  # the direction of the best weights

model = ConfidenceWeightedClassifier(confidence=0.95, fit_intercept=False)
model.partial_fit(X[:50], y[:50], classes=[0, 1])
print(f"{model.n_mistakes_} mistakes in the first 50 examples, {model.n_updates_} updates")

# %%
# On the right, the 20 weights are taken in pairs, and each pair is drawn as the ellipse of one
# standard deviation around its mean; the first pair is that of the informative features. All weight
# vectors on the dotted line classify every example correctly.
#
# The black ellipse is narrow: across the dotted line there is little uncertainty. Along it the
# uncertainty is large, because the length of the weight vector does not matter. The pairs of noise
# are close to circles, with centres near the origin: the learner has no reason to use these
# features, and is not yet sure that it should not.
angle = np.linspace(0.0, 2.0 * np.pi, 200)
circle = np.column_stack([np.cos(angle), np.sin(angle)])


def ellipse(model, pair):
    """One standard deviation around the mean of two weights."""
    root = np.linalg.cholesky(model.covariance_[np.ix_(pair, pair)])
    return model.coef_[0, pair] + circle @ root.T


def draw_weights(ax, model):
    """Draw the ellipses of all pairs of weights, and the directions that are right."""
    for j in range(2, 20, 2):
        noise = "pairs of noise features" if j == 2 else None
        ax.plot(*ellipse(model, [j, j + 1]).T, color="#ee3377", linewidth=0.8, label=noise)
    ax.plot(*ellipse(model, [0, 1]).T, color="#3b4252", linewidth=2.0, label="informative features")
    reach = (
        1.1 * np.abs(np.concatenate([ellipse(model, [j, j + 1]) for j in range(0, 20, 2)])).max()
    )
    ax.plot(*np.outer([0.0, 1.4 * reach], true).T, ":", color="#0077bb", label="right directions")
    ax.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal")
    ax.spines[["top", "right"]].set_visible(False)


fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4.6), layout="constrained")
for label, color, marker in ((0, "#33bbee", "o"), (1, "#ee7733", "^")):
    left.plot(*X[y == label, :2].T, marker, color=color, markersize=2.5)
left.axline((0, 0), slope=1.0, color="#3b4252", linewidth=1.0)
left.set(aspect="equal", title="the two informative features", xlabel="$x_1$", ylabel="$x_2$")
left.spines[["top", "right"]].set_visible(False)
draw_weights(right, model)
right.set(title="weights after 50 examples", xlabel="odd weights", ylabel="even weights")
right.legend(frameon=False, loc="lower left", fontsize=8)
plt.show()

# %%
# The angle between the best guess and the right direction, and the ratio of the axes of the black
# ellipse, as more examples come in:
model = ConfidenceWeightedClassifier(confidence=0.95, fit_intercept=False)
print("examples  mistakes  angle  ratio of axes")
seen = 0
for stop in (10, 50, 200, 1000):
    model.partial_fit(X[seen:stop], y[seen:stop], classes=[0, 1])
    seen = stop
    w = model.coef_[0]
    weights = np.degrees(np.arccos(w[:2] @ true / np.linalg.norm(w)))
    axes = np.sqrt(np.linalg.eigvalsh(model.covariance_[:2, :2]))
    print(f"{stop:8d}  {model.n_mistakes_:8d}  {weights:4.0f}°  {axes[1] / axes[0]:13.1f}")
