"""
Choosing the spread
===================

``spread`` runs from 1, the support vector machine, down to 0, the tightest bound. This example
shows the test error and the relative margin in between, on handwritten digits: is the digit below
five or not?
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.preprocessing import normalize

from oblong import RelativeMarginClassifier

# %%
# Every image is scaled to unit length and compared by a polynomial kernel, as in section 5.2 of
# the paper. Ten random splits train on 400 images and test on the others.
X, digit = load_digits(return_X_y=True)
X, y = normalize(X), digit < 5
spreads = [1, 0.7, 0.5, 0.35, 0.25, 0.15, 0.1, 0.05, 0.02, 0]
splits = StratifiedShuffleSplit(n_splits=10, train_size=400, random_state=0)

errors, margins = [], []
for train, test in splits.split(X, digit):
    for spread in spreads:
        model = RelativeMarginClassifier(
            kernel="poly", degree=5, gamma=1, coef0=1, C=1, spread=spread
        ).fit(X[train], y[train])
        errors.append(1 - model.score(X[test], y[test]))
        margins.append(model.relative_margin_[0])
errors = 100 * np.reshape(errors, (10, -1))
margins = np.reshape(margins, (10, -1))

# %%
# Read the picture from right to left, from the support vector machine to tighter bounds.
fig, (top, bottom) = plt.subplots(2, figsize=(7, 5), sharex=True, layout="constrained")
mean, deviation = errors.mean(axis=0), errors.std(axis=0, ddof=1) / np.sqrt(len(errors))
top.errorbar(spreads, mean, deviation, marker="o", capsize=3, color="#ee3377")
top.axhline(mean[0], color="#3b4252", linestyle="--", label="support vector machine")
top.set_ylabel("test error in %")
top.legend(frameon=False)
bottom.plot(spreads, margins.mean(axis=0), marker="o", color="#ee3377")
bottom.set_ylabel("relative margin")
bottom.set_xlabel("spread")
for ax in (top, bottom):
    ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# Is it better than chance? Each split gives one difference.
best = int(mean.argmin())
difference = errors[:, 0] - errors[:, best]
print(f"support vector machine  {mean[0]:.2f} %")
print(f"spread {spreads[best]:<4g}             {mean[best]:.2f} %")
print(f"better in {np.sum(difference > 0)} of {len(difference)} splits")

# %%
# The best spread was chosen on the test rows here, which is slightly optimistic. In practice,
# choose it by cross-validation on the training rows, as :ref:`the next example
# <sphx_glr_auto_examples_plot_04_drop_in.py>` does.
