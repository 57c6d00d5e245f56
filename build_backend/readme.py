"""What PyPI shows is the README with links that lead somewhere from there."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def absolute(text: str, urls: dict[str, str], version: str) -> str:
    """The README with the addresses of the documentation and of files in the released version."""

    def url(target: str) -> str:
        if page := re.fullmatch(r"docs/([\w/]+)\.(?:md|rst)", target):
            return f"{urls['Documentation']}{page[1]}.html"
        kind = "raw" if target.endswith((".svg", ".png")) else "blob"
        return f"{urls['Source']}/{kind}/v{version}/{target}"

    links = (
        r"""(?<=\]\()(?!\w+:|\#)[^)\s]+ | (?<=src=")(?!\w+:)[^"]+ | (?<=srcset=")(?!\w+:)[^"]+"""
    )
    return re.sub(links, lambda match: url(match[0]), text, flags=re.VERBOSE)


def dynamic_metadata(
    field: str, settings: Mapping[str, Any], project: Mapping[str, Any]
) -> dict[str, str]:
    """The description of the distribution, for scikit-build-core."""
    if field != "readme" or settings:
        raise ValueError("gives the field readme, without settings")
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["urls"]
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return {
        "content-type": "text/markdown",
        "text": absolute(text, urls, project["version"]),
    }
