"""Names of the slots in a model's arrays, and the arrays as the compiled loops take them.

A model is a handful of arrays, so that compiled loops, copies and files need to know nothing else.
What a number in them means is said here and nowhere else: Numba treats these names as constants.
"""

from typing import NamedTuple

import numpy as np

# Structures of the covariance: the identity, a diagonal in the table, a matrix per output, a
# diagonal and a few directions of the precision.
NONE, DIAGONAL, FULL, SKETCH = range(4)

# How an example of several classes becomes examples of two: there are but two classes; the right
# class against the best wrong ones; each class against the rest; pairs of labels and a threshold.
SINGLE, TOP, EACH, RANK = range(4)

# Which change of the unit leaves a rule's decisions as they are: none, (2ᵏ w, 4ᵏ S), (w, 4ᵏ S).
UNIT_FIXED, UNIT_OF_BOTH, UNIT_OF_COVARIANCE = range(3)

# ``counters``: examples; changes of the model; wrong predictions; examples left out because their
# output had no variance; resets of the covariance; changes of the unit; variances held at the
# floor; exponent of the unit.
ROUNDS, UPDATES, MISTAKES, SKIPPED, RESETS, RESCALED, FLOORED, EXPONENT = range(8)
N_COUNTERS = 8

# ``codes``: structure, rule, task, steps per example, and which change of the unit is allowed.
STRUCTURE, RULE, TASK, STEPS, INVARIANCE = range(5)
N_CODES = 5

# ``settings``: the least margin at which the rule does nothing, three parameters of the rule (named
# in rules.py), value of the constant feature, smallest variance of a diagonal, initial variance of
# a weight, initial value of what the rule carries along, factor of the precision after an update.
LIMIT = 0
N_PARAMETERS = 4
BIAS, FLOOR, INITIAL_VARIANCE, INITIAL_MEMORY, FORGETTING = range(N_PARAMETERS, N_PARAMETERS + 5)
N_SETTINGS = N_PARAMETERS + 5
# A smaller factor of the precision would leave to rounding what remains of the prior.
LEAST_FORGETTING = 1e-6

# ``scale``, a row per output: the factor σ of the covariance, what the rule carries along, the
# number of directions of a sketch, and then the sigmoid of a calibration, if there is one: slope,
# offset, the inverse Hessian of both, the mean square of the outputs, the weight of the examples,
# and how the outputs behave.
SIGMA, MEMORY, DIRECTIONS = range(3)
N_PLAIN = 3
SLOPE, OFFSET, P_SLOPE, P_MIXED, P_OFFSET, SQUARE, WEIGHT, KIND = range(N_PLAIN, N_PLAIN + 8)
N_CALIBRATED = N_PLAIN + 8


# Where decisions of rows are not asked for; and those that no row has had yet.
NOTHING = np.empty((0, 0))
NOT_YET = np.inf


class Model(NamedTuple):
    """Arrays of a model; see :class:`oblong.solvers.online.state.OnlineState`."""

    table: np.ndarray
    covariance: np.ndarray
    scale: np.ndarray
    total: np.ndarray
    counters: np.ndarray
    work: np.ndarray
    settings: np.ndarray
    codes: np.ndarray
    units: np.ndarray


class Batch(NamedTuple):
    """Rows to learn from.

    Attributes
    ----------
    data, indices, indptr : ndarray
        The rows in CSR form; for dense rows ``indices`` is the list of all columns.
    order : ndarray of int
        Which rows, in which order.
    labels : ndarray of int, of shape (n_rows, 1) or (n_rows, n_labels)
        Number of the class, or whether each label is relevant.
    weights : ndarray of shape (n_rows,)
        Weights: as many copies of the row, the last one with a fraction of its cost. What is left
        of the weight of a row is written back if a loop stops there.
    dense : bool
        Whether the rows are dense.
    """

    data: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray
    order: np.ndarray
    labels: np.ndarray
    weights: np.ndarray
    dense: bool
