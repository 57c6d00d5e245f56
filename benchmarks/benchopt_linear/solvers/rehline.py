import warnings

import numpy as np
from benchopt import BaseSolver
from benchopt.stopping_criterion import SufficientProgressCriterion


class Solver(BaseSolver):
    name = "ReHLine"
    requirements = ["pip::rehline"]
    references = ["B. Dai and Y. Qiu, ReHLine, NeurIPS 2023"]
    sampling_strategy = "tolerance"
    stopping_criterion = SufficientProgressCriterion(patience=5)

    def set_objective(self, X, y, C, B):
        self.X, self.y, self.C, self.B = X, y, C, B

    def get_next(self, tol):
        # The first is infinite.
        return min(tol, 1.0) / 10

    def run(self, tol):
        from rehline import plqERM_Ridge

        bound = {}
        if not np.isinf(self.B):
            A = np.vstack([self.X, -self.X])
            bound = {"A": A, "b": np.full(len(A), self.B)}
        model = plqERM_Ridge(
            loss={"name": "svm"}, C=self.C, tol=max(tol, 1e-13), max_iter=10_000, **bound
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(X=self.X, y=self.y)
        self.w = np.ravel(model.coef_)

    def get_result(self):
        return {"w": self.w}
