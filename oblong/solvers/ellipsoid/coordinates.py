"""Coordinates on the affine hull of the rows, in which their covariance is the identity."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import qr

from oblong._core.threads import available_threads, chunks, run_chunks
from oblong.linalg.log_det import chunk_length, inverse_factor, moments
from oblong.solvers.ellipsoid.options import DEFAULTS, EllipsoidOptions

_EPSILON = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Metric:
    """An ellipsoid before it is scaled: rows have the leverage ``lift + |(x - center) T|²``.

    Far from the origin the centre has few digits to tell rows apart, so leverages are computed as
    ``lift + |(x - base) T - shift|²``, in which the subtraction is exact.

    Attributes
    ----------
    center : ndarray of shape (d,)
        Centre in the coordinates of the data.
    T : ndarray of shape (d, k)
        Factor of the inverse covariance.
    shift : ndarray of shape (k,)
        ``(center - base) T``, where the base is the centre of the coordinates.
    inverse : ndarray of shape (k, d)
        ``x = center + t @ inverse`` on the affine hull.
    log_det : float
        ``ln|M(u)|`` in the whitened coordinates.
    """

    center: np.ndarray
    T: np.ndarray
    shift: np.ndarray
    inverse: np.ndarray
    log_det: float


@dataclass(frozen=True)
class Coordinates:
    """The map ``(x - center) @ forward`` onto ``k`` whitened coordinates, and back.

    Attributes
    ----------
    center : ndarray of shape (d,)
        Mean of the rows; zero if ellipsoids are centred at the origin.
    forward : ndarray of shape (d, k)
        From the data.
    backward : ndarray of shape (k, d)
        To the data.
    log_volume : float
        Logarithm of the volume of the unit cube of the coordinates.
    lift : int
        One if the centre is free, so that a constant one joins the coordinates; else zero.
    steep : bool
        Whether some directions are so thin that only the coordinates of the rows, but not their
        Gram matrix, tell them from nothing.
    """

    center: np.ndarray
    forward: np.ndarray
    backward: np.ndarray
    log_volume: float
    lift: int
    steep: bool = False

    @property
    def k(self) -> int:
        """Dimension of the hull."""
        return self.forward.shape[1]

    @property
    def D(self) -> int:
        """Dimension of the design vectors."""
        return self.k + self.lift

    @classmethod
    def of(
        cls,
        X: np.ndarray,
        present: np.ndarray | None,
        *,
        lift: bool,
        rank_tol: float,
        options: EllipsoidOptions = DEFAULTS,
    ) -> Coordinates:
        """Find the hull of the rows for which ``present`` is not zero."""
        n, d = X.shape
        clear = options.clear_eigenvalue
        rows = np.arange(n) if present is None else np.flatnonzero(present)
        probes = X[rows[:: max(1, len(rows) // options.rank_probes)]]
        center = np.median(probes.astype(np.float64), axis=0) if lift else np.zeros(d)
        if n <= d:
            # Fewer rows than columns: a decomposition of the rows themselves.
            few = X[rows] - center
            size = float(len(few))
            if lift:
                shift = few.mean(axis=0)
                center, few = center + shift, few - shift
            variance = (few * few).mean(axis=0)
        else:
            size = float(n if present is None else present.sum())
            first, gram = moments(X, center, present)
            if not np.isfinite(gram).all():
                raise ValueError("the covariance of X is not finite: scale the data")
            if lift:
                shift = first / size
                center = center + shift
                gram = gram - size * np.outer(shift, shift)
            variance = np.maximum(gram.diagonal() / size, 0.0)
        varies, scale = _scales(center, np.sqrt(variance))
        clearly = False
        if n > d:
            correlations = (gram / size / scale / scale[:, None])[np.ix_(varies, varies)]
            values, vectors = np.linalg.eigh(correlations)
            clearly = values[0] > max(clear, (100 * rank_tol) ** 2) * values[-1]
        if not clearly:
            factor = np.where(varies, 1.0 / scale, 0.0)
            R = few * factor if n <= d else _triangle(X, present, center, factor, lift)
            _, singular, vt = np.linalg.svd(R[:, varies] / np.sqrt(size), full_matrices=False)
            # Rounding of each scaled feature, had its values been computed in the precision given.
            unit = options.rounding_units * np.finfo(X.dtype).eps
            noise = unit * np.sqrt(1.0 + (center / scale) ** 2)[varies]
            keep = _above_noise(singular, vt, noise, rank_tol, clear)
            values, vectors = singular[keep] ** 2, vt[keep].T
        return cls._of_parts(center, scale, varies, values, vectors, lift, clear)

    @classmethod
    def _of_parts(
        cls,
        center: np.ndarray,
        scale: np.ndarray,
        varies: np.ndarray,
        values: np.ndarray,
        vectors: np.ndarray,
        lift: bool,
        clear: float,
    ) -> Coordinates:
        d, k = len(center), len(values)
        root = np.sqrt(values)
        forward, backward = np.zeros((d, k)), np.zeros((k, d))
        forward[varies] = vectors / root / scale[varies, None]
        backward[:, varies] = (vectors * root).T * scale[varies]
        log_volume = _log_volume(backward, np.log(root).sum() + np.log(scale[varies]).sum())
        steep = bool(values.min() <= clear * values.max())
        return cls(center, forward, backward, log_volume, int(lift), steep)

    def unwhitened(self) -> Coordinates:
        """Coordinates of all directions, with the shape of the data: one factor for all."""
        d = len(self.center)
        scale = float(np.sqrt(np.sum(self.backward**2) / d))
        return Coordinates(
            self.center, np.eye(d) / scale, np.eye(d) * scale, d * np.log(scale), self.lift
        )

    def design(self, X: np.ndarray, rows: np.ndarray | slice) -> np.ndarray:
        """Design vectors of some rows: whitened, with a one if the centre is free."""
        part = X[rows] - self.center
        F = np.ones((len(part), self.D))
        F[:, : self.k] = part @ self.forward
        return F

    def metric(self, F: np.ndarray, u: np.ndarray, M0: np.ndarray | None = None) -> Metric:
        """Metric of weights ``u`` of sum one on rows with the design vectors ``F``."""
        k, part = self.k, F[:, : self.k]
        mean = u @ part if self.lift else np.zeros(k)
        part = part - mean
        S = (part * u[:, None]).T @ part
        return self._metric_of(mean, S if M0 is None else S + M0)

    def metric_of_moments(self, M: np.ndarray) -> Metric:
        """Metric of a moment matrix of design vectors, whose last entry is one if lifted."""
        k = self.k
        if not self.lift:
            return self._metric_of(np.zeros(k), M)
        mean = M[:k, k]
        return self._metric_of(mean, M[:k, :k] - np.outer(mean, mean))

    def _metric_of(self, mean: np.ndarray, S: np.ndarray) -> Metric:
        G, log_det = inverse_factor(S)
        L = np.linalg.inv(G)
        center = self.center + mean @ self.backward
        return Metric(center, self.forward @ G.T, mean @ G.T, L.T @ self.backward, log_det)

    def leverages(self, X: np.ndarray, metric: Metric, out: np.ndarray | None = None) -> np.ndarray:
        """Leverages ``q_i = z_i'M(u)^-1 z_i`` of all rows, in one pass."""
        q = self.squares(X, metric.T, metric.shift, out)
        if self.lift:
            q += 1.0
        return q

    def squares(
        self, X: np.ndarray, T: np.ndarray, shift: np.ndarray, out: np.ndarray | None = None
    ) -> np.ndarray:
        """Squared lengths ``|(x_i - base) T - shift|²`` of all rows, in chunks of them."""
        n, d = X.shape
        out = np.empty(n) if out is None else out

        def task(start: int, stop: int) -> None:
            image = (X[start:stop] - self.center) @ T
            image -= shift
            np.einsum("ij,ij->i", image, image, out=out[start:stop])

        run_chunks(task, n, chunk_length(d), available_threads())
        return out


_ONE_POINT = "all rows of X with a weight above zero are the same point: they enclose no volume"


def _scales(center: np.ndarray, deviation: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which features vary, and factors to scale them by.

    Numbers in single precision are exact here, as sums are in double precision: that is what
    counts, for both.
    """
    varies = deviation > 8.0 * _EPSILON * np.abs(center)
    if not varies.any():
        raise ValueError(_ONE_POINT)
    return varies, np.where(varies, deviation, 1.0)


def _above_noise(
    singular: np.ndarray, vt: np.ndarray, noise: np.ndarray, rank_tol: float, clear: float
) -> np.ndarray:
    """Directions that are more than the rounding of the features that take part in them.

    Where all features are that coarse, nothing is dropped for it but what the Gram matrix could
    not have told from zero.
    """
    own = np.sqrt(np.sum((vt * noise) ** 2, axis=1))
    least = np.maximum(rank_tol * singular[0], np.minimum(own, np.sqrt(clear) * singular[0]))
    return singular > np.maximum(least, 8.0 * _EPSILON * singular[0])


def _triangle(
    X: np.ndarray, present: np.ndarray | None, center: np.ndarray, factor: np.ndarray, lift: bool
) -> np.ndarray:
    """Triangular factor of the scaled rows, from factors of chunks of them.

    A free centre takes a column of ones along, which removes what rounding left of the mean.
    """
    n, d = X.shape
    R = np.empty((0, d + lift))
    for start, stop in chunks(n, max(4 * d, chunk_length(d))):
        part = (X[start:stop] - center) * factor
        if present is not None:
            part = part[present[start:stop] > 0]
        if lift:
            part = np.column_stack([np.ones(len(part)), part])
        R = np.asarray(np.linalg.qr(np.vstack([R, part]), mode="r"))
    return R[int(lift) :, int(lift) :]


def _log_volume(backward: np.ndarray, whole: float) -> float:
    """Logarithm of the volume that the rows of ``backward`` span; ``whole`` if they are square.

    Only a matrix with as many rows as columns other than zero is a rotation between scales, whose
    logarithms can be added. Otherwise long features come first, which keeps the digits of short
    ones.
    """
    lengths = np.abs(backward).max(axis=0)
    if len(backward) == np.count_nonzero(lengths):
        return float(whole)
    order = np.argsort(-lengths, kind="stable")
    R = qr(backward[:, order].T, mode="r", pivoting=True)[0]
    return float(np.log(np.abs(R.diagonal())).sum())
