"""Arrays of a model that has seen nothing, and names for the numbers in them."""

from __future__ import annotations

import math

import numpy as np

from oblong.solvers.online.protocol import Health
from oblong.solvers.online.simd import LANES
from oblong.solvers.online.slots import (
    BIAS,
    DIAGONAL,
    DIRECTIONS,
    EXPONENT,
    FLOOR,
    FLOORED,
    FORGETTING,
    FULL,
    INITIAL_MEMORY,
    INITIAL_VARIANCE,
    INVARIANCE,
    MISTAKES,
    N_PLAIN,
    NONE,
    RESCALED,
    RESETS,
    ROUNDS,
    SIGMA,
    SKETCH,
    SKIPPED,
    STEPS,
    STRUCTURE,
    TASK,
    UNIT_OF_BOTH,
    UPDATES,
)

__all__ = [
    "NamedNumbers",
    "blank_covariance",
    "covariance_bytes",
    "initial_columns",
    "padded",
    "scratch",
]


def initial_columns(structure: int, variance: float) -> list[float]:
    """Initial values of the groups of columns of the table."""
    return {DIAGONAL: [0.0, variance], SKETCH: [0.0, variance, 1.0 / variance]}.get(
        structure, [0.0]
    )


def scratch(structure: int, n_outputs: int, covariance: np.ndarray) -> np.ndarray:
    """Scratch memory of the loops."""
    length = 0 if structure in (NONE, DIAGONAL) else 3 * covariance.shape[2]
    return np.zeros(2 * n_outputs + length)


def blank_covariance(n_outputs: int, size: int) -> np.ndarray:
    """Full covariances of no features, in memory that starts at a line of the cache."""
    wanted = n_outputs * size * size
    memory = np.zeros(wanted + LANES)
    skip = (-memory.ctypes.data // memory.itemsize) % LANES
    return memory[skip : skip + wanted].reshape(n_outputs, size, size)


def padded(size: int) -> int:
    """Room for that many rows and columns of a full covariance, in whole vectors."""
    return -(-size // LANES) * LANES


def covariance_bytes(structure: int, n_outputs: int, n_features: int, width: int = 0) -> float:
    """Bytes that the covariances of a model take; ``width`` is that of a sketch."""
    size = n_features + 1.0
    entries = {FULL: size * size, SKETCH: (size + width) * width}.get(structure, 0.0)
    return 8.0 * n_outputs * entries


class NamedNumbers:
    """Names for numbers in the arrays of a model, for whoever does not learn or grow it."""

    __slots__ = ()

    scale: np.ndarray
    counters: np.ndarray
    settings: np.ndarray
    codes: np.ndarray

    @property
    def n_outputs(self) -> int:
        """Number of weight vectors."""
        return self.scale.shape[0]

    @property
    def structure(self) -> int:
        """Structure of the covariance."""
        return int(self.codes[STRUCTURE])

    @property
    def task(self) -> int:
        """How an example of several classes becomes examples of two."""
        return int(self.codes[TASK])

    @property
    def steps(self) -> int:
        """Pairs of classes per example."""
        return int(self.codes[STEPS])

    @property
    def invariance(self) -> int:
        """Which change of the unit leaves decisions as they are."""
        return int(self.codes[INVARIANCE])

    @property
    def rounds(self) -> int:
        """Examples seen."""
        return int(self.counters[ROUNDS])

    @property
    def updates(self) -> int:
        """Changes of the model."""
        return int(self.counters[UPDATES])

    @property
    def mistakes(self) -> int:
        """Examples that were predicted wrongly before they were learned from."""
        return int(self.counters[MISTAKES])

    @property
    def health(self) -> Health:
        """How often the covariance had to be saved from vanishing."""
        return Health(*self.counters[[SKIPPED, RESETS, RESCALED, FLOORED]].tolist())

    @property
    def exponent(self) -> int:
        """Exponent ``k`` of the unit: covariances are multiplied by 4ᵏ.

        So are weights by 2ᵏ, for rules that leave both in one unit.
        """
        return int(self.counters[EXPONENT])

    @property
    def weight_unit(self) -> float:
        """What weights and outputs are to be multiplied by: hard rules on noise change their unit.

        Predictions do not depend on it; it is held where outputs are still numbers.
        """
        both = self.invariance == UNIT_OF_BOTH
        return math.ldexp(1.0, max(-900, min(900, -self.exponent))) if both else 1.0

    @property
    def bias(self) -> float:
        """Value of the constant feature."""
        return float(self.settings[BIAS])

    @property
    def floor(self) -> float:
        """Smallest variance of a diagonal covariance."""
        return float(self.settings[FLOOR])

    @property
    def initial_variance(self) -> float:
        """Initial variance of a weight."""
        return float(self.settings[INITIAL_VARIANCE])

    @property
    def initial_memory(self) -> float:
        """What the rule carries along at the start."""
        return float(self.settings[INITIAL_MEMORY])

    @property
    def sigma(self) -> np.ndarray:
        """Factors of the covariances, one per output."""
        return self.scale[:, SIGMA]

    @property
    def calibrated(self) -> bool:
        """Whether there are sigmoids of the outputs."""
        return self.scale.shape[1] > N_PLAIN

    @property
    def ranks(self) -> list[int]:
        """Directions of the sketches."""
        return self.scale[:, DIRECTIONS].astype(int).tolist()

    @property
    def forgetting(self) -> float:
        """Factor of the precision after an update."""
        return float(self.settings[FORGETTING])
