"""What a primal and a dual objective prove together."""

import sys


class PrimalDual:
    """Base of solutions that come with a certificate.

    Attributes
    ----------
    objective, dual_objective : float
        Value of the solution, and a lower bound of all values.
    rounding : float
        What rounding may hide in the two.
    """

    objective: float
    dual_objective: float
    rounding: float

    @property
    def gap(self) -> float:
        """Primal minus dual objective, rounding included: a bound on the error of both."""
        return max(self.objective - self.dual_objective, 0.0) + self.rounding

    @property
    def relative_gap(self) -> float:
        """The gap over the primal objective."""
        return self.gap / max(abs(self.objective), sys.float_info.min)
