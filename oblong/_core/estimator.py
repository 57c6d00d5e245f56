"""The base of estimators, and kinds of parameters: each says once what its values may be.

An estimator is a dataclass of its parameters, and the type of a field is what scikit-learn
validates it against: ``C: Positive = 1.0``, ``rank: Count | None = None``, ``margin:
Literal["soft", "hard"] = "soft"``. Modules that declare parameters evaluate their annotations: they
do without ``from __future__ import annotations``.
"""

from dataclasses import fields
from functools import cache
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval, Options, StrOptions

_LARGEST_INTEGER = 2**63 - 1


class Numbers(Interval):
    """An interval of the numbers that arrays can hold; True and False are none."""

    def is_satisfied_by(self, val: Any) -> bool:
        if isinstance(val, bool) or not isinstance(val, self.type):
            return False
        try:
            number = float(val)
        except OverflowError:
            return False
        small = self.type is Real or abs(val) <= _LARGEST_INTEGER
        return small and super().is_satisfied_by(val if isinstance(val, Integral) else number)


# Numbers by their range; a share is a part of one.
Finite = Annotated[float, Numbers(Real, None, None, closed="neither")]
Positive = Annotated[float, Numbers(Real, 0.0, None, closed="neither")]
NotNegative = Annotated[float, Numbers(Real, 0.0, None, closed="left")]
AtLeastOne = Annotated[float, Numbers(Real, 1.0, None, closed="left")]
Fraction = Annotated[float, Numbers(Real, 0.0, 1.0, closed="both")]
PositiveFraction = Annotated[float, Numbers(Real, 0.0, 1.0, closed="right")]
FractionBelowOne = Annotated[float, Numbers(Real, 0.0, 1.0, closed="left")]
InnerFraction = Annotated[float, Numbers(Real, 0.0, 1.0, closed="neither")]
Confidence = Annotated[float, Numbers(Real, 0.5, 1.0, closed="neither")]
Natural = Annotated[int, Numbers(Integral, 0, None, closed="left")]
Count = Annotated[int, Numbers(Integral, 1, None, closed="left")]
# A number of steps, or -1 for no limit.
Limit = Annotated[int, Numbers(Integral, -1, None, closed="left")]

ArrayLike = Annotated[Any, "array-like"]
ClassWeight = Annotated[Any, StrOptions({"balanced"}), dict, None]
Folds = Annotated[Any, "cv_object"]
Gamma = Annotated[Any, StrOptions({"scale", "auto"}), *NotNegative.__metadata__]
RandomState = Annotated[Any, "random_state"]
Verbose = Annotated[int, "verbose"]


def constraints_of(kind: Any) -> list[Any]:
    """What scikit-learn has to hear of a kind of parameter to validate it."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return list(kind.__metadata__)
    if origin in (Union, UnionType):
        return [constraint for part in parts for constraint in constraints_of(part)]
    if origin is Literal:
        names = isinstance(parts[0], str)
        return [StrOptions(set(parts)) if names else Options(Integral, set(parts))]
    return [{bool: "boolean", int: Integral, NoneType: None}.get(kind, kind)]


class _Constraints:
    """The constraints of an estimator's parameters, by the types of its fields."""

    def __get__(self, estimator: object, kind: type) -> dict[str, list[Any]]:
        return _constraints(kind)


@cache
def _constraints(kind: Any) -> dict[str, list[Any]]:
    return {field.name: constraints_of(field.type) for field in fields(kind) if field.init}


class Estimator(BaseEstimator):
    """scikit-learn's base for dataclasses, with their parameters looked up once per class."""

    _parameter_constraints: Any = _Constraints()

    @classmethod
    @cache
    def _get_param_names(cls) -> list[str]:
        return super()._get_param_names()
