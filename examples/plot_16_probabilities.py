"""
Probabilities that agree, sets that cover
=========================================

A margin classifier has outputs, not probabilities. ``CalibratedMarginClassifier`` learns from
cross-fitted outputs how far to trust them, and predicts what the classifier predicts.
"""

import matplotlib.pyplot as plt
from sklearn.calibration import CalibratedClassifierCV, CalibrationDisplay
from sklearn.datasets import make_classification

from oblong import CalibratedMarginClassifier, RelativeMarginClassifier
from oblong.display import SetSizeDisplay

# %%
# Two classes, one of them rarer, with one label in ten wrong. scikit-learn's calibration fits the
# same kind of sigmoid. On some rows its more probable class is not what the classifier predicts.
X, y = make_classification(4000, 6, n_informative=4, weights=[0.7], flip_y=0.1, random_state=0)
train, test = slice(0, 800), slice(800, None)
margin = RelativeMarginClassifier(spread=0.25)
models = {
    "oblong": CalibratedMarginClassifier(margin).fit(X[train], y[train]),
    "scikit-learn": CalibratedClassifierCV(margin, ensemble=False).fit(X[train], y[train]),
}
predicted = models["oblong"].predict(X[test])
for name, model in models.items():
    contradictions = (model.predict_proba(X[test]).argmax(axis=1) != predicted).sum()
    print(f"{name}: {contradictions} contradictions in {len(predicted)} rows")

# %%
# Of the rows with a probability of 0.8, about four in five belong to the class.
figure, ax = plt.subplots(figsize=(4.6, 4.4), layout="constrained")
for name, model in models.items():
    CalibrationDisplay.from_estimator(
        model, X[test], y[test], n_bins=10, strategy="quantile", name=name, ax=ax
    )
ax.set_aspect("equal")
plt.show()

# %%
# A set names every class that cannot be ruled out at some confidence. The coverage holds for each
# class, including the rare one. At low confidence sets become empty, at high confidence they
# contain both classes.
SetSizeDisplay.from_estimator(models["oblong"], X[test], y[test])
plt.show()

# %%
# The p-values behind the sets tell two kinds of doubt apart: rows between the classes, for which
# both are plausible, and rows that look like neither.
p = models["oblong"].predict_p(X[test])
between = (p.min(axis=1) > 0.1).sum()
neither = (p.max(axis=1) < 0.1).sum()
print(f"both plausible: {between}, neither: {neither}")
