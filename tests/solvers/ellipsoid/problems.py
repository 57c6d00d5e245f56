"""Clouds of points, and a certificate of their ellipsoids from scratch."""

from __future__ import annotations

import numpy as np

from oblong.solvers.ellipsoid.options import EllipsoidOptions

# Not all rows in one Newton matrix, however few they are.
SMOOTHED = EllipsoidOptions(direct_products=0)


def sphere(n, d, rng):
    X = rng.normal(size=(n, d))
    return X / np.linalg.norm(X, axis=1)[:, None]


CLOUDS = {
    "normal": lambda n, d, rng: rng.normal(size=(n, d)),
    "sphere": sphere,
    "binary": lambda n, d, rng: rng.integers(0, 2, (n, d)).astype(float),
    "lattice": lambda n, d, rng: rng.integers(-2, 3, (n, d)).astype(float),
    "cauchy": lambda n, d, rng: rng.standard_cauchy((n, d)),
    "cube": lambda n, d, rng: rng.uniform(-1, 1, (n, d)),
    "scales": lambda n, d, rng: rng.normal(size=(n, d)) * np.logspace(-5, 4, d),
    "far away": lambda n, d, rng: rng.normal(size=(n, d)) + 1e6,
    "flat": lambda n, d, rng: rng.normal(size=(n, d - 2)) @ rng.normal(size=(d - 2, d)) + 5,
}


def certificate(X, result, center=True):
    """The gap over ``D``, from scratch, in coordinates of its own."""
    mean = X.mean(axis=0) if center else np.zeros(X.shape[1])
    X = (X - mean) / (X - mean).std(axis=0)
    _, values, vt = np.linalg.svd(X, full_matrices=False)
    keep = values > 1e-9 * values[0]
    Z = X @ (vt[keep] / values[keep, None]).T
    Z = np.column_stack([Z, np.ones(len(X))]) if center else Z
    M = (Z.T * result.weights) @ Z
    q = np.einsum("ij,ji->i", Z, np.linalg.solve(M, Z.T))
    D = Z.shape[1]
    if np.isinf(result.cap):
        return q.max() / D - 1
    rho = result.threshold
    return (rho + result.cap * np.maximum(q - rho, 0).sum() - D) / D
