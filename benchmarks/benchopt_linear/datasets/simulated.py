import numpy as np
from benchopt import BaseDataset


class Dataset(BaseDataset):
    name = "simulated"
    parameters = {"n_samples, n_features": [(2_000, 20), (20_000, 50)], "seed": [0]}

    def get_data(self):
        rng = np.random.default_rng(self.seed)
        X = rng.standard_normal((self.n_samples, self.n_features))
        signal = X @ rng.standard_normal(self.n_features) / np.sqrt(self.n_features)
        y = np.where(signal + rng.standard_normal(self.n_samples) > 0.3, 1.0, -1.0)
        return {"X": np.column_stack([X, np.ones(self.n_samples)]), "y": y}
