"""
The ellipsoidal kernel machine
==============================

A support vector machine looks for the widest margin in the units in which the data happens to be
measured. The ellipsoidal kernel machine takes the smallest ellipsoid around the data, maps it to a
ball, and looks for the widest margin there. This repeats the figures of Shivaswamy and
Jebara, "Ellipsoidal Kernel Machines" (2007).
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons
from sklearn.inspection import DecisionBoundaryDisplay
from sklearn.svm import SVC

from oblong import EllipsoidalKernelClassifier
from oblong.bounds import shattering_margin, shattering_triangle, vc_ellipsoid, vc_sphere
from oblong.display import EllipsoidDisplay

# %%
# Figure 1: why the shape matters
# -------------------------------
# In the plane, straight lines can label three points in every way, and never four. If the line must
# have a margin, the points have to be far apart: the best place for them in an ellipse is the
# largest equilateral triangle, and the width of the margin is its height. The ellipse has the same
# longest axis as the circle, but less room across. Margins with a width between the two curves on
# the right separate three points of the circle in every way, and only two of the ellipse.
angle = np.linspace(0, 2 * np.pi, 200)
circle = np.column_stack([np.cos(angle), np.sin(angle)])
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
for b, color, name in ((2.0, "#3b4252", "circle"), (1.0, "#ee3377", "ellipse")):
    left.plot(*(circle * [2.0, b]).T, color=color, linewidth=1.2)
    corners = shattering_triangle(2.0, b)
    left.fill(*corners.T, color=color, alpha=0.12)
    left.plot(*corners.T, "o", color=color, label=f"{name}: {shattering_margin(2.0, b):.3f}")
    left.plot([0, 0], corners[:2, 1], color=color, linestyle=":")
left.set(aspect="equal")
left.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))

ratio = np.linspace(0.02, 1, 100)
width = [shattering_margin(1.0, b) for b in ratio]
right.axhline(1.5, color="#3b4252", linestyle="--", label="circle")
right.plot(ratio, width, color="#ee3377", label="ellipse")
right.fill_between(ratio, width, 1.5, color="#ee3377", alpha=0.12)
right.text(0.1, 1.2, "three points of the circle,\ntwo of the ellipse")
right.set(xlabel="shorter axis over longer axis", ylabel="widest margin for three points")
right.legend(frameon=False, loc="lower right")
for ax in (left, right):
    ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# Figure 2: the classifier
# ------------------------
# Fifty points of each class, from two Gaussians with the same covariance. Every feature is scaled
# to lie between zero and one, as is common before a support vector machine.
rng = np.random.default_rng(1)
root = np.linalg.cholesky([[17.0, 15.0], [15.0, 17.0]])
X = np.repeat([[1.0, 1.0], [50.0, 25.0]], 50, axis=0) + rng.normal(size=(100, 2)) @ root.T
X = (X - X.min(axis=0)) / np.ptp(X, axis=0)
y = np.repeat([0, 1], 50)

# A large C leaves no slack.
models = {
    "SVM": EllipsoidalKernelClassifier(kernel="linear", shape="none", C=1e6).fit(X, y),
    "EKM": EllipsoidalKernelClassifier(kernel="linear", C=1e6).fit(X, y),
}
ellipsoid = models["EKM"].ellipsoid_

# %%
# Panels (a) and (b) show the data as it is, with the margins of the two classifiers. In (c) and (d)
# the ellipse is mapped to the unit circle, and the margins with it. In the first row the support
# vector machine has the wider margin, in the second row the ellipsoidal kernel machine.


def draw_margin(ax, w, b, color):
    """Draw the line where the output is zero, and the edges of the margin."""
    limits = {"xlim": ax.get_xlim(), "ylim": ax.get_ylim()}
    along = np.array([-w[1], w[0]]) / np.linalg.norm(w)
    for level, style in ((0.0, "-"), (1.0, ":"), (-1.0, ":")):
        foot = (level - b) * w / (w @ w)
        ax.plot(*(foot + np.array([[-9], [9]]) * along).T, color=color, linestyle=style)
    ax.set(**limits)


fig, axes = plt.subplots(2, 2, figsize=(8, 8), layout="constrained")
for column, (name, model) in enumerate(models.items()):
    w, b = model.coef_[0], model.intercept_[0]
    # With x = μ + t F, the output w·x + b is (F w)·t + (w·μ + b).
    views = [
        (X, ellipsoid.inverse_transform(circle), w, b),
        (
            ellipsoid.transform(X),
            circle,
            ellipsoid.inverse_factor_ @ w,
            b + w @ ellipsoid.center_,
        ),
    ]
    for row, (points, curve, weights, bias) in enumerate(views):
        ax = axes[row, column]
        for label, color, marker in ((0, "#33bbee", "o"), (1, "#ee7733", "^")):
            ax.plot(*points[y == label].T, marker, color=color, markersize=4)
        ax.plot(*curve.T, color="#999999", linewidth=1.2)
        width = 2 / np.linalg.norm(weights)
        ax.set(aspect="equal", title=f"({'abcd'[2 * row + column]}) {name}, width {width:.3f}")
        draw_margin(ax, weights, bias, "#3b4252" if name == "SVM" else "#ee3377")
        ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# How good a width is depends on the extent of the data. The squared diameter divided by the squared
# width bounds the number of points that can be labelled in every way: for the support vector
# machine in the smallest circle, for the ellipsoidal kernel machine in the unit circle.
print(f"SVM in its circle          {vc_sphere(X, y).ratio:6.2f}")
print(f"EKM in its ellipse         {vc_ellipsoid(X, y).ratio:6.2f}")
print(f"gap of the ellipse         {ellipsoid.gap_:6.0e}")
print(f"gap of the margin                    {models['EKM'].dual_gap_[0]:6.0e}")

# %%
# Figure 3: with a kernel
# -----------------------
# With a kernel the ellipsoid is one in feature space, and what it cuts out of the plane can be an
# intricate set. The paper encloses all points. The number of directions is a choice that it leaves
# open: in all of them the points are the vertices of a simplex, whatever the data, so the ellipsoid
# carries no information.
X, y = make_moons(80, noise=0.25, random_state=3)
models = {"SVM": SVC(gamma=1.0, C=10).fit(X, y)}
for rank in (5, 20):
    model = EllipsoidalKernelClassifier(gamma=1.0, C=1000, rank=rank)
    models[f"EKM, rank {rank}"] = model.fit(X, y)

fig, axes = plt.subplots(2, 1, figsize=(7, 8), layout="constrained")
for label, color, marker in ((0, "#33bbee", "o"), (1, "#ee7733", "^")):
    axes[0].plot(*X[y == label].T, marker, color=color, markersize=4, label=label)
styles = zip(models.items(), ("#3b4252", "#ee3377", "#0077bb"), ("--", "-", ":"))
for (name, model), color, style in styles:
    DecisionBoundaryDisplay.from_estimator(
        model, X, eps=0.2, response_method="decision_function", plot_method="contour",
        levels=[0], colors=color, linestyles=style, ax=axes[0],
    )  # fmt: skip
    axes[0].plot([], [], color=color, linestyle=style, label=name)
axes[0].legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
axes[0].spines[["top", "right"]].set_visible(False)
del models["SVM"]
EllipsoidDisplay.from_estimator(models, X, y, ax=axes[1])
axes[0].set_title("boundaries")
axes[1].set_title("the ellipsoids in feature space, as seen in the plane")
plt.show()
