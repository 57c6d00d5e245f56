"""Arrays of a model that has seen nothing, and names for the numbers in them."""

import math

import numpy as np

from oblong._core.array_state import number
from oblong.solvers.online import slots
from oblong.solvers.online.protocol import Health
from oblong.solvers.online.simd import LANES


def initial_columns(structure: int, variance: float) -> list[float]:
    """Initial values of the groups of columns of the table."""
    return {slots.DIAGONAL: [0.0, variance], slots.SKETCH: [0.0, variance, 1.0 / variance]}.get(
        structure, [0.0]
    )


def scratch(structure: int, n_outputs: int, covariance: np.ndarray) -> np.ndarray:
    """Scratch memory of the loops."""
    length = 0 if structure in (slots.NONE, slots.DIAGONAL) else 3 * covariance.shape[2]
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
    entries = {slots.FULL: size * size, slots.SKETCH: (size + width) * width}.get(structure, 0.0)
    return 8.0 * n_outputs * entries


class NamedNumbers:
    """Names for numbers in the arrays of a model, for whoever does not learn or grow it.

    What each of them means is said in :mod:`~oblong.solvers.online.slots`.
    """

    __slots__ = ()

    scale: np.ndarray
    counters: np.ndarray
    settings: np.ndarray
    codes: np.ndarray

    structure: int = number("codes", slots.STRUCTURE)
    task: int = number("codes", slots.TASK)
    steps: int = number("codes", slots.STEPS)
    invariance: int = number("codes", slots.INVARIANCE)
    rounds: int = number("counters", slots.ROUNDS)
    updates: int = number("counters", slots.UPDATES)
    mistakes: int = number("counters", slots.MISTAKES)
    # Covariances are multiplied by 4ᵏ, and so are weights by 2ᵏ, for rules that leave both in one
    # unit.
    exponent: int = number("counters", slots.EXPONENT)
    bias: float = number("settings", slots.BIAS, float)
    floor: float = number("settings", slots.FLOOR, float)
    initial_variance: float = number("settings", slots.INITIAL_VARIANCE, float)
    initial_memory: float = number("settings", slots.INITIAL_MEMORY, float)
    forgetting: float = number("settings", slots.FORGETTING, float)

    @property
    def n_outputs(self) -> int:
        """Number of weight vectors."""
        return self.scale.shape[0]

    @property
    def health(self) -> Health:
        """How often the covariance had to be saved from vanishing."""
        return Health(
            *self.counters[[slots.SKIPPED, slots.RESETS, slots.RESCALED, slots.FLOORED]].tolist()
        )

    @property
    def weight_unit(self) -> float:
        """What weights and outputs are to be multiplied by: hard rules on noise change their unit.

        Predictions do not depend on it; it is held where outputs are still numbers.
        """
        both = self.invariance == slots.UNIT_OF_BOTH
        return math.ldexp(1.0, max(-900, min(900, -self.exponent))) if both else 1.0

    @property
    def sigma(self) -> np.ndarray:
        """Factors of the covariances, one per output."""
        return self.scale[:, slots.SIGMA]

    @property
    def calibrated(self) -> bool:
        """Whether there are sigmoids of the outputs."""
        return self.scale.shape[1] > slots.N_PLAIN

    @property
    def ranks(self) -> list[int]:
        """Directions of the sketches."""
        return self.scale[:, slots.DIRECTIONS].astype(int).tolist()
