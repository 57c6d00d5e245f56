"""
Which label to ask for
======================

Labels cost money, rows do not. A Gaussian learner knows the mean and the standard deviation of the
output on every row, and can ask for the label of the row whose sign is the most uncertain: the one
with the smallest mean in units of the standard deviation.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from oblong import AROWClassifier

# %%
# Even and odd digits, from scans of different contrast. The learner starts with ten labels of
# either kind and then asks for one at a time. Three ways to choose: at random; the smallest output;
# the smallest output in units of its standard deviation, by ``margin_mean_std``.
X, digit = load_digits(return_X_y=True)
contrast = np.random.default_rng(0).lognormal(sigma=0.7, size=(len(X), 1))
X, odd = contrast * X / 16.0, digit % 2 == 1


def at_random(model, pool, rng):
    return rng.integers(len(pool))


def smallest_output(model, pool, rng):
    mean, _ = model.margin_mean_std(pool)
    return np.argmin(np.abs(mean))


def least_sure(model, pool, rng):
    mean, deviation = model.margin_mean_std(pool)
    return np.argmin(np.abs(mean) / deviation)


def learn_actively(choose, seed, n_labels=200):
    """Return the test error after every ten labels that were asked for."""
    rng = np.random.default_rng(seed)
    pool, X_test, labels, y_test = train_test_split(X, odd, test_size=0.5, random_state=seed)
    first = np.concatenate([np.flatnonzero(labels == kind)[:10] for kind in (False, True)])
    model = AROWClassifier(r=0.1, fit_intercept=False)
    model.partial_fit(pool[first], labels[first], classes=[False, True])
    pool, labels = np.delete(pool, first, axis=0), np.delete(labels, first)
    errors = []
    for count in range(1, n_labels + 1):
        asked = choose(model, pool, rng)
        model.learn_one(pool[asked], labels[asked])
        pool, labels = np.delete(pool, asked, axis=0), np.delete(labels, asked)
        if count % 10 == 0:
            errors.append(1.0 - model.score(X_test, y_test))
    return errors


# %%
# Five divisions of the data into a pool and test rows.
fig, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
for choose, color, style in (
    (at_random, "#3b4252", "--"),
    (smallest_output, "#0077bb", ":"),
    (least_sure, "#ee3377", "-"),
):
    errors = np.array([learn_actively(choose, seed) for seed in range(5)])
    mean, spread = errors.mean(axis=0), errors.std(axis=0)
    labels = 20 + 10 * np.arange(1, errors.shape[1] + 1)
    name = choose.__name__.replace("_", " ")
    ax.plot(labels, mean, color=color, linestyle=style, label=name)
    ax.fill_between(labels, mean - spread, mean + spread, color=color, alpha=0.1, linewidth=0)
    print(f"{name:16s} error after 100, 220 labels:", *mean[[7, 19]].round(3))
ax.set(xlabel="labels", ylabel="test error", ylim=(0, None))
ax.legend(frameon=False)
ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# Asking for the labels of uncertain rows needs about half as many labels for the same error. The
# standard deviation makes a further, smaller difference.
