"""Parts of an HTML page that is one file."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from importlib.metadata import version
from importlib.resources import files
from string import Template

from oblong import __version__


def frame(command: str, name: str, lead: str, sections: Iterable[str]) -> str:
    """Put sections into a page with its head.

    Parameters
    ----------
    command : str
        What wrote the page.
    name : str
        What it is about, not escaped.
    lead : str
        The answer, as HTML.
    sections : iterable of str
        The rest, as HTML.
    """
    page, style = (
        files("oblong.cli.shared").joinpath(f"report.{kind}").read_text(encoding="utf-8")
        for kind in ("html", "css")
    )
    return Template(page).substitute(
        command=command,
        name=escape(name),
        style=style,
        lead=lead,
        sections="".join(sections),
        version=__version__,
        time=f"{datetime.now(UTC):%d %B %Y, %H:%M}",
    )


def section(title: str, *content: str) -> str:
    """Put content under a heading."""
    return f"<section>\n<h2>{escape(title)}</h2>\n" + "\n".join(content) + "\n</section>\n"


def facts(values: Mapping[str, str]) -> str:
    """Numbers with their names below."""
    listed = "".join(f"<div><dt>{k}</dt><dd>{v}</dd></div>" for k, v in values.items())
    return f'<dl class="facts">{listed}</dl>'


def figure(svg: str, caption: str) -> str:
    """Put a caption below a picture."""
    return f"<figure>\n{svg}\n<figcaption>{escape(caption)}</figcaption>\n</figure>"


def table(
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    numbers: Iterable[int] = (),
    groups: Sequence[str] = (),
    starts: Sequence[int] = (),
) -> str:
    """Lay out escaped cells; the first of each row heads it.

    `numbers` are the columns to align right, `groups` cells above the head and `starts` the
    columns where those begin.
    """
    numbers = set(numbers)

    def cell(tag: str, position: int, text: str, scope: str = "") -> str:
        kinds = ["number"] * (position in numbers) + ["start"] * (position in starts)
        kind = f' class="{" ".join(kinds)}"' if kinds else ""
        return f"<{tag}{kind}{scope}>{text}</{tag}>"

    above = f'<tr class="groups">{"".join(groups)}</tr>\n' if groups else ""
    top = "".join(cell("th", j, text, ' scope="col"') for j, text in enumerate(head))
    body = "".join(
        "<tr>"
        + cell("th", 0, row[0], ' scope="row"')
        + "".join(cell("td", j, text) for j, text in enumerate(row[1:], start=1))
        + "</tr>\n"
        for row in rows
    )
    return (
        f'<div class="scroll"><table>\n<thead>{above}<tr>{top}</tr></thead>\n'
        f"<tbody>\n{body}</tbody>\n</table></div>"
    )


def how_to_repeat(command: str) -> str:
    """Say how to get the same page again."""
    packages = ("scikit-learn", "numpy", "scipy", "numba")
    versions = ", ".join(
        [f"oblong {__version__}", *(f"{name} {version(name)}" for name in packages)]
    )
    machine = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    return section(
        "Reproduce",
        f"<pre><code>{escape(command)}</code></pre>",
        f'<p class="note">{escape(versions)}; {escape(machine)}, {os.cpu_count()} cores.</p>',
    )
