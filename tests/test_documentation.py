"""The documentation says what is so: its examples run, and what it names is there."""

from __future__ import annotations

import ast
import configparser
import doctest
import importlib.util
import inspect
import json
import re
import shlex
import textwrap
import tomllib
from pathlib import Path

import pytest
from sklearn.base import BaseEstimator

import oblong
from oblong.cli import _parse

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
GUIDE = sorted((DOCS / "guide").glob("*.rst"))

pytestmark = pytest.mark.skipif(not GUIDE, reason="the documentation is not part of this copy")


@pytest.mark.parametrize(
    "page", [page for page in GUIDE if ">>>" in page.read_text("utf-8")], ids=lambda page: page.stem
)
def test_examples_of_the_guide(page):
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    done = doctest.testfile(
        str(page), module_relative=False, optionflags=flags, encoding="utf-8", verbose=False
    )
    assert done.attempted
    assert not done.failed


# Code that is not a doctest: blocks by directive, and by a colon pair before Python.
BLOCK = re.compile(
    r"(?:^\.\. code-block:: python\n|::\n)\n((?:(?: {3,4}\S.*| {4,}\S.*)?\n)+)", flags=re.MULTILINE
)


def blocks(page):
    found = [textwrap.dedent(text) for text in BLOCK.findall(page.read_text("utf-8") + "\n")]
    return [text for text in found if not text.startswith((">>>", "$")) and is_python(text)]


def is_python(text):
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


# Blocks that need a broker or a device are only compiled.
_ELSEWHERE = ("confluent_kafka", "torch", "fetch_20newsgroups")
CODE = [page for page in [*GUIDE, *sorted(DOCS.glob("*.rst"))] if blocks(page)]


@pytest.mark.parametrize("page", CODE, ids=lambda page: page.stem)
def test_code_blocks_run(page, tmp_path, monkeypatch):
    """One after the other, pasted as they are: with nothing but what the page itself has made."""
    pytest.importorskip("matplotlib").use("Agg")
    monkeypatch.chdir(tmp_path)
    text = page.read_text("utf-8")
    for module in ("river", "onnxruntime", "pyarrow", "distributed"):
        if re.search(rf"^ +(import|from) {module}\b", text, flags=re.MULTILINE):
            pytest.importorskip(module)
    scope: dict[str, object] = {}
    for block in blocks(page):
        code = compile(block, str(page), "exec")
        if not any(word in block for word in _ELSEWHERE):
            exec(code, scope)


def test_every_block_is_python_console_or_output():
    """None of them escapes the two tests."""
    pages = [*GUIDE, *DOCS.glob("*.rst")]
    kinds = {k for p in pages for k in re.findall(r"code-block:: (\w+)", p.read_text("utf-8"))}
    assert kinds == {"python", "console"}
    for page in pages:
        text = page.read_text("utf-8") + "\n"
        named = re.findall(r"code-block:: python\n\n((?:(?: {3}.*)?\n)+)", text)
        assert len(named) == text.count("code-block:: python")
        assert [block for block in named if textwrap.dedent(block) not in blocks(page)] == []
        # Doctests are run in the guide, and by name in one page more.
        assert ">>>" not in text or page in GUIDE or page.stem == "quickstart"
    for page in [*DOCS.glob("*.md"), ROOT / "CONTRIBUTING.md"]:
        assert not re.search(r"^```\{?(code-block\} )?python|>>>", page.read_text("utf-8"), re.M)


def commands():
    for page in [*GUIDE, *DOCS.glob("*.rst"), *DOCS.glob("*.md"), ROOT / "README.md"]:
        for line in re.findall(r"^ *\$ (.+)$", page.read_text("utf-8"), flags=re.MULTILINE):
            for part in re.split(r"[|>]|  #", line.rstrip("\\")):
                # The experiments have their own distribution, and tests.
                if part.strip().startswith("oblong ") and "reproduce" not in part:
                    yield part.strip()


@pytest.mark.parametrize("line", sorted(set(commands())))
def test_commands_are_understood(line):
    words = shlex.split(line)[1:]
    assert not isinstance(_parse(words), int), line


@pytest.mark.parametrize(
    "name",
    [
        "oblong",
        "oblong.bounds",
        "oblong.datasets",
        "oblong.display",
        "oblong.streams",
        "oblong.svm",
    ],
)
def test_reference_lists_every_public_name(name):
    reference = (DOCS / "api.rst").read_text("utf-8")
    listed = set(re.findall(r"^ +([\w.]+)$", reference, flags=re.MULTILINE))
    assert set(importlib.import_module(name).__all__) - {"__version__"} <= listed


def test_guide_names_every_estimator():
    text = "".join(page.read_text("utf-8") for page in GUIDE)
    public = {name: getattr(oblong, name) for name in oblong.__all__}
    estimators = [
        name
        for name, value in public.items()
        if inspect.isclass(value) and issubclass(value, BaseEstimator)
    ]
    assert estimators
    assert [name for name in estimators if f"oblong.{name}`" not in text] == []


def test_figures_of_the_guide_come_from_examples():
    pages = [*GUIDE, *DOCS.glob("*.rst")]
    named = {
        match
        for page in pages
        for match in re.findall(
            r"sphx_glr_(?:auto_examples_)?(plot_\w+?)(?:_\d{3})?\.p\w+", page.read_text("utf-8")
        )
    }
    assert named
    assert named <= {path.stem for path in (ROOT / "examples").glob("plot_*.py")}


def test_every_benchmark_has_its_place():
    marks = re.findall(r"<!-- table: (\w+) -->", (DOCS / "performance.md").read_text("utf-8"))
    tables = [path.stem for path in (ROOT / "benchmarks" / "results").glob("*.md")]
    assert sorted(marks) == sorted(tables)


def rows(name):
    return json.loads((ROOT / f"benchmarks/results/{name}.json").read_text("utf-8"))["rows"]


def test_the_errors_under_drift_are_the_measured_ones():
    text = " ".join((DOCS / "guide" / "online.rst").read_text("utf-8").split())
    found = {row["learner"]: row for row in rows("drift")}
    plain, forgetting = found["AROW"], found["AROW, forgetting=0.998"]
    for stream in ("sudden %", "gradual %"):
        river = min(row[stream] for name, row in found.items() if name.startswith("River"))
        errors = [f"{plain[stream]:.0f} %", f"{forgetting[stream]:.1f} %", f"{river:.1f} %"]
        assert re.search(".*".join(map(re.escape, errors)), text)
    assert f"{forgetting['none %']:.1f} % instead of {plain['none %']:.1f} %" in text


def test_the_speed_of_streams_is_the_measured_one():
    text = " ".join((DOCS / "streams.rst").read_text("utf-8").split())
    streams = {row["input"]: row for row in rows("stream_against_vw") if "arow" in row["command"]}
    for kind, count in (("LIBSVM", 1_000_000), ("CSV", 500_000)):
        assert f"{count / streams[kind]['processor s'] / 1000:.0f},000 {kind} rows" in text
    ratios = [f"{streams[kind]['of Vowpal Wabbit']:.1f}" for kind in ("LIBSVM", "CSV")]
    assert f"{' and '.join(ratios)} times as many as Vowpal Wabbit" in text
    single = [row for row in rows("online_against_peers") if row["part"] == "one"]
    times = {row["method"]: row["µs per row"] for row in single if row["threads"] == 1}
    assert f"takes {times['oblong AROW, diag, arrays']:.1f} µs for an array" in text
    assert f"{times['oblong AROW, diag, dicts']:.1f} µs for a dict" in text
    assert f"takes {times['River PAClassifier, dicts']:.0f} µs" in text


@pytest.mark.parametrize(
    ("script", "write", "page"),
    [
        ("make_readme_tables.py", "readme", "README.md"),
    ],
)
def test_written_numbers_are_the_stored_ones(script, write, page):
    spec = importlib.util.spec_from_file_location("script", DOCS / script)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    text = (ROOT / page).read_text("utf-8")
    assert getattr(module, write)(text) == text


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "docs/performance.md"])
def test_links_lead_somewhere(page):
    path = ROOT / page
    text = path.read_text("utf-8")
    targets = re.findall(r"\]\((?!https?:)([^)#]+)\)", text) + re.findall(
        r"(?:src|srcset)=\"([^\"]+)\"", text
    )
    assert [target for target in targets if not (path.parent / target).exists()] == []


def test_readme_of_the_distribution_has_only_absolute_links():
    spec = importlib.util.spec_from_file_location("readme", ROOT / "build_backend" / "readme.py")
    hook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["urls"]
    text = hook.absolute((ROOT / "README.md").read_text("utf-8"), urls, "1.0")
    links = re.findall(r"\]\(([^)]+)\)|src(?:set)?=\"([^\"]+)\"", text)
    assert links
    assert all("".join(link).startswith("https://") for link in links)
    assert f"{urls['Source']}/raw/v1.0/docs/_static/speed-light.svg" in text
    assert f"{urls['Documentation']}guide/index.html" in text


def test_one_address():
    """The address of the repository is that in pyproject.toml, wherever it stands."""
    source = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["urls"][
        "Source"
    ]
    listed = set(re.findall(r"`([\w./-]+)`", (DOCS / "releasing.md").read_text("utf-8")))
    for path in [*ROOT.glob("*.*"), *ROOT.glob("[!.]*/**/*.*"), *ROOT.glob(".github/**/*.yml")]:
        if path.suffix in (".md", ".toml", ".yaml", ".yml", ".py", ".rst", ".cff"):
            found = re.findall(r"https://github\.com/[\w-]+/oblong\b", path.read_text("utf-8"))
            assert set(found) <= {source}
            assert not found or path.relative_to(ROOT).as_posix() in listed, path


def test_one_version():
    found = {
        name: re.search(pattern, (ROOT / name).read_text("utf-8"), flags=re.MULTILINE)[1]
        for name, pattern in {
            "CITATION.cff": r"^version: (\S+)$",
            "reproduction/pyproject.toml": r'^version = "(\S+)"$',
        }.items()
    }
    # Not part of a source distribution.
    if (recipe := ROOT / "conda" / "recipe.yaml").exists():
        found["recipe"] = re.search(r'^  version: "(\S+)"', recipe.read_text("utf-8"), re.M)[1]
    assert set(found.values()) == {oblong.__version__}


def test_recipe_has_the_bounds_of_the_project():
    recipe = ROOT / "conda" / "recipe.yaml"
    if not recipe.exists():
        pytest.skip("the recipe is not part of this copy")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    # The Python of a compiled package is that of its build.
    wanted = ["python", *project["dependencies"]]
    run = re.search(r"^  run:\n((?:    - .*\n)+)", recipe.read_text("utf-8"), flags=re.MULTILINE)
    found = [line.replace(" ", "") for line in re.findall(r"^    - (.*)$", run[1], re.MULTILINE)]
    assert sorted(found) == sorted(wanted)


def test_contributing_has_every_layer():
    config = configparser.ConfigParser()
    config.read(ROOT / ".importlinter", "utf-8")
    layers = config["importlinter:contract:layers"]["layers"].strip().splitlines()
    table = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    rows = [
        re.findall(r"`oblong/(\w+)(?:\.py)?`", row.split("|")[1])
        for row in table.splitlines()
        if row.startswith("| `oblong/")
    ]
    place = {name: number for number, row in enumerate(rows) for name in row}
    wanted = [layer.replace("|", " ").split() for layer in layers if layer.strip() != "__main__"]
    assert place.keys() == {name for names in wanted for name in names}
    # From top to bottom, as imports go.
    assert [max(place[name] for name in names) for names in wanted] == sorted(
        max(place[name] for name in names) for names in wanted
    )


def test_contributing_names_what_is_there():
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    paths = re.findall(r"`((?:oblong|tests|docs|benchmarks|reproduction|examples)/[\w/.]*)`", text)
    assert len(paths) > 20
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_matrix_has_every_estimator(monkeypatch):
    pytest.importorskip("sphinx")
    monkeypatch.syspath_prepend(DOCS / "_ext")
    matrix = importlib.import_module("choice_matrix")
    public = {name: getattr(oblong, name) for name in oblong.__all__}
    names = {n for n, v in public.items() if inspect.isclass(v) and issubclass(v, BaseEstimator)}
    assert set(matrix.SIZES) == names
    cells = {name: dict(zip(matrix.HEAD, matrix.row(name))) for name in names}
    assert cells["AROWClassifier"]["streams"] == cells["AROWClassifier"]["sparse"] == "yes"
    assert cells["RelativeMarginClassifier"]["certificate"] == "yes"
    assert cells["RelativeMarginClassifier"]["probabilities"] == "–"


def test_inventory_leads_to_pages_of_scikit_learn(monkeypatch, tmp_path):
    pytest.importorskip("sphinx")
    from sphinx.util.inventory import InventoryFile

    monkeypatch.syspath_prepend(DOCS / "_ext")
    importlib.import_module("sklearn_inventory").write(tmp_path / "sklearn.inv")
    with open(tmp_path / "sklearn.inv", "rb") as stream:
        found = InventoryFile.load(
            stream, "https://scikit-learn.org/stable", lambda *p: "/".join(p)
        )
    entry = found["py:class"]["sklearn.svm.SVC"]
    page = "https://scikit-learn.org/stable/modules/generated/sklearn.svm.SVC.html#sklearn.svm.SVC"
    assert (entry[2] if isinstance(entry, tuple) else entry.uri) == page
    # What the pages name is there.
    text = "".join(page.read_text("utf-8") for page in [*GUIDE, *DOCS.glob("*.rst")])
    named = set(re.findall(r"`~?(sklearn\.[\w.]+)`", text))
    known = {
        name
        for kind in dict(found.data if hasattr(found, "data") else found).values()
        for name in kind
    }
    assert named - known == set()


def test_formulas_are_those_of_tex(monkeypatch):
    """A fraction of two digits, and the space around the name of a function."""
    pytest.importorskip("sphinx")
    from docutils import nodes

    monkeypatch.syspath_prepend(DOCS / "_ext")
    mathml = importlib.import_module("mathml")

    def written(tex):
        return re.sub(r"\s+(?=<)", "", mathml._mathml(nodes.math(tex, tex), block=False))

    assert "<mfrac><mn>1</mn><mn>2</mn></mfrac>" in written(r"\frac12 w")
    assert written(r"r\ln x").count("<mspace") == 2
    assert written(r"\exp(x)").count("<mspace") == 0
    assert written(r"|B|").count('lspace="0"') == 2
