"""What PyPI shows is the README with links that lead somewhere from there."""

from __future__ import annotations

import re
from pathlib import Path

from hatchling.metadata.plugin.interface import MetadataHookInterface


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


class Readme(MetadataHookInterface):
    """Gives the distribution its description."""

    def update(self, metadata: dict) -> None:
        """Set the field from README.md and the addresses in pyproject.toml."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        text = absolute(text, metadata["urls"], metadata["version"])
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
