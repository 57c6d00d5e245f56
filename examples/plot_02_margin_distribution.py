"""
How outputs are distributed
===========================

The output of a row times its label is large where the classifier is confident, and negative where
it is wrong. A support vector machine penalises small values only. The relative margin machine also
limits large ones, and that changes which rows determine the boundary.

These are the models of :doc:`the five-minute start </quickstart>`.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import normalize
from sklearn.svm import SVC

from oblong import RelativeMarginClassifier
from oblong.display import MarginDisplay

X, digit = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(
    normalize(X), digit < 5, test_size=0.5, random_state=0
)
kernel = {"kernel": "poly", "degree": 5, "gamma": 1, "coef0": 1}
models = {
    "SVM": SVC(**kernel).fit(X_train, y_train),
    "relative margin": RelativeMarginClassifier(**kernel, spread=0.1).fit(X_train, y_train),
}
MarginDisplay.from_estimator(models, X_train, y_train)
plt.show()

# %%
# On new rows the outputs are not constrained, yet most of them stay within the same range.
MarginDisplay.from_estimator(models, X_test, y_test)
plt.show()

# %%
# The rows at the bound are support vectors as well. A tighter bound has more of them.
print("spread   bound   relative margin   support vectors")
for spread in (1, 0.5, 0.25, 0.1):
    model = RelativeMarginClassifier(**kernel, spread=spread).fit(X_train, y_train)
    print(
        f"{spread:6g} {model.B_[0]:7.2f} {model.relative_margin_[0]:17.2f}"
        f" {len(model.support_):17d}"
    )
