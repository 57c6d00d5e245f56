"""
Error against the bound
=======================

How tight should the bound be? From the support vector machine at large ``B`` the error falls to a
wide minimum as the bound becomes tighter, and rises again when it becomes too tight. This repeats
figure 6 of Shivaswamy and Jebara (2010).
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import norm

from oblong import RelativeMarginClassifier
from oblong.datasets import make_tilted_gaussians

# %%
# The data and the exact risk are those of
# :ref:`the previous example <sphx_glr_auto_examples_plot_05_error_against_stretch.py>`.
means = np.array([[19.0, 13.0], [1.0, 1.0]])
covariance = np.array([[17.0, 15.0], [15.0, 17.0]])


def risk(model):
    w, b = model.coef_[0], model.intercept_[0]
    scores, deviation = means @ w + b, np.sqrt(w @ covariance @ w)
    return 50 * (norm.cdf(scores[0] / deviation) + norm.cdf(-scores[1] / deviation))


bounds = np.array([1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10, 14])
draws = [make_tilted_gaussians(100, random_state=draw) for draw in range(50)]
errors = np.array(
    [
        [risk(RelativeMarginClassifier(kernel="linear", C=0.1, B=B).fit(X, y)) for B in bounds]
        for X, y in draws
    ]
)
svm = np.array(
    [risk(RelativeMarginClassifier(kernel="linear", C=0.1, spread=1).fit(X, y)) for X, y in draws]
)

# %%
# Fifty draws of 100 points, C = 0.1.
fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
deviation = errors.std(axis=0, ddof=1) / np.sqrt(len(errors))
ax.errorbar(bounds, errors.mean(axis=0), deviation, marker="o", capsize=3, color="#ee3377")
ax.axhline(svm.mean(), color="#3b4252", linestyle="--", label="support vector machine")
ax.set(xlabel="bound B", ylabel="error in %")
ax.set_xscale("log")
ax.set_xticks([1, 1.5, 2, 3, 4, 6, 8, 14], ["1", "1.5", "2", "3", "4", "6", "8", "14"])
ax.minorticks_off()
ax.legend(frameon=False)
ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# The same in numbers, with the fraction of draws in which the bound helped and hurt.
print("    B   error   better   worse")
for k, B in enumerate(bounds):
    better, worse = (np.mean(sign * (svm - errors[:, k]) > 1e-3) for sign in (1, -1))
    print(f"{B:5g} {errors[:, k].mean():7.2f} {better:8.0%} {worse:7.0%}")
