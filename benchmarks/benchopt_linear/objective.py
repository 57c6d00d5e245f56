import numpy as np
from benchopt import BaseObjective


class Objective(BaseObjective):
    name = "Linear SVM and relative margin machine"
    min_benchopt_version = "1.6"
    requirements = ["pip::oblong"]
    parameters = {"C": [1.0], "B": [np.inf, 1.5]}

    def set_data(self, X, y):
        from oblong import LinearRelativeMarginClassifier

        self.X, self.y = X, y
        bound = {"spread": 1.0} if np.isinf(self.B) else {"B": self.B}
        tight = LinearRelativeMarginClassifier(
            C=self.C, tol=1e-9, max_iter=-1, fit_intercept=False, **bound
        ).fit(X, y)
        # The certificate of the tight fit: no objective is below this.
        self.lower = float(tight.objective_[0] * (1.0 - tight.dual_gap_[0]))
        self.slack = float(tight.dual_gap_[0])

    def evaluate_result(self, w, claimed_gap=None):
        outputs = self.X @ w
        excess = max(1.0, float(np.abs(outputs).max() / self.B))
        w, outputs = w / excess, outputs / excess
        value = 0.5 * w @ w + self.C * np.maximum(0.0, 1.0 - self.y * outputs).sum()
        gap = float((value - self.lower) / value)
        found = {"value": float(value), "certified_gap": gap, "excess": excess - 1.0}
        if claimed_gap is not None:
            if claimed_gap < gap - 2.0 * self.slack - 1e-12:
                raise ValueError(f"a gap of {claimed_gap} was claimed, but it is {gap}")
            found["claimed_gap"] = claimed_gap
        return found

    def get_one_result(self):
        return {"w": np.zeros(self.X.shape[1])}

    def get_objective(self):
        return {"X": self.X, "y": self.y, "C": self.C, "B": self.B}
