"""Online learners: one example after the other, in memory or from a stream.

An example does not know where it came from: :meth:`fit`, :meth:`partial_fit`, :meth:`learn_one`
and streams all go through the same round, in ``oblong/solvers/online/round.py``, with the rule of
the learner. ``incremental.py`` makes room for features and classes that appear, and
``progressive.py`` validates a learner on a stream.

Adding a learner
----------------
1. *The rule*, in ``oblong/solvers/online/rules.py``: a new number beside the others, a function
   that makes a :class:`~oblong.solvers.online.rules.Rule` of its parameters, and a branch of
   :func:`~oblong.solvers.online.rules.respond`, which maps the margin ``m`` and its variance ``v``
   to the step ``α``, the increment of the precision ``τ`` and the factor of the covariance ``λ``::

       w ← w + α y S x,        S⁻¹ ← (S⁻¹ + τ x x') / λ

   Nothing else is needed for full, diagonal and sketched covariances, dense and sparse rows, single
   and double precision, two or more classes, label sets, weights and averages. Many a learner needs
   no new branch: the second-order perceptron is AROW that learns from mistakes only.
2. *The estimator*, one file here: a subclass of
   :class:`~oblong.online._linear.GaussianClassifier` (or of ``SecondOrderClassifier`` if outputs
   have no probabilities, of ``LinearOnlineClassifier`` if there is no covariance), a dataclass of
   its own parameters and ``_rule``. ``_variance`` gives the initial one. Class
   attributes: ``_multilabel`` (indicator matrices are taken; a parameter
   ``multilabel="ovr" | "rank"`` goes with it) and ``_product`` (merged models multiply, which takes
   ``λ = 1``).
3. *Exports*: here, and in ``oblong/cli/streaming/learners.py``.
4. *Tests*: a line in each list of ``tests/online/learners.py``, which scikit-learn's checks and the
   tests of the invariances go through, and the closed form against a convex solver in
   ``tests/solvers/online/test_rules.py``.
"""

from typing import TYPE_CHECKING

from oblong._core.lazy import lazy_names

if TYPE_CHECKING:
    from oblong.online.arow import AROWClassifier
    from oblong.online.classical_ellipsoid import ClassicalEllipsoidClassifier
    from oblong.online.confidence_weighted import ConfidenceWeightedClassifier
    from oblong.online.improved_ellipsoid import ImprovedEllipsoidClassifier
    from oblong.online.kernel_confidence_weighted import KernelConfidenceWeightedClassifier
    from oblong.online.normal_herd import NormalHerdClassifier
    from oblong.online.online_ellipsoidal_svc import OnlineEllipsoidalSVC
    from oblong.online.passive_aggressive import PassiveAggressiveClassifier
    from oblong.online.progressive import progressive_validation
    from oblong.online.second_order_perceptron import SecondOrderPerceptron
    from oblong.online.soft_confidence_weighted import SoftConfidenceWeightedClassifier

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "oblong.online.arow": ["AROWClassifier"],
        "oblong.online.classical_ellipsoid": ["ClassicalEllipsoidClassifier"],
        "oblong.online.confidence_weighted": ["ConfidenceWeightedClassifier"],
        "oblong.online.improved_ellipsoid": ["ImprovedEllipsoidClassifier"],
        "oblong.online.kernel_confidence_weighted": ["KernelConfidenceWeightedClassifier"],
        "oblong.online.normal_herd": ["NormalHerdClassifier"],
        "oblong.online.online_ellipsoidal_svc": ["OnlineEllipsoidalSVC"],
        "oblong.online.passive_aggressive": ["PassiveAggressiveClassifier"],
        "oblong.online.progressive": ["progressive_validation"],
        "oblong.online.second_order_perceptron": ["SecondOrderPerceptron"],
        "oblong.online.soft_confidence_weighted": ["SoftConfidenceWeightedClassifier"],
    },
)

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
    "progressive_validation",
]
