import numpy as np
from benchopt import BaseObjective


class Objective(BaseObjective):
    name = "Minimum-volume ellipsoid"
    min_benchopt_version = "1.6"

    def set_data(self, X):
        self.X = X

    def evaluate_result(self, u):
        u = np.maximum(u, 0.0) / np.maximum(u, 0.0).sum()
        Z = np.column_stack([self.X, np.ones(len(self.X))])
        L = np.linalg.cholesky((Z.T * u) @ Z)
        leverages = (np.linalg.solve(L, Z.T) ** 2).sum(axis=0)
        return {
            "value": float(-2.0 * np.log(np.diag(L)).sum()),
            "certified_gap": float(leverages.max() / Z.shape[1] - 1.0),
            "support": int((u > 1e-9).sum()),
        }

    def get_one_result(self):
        return {"u": np.full(len(self.X), 1.0 / len(self.X))}

    def get_objective(self):
        return {"X": self.X}
