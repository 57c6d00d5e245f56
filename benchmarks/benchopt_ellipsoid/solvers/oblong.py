from benchopt import BaseSolver
from benchopt.stopping_criterion import SufficientProgressCriterion


class Solver(BaseSolver):
    name = "oblong"
    requirements = ["pip::oblong"]
    sampling_strategy = "tolerance"
    stopping_criterion = SufficientProgressCriterion(patience=5)

    def set_objective(self, X):
        from oblong import MinimumVolumeEllipsoid

        self.X, self.model = X, MinimumVolumeEllipsoid()

    def warm_up(self):
        # Compiles what is not on disk yet.
        self.run_once()

    def get_next(self, tol):
        # The first is infinite.
        return min(tol, 1.0) / 10

    def run(self, tol):
        self.model.set_params(tol=min(max(tol, 1e-12), 0.5)).fit(self.X)

    def get_result(self):
        return {"u": self.model.weights_}
