"""What the benchmark scripts share: thread limits, interleaved timing, JSON and Markdown."""

from __future__ import annotations

import argparse
import inspect
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_info

RESULTS = Path(__file__).parent / "results"


def parse_arguments(description: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--data", default=os.environ.get("OBLONG_DATA"), help="folder of data sets")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument(
        "--only", default="", help="the problem to measure; others keep their rows (linear)"
    )
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    return parser.parse_args()


def measured(
    script: str,
    doc: str,
    measure: Callable[..., Iterable[dict]],
    extra: Mapping[str, str] | None = None,
    threads: Sequence[int] | None = None,
) -> list[dict]:
    """Rows that ``measure`` gives for every number of threads, each in a process of its own.

    It is called with as many of threads, repeats, data and what to measure only as it takes. The
    processes are this script once more: there the rows are printed, and nothing else is done.
    """
    arguments = parse_arguments(doc)
    if threads is not None:
        arguments.threads = list(threads)
    if not arguments.child:
        return run_per_thread_count(script, arguments, extra)
    given = (arguments.child, arguments.repeats, arguments.data, arguments.only)
    names = inspect.signature(measure).parameters
    known = dict(zip(("threads", "repeats", "data", "only"), given))
    print(json.dumps(list(measure(**{name: known[name] for name in names}))))
    raise SystemExit


# The C library keeps what is freed, so that a fit after the first finds memory that is there.
# Where the machine is virtual, fresh pages can come more slowly than a kernel matrix is computed.
WARM_MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 46)}


def run_per_thread_count(
    script: str, arguments: argparse.Namespace, extra: Mapping[str, str] | None = None
) -> list[dict]:
    """Run the script in a child process per thread count, held to that many processors.

    The affinity of the process binds every peer alike, whatever threads it uses; so do the
    ``extra`` variables of its environment.
    """
    rows = []
    for threads in arguments.threads:
        command = [sys.executable, script, "--child", str(threads)]
        command += ["--repeats", str(arguments.repeats)]
        command += ["--data", arguments.data] if arguments.data else []
        command += ["--only", arguments.only] if arguments.only else []
        environment = {**os.environ, **(extra or {}), "OMP_NUM_THREADS": str(threads)}
        environment["OPENBLAS_NUM_THREADS"] = str(threads)

        def hold(threads: int = threads) -> None:
            if hasattr(os, "sched_setaffinity"):
                os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])

        done = subprocess.run(
            command, env=environment, preexec_fn=hold, stdout=subprocess.PIPE, check=True
        )
        rows += json.loads(done.stdout)
    return rows


def earlier(name: str, without: str) -> list[dict]:
    """Rows of an earlier run, less those of a problem that is measured anew."""
    path = RESULTS / f"{name}.json"
    rows = json.loads(path.read_text())["rows"] if path.exists() else []
    return [row for row in rows if without not in row["data"]]


def interleaved(
    tasks: Mapping[str, Callable[[], Any]],
    repeats: int,
    least: float = 0.0,
    processor: bool = False,
) -> dict[str, float]:
    """Median seconds of each task, after one warm-up, alternating so that drift affects all alike.

    In its turn a task is run as often as it takes to fill ``least`` seconds, so that tasks of a
    millisecond are not measured with the caches that another has left behind. With ``processor``
    the seconds are those of the processor, in all threads.
    """
    now = time.process_time if processor else time.perf_counter
    numbers = {}
    for name, task in tasks.items():
        task()
        start = now()
        if least:
            task()
        numbers[name] = max(1, math.ceil(least / max(1e-6, now() - start)))
    times: dict[str, list[float]] = {name: [] for name in tasks}
    for _ in range(repeats):
        for name, task in tasks.items():
            start = now()
            for _ in range(numbers[name]):
                task()
            times[name].append((now() - start) / numbers[name])
    return {name: statistics.median(values) for name, values in times.items()}


def write(name: str, title: str, note: str, columns: Sequence[str], rows: list[dict]) -> None:
    """Write ``results/name.json`` and a Markdown table of the columns beside it."""
    machine = {
        "processor": processor_name(),
        "processors": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "blas": blas_name(),
        "python": platform.python_version(),
        **{package: _version(package) for package in _PACKAGES},
    }
    RESULTS.mkdir(exist_ok=True)
    record = {"title": title, "machine": machine, "rows": rows}
    (RESULTS / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n")
    lines = [f"**{title}**", "", note, "", "| " + " | ".join(columns) + " |"]
    lines.append("|" + "---|" * len(columns))
    lines += ["| " + " | ".join(_cell(row.get(c)) for c in columns) + " |" for row in rows]
    packages = ", ".join(f"{p} {machine[p]}" for p in _PACKAGES if machine[p])
    lines += ["", f"Measured on {machine['processor']}, Python {machine['python']}, {packages}."]
    lines[-1] += f" The BLAS of NumPy: {machine['blas']}." if machine["blas"] else ""
    text = "\n".join(lines) + "\n"
    (RESULTS / f"{name}.md").write_text(text)
    print(text)


_PACKAGES = (
    "numpy",
    "scipy",
    "scikit-learn",
    "numba",
    "scikit-learn-intelex",
    "skglm",
    "sklearn-contrib-lightning",
    "rehline",
)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except ImportError:
        return None


def processor_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def blas_name() -> str | None:
    """NumPy's BLAS, and for which processors its loops are: OpenBLAS can be told to take others."""
    loaded = [module for module in threadpool_info() if module["user_api"] == "blas"]
    # SciPy may have one of its own.
    for module in sorted(loaded, key=lambda module: "numpy" not in module["filepath"]):
        target = module.get("architecture")
        return f"{module['internal_api']} {module['version']}" + f" ({target})" * bool(target)
    return None


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:.3g}" if isinstance(value, float) else str(value)
