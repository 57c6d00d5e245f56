import warnings

import numpy as np
from benchopt import BaseSolver
from benchopt.stopping_criterion import SufficientProgressCriterion
from sklearn.svm import LinearSVC


class Solver(BaseSolver):
    name = "LIBLINEAR"
    sampling_strategy = "tolerance"
    stopping_criterion = SufficientProgressCriterion(patience=5)

    def skip(self, X, y, C, B):
        return not np.isinf(B), "LIBLINEAR has no bound on the outputs"

    def set_objective(self, X, y, C, B):
        self.X, self.y = X, y
        self.model = LinearSVC(
            C=C, loss="hinge", dual=True, fit_intercept=False, max_iter=2_000, random_state=0
        )

    def get_next(self, tol):
        # The first is infinite.
        return min(tol, 1.0) / 10

    def run(self, tol):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.model.set_params(tol=max(tol, 1e-13)).fit(self.X, self.y)

    def get_result(self):
        return {"w": self.model.coef_.ravel()}
