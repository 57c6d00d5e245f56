import numpy as np
from benchopt import BaseSolver


class Solver(BaseSolver):
    name = "cvxpy"
    requirements = ["pip::cvxpy", "pip::clarabel"]
    sampling_strategy = "run_once"

    def skip(self, X):
        return len(X) > 2_000, "a general solver takes minutes here"

    def set_objective(self, X):
        import cvxpy

        # The weights do not change under affine maps, and the solver fails on rows as they are.
        Z = np.linalg.qr(np.column_stack([X, np.ones(len(X))]))[0] * np.sqrt(len(X))
        self.u = cvxpy.Variable(len(X), nonneg=True)
        design = Z.T @ cvxpy.diag(self.u) @ Z
        self.problem = cvxpy.Problem(
            cvxpy.Maximize(cvxpy.log_det(design)), [cvxpy.sum(self.u) == 1]
        )

    def run(self, _):
        self.problem.solve(solver="CLARABEL")

    def get_result(self):
        return {"u": self.u.value}
