"""The certificate of kernel weights by the rows that have a weight, and the kernel matrix alone.

With ``S = A^½ K A^½`` over the rows with a weight, the ridge ``ρ`` and the triangular ``G`` with
``G'G = (ρ I + S)^-1``, the moments have ``ln|M| = ln|ρ I + S| + (p - s) ln ρ`` (Momma, Hatano and
Nakayama, Ellipsoidal Support Vector Machines, ACML 2010, eq. 9), and ::

    α_i q_i = r (1 - ρ Σ_k G_ki²)     or     q_i = r π_i (K_ii - |G A^½ k_i|²) / ρ

where ``k_i`` holds the products of row ``i`` with the others. The first is free of cancellation for
rows with much weight and the second for those with little. That is a quarter of the work that
``M`` itself takes, which only has more digits where ``ρ`` is tiny.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg.blas import dtrmm
from scipy.linalg.lapack import dpotrf

from oblong.linalg.log_det import invert_triangle
from oblong.solvers.esvm.kernel.state import scaled_kernel
from oblong.solvers.esvm.problem import Certified, EsvmProblem, balanced
from oblong.solvers.esvm.scaled_part import Part


def certify_by_kernel(
    problem: EsvmProblem, part: Part, K: np.ndarray, alpha: np.ndarray, space: np.ndarray
) -> Certified | None:
    """Certify weights for rows of which all have slack; None where rounding would have a say.

    Parameters
    ----------
    problem, part : EsvmProblem, Part
        The problem, and all of its rows scaled.
    K : ndarray of shape (n, n)
        Products of the scaled rows, of which the lower triangle is read.
    alpha : ndarray of shape (n,)
        Weights of the problem as it was given.
    space : ndarray of shape (n * n,)
        Overwritten.
    """
    if problem.hard is not None:
        return None
    if problem.fit_intercept:
        alpha = balanced(alpha, problem.y)
    diagonal, r, ridge = K.diagonal(), problem.r, part.ridge
    scaled = alpha * part.length
    sizes = scaled * part.pi * diagonal
    # A factor of ρ I + S is that of a matrix with other last digits, which H, at most 1 / ρ, turns
    # into changes of q.
    rounding = problem.n * np.finfo(float).eps * (1.0 + float(sizes.max()) / ridge)
    used = np.flatnonzero(scaled)
    if not rounding <= problem.options.certificate_rounding * problem.tol or not len(used):
        return None
    few = len(used) < problem.options.certificate_rows * problem.n
    if not few:
        used = np.arange(problem.n)
    s = len(used)
    root = np.sqrt(scaled[used] * part.pi[used])
    G = space[: s * s].reshape(s, s).T
    products = K.T[np.ix_(used, used)] if few else K.T
    scaled_kernel(products, root, ridge, G.T)
    G, info = dpotrf(G, lower=1, clean=1, overwrite_a=1)
    if info != 0:
        return None
    log_det = 2.0 * float(np.log(G.diagonal()).sum())
    log_det += (problem.p - s) * np.log(ridge) + problem.p * np.log(part.factor)
    invert_triangle(G)
    inner, q = np.einsum("ij,ij->j", G, G), np.empty(problem.n)
    large, small = sizes[used] >= ridge, np.flatnonzero(sizes < ridge)
    q[used[large]] = r * (1.0 - ridge * inner[large]) / scaled[used[large]]
    if len(small):
        image = np.where(used >= small[:, None], K.T[np.ix_(small, used)], K[np.ix_(small, used)])
        image = dtrmm(1.0, G, (image * root).T, lower=1, overwrite_b=1)
        rest = diagonal[small] - np.einsum("ij,ij->j", image, image)
        q[small] = (r / ridge) * part.pi[small] * np.maximum(rest, 0.0)
    q *= part.length
    v = (alpha * problem.y) @ problem.F
    length = float(np.linalg.norm(v))
    if not (length > 0.0 and np.isfinite(log_det)):
        return None
    w = v / length
    outputs = problem.F @ w
    bias = problem.biases(q, outputs)[-1]
    outputs += bias
    dual = r * log_det + problem.unit * (1.0 - np.log(r)) - length
    gap = problem.gap(alpha, q, outputs, length)
    return Certified(alpha, q, outputs, w, bias, None, v, dual, gap)
