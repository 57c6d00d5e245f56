"""Fit random problems in processes of their own, and count what is wrong.

``make fuzz SEED=0 COUNT=1000`` runs this file. One problem again::

    python -m tests.fuzz.run --estimator SigmaSVC --seed 17
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import signal
import sys
import time
import traceback
from collections.abc import Iterable, Iterator
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import sklearn

import oblong
from tests.fuzz.evaluate import COUNTED, FAILURES, fit, judge
from tests.fuzz.problems import ESTIMATORS, make

# Processor seconds after which a fit counts as one without end, and those for its evaluation.
FIT_LIMIT = 30.0
JUDGE_LIMIT = 120.0
# Each process has one thread: more would wait for each other, and their time would count.
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
Task = tuple[str, int]


def one(estimator: str, seed: int, between: Any = None) -> dict[str, Any]:
    """Fit and judge one problem; ``between`` is called after the fit."""
    problem = make(estimator, seed)
    start = time.process_time()
    fitted = fit(problem)
    seconds = time.process_time() - start
    if between is not None:
        between()
    try:
        found = judge(problem, fitted).found
    except Exception:
        # A fault of the judge must not look like one of the model, nor like success.
        found = {"undecided": "judge: " + traceback.format_exc(limit=-2).strip()[-300:]}
    return {
        "estimator": estimator,
        "seed": seed,
        "problem": str(problem)[:300],
        "seconds": round(seconds, 3),
        "found": found,
    }


def _serve(pipe: Connection, limit: float) -> None:
    """Work on tasks from the parent; the system ends a process that exceeds its time."""
    while True:
        task = pipe.recv()
        if task is None:
            return
        signal.setitimer(signal.ITIMER_PROF, limit)

        def between() -> None:
            pipe.send("fitted")
            signal.setitimer(signal.ITIMER_PROF, JUDGE_LIMIT)

        result = one(*task, between)
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        pipe.send(result)


class _Worker:
    """A process, the task it works on, and whether the fit is over."""

    def __init__(self, limit: float) -> None:
        context = multiprocessing.get_context("spawn")
        os.environ.update(dict.fromkeys(_THREADS, "1"))
        self.pipe, child = context.Pipe()
        self.process = context.Process(target=_serve, args=(child, limit), daemon=True)
        self.process.start()
        child.close()
        self.task: Task | None = None
        self.fitted = False

    def give(self, task: Task) -> None:
        self.task, self.fitted = task, False
        self.pipe.send(task)

    def death(self) -> dict[str, Any]:
        """What the end of the process says about its task."""
        self.process.join()
        assert self.task is not None
        estimator, seed = self.task
        if self.fitted:
            found = {"undecided": f"the evaluation ended with exit code {self.process.exitcode}"}
        elif self.process.exitcode == -signal.SIGPROF:
            found = {"hang": f"no end after {FIT_LIMIT:g} processor seconds"}
        else:
            found = {"foreign": f"the process ended with exit code {self.process.exitcode}"}
        problem = str(make(estimator, seed))[:300]
        return {"estimator": estimator, "seed": seed, "problem": problem, "found": found}


def run(tasks: Iterable[Task], jobs: int = 1, limit: float = FIT_LIMIT) -> Iterator[dict[str, Any]]:
    """Yield the results of tasks, in the order in which they end."""
    queue = iter(tasks)
    workers: list[_Worker] = []

    def feed(worker: _Worker) -> bool:
        task = next(queue, None)
        if task is not None:
            worker.give(task)
        return task is not None

    try:
        for _ in range(jobs):
            worker = _Worker(limit)
            if feed(worker):
                workers.append(worker)
            else:
                worker.pipe.send(None)
        while workers:
            for pipe in wait([worker.pipe for worker in workers]):
                worker = next(w for w in workers if w.pipe is pipe)
                try:
                    message = worker.pipe.recv()
                except (EOFError, ConnectionResetError):
                    yield worker.death()
                    workers.remove(worker)
                    fresh = _Worker(limit)
                    if feed(fresh):
                        workers.append(fresh)
                    else:
                        fresh.pipe.send(None)
                    continue
                if message == "fitted":
                    worker.fitted = True
                    continue
                yield message
                if not feed(worker):
                    worker.pipe.send(None)
                    workers.remove(worker)
    finally:
        for worker in workers:
            worker.process.kill()


def tasks(estimators: Iterable[str], seed: int, count: int) -> list[Task]:
    """Share ``count`` problems among estimators; each has the seeds from ``seed`` on."""
    names = list(estimators)
    total = sum(ESTIMATORS[name] for name in names)
    found = []
    for name in names:
        share = max(1, round(count * ESTIMATORS[name] / total))
        found += [(name, seed + k) for k in range(share)]
    # Mixed, so that the time left can be told and a kind that is slow does not come last.
    np.random.default_rng(seed).shuffle(found)
    return [(str(name), int(number)) for name, number in found]


def summary(results: list[dict[str, Any]], seed: int, limit: float) -> dict[str, Any]:
    """Counts by estimator and kind, versions, and the problems that failed."""
    counts = {}
    for name in ESTIMATORS:
        own = [result for result in results if result["estimator"] == name]
        if own:
            kinds = {k: sum(k in result["found"] for result in own) for k in (*FAILURES, *COUNTED)}
            counts[name] = {"problems": len(own), **kinds}
    failed = [r for r in results if any(kind in r["found"] for kind in FAILURES)]
    open_ = [r for r in results if r not in failed and "undecided" in r["found"]]
    return {
        "seed": seed,
        "problems": len(results),
        "fit_limit_s": limit,
        "versions": {
            "oblong": oblong.__version__,
            "numpy": np.__version__,
            "scipy": scipy.__version__,
            "scikit-learn": sklearn.__version__,
            "python": platform.python_version(),
        },
        "long_double_bits": int(np.finfo(np.longdouble).nmant) + 1,
        "counts": counts,
        "failed": sorted(failed, key=lambda r: (r["estimator"], r["seed"])),
        "undecided": sorted(open_, key=lambda r: (r["estimator"], r["seed"])),
    }


def table(found: dict[str, Any]) -> str:
    """The counts as Markdown: one line per estimator, one column per kind."""
    columns = ["problems", *FAILURES, *COUNTED]
    lines = [
        "| estimator | " + " | ".join(columns) + " |",
        "|---|" + "---:|" * len(columns),
    ]
    counts = dict(found["counts"])
    counts["all"] = {k: sum(row[k] for row in counts.values()) for k in columns}
    for name, row in counts.items():
        lines.append(f"| {name} | " + " | ".join(str(row[k]) for k in columns) + " |")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Run from the command line; the exit status says whether anything failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.run", description=__doc__)
    parser.add_argument("--estimator", choices=list(ESTIMATORS), help="one problem of this kind")
    parser.add_argument("--estimators", default="", help="names, with commas; all by default")
    parser.add_argument("--seed", type=int, default=0, help="number of the first problem")
    parser.add_argument("--count", type=int, default=1000, help="number of problems in all")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--limit", type=float, default=FIT_LIMIT, help="seconds of a fit")
    parser.add_argument("--output", type=Path, help="where to store the result, NAME.json")
    options = parser.parse_args(arguments)
    if options.estimator:
        result = one(options.estimator, options.seed)
        print(json.dumps(result, indent=1))
        return int(any(kind in result["found"] for kind in FAILURES))
    names = [name for name in options.estimators.split(",") if name] or list(ESTIMATORS)
    unknown = sorted(set(names) - set(ESTIMATORS))
    if unknown:
        parser.error(f"unknown estimators {unknown}; there are {list(ESTIMATORS)}")
    todo = tasks(names, options.seed, options.count)
    results = []
    for result in run(todo, options.jobs, options.limit):
        results.append(result)
        for kind, text in result["found"].items():
            if kind in FAILURES:
                print(f"{kind:9s} {result['estimator']} {result['seed']}: {text}", flush=True)
        if sys.stderr.isatty():
            print(f"\r{len(results)} of {len(todo)}", end="", file=sys.stderr, flush=True)
        elif len(results) % 500 == 0:
            print(f"{len(results)} of {len(todo)}", file=sys.stderr, flush=True)
    found = summary(results, options.seed, options.limit)
    print(table(found))
    if options.output:
        options.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        options.output.with_suffix(".md").write_text(_report(found), encoding="utf-8")
    return int(bool(found["failed"]))


def _report(found: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    return (
        f"{found['problems']} problems from seed {found['seed']}, with a limit of "
        f"{found['fit_limit_s']:g} processor seconds per fit; {versions}; long double with "
        f"{found['long_double_bits']} bits.\n\n{table(found)}\n"
    )


if __name__ == "__main__":
    sys.exit(main())
