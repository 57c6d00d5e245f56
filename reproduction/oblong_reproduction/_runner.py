"""Run the cells of an experiment, side by side, and store each as it is finished."""

from __future__ import annotations

import json
import multiprocessing
import os
import platform
import re
import signal
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import BrokenExecutor
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from importlib.metadata import version
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from oblong_reproduction._data import Sets
from oblong_reproduction._experiment import Cell, Experiment, Results
from oblong_reproduction._figure import save_figure
from oblong_reproduction._report import markdown
from oblong_reproduction._store import Store, plain, write_text
from oblong_reproduction._verdict import CLAIM_VERDICTS, NUMBER_VERDICTS

Advance = Callable[[str, int, int], None]
# What the library says of a fit that ended before it met its tolerance.
_STOPPED = re.compile(r"did not converge|stopped after .* above tol|known to a relative gap")


@dataclass(frozen=True)
class RunSettings:
    """How to run experiments.

    Parameters
    ----------
    quick : bool
        Whether to run the small version.
    seed : int
        Seed of all random numbers.
    jobs : int
        Cells to run side by side.
    only : str, optional
        Pattern that names of cells have to match, such as ``usps/*``.
    fresh : bool
        Whether to forget stored results.
    """

    quick: bool = False
    seed: int = 0
    jobs: int = 1
    only: str | None = None
    fresh: bool = False


def run_experiment(
    experiment: Experiment,
    sets: Sets,
    settings: RunSettings,
    folder: Path,
    advance: Advance = lambda name, done, total: None,
) -> dict[str, Any]:
    """Run an experiment, or what is left of it, and write its files.

    Parameters
    ----------
    experiment : Experiment
        The experiment.
    sets : Sets
        The data.
    settings : RunSettings
        How to run it. The results depend on the seed and on ``quick`` alone.
    folder : Path
        Where to write ``NAME.json``, ``NAME.md`` and ``NAME.svg``.
    advance : callable
        Called with the last cell's name, the number of finished cells and that of all.

    Returns
    -------
    dict
        The content of the JSON file.
    """
    store = Store(folder, experiment.name, quick=settings.quick, seed=settings.seed)
    if settings.fresh:
        store.clear()
    earlier = store.processor()
    skipped: dict[str, str] = {}
    failed: dict[str, str] = {}
    cells = experiment.cells(settings.quick)
    done = _stage(experiment, cells, sets, settings, store, skipped, failed, advance)
    wider = [] if settings.quick else list(_wider_cells(experiment, cells, done))
    waiting: dict[str, str] = {}
    broken: dict[str, str] = {}
    if wider:
        left: dict[str, str] = {}
        again = _stage(experiment, wider, sets, settings, store, left, broken, advance)
        if experiment.then is None or len(again) == len(wider):
            done |= again
            cells = cells + wider
            skipped |= left
        else:
            # What the second stage tests rests on all searches: until each is there, on the first
            # ones, so that a part of the wider searches takes nothing away. The journal keeps it.
            waiting["wider searches"] = f"{len(again)} of {len(wider)} done; all count, or none"
    if experiment.then is not None and not failed:
        # Parameters may rest on all cells of the first stage: with some missing they would differ.
        if len(done) == len(cells) - len(skipped):
            later = experiment.then(settings.quick, _results(cells, done))
            done |= _stage(experiment, later, sets, settings, store, skipped, failed, advance)
            cells = cells + later
        else:
            skipped["second stage"] = "waits for the whole of the first"
    failed |= broken
    results = _results(cells, done)
    condensed = experiment.condense(results) if experiment.condense else None
    records = [done[cell.name] for cell in cells if cell.name in done]
    complete = len(records) == len(cells) - len(skipped) and "second stage" not in skipped
    complete = complete and not waiting
    skipped |= waiting
    picture = experiment.draw(results) if experiment.draw and records else None
    if picture is not None:
        folder.mkdir(parents=True, exist_ok=True)
        save_figure(picture, store.picture)
    used = {name for cell in cells if cell.name in done for name in cell.data}
    document = judged(
        experiment,
        {
            "quick": settings.quick,
            "seed": settings.seed,
            "date": datetime.now(UTC).date().isoformat(),
            "seconds": round(sum(record["seconds"] for record in records), 1),
            "machine": _machine(earlier),
            "data": {name: sets.source(name) for name in sorted(used)},
            "figure": store.picture.name if picture is not None else None,
            "complete": complete and not skipped,
            "cells_in_all": len(cells),
            "not_run": skipped,
            "failed": failed,
            "condensed": condensed,
            "cells": records,
        },
    )
    if records or skipped:
        store.finish(document, experiment.bulky, complete and not failed)
        write_text(store.table, markdown(document))
    return document


def judged(experiment: Experiment, stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stored run with title, protocol, finding and verdicts as the code has them now."""
    results = _of_records(stored["cells"])
    condensed = stored.get("condensed")
    seen = results if condensed is None else Results(condensed)
    warned: Counter[str] = Counter()
    for record in stored["cells"]:
        warned.update(record.get("warnings", {}))
    quick = stored["quick"]
    return plain(
        {
            **dict.fromkeys(("experiment", "title", "paper")),
            **{k: v for k, v in stored.items() if k not in ("rows", "cells", "condensed")},
            "experiment": experiment.name,
            "title": experiment.title,
            "paper": experiment.paper.citation,
            "protocol": experiment.protocol,
            "reduction": experiment.quick if quick else "",
            "finding": "" if quick else experiment.finding,
            "warnings": dict(warned),
            "edges": [] if quick else _edges(experiment, results),
            "rows": _rows(experiment, seen, quick) if stored["cells"] else [],
            **({} if condensed is None else {"condensed": condensed}),
            "cells": stored["cells"],
        }
    )


def judge_again(experiment: Experiment, folder: Path, quick: bool = False) -> dict | None:
    """Write the files of a stored run anew, by today's rules; None if nothing is stored."""
    store = Store(folder, experiment.name, quick=quick, seed=0)
    if not store.document.is_file():
        return None
    document = judged(experiment, json.loads(store.document.read_text(encoding="utf-8")))
    store.finish(document, (), complete=False)
    write_text(store.table, markdown(document))
    return document


def _rows(experiment: Experiment, results: Results, quick: bool) -> list[dict[str, str]]:
    """Rows of the table; a reduced run neither meets published numbers nor settles claims."""
    rows = list(experiment.rows(results))
    if quick and experiment.quick:
        instead = dict.fromkeys(NUMBER_VERDICTS, "not comparable") | dict.fromkeys(
            CLAIM_VERDICTS[:4], "too few runs"
        )
        reason = "quick run, not the full experiment"
        rows = [
            replace(row, verdict=word, why=reason) if (word := instead.get(row.verdict)) else row
            for row in rows
        ]
    return [asdict(row) for row in rows]


def _edges(experiment: Experiment, results: Results) -> list[dict[str, Any]]:
    """Parameters chosen at an end of their grid, and how often."""
    if experiment.choices is None:
        return []
    made: Counter[str] = Counter()
    ends: Counter[tuple[str, str, float]] = Counter()
    for choice in experiment.choices(results):
        made[choice.what] += 1
        if choice.edge:
            # Values that differ by rounding alone are one.
            ends[choice.what, choice.edge, float(f"{choice.value:.8g}")] += 1
    return [
        {"what": what, "end": end, "value": value, "count": count, "of": made[what]}
        for (what, end, value), count in ends.items()
    ]


def _wider_cells(
    experiment: Experiment, cells: list[Cell], done: Mapping[str, Mapping[str, Any]]
) -> Iterator[Cell]:
    """The cells with a choice at an open end of its grid, with the values beyond that end."""
    choices = experiment.choices
    if choices is None:
        return
    for cell in cells:
        if cell.name not in done:
            continue
        record = done[cell.name]
        further: dict[str, dict[str, list[float]]] = {}
        for choice in choices(_of_records([record])):
            if choice.search and choice.further:
                search, parameter = choice.search
                values = further.setdefault(search, {}).setdefault(parameter, [])
                values += [value for value in choice.further if value not in values]
        if further:
            yield replace(
                cell,
                name=f"{cell.name}/wider",
                parameters={**cell.parameters, "further": further},
                draw=cell.draw or cell.name,
                widens=cell.name,
                before=record["result"],
            )


def _stage(
    experiment: Experiment,
    cells: list[Cell],
    sets: Sets,
    settings: RunSettings,
    store: Store,
    skipped: dict[str, str],
    failed: dict[str, str],
    advance: Advance,
) -> dict[str, dict[str, Any]]:
    """Run the cells that are not stored yet; return all that are there now."""
    done = _stored(experiment, cells, settings, store)
    missing = {name: sets.missing(name) for name in {n for cell in cells for n in cell.data}}
    wanted: list[Cell] = []
    for cell in cells:
        reasons = [reason for name in cell.data if (reason := missing[name])]
        if cell.name in done:
            continue
        if reasons:
            skipped[cell.name] = "; ".join(reasons)
        elif settings.only is None or fnmatchcase(cell.name, settings.only):
            wanted.append(cell)
    total = len(done) + len(wanted)
    advance("", len(done), total)
    jobs = 1 if experiment.alone else settings.jobs
    for record in _run(experiment.name, wanted, sets, settings.seed, jobs):
        if "error" in record:
            failed[record["name"]] = record["error"]
        else:
            store.append(record)
            done[record["name"]] = record
        advance(record["name"], len(done), total)
    return done


def _stored(
    experiment: Experiment, cells: list[Cell], settings: RunSettings, store: Store
) -> dict[str, dict[str, Any]]:
    """Stored results of these very cells, those of other experiments that share them included."""
    own, others = store.finished(experiment.bulky), {}
    for owner in {cell.owner for cell in cells if cell.owner} - {experiment.name}:
        other = Store(store.document.parent, owner, quick=settings.quick, seed=settings.seed)
        others[owner] = other.finished(experiment.bulky)
    done: dict[str, dict[str, Any]] = {}
    for cell in cells:
        for stored in (own, others.get(cell.owner or "", {})):
            record = stored.get(cell.name)
            if record is not None and record["parameters"] == plain(dict(cell.parameters)):
                done[cell.name] = record
                break
    return done


def _run(name: str, cells: list[Cell], sets: Sets, seed: int, jobs: int) -> Iterator[dict]:
    if not cells:
        return
    tasks = [delayed(_evaluate)(name, cell, sets, seed) for cell in cells]
    pool = Parallel(
        n_jobs=min(jobs, len(tasks)), return_as="generator_unordered", pre_dispatch="n_jobs"
    )
    try:
        yield from pool(tasks)
    except BrokenExecutor:
        yield {
            "name": "a worker process",
            "error": "was killed, most likely for lack of memory; try fewer --jobs",
        }


def _evaluate(experiment: str, cell: Cell, sets: Sets, seed: int) -> dict[str, Any]:
    if multiprocessing.parent_process() is not None:
        # Ctrl-C reaches every process of the terminal; the main one ends the workers.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    start, busy = time.perf_counter(), time.process_time()
    with warnings.catch_warnings(record=True) as caught, threadpool_limits(1, "blas"):
        warnings.simplefilter("always")
        try:
            given = {} if cell.before is None else {"before": cell.before}
            rng = cell.generator(experiment, seed)
            result = cell.run(sets, rng, **cell.parameters, **given)
        except Exception as error:
            reason = (str(error).splitlines() or [""])[0]
            return {"name": cell.name, "error": f"{type(error).__name__}: {reason}"}
    said = [str(w.message) for w in caught if issubclass(w.category, ConvergenceWarning)]
    # Other warnings of this kind are about the data or about accuracy, not about a fit's end.
    stopped = [message for message in said if _STOPPED.search(message)]
    others = Counter(_message(m) for m in said if not _STOPPED.search(m))
    return plain(
        {
            "name": cell.name,
            **({"widens": cell.widens} if cell.widens else {}),
            "parameters": dict(cell.parameters),
            "seconds": round(time.perf_counter() - start, 3),
            "busy": round(time.process_time() - busy, 3),
            "unconverged": len(stopped),
            **({"warnings": dict(others)} if others else {}),
            "result": result,
        }
    )


def _message(text: str) -> str:
    """The first sentence of a warning, with its numbers left out so that equal ones are counted."""
    return re.sub(r"\d+(\.\d+)?(e[-+]?\d+)?", "…", re.split(r"(?<=[.:]) (?=[A-Z])", text)[0])


def _results(cells: list[Cell], done: dict[str, dict[str, Any]]) -> Results:
    return _of_records([done[cell.name] for cell in cells if cell.name in done])


def _of_records(records: Iterable[Mapping[str, Any]]) -> Results:
    """Parameters and results of each cell; a wider search replaces what it has found anew."""
    found: dict[str, dict[str, Any]] = {}
    for record in records:
        first = found.setdefault(record.get("widens", record["name"]), {})
        first |= {**record["parameters"], **record["result"]}
    return Results(found.values())


def _machine(earlier: str) -> dict[str, Any]:
    """Describe the computer; cells of an earlier run may be from another one."""
    packages = ("numpy", "scipy", "scikit-learn", "numba")
    here, some = _processor(), " and, for some cells, "
    known = re.split(f"{some}| or ", earlier) if earlier else [here]
    if here not in known:
        known.append(here)
    return {
        "processor": known[0] + (some + " or ".join(known[1:]) if known[1:] else ""),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "oblong": version("oblong"),
        **{package: version(package) for package in packages},
    }


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
