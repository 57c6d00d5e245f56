import numpy as np
from benchopt import BaseSolver
from benchopt.stopping_criterion import SufficientProgressCriterion


class Solver(BaseSolver):
    name = "Khachiyan"
    sampling_strategy = "tolerance"
    stopping_criterion = SufficientProgressCriterion(patience=5)
    references = ["L. G. Khachiyan, Mathematics of Operations Research 21, 1996"]

    def set_objective(self, X):
        self.Q = np.column_stack([X, np.ones(len(X))]).T

    def get_next(self, tol):
        # The first is infinite.
        return min(tol, 1.0) / 10

    def run(self, tol):
        """Run the NumPy loop that many programs copy, without its matrix of n by n numbers."""
        Q, D, n = self.Q, *self.Q.shape
        self.u = np.full(n, 1.0 / n)
        # The gap falls like the inverse of the steps, so that a small tolerance would not end.
        for _ in range(3_000):
            M = np.einsum("ij,ij->j", Q, np.linalg.solve((Q * self.u) @ Q.T, Q))
            j = int(M.argmax())
            if M[j] <= D * (1.0 + max(tol, 1e-3)):
                break
            step = (M[j] - D) / (D * (M[j] - 1.0))
            self.u *= 1.0 - step
            self.u[j] += step

    def get_result(self):
        return {"u": self.u}
