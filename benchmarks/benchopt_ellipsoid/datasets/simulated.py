import numpy as np
from benchopt import BaseDataset


class Dataset(BaseDataset):
    name = "simulated"
    parameters = {
        "n_samples, n_features": [(200, 5), (2_000, 10), (20_000, 20)],
        "tails": ["normal", "cauchy"],
    }

    def get_data(self):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((self.n_samples, self.n_features))
        if self.tails == "cauchy":
            X /= np.abs(rng.standard_normal((self.n_samples, 1)))
        return {"X": X @ rng.standard_normal((self.n_features, self.n_features))}
