"""Progress on standard error: bars on a terminal, a line now and then elsewhere."""

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

# Seconds before the first line, and between lines at the beginning; later they are rarer.
_FIRST, _BETWEEN = 10.0, 15.0


@contextmanager
def fold_progress(
    titles: Mapping[str, str],
    folds: int,
    done: Iterable[str] = (),
    remaining: Callable[[], str] = lambda: "",
) -> Iterator[Callable[[str], None]]:
    """Show a bar for each model over its folds; yields the function that advances a model.

    `titles` are what to show of the models by name, `done` names one for each fold of an
    earlier run, and `remaining` says how long the rest will take.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        began = time.monotonic()
        following = began + _FIRST

        def advance(name: str) -> None:
            nonlocal following
            now = time.monotonic()
            if now >= following and (text := remaining()):
                print(f"oblong: {text}", file=sys.stderr, flush=True)
                following = now + max(_BETWEEN, 0.1 * (now - began))

        yield advance
        return
    counted = (MofNCompleteColumn(), TextColumn("folds"), TimeElapsedColumn())
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=36), *counted)
    with Progress(*columns, console=console, transient=True) as bar:
        before = Counter(done)
        tasks = {
            name: bar.add_task(title, total=folds, completed=before[name])
            for name, title in titles.items()
        }
        overall = bar.add_task(remaining(), total=folds * len(tasks), completed=before.total())

        def show(name: str) -> None:
            bar.advance(tasks[name])
            bar.update(overall, advance=1, description=remaining())

        yield show
