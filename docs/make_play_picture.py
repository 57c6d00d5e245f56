"""Take the pictures of the page of ``oblong play`` for the guide, in a headless Chromium."""

from __future__ import annotations

import io
import os
import shutil
import threading
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

from oblong.cli.play.server import PlayServer

STATIC = Path(__file__).parent / "_static"
STATE = "#m=svm,rmm,ekm&k=linear&stretch="


def main() -> None:
    """Write one picture for pages in the light and one for those in the dark."""
    with PlayServer() as server, sync_playwright() as driver:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser = driver.chromium.launch(
            executable_path=os.environ.get("CHROMIUM") or shutil.which("chromium"),
            args=["--no-sandbox"] if os.geteuid() == 0 else [],
        )
        # The first fits compile, and results are kept: the pictures are of fits that did neither.
        for scheme, stretch in (("light", 3), ("light", 4), ("dark", 4.01)):
            page = browser.new_page(
                color_scheme=scheme,
                viewport={"width": 1150, "height": 1130},
                device_scale_factor=1.5,
            )
            page.goto(f"{server.url}{STATE}{stretch}")
            page.wait_for_selector("#plot[data-state=ready]", timeout=300_000)
            picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
            picture.quantize(96).save(STATIC / f"play-{scheme}.png", optimize=True)
        browser.close()
        server.shutdown()


if __name__ == "__main__":
    main()
