"""One round of a learner: count, judge, calibrate, ask the rule, keep numbers in range.

The loops of :mod:`oblong.solvers.online.passes` differ in how they get margins, variances and
updates. What they do with them is written here, once, in functions that are inlined into them. They
take the arrays they need and not a whole model, with which the compiler would not inline them.
"""

import math

from oblong._core.compile import compiled
from oblong.solvers.online import slots
from oblong.solvers.online.calibration import calibrate, calibrate_copies, decide
from oblong.solvers.online.rules import respond
from oblong.solvers.online.structures.full import LN_2

# Updates between two looks at the size of a full covariance.
LOOK = 32
# Variances below are round-off of a covariance that has vanished.
_TINY = 1e-280


@compiled
def begin(wrong, task, scores, labels, weight, scale, counters, record, place):
    """Count an example, and whether it is predicted wrongly; note its decisions; calibrate."""
    if record.shape[0] > 0:
        decide(task, scores, scale, record[place])
    counters[slots.ROUNDS] += 1
    counters[slots.MISTAKES] += wrong
    if scale.shape[1] > slots.N_PLAIN:
        calibrate(task, scores, labels, scale, weight)


@compiled
def answer(rule, m, v, weight, settings, numbers, counters, again):
    """Ask the rule about a margin and its variance, and count what it says.

    Returns the step, the increment of the precision, and the factor of the covariance: if that is
    zero, the rule is to be asked again after a reset. ``numbers`` are those of the output whose
    memory counts.
    """
    if not _TINY < v < math.inf:
        counters[slots.SKIPPED] += 1
        return 0.0, 0.0, 1.0
    step, precision, factor = respond(
        rule, m, v, weight, settings, numbers, counters[slots.ROUNDS], again
    )
    if factor <= 0.0:
        counters[slots.RESETS] += 1
    elif step > 0.0:
        counters[slots.UPDATES] += 1
    return step, precision, factor


@compiled
def skip_copies(task, scores, labels, weight, wrong, scale, counters):
    """Count further copies of an example that changed nothing: they find the same model."""
    if scale.shape[1] > slots.N_PLAIN:
        calibrate_copies(task, scores, labels, scale, weight)
    copies = math.ceil(weight)
    counters[slots.ROUNDS] += copies
    counters[slots.MISTAKES] += copies * wrong


@compiled
def reset(structure, table, covariance, scale, k, initial):
    """Put the covariance of an output back to its initial value."""
    n_outputs = scale.shape[0]
    scale[k, slots.SIGMA] = 1.0
    scale[k, slots.DIRECTIONS] = 0.0
    if structure == slots.FULL:
        for r in range(covariance.shape[1]):
            row = covariance[k, r]
            for c in range(row.size):
                row[c] = 0.0
            row[r] = initial
        return
    for j in range(table.shape[0]):
        table[j, n_outputs + k] = initial
    if structure == slots.SKETCH:
        for j in range(table.shape[0]):
            table[j, 2 * n_outputs + k] = 1.0 / initial
        for r in range(covariance.shape[1]):
            for c in range(covariance.shape[2]):
                covariance[k, r, c] = 0.0


@compiled
def rescale_factors(scale, k):
    """Multiply the factors of all covariances by a power of two if that of output ``k`` is far."""
    if not 2.0**-200 < scale[k, slots.SIGMA] < 2.0**200:
        power = 2.0 ** -math.floor(math.log(scale[k, slots.SIGMA]) / LN_2)
        for o in range(scale.shape[0]):
            scale[o, slots.SIGMA] *= power
