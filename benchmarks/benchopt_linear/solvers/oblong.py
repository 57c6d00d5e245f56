import warnings

import numpy as np
from benchopt import BaseSolver
from benchopt.stopping_criterion import SufficientProgressCriterion


class Solver(BaseSolver):
    name = "oblong"
    requirements = ["pip::oblong"]
    sampling_strategy = "tolerance"
    stopping_criterion = SufficientProgressCriterion(patience=5)

    def set_objective(self, X, y, C, B):
        from oblong import LinearRelativeMarginClassifier

        self.X, self.y = X, y
        bound = {"spread": 1.0} if np.isinf(B) else {"B": B}
        self.model = LinearRelativeMarginClassifier(C=C, max_iter=-1, fit_intercept=False, **bound)

    def warm_up(self):
        # Compiles what is not on disk yet.
        self.run_once()

    def get_next(self, tol):
        # The first is infinite.
        return min(tol, 1.0) / 10

    def run(self, tol):
        with warnings.catch_warnings():
            # Beyond the precision of the numbers no tolerance is met.
            warnings.simplefilter("ignore")
            self.model.set_params(tol=min(max(tol, 1e-13), 0.1)).fit(self.X, self.y)

    def get_result(self):
        return {"w": self.model.coef_.ravel(), "claimed_gap": float(self.model.dual_gap_[0])}
