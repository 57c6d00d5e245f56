"""The learners, and data for them, that the tests of what all have in common go through."""

from __future__ import annotations

import numpy as np

from oblong import (
    AROWClassifier,
    ClassicalEllipsoidClassifier,
    ConfidenceWeightedClassifier,
    ImprovedEllipsoidClassifier,
    KernelConfidenceWeightedClassifier,
    NormalHerdClassifier,
    OnlineEllipsoidalSVC,
    PassiveAggressiveClassifier,
    SecondOrderPerceptron,
    SoftConfidenceWeightedClassifier,
)

# Every rule once, by name.
LEARNERS = {
    "PA": PassiveAggressiveClassifier(variant=0),
    "PA-I": PassiveAggressiveClassifier(variant=1, C=0.3),
    "PA-II": PassiveAggressiveClassifier(variant=2, C=0.3),
    "SOP": SecondOrderPerceptron(a=0.7),
    "AROW": AROWClassifier(r=0.8),
    "NHERD": NormalHerdClassifier(C=0.4),
    "CW-Stdev": ConfidenceWeightedClassifier(),
    "CW-Var": ConfidenceWeightedClassifier(variant="var"),
    "SCW-I": SoftConfidenceWeightedClassifier(C=0.2),
    "SCW-II": SoftConfidenceWeightedClassifier(variant=2, C=0.2),
    "CELLIP": ClassicalEllipsoidClassifier(a=0.5),
    "CELLIP-minvol": ClassicalEllipsoidClassifier(ellipsoid="minvol", trigger="mistake"),
    "IELLIP": ImprovedEllipsoidClassifier(),
    "IELLIP-b1": ImprovedEllipsoidClassifier(b=1.0, c=0.05),
}
SECOND_ORDER = {k: v for k, v in LEARNERS.items() if not k.startswith("PA")}
GAUSSIAN = {k: v for k, v in SECOND_ORDER.items() if "ELLIP" not in k}
MULTILABEL = {k: v for k, v in LEARNERS.items() if "ELLIP" in k or k.startswith("PA")}

# Every learner with other options than usual, for the checks of scikit-learn.
VARIETY = [
    AROWClassifier(),
    AROWClassifier(covariance="diag", multi_class="ovr", early_stopping=True),
    ConfidenceWeightedClassifier(),
    ConfidenceWeightedClassifier(variant="var", covariance="diag", fit_intercept=False),
    SoftConfidenceWeightedClassifier(),
    SoftConfidenceWeightedClassifier(variant=2, covariance="diag"),
    NormalHerdClassifier(),
    NormalHerdClassifier(covariance="diag"),
    SecondOrderPerceptron(covariance="sketch", sketch_size=2),
    PassiveAggressiveClassifier(calibration="platt"),
    KernelConfidenceWeightedClassifier(),
    KernelConfidenceWeightedClassifier(kernel="linear", budget=3, multi_class="kbest"),
    PassiveAggressiveClassifier(),
    PassiveAggressiveClassifier(variant=2, multi_class="kbest", average=True),
    ClassicalEllipsoidClassifier(),
    ImprovedEllipsoidClassifier(),
    ImprovedEllipsoidClassifier(covariance="diag", b=1.0, multilabel="rank"),
    OnlineEllipsoidalSVC(),
    OnlineEllipsoidalSVC(formulation="paper", batch_size=4, early_stopping=True),
]


def clouds(n=300, d=6, classes=2, noise=0.05, seed=0):
    """Rows of a linear problem whose features differ in scale, some labels wrong."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * np.geomspace(0.3, 2.0, d) + 0.2
    W = rng.normal(size=(d, classes))
    y = (X @ W + 0.1 * rng.normal(size=(n, classes))).argmax(axis=1)
    wrong = rng.random(n) < noise
    y[wrong] = rng.integers(0, classes, wrong.sum())
    return X, y


def label_sets(n=300, d=6, labels=4, seed=0):
    """Rows with any number of labels."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, (X @ rng.normal(size=(d, labels)) + 0.3 > 0).astype(int)
