"""
Three centres of a version space
================================

All weight vectors that classify the training rows without an error make up the version space. Any
of them is right for these rows; for new rows it seems best to take one that lies well inside. The
support vector machine, the ellipsoidal support vector machine and the Bayes point machine mean
different things by that: the centre of the largest ball, the centre of a large ellipsoid, and the
centre of mass.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.spatial import ConvexHull
from sklearn.svm import SVC

from oblong import BayesPointClassifier, EllipsoidalSVC

# %%
# A few points in the plane. A line has three weights, :math:`f(x) = w_1 x_1 + w_2 x_2 + w_3`, of
# which only the direction matters. So the version space is a piece of the sphere, cut out by one
# plane through the origin for each point. Rows are scaled to unit length in :math:`(x_1, x_2, 1)`,
# so that the margin of the support vector machine is a distance on the sphere.
rng = np.random.default_rng(7)
X = np.vstack(
    [rng.normal([-1.2, 0.4], [0.4, 0.9], (7, 2)), rng.normal([1.2, 0], [0.4, 0.9], (7, 2))]
)
y = np.repeat([-1.0, 1.0], 7)
rows = np.column_stack([X, np.ones(14)])
rows /= np.linalg.norm(rows, axis=1, keepdims=True)

plain = {"kernel": "linear", "fit_intercept": False}
bayes = BayesPointClassifier(**plain).fit(rows, y)
ellipsoidal = EllipsoidalSVC(margin="hard", r=0.999, **plain).fit(rows, y)
# With every row and its mirror image, the support vector machine has no intercept.
svm = SVC(kernel="linear", C=1e8, tol=1e-8).fit(np.vstack([rows, -rows]), np.append(y, -y))
centres = {
    "SVM: ball": (svm.coef_[0], "#3b4252", "o"),
    "e-SVM: ellipsoid": (ellipsoidal.coef_[0], "#ee3377", "s"),
    "Bayes point: mass": (bayes.coef_[0], "#009988", "*"),
}

# %%
# To see where the Bayes point ought to be, draw directions at random and keep those that classify
# all points correctly. The fraction of the directions that is kept is the evidence of the model.
# Expectation propagation replaces the piece of the sphere by a Gaussian: it gets the centre right,
# and the size roughly. The sampler comes arbitrarily close.
draws = rng.normal(size=(2_000_000, 3))
draws = draws[((draws @ rows.T) * y > 0).all(axis=1)]
mean = (draws / np.linalg.norm(draws, axis=1, keepdims=True)).mean(axis=0)
sampler = BayesPointClassifier(method="sampling", n_samples=50_000, random_state=0, **plain)
compared = {name: w for name, (w, _, _) in centres.items()}
compared["Bayes point by sampling"] = sampler.fit(rows, y).coef_[0]
for name, w in compared.items():
    cosine = w @ mean / np.linalg.norm(w) / np.linalg.norm(mean)
    print(f"{name:24s} cosine to the centre of mass {cosine:.5f}")
print(f"fraction of all directions: {len(draws) / 2_000_000:.5f}")
print(f"by expectation propagation: {np.exp(bayes.log_evidence_[0]):.5f}")

# %%
# The picture on the left shows the sphere as seen from its centre: planes become straight lines,
# the version space a polygon. The support vector machine sits in the wide end, where the largest
# ball fits. The ellipsoid reaches further, and its centre is close to the centre of mass. On the
# right are the three lines that belong to the centres.
axis = mean / np.linalg.norm(mean)
directions = draws / (draws @ axis)[:, None]
_, _, frame = np.linalg.svd(directions[:5000] - axis, full_matrices=False)


def chart(W):
    """Project directions from the centre of the sphere to the plane that touches it."""
    return (W / (W @ axis)[:, None]) @ frame[:2].T


def outline(w, E):
    """Draw what an ellipsoid ``w + E u`` looks like: as large as fits in the version space."""
    room = (y * (rows @ w) / np.linalg.norm(rows @ E, axis=1)).min()
    u = rng.normal(size=(20_000, 3))
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    points = chart(w + room * u @ E)
    corners = ConvexHull(points).vertices
    return points[np.append(corners, corners[0])]


fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
seen = chart(draws)
left.fill(*seen[ConvexHull(seen).vertices].T, color="#e5e9f0", edgecolor="#999999", zorder=0)
left.plot(*seen[:3000].T, ".", color="#bbbbbb", markersize=1.5, zorder=1)
shapes = {"SVM: ball": np.eye(3), "e-SVM: ellipsoid": ellipsoidal.B_}
for name, (w, color, marker) in centres.items():
    if name in shapes:
        left.plot(*outline(w, shapes[name]).T, color=color, linewidth=1.2)
    left.plot(*chart(w[None]).T, marker, color=color, markersize=10, label=name)
left.set(aspect="equal", title="the version space, seen from the centre of the sphere")
left.legend(frameon=False, loc="best")
left.set_axis_off()

for label, color, marker in ((-1, "#33bbee", "o"), (1, "#ee7733", "^")):
    right.plot(*X[y == label].T, marker, color=color)
limits = {"xlim": right.get_xlim(), "ylim": right.get_ylim()}
height = np.array([-5.0, 5.0])
for w, color, _ in centres.values():
    right.plot(-(w[1] * height + w[2]) / w[0], height, color=color)
right.set(**limits, title="the lines of the three centres")
right.spines[["top", "right"]].set_visible(False)
plt.show()
