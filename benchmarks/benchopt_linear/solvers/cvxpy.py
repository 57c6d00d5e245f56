import numpy as np
from benchopt import BaseSolver


class Solver(BaseSolver):
    name = "cvxpy"
    requirements = ["pip::cvxpy", "pip::clarabel"]
    sampling_strategy = "run_once"

    def skip(self, X, y, C, B):
        return X.size > 200_000, "a general solver takes minutes here"

    def set_objective(self, X, y, C, B):
        import cvxpy

        self.w = cvxpy.Variable(X.shape[1])
        outputs = X @ self.w
        loss = cvxpy.sum(cvxpy.pos(1 - cvxpy.multiply(y, outputs)))
        limits = [] if np.isinf(B) else [cvxpy.abs(outputs) <= B]
        self.problem = cvxpy.Problem(
            cvxpy.Minimize(0.5 * cvxpy.sum_squares(self.w) + C * loss), limits
        )

    def run(self, _):
        self.problem.solve(solver="CLARABEL")

    def get_result(self):
        return {"w": self.w.value}
