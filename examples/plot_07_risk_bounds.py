"""
What the risk bounds use
========================

The same points, labelled in two ways: along their long direction and across it. The margin is the
same, so the classical bound on the risk of a support vector machine cannot tell the two apart.
Bounds that measure the margin against the spread of the data can. This repeats table 1 of
Shivaswamy and Jebara (2010) on a stand-in for its data.
"""

import matplotlib.pyplot as plt
import numpy as np

from oblong.bounds import data_terms
from oblong.datasets import make_bound_toys

# %%
# The paper shows its points only as a picture. These were made to agree with the bounds it prints.
fig, axes = plt.subplots(1, 2, figsize=(9, 2.2), sharey=True, layout="constrained")
for toy, ax in zip((1, 2), axes):
    X, y = make_bound_toys(toy)
    for label, color, marker in ((0, "#0077bb", "o"), (1, "#cc3311", "^")):
        ax.plot(*X[y == label][::4].T, marker, color=color, markersize=3)
    ax.set(title=f"toy {toy}", aspect="equal")
    ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# Complexity over margin, twice, is what the data contributes to each bound. ``D`` weighs the spread
# against the norm; at ``D = 0`` all three are the support vector machine's.
print("                     toy 1   toy 2")
terms = {toy: data_terms(*make_bound_toys(toy), D=0.999) for toy in (1, 2)}
for name, title in (("svm", "SVM"), ("sigma", "Sigma-SVM"), ("rmm", "relative margin")):
    print(f"{title:18} {getattr(terms[1], name):7.3f} {getattr(terms[2], name):7.3f}")

# %%
# In toy 1 the wide direction is the one that matters and the norm is the right measure: the curves
# rise with ``D``. In toy 2 they fall by half. You do not know beforehand which of the two cases you
# have, so choose ``D`` (or the bound of the relative margin machine) by validation.
grid = 1 - np.logspace(0, -4, 25)
fig, axes = plt.subplots(1, 2, figsize=(9, 3.4), sharey=True, layout="constrained")
for toy, ax in zip((1, 2), axes):
    curves = [data_terms(*make_bound_toys(toy), D=D) for D in grid]
    for name, title, color in (
        ("svm", "SVM", "#3b4252"),
        ("sigma", "Sigma-SVM", "#009988"),
        ("rmm", "relative margin", "#ee3377"),
    ):
        ax.plot(1 - grid, [getattr(terms, name) for terms in curves], color=color, label=title)
    ax.set(title=f"toy {toy}", xlabel="1 − D", xscale="log")
    ax.invert_xaxis()
    ax.spines[["top", "right"]].set_visible(False)
axes[0].set_ylabel("data term of the bound")
axes[0].legend(frameon=False)
plt.show()

# %%
# The terms are diagnostics. The paper's proof for the two classifiers that use the spread of the
# training data itself has gaps, so only the bound of the support vector machine is a theorem.
