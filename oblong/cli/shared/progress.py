"""Progress on the terminal: on standard error, and only if that is a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

__all__ = ["fold_progress", "step_progress", "waiting"]


@contextmanager
def fold_progress(
    titles: Mapping[str, str], folds: int, done: Iterable[str] = ()
) -> Iterator[Callable[[str], None]]:
    """Show a bar for each model over its folds; yields the function that advances a model.

    `titles` are what to show of the models by name, and `done` names one for each fold of an
    earlier run.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda name: None
        return
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=36),
        MofNCompleteColumn(),
        TextColumn("folds"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    )
    with bar:
        before = Counter(done)
        tasks = {
            name: bar.add_task(title, total=folds, completed=before[name])
            for name, title in titles.items()
        }
        yield lambda name: bar.advance(tasks[name])


@contextmanager
def step_progress(total: int) -> Iterator[Callable[[str], None]]:
    """Show one bar over all steps; yields the function to call before each, with what comes."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda what: None
        return
    bar = Progress(
        BarColumn(bar_width=36),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
        console=console,
        transient=True,
    )
    with bar:
        # The first call ends nothing.
        task = bar.add_task("", total=total, completed=-1)
        yield lambda what: bar.update(task, advance=1, description=what)


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Show that work without steps goes on."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status(what):
        yield
