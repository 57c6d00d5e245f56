"""Comparisons on tables with text and gaps."""

from __future__ import annotations

import json

import pytest

from oblong.cli import main

from .test_compare import BOTH, QUICK, csv_text

pytestmark = pytest.mark.usefixtures("short_searches")

MIXED = "age,colour,kind\n" + "31,red,a\n45,blue,b\n,red,a\n52,green,b\n28,,a\n61,blue,b\n" * 4


def test_text_and_gaps(folder, capsys):
    (folder / "t.csv").write_text(MIXED)
    words = ["compare", "t.csv", *BOTH]
    assert main(words) == 2
    assert "(--categorical auto encodes text)" in capsys.readouterr().err
    assert main([*words, "--categorical", "auto"]) == 2
    assert "(--impute fills gaps)" in capsys.readouterr().err
    assert main([*words, "--impute"]) == 2
    assert '"colour": expected a number, got "red" (--categorical' in capsys.readouterr().err
    options = ["--categorical", "auto", "--impute", "mean"]
    assert main([*words, *options, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    # The age, and a column for each of three colours and for none.
    assert (found["rows"], found["features"]) == (24, 5)
    assert [model["error"] for model in found["models"]] == [0.0, 0.0]
    page = (folder / "oblong-report.html").read_text()
    assert "oblong compare t.csv --categorical auto --impute mean --models" in page
    (folder / "two.csv").write_text(MIXED.replace("colour", "z").replace("red", "1"))
    assert main(["compare", "two.csv", *QUICK, "--categorical", "z", "--impute"]) == 0


def test_two_columns_with_gaps(folder, capsys):
    text = csv_text().splitlines()
    text[3] = "," + text[3].partition(",")[2]
    (folder / "gaps.csv").write_text("\n".join(text))
    assert main(["compare", "gaps.csv", *QUICK, "--impute"]) == 0
    assert "Both features, as they are." in (folder / "oblong-report.html").read_text()


def test_results_of_other_fillings_are_not_taken_over(folder, capsys):
    (folder / "t.csv").write_text(MIXED)
    words = ["compare", "t.csv", *QUICK, "--categorical", "auto", "--state", "s"]
    assert main([*words, "--impute", "mean"]) == 0
    capsys.readouterr()
    assert main([*words, "--impute", "median", "--resume"]) == 2
    assert "holds the results of impute mean, not these" in capsys.readouterr().err
