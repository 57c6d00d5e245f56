"""How soon the page of ``oblong play`` is redrawn after a point was moved, in a real browser."""

from __future__ import annotations

import os
import shutil
import statistics
import threading

import numpy as np
from _harness import parse_arguments, write
from playwright.sync_api import sync_playwright

from oblong.cli.play.models import MODELS
from oblong.cli.play.server import PlayServer

POINTS = 200
CASES = {
    "SVM, RMM": "svm,rmm",
    "all six batch classifiers and the ellipsoids": "svm,rmm,sigma,ekm,esvm,bpm,mve",
    "all": ",".join(MODELS),
}


def main() -> None:
    repeats = parse_arguments(__doc__).repeats
    rng = np.random.default_rng(0)
    labels = np.arange(POINTS) % 2
    table = np.column_stack([rng.normal(size=POINTS), rng.normal(2.4 * labels - 1.2, 0.5), labels])
    points = ";".join(f"{x:.4g},{y:.4g},{int(c)}" for x, y, c in table)
    rows = []
    with PlayServer() as server, sync_playwright() as driver:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser = driver.chromium.launch(
            executable_path=os.environ.get("CHROMIUM") or shutil.which("chromium"),
            args=["--no-sandbox"] if os.geteuid() == 0 else [],
        )
        for kernel in ("linear", "rbf"):
            for title, names in CASES.items():
                page = browser.new_page()
                page.goto(f"{server.url}#m={names}&k={kernel}&p={points}")
                page.wait_for_selector("#plot[data-state=ready]", timeout=300_000)
                box = page.locator("#plot").bounding_box()
                x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
                page.mouse.move(x, y)
                page.mouse.down()
                first = []
                for turn in range(10 * repeats):
                    page.mouse.move(x + turn, y + turn)
                    page.wait_for_timeout(20)
                    page.wait_for_selector("#plot[data-state=ready]")
                    first.append(float(page.get_attribute("#status", "data-milliseconds")))
                page.close()
                row = {"kernel": kernel, "models": title, "median ms": statistics.median(first)}
                rows.append(row | {"95 % within ms": float(np.quantile(first, 0.95))})
        browser.close()
        server.shutdown()
    write(
        "play_latency",
        "Redrawing the page of oblong play",
        f"{POINTS} points, one of which is dragged. From the move to the new lines of the models "
        "that were done within 10 ms, and one more; the others follow.",
        ["kernel", "models", "median ms", "95 % within ms"],
        rows,
    )


if __name__ == "__main__":
    main()
