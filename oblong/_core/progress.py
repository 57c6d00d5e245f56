"""One small callback through which long work reports how far it is."""

import sys
from collections.abc import Callable
from typing import NamedTuple, TypedDict


class Progress(NamedTuple):
    """A snapshot of a running solver.

    Attributes
    ----------
    stage : str
        What is being solved, such as ``"svm"`` or ``"relative margin"``.
    iteration : int
        Elementary steps taken so far.
    violation : float
        Largest violation of the optimality conditions.
    target : float
        Violation at which the solver stops.
    """

    stage: str
    iteration: int
    violation: float
    target: float


ProgressCallback = Callable[[Progress], None]


class Run(TypedDict, total=False):
    """When a solver stops, and how it reports progress: keywords that are passed down."""

    tol: float
    max_iter: int
    progress: ProgressCallback | None


def print_progress(progress: Progress) -> None:
    """Write one line per report to standard error."""
    print(
        f"[oblong] {progress.stage}: {progress.iteration} steps, "
        f"violation {progress.violation:.2e} (stops at {progress.target:.1e})",
        file=sys.stderr,
    )


def print_pass(progress: Progress) -> None:
    """Write one line per pass over the rows to standard error."""
    print(
        f"[oblong] {progress.stage}: pass {progress.iteration}, relative gap "
        f"{progress.violation:.1e} (stops at {progress.target:.1e})",
        file=sys.stderr,
    )
