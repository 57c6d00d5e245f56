import numpy as np
from benchopt import BaseDataset
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler


class Dataset(BaseDataset):
    name = "breast_cancer"

    def get_data(self):
        X, y = load_breast_cancer(return_X_y=True)
        X = StandardScaler().fit_transform(X)
        return {"X": np.column_stack([X, np.ones(len(X))]), "y": np.where(y == 1, 1.0, -1.0)}
