"""What an experiment consists of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np

from oblong_reproduction._verdict import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Paper:
    """Where the published numbers are from."""

    key: str
    citation: str


@dataclass(frozen=True)
class Cell:
    """One independent piece of an experiment.

    Parameters
    ----------
    name : str
        Name within the experiment; parts are separated by slashes.
    run : callable
        ``run(sets, rng, **parameters)`` returns a dictionary that JSON can hold. It must be a
        function of a module, since it is sent to worker processes.
    parameters : dict
        Keyword arguments, of types that JSON can hold. A stored result counts only if its
        parameters are still the same.
    data : tuple of str
        Data sets that it needs.
    draw : str, optional
        Cells with the same draw get the same random numbers; the name by default.
    owner : str, optional
        Another experiment that has the same cell: its stored result is taken if there is one,
        and the random numbers are those of that experiment.
    widens : str, optional
        The cell whose searches it repeats with further values, which are the parameter
        ``further``; its result replaces what that cell has under the same names.
    before : dict, optional
        The result of that cell, which it gets as one more keyword argument.
    """

    name: str
    run: Callable[..., dict[str, Any]]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    data: tuple[str, ...] = ()
    draw: str | None = None
    owner: str | None = None
    widens: str | None = None
    before: Mapping[str, Any] | None = None

    def generator(self, experiment: str, seed: int) -> np.random.Generator:
        """Random numbers that depend on the seed and the names alone."""
        owner, draw = self.owner or experiment, self.draw or self.name
        key = (crc32(owner.encode()), crc32(draw.encode()))
        return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))


class Results(Sequence):
    """Finished cells, each a dictionary of its parameters and its results.

    Parameters
    ----------
    cells : iterable of dict
        Parameters and results of each cell, in the order of the experiment.

    Examples
    --------
    >>> from oblong_reproduction import Results
    >>> results = Results([{"set": "a", "error": 1.0}, {"set": "b", "error": 3.0}])
    >>> results.where(set="b")["error"]
    array([3.])
    >>> len(results.where(set="c"))
    0
    """

    def __init__(self, cells: Iterable[Mapping[str, Any]]) -> None:
        self._cells = [dict(cell) for cell in cells]

    def where(self, **parameters: Any) -> Results:
        """Return the cells that have these values."""
        missing = object()
        return Results(
            cell
            for cell in self._cells
            if all(cell.get(name, missing) == value for name, value in parameters.items())
        )

    def having(self, key: str) -> Results:
        """Return the cells that have this key."""
        return Results(cell for cell in self._cells if key in cell)

    def __getitem__(self, key: Any) -> Any:
        """Values of all cells for a name, or the cell at a position."""
        if isinstance(key, str):
            return np.array([cell[key] for cell in self._cells])
        return self._cells[key]

    def __len__(self) -> int:
        return len(self._cells)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self._cells)


@dataclass(frozen=True)
class Choice:
    """A parameter that was chosen from a grid.

    Parameters
    ----------
    what : str
        Method and parameter, such as "SVM, C".
    value : float
        The value chosen.
    grid : sequence of float
        The values to choose from.
    natural : tuple of float
        Ends of the grid that need no further values: there is nothing beyond them, such as the SVM
        at spread 1, the model does not change any more, or no value could have fewer errors.
    search : tuple of two str, optional
        Name of the search in its cell and of the parameter. If the choice is at an end that is not
        a natural one, the runner repeats the search with the further values beyond it.
    beyond : sequence of float
        Further values beyond either end.
    """

    what: str
    value: float
    grid: Sequence[float]
    natural: tuple[float, ...] = ()
    search: tuple[str, str] | None = None
    beyond: Sequence[float] = ()

    @property
    def edge(self) -> str:
        """Which end of the grid it is, "smallest", "largest" or "natural"; empty if it is none."""
        ends = {"smallest": min(self.grid), "largest": max(self.grid)}
        for end, value in ends.items() if ends["smallest"] < ends["largest"] else ():
            if np.isclose(self.value, value, rtol=1e-9):
                return "natural" if value in self.natural else end
        return ""

    @property
    def further(self) -> list[float]:
        """Values beyond the end that was chosen; none if it is inside or at a natural end.

        Examples
        --------
        >>> from oblong_reproduction import Choice
        >>> Choice("SVM, C", 10.0, (0.1, 1.0, 10.0), beyond=(0.01, 100.0)).further
        [100.0]
        """
        low, high = min(self.grid), max(self.grid)
        beyond = {"smallest": lambda value: value < low, "largest": lambda value: value > high}
        return sorted(filter(beyond[self.edge], self.beyond)) if self.edge in beyond else []

    def wider(self, step: float, further: int = 3) -> list[float]:
        """The grid with further values, by this factor, beyond the end that was chosen.

        Examples
        --------
        >>> from oblong_reproduction import Choice
        >>> Choice("SVM, C", 10.0, (0.1, 1.0, 10.0)).wider(10.0, 2)
        [0.1, 1.0, 10.0, 100.0, 1000.0]
        >>> Choice("SVM, C", 1.0, (0.1, 1.0, 10.0)).wider(10.0)
        [0.1, 1.0, 10.0]
        """
        grid, end = sorted(self.grid), self.edge
        down = [grid[0] / step**k for k in range(further, 0, -1)] if end == "smallest" else []
        up = [grid[-1] * step**k for k in range(1, further + 1)] if end == "largest" else []
        return [*(float(f"{v:.3g}") for v in down), *grid, *(float(f"{v:.3g}") for v in up)]


def tried(
    cell: Mapping[str, Any], grid: Sequence[float], search: str, parameter: str
) -> list[float]:
    """The grid of a parameter, with the further values of a repeated search in order.

    Examples
    --------
    >>> from oblong_reproduction import tried
    >>> tried({"further": {"svm": {"C": [0.1]}}}, (1.0, 10.0), "svm", "C")
    [0.1, 1.0, 10.0]
    """
    return sorted([*grid, *cell.get("further", {}).get(search, {}).get(parameter, ())])


def added(
    grid: Mapping[str, Sequence[Any]], further: Mapping[str, Sequence[Any]]
) -> list[dict[str, Any]]:
    """The combinations that further values of some parameters add to those of a grid.

    Examples
    --------
    >>> from oblong_reproduction import added
    >>> added({"C": (1.0,), "gamma": (0.5, 2.0)}, {"C": (10.0,)})
    [{'C': 10.0, 'gamma': 0.5}, {'C': 10.0, 'gamma': 2.0}]
    """
    every = product(*((*values, *further.get(name, ())) for name, values in grid.items()))
    return [
        dict(zip(grid, one)) for one in every if any(v not in g for v, g in zip(one, grid.values()))
    ]


@dataclass(frozen=True)
class Experiment:
    """A table or figure of a paper.

    Parameters
    ----------
    name : str
        What to type.
    paper : Paper
        Where the published result is.
    title : str
        One line on what it shows.
    cells : callable
        ``cells(quick)`` returns the list of cells.
    rows : callable
        ``rows(results)`` yields the rows of the table; some cells may be missing.
    minutes : float
        Time of the full run on two cores, roughly.
    data : tuple of str
        Data sets of all cells together.
    protocol : str
        What is done, and where it departs from the paper.
    quick : str
        What ``--quick`` leaves out; empty if nothing.
    then : callable, optional
        ``then(quick, results)`` returns the cells of a second stage.
    draw : callable, optional
        ``draw(results)`` returns the figure, or None if the cells for it are missing.
    bulky : tuple of str
        Results that are needed for the rows but not stored in the end.
    alone : bool
        Whether cells measure time, and must not run side by side.
    finding : str
        What explains a departure from the published result, where one is known.
    choices : callable, optional
        ``choices(results)`` yields the parameters that were chosen, with their grids.
    condense : callable, optional
        ``condense(results)`` computes what `rows` need of bulky results, a list of dictionaries
        that is stored; `rows` then get these instead of the cells.
    """

    name: str
    paper: Paper
    title: str
    cells: Callable[[bool], list[Cell]]
    rows: Callable[[Results], Iterable[Row]]
    minutes: float
    data: tuple[str, ...] = ()
    protocol: str = ""
    quick: str = ""
    then: Callable[[bool, Results], list[Cell]] | None = None
    draw: Callable[[Results], Figure | None] | None = None
    bulky: tuple[str, ...] = ()
    alone: bool = False
    finding: str = ""
    choices: Callable[[Results], Iterable[Choice]] | None = None
    condense: Callable[[Results], list[dict[str, Any]]] | None = None
