"""Online learners: one example after the other, in memory or from a stream.

Every learner is the same compiled pass over the examples with a rule of its own, and an example
does not know where it came from: :meth:`fit`, :meth:`partial_fit`, :meth:`learn_one` and merged
shards all run the one loop in ``oblong.solvers.online``.

Adding a learner
----------------
1. *The rule*, in ``oblong/solvers/online/rules.py``: a new number beside the others and a branch of
   :func:`~oblong.solvers.online.rules.respond`, which maps the margin ``m`` and its variance ``v``
   to the step ``α``, the increment of the precision ``τ`` and the factor of the shape ``λ``::

       w ← w + α y S x,        S⁻¹ ← (S⁻¹ + τ x x') / λ

   That is all there is for full and diagonal shapes, dense and sparse rows, single and double
   precision, two or more classes, label sets, weights and averages. Many a learner needs no new
   branch: the second-order perceptron is AROW that learns from mistakes only. Then delete the
   cached code of its callers, as the docstring of the file says.
2. *The estimator*, one file here: a subclass of :class:`~oblong.online._base.SecondOrderClassifier`
   (or of ``OnlineClassifier`` if it has no shape matrix) with its parameters, their constraints,
   and ``_rule``, which returns a :class:`~oblong.solvers.online.rules.Rule`: the number, the limit
   (margins from which on nothing happens; ``MISTAKE`` to learn from mistakes only; infinity if that
   depends on the variance), up to three parameters, the initial value of what the rule carries
   along, whether its cost can be scaled by a weight (``soft``), under which change of the unit
   its decisions stay the same (``invariance``), and the floor of diagonal variances.
   ``_variance`` gives the initial variance. Class attributes: ``_gaussian`` (there are
   probabilities), ``_multilabel`` (indicator matrices are taken; a parameter
   ``multilabel="ovr" | "rank"`` goes with it) and ``_product`` (merged models multiply, which
   takes ``λ = 1``).
3. *Exports*: here, in ``oblong/__init__.py``, and in ``oblong/cli/streaming/learners.py``.
4. *Tests*: a line in each list of ``tests/online/learners.py``, which scikit-learn's checks and the
   tests of the invariances go through, and the closed form against a convex solver in
   ``tests/online/test_rules.py``.
"""

from oblong.online.arow import AROWClassifier
from oblong.online.classical_ellipsoid import ClassicalEllipsoidClassifier
from oblong.online.confidence_weighted import ConfidenceWeightedClassifier
from oblong.online.improved_ellipsoid import ImprovedEllipsoidClassifier
from oblong.online.kernel_confidence_weighted import KernelConfidenceWeightedClassifier
from oblong.online.normal_herd import NormalHerdClassifier
from oblong.online.online_ellipsoidal_svc import OnlineEllipsoidalSVC
from oblong.online.passive_aggressive import PassiveAggressiveClassifier
from oblong.online.second_order_perceptron import SecondOrderPerceptron
from oblong.online.soft_confidence_weighted import SoftConfidenceWeightedClassifier

__all__ = [
    "AROWClassifier",
    "ClassicalEllipsoidClassifier",
    "ConfidenceWeightedClassifier",
    "ImprovedEllipsoidClassifier",
    "KernelConfidenceWeightedClassifier",
    "NormalHerdClassifier",
    "OnlineEllipsoidalSVC",
    "PassiveAggressiveClassifier",
    "SecondOrderPerceptron",
    "SoftConfidenceWeightedClassifier",
]
