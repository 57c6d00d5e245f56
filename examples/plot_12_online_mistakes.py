"""
Mistakes on a stream: when second order helps
=============================================

An online learner sees one example at a time: it predicts, is told the label, and learns. It is
judged by its number of mistakes. First-order learners move their weights along the example;
second-order learners also keep a covariance, which says how uncertain each direction of the weights
still is, and move farther where the uncertainty is larger. Here they run side by side on the
synthetic stream of Crammer, Dredze and Pereira, "Exact Convex Confidence-Weighted Learning" (2008),
on a noisy version of it, and on handwritten digits.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

from oblong import (
    AROWClassifier,
    ConfidenceWeightedClassifier,
    PassiveAggressiveClassifier,
    SecondOrderPerceptron,
    SoftConfidenceWeightedClassifier,
)
from oblong.datasets import make_rotated_stripe
from oblong.display import RegretDisplay

# %%
# The stream of the paper
# -----------------------
# Two features matter. They come from a Gaussian that is twice as long as it is wide and rotated by
# 45 degrees, and the long axis separates the classes. The other 18 features are noise with a larger
# variance. The paper does not give the length of the axis; this one comes close to its figures.
X, y = make_rotated_stripe(1000, random_state=42)
rng = np.random.default_rng(42)
plain = {"fit_intercept": False}
learners = {
    "passive-aggressive": PassiveAggressiveClassifier(variant=2, C=0.003, **plain),
    "second-order perceptron": SecondOrderPerceptron(**plain),
    "CW, diagonal": ConfidenceWeightedClassifier(confidence=0.8, covariance="diag", **plain),
    "AROW, full": AROWClassifier(**plain),
    "CW, full": ConfidenceWeightedClassifier(confidence=0.95, **plain),
}

# %%
# What a wrong label does
# -----------------------
# Confidence-weighted learning enforces every example, also those whose label is wrong. So there
# is a second stream with one wrong label in ten, and one more learner: SCW, which like AROW
# weighs an example against the earlier ones. Parameters were tuned on other draws,
# those of CW on draws without wrong labels.
flipped = np.where(rng.random(1000) < 0.1, 1 - y, y)
soft = SoftConfidenceWeightedClassifier(confidence=0.75, C=0.2, **plain)

options = {"n_repeats": 10, "n_points": 50, "random_state": 0}
fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
RegretDisplay.from_estimator(learners, X, y, ax=left, **options)
left.set_title("all labels right")
with warnings.catch_warnings():
    # They say that the classes do not seem to be separable.
    warnings.simplefilter("ignore", ConvergenceWarning)
    noisy = RegretDisplay.from_estimator(
        {**learners, "SCW, full": soft}, X, flipped, ax=right, **options
    )
right.set(title="one label in ten wrong", ylabel="")
plt.show()

# %%
# Each curve is the mean of 10 orders of the examples, with a band of one standard deviation. On the
# left, the learner without a covariance makes the most mistakes, a variance for each weight helps,
# and the full matrix, which captures correlations of features, helps more. On the right, only
# the soft rules, AROW and SCW, do better than no covariance; the strict ones do worse. About 100
# mistakes are due to the labels, whatever the learner does:
for name, counts in noisy.mistakes.items():
    print(f"{name:24s} {counts[:, -1].mean():6.1f} ± {counts[:, -1].std():4.1f}")

# %%
# Handwritten digits
# ------------------
# Ten classes, 64 pixels. Each class has its own weights and its own covariance. Curves now show the
# fraction of mistakes so far; parameters were tuned on other orders.
X, y = load_digits(return_X_y=True)
X = X / 16.0
learners = {
    "passive-aggressive": PassiveAggressiveClassifier(variant=2, C=0.03),
    "AROW, diagonal": AROWClassifier(covariance="diag"),
    "AROW, full": AROWClassifier(),
    "SCW, full": SoftConfidenceWeightedClassifier(),
}
display = RegretDisplay.from_estimator(learners, X, y, rate=True, **options)
display.ax_.set(ylim=(0, 0.3), title="digits")
plt.show()
