from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from rich.console import Console
from sklearn.metrics import f1_score

from oblong.cli.comparison import report
from oblong.cli.comparison.figures import confused_pair
from oblong.cli.comparison.models import select
from oblong.cli.comparison.projection import project
from oblong.cli.comparison.protocol import compare
from oblong.cli.comparison.results import Comparison, FoldResult, Settings
from oblong.cli.comparison.table import (
    decision,
    format_p,
    format_points,
    format_seconds,
    print_table,
)
from oblong.datasets import Dataset, load, make_tilted_gaussians

HOSTILE = '<script>alert("1")</script>'
COMMAND = "oblong compare 'a & b.csv' --models svm-linear,rmm-linear"


VOID = {"meta", "link", "br", "img", "use", "path"}


class Page(HTMLParser):
    """Tags, addresses and text of a page, and whether its tags are balanced."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.addresses, self.words, self.open = [], [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.addresses += [v for k, v in attributes if k in ("src", "href", "xlink:href")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)
        self.addresses += [v for k, v in attributes if k in ("src", "href", "xlink:href")]

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self):
        return " ".join(self.words)


@pytest.fixture(scope="module")
def page():
    X, y = make_tilted_gaussians(60, random_state=0)
    labels = np.array(["a & b", HOSTILE])
    dataset = Dataset(
        X,
        labels[y],
        feature_names=("<i>u</i>", "$v_$ \\frac 変数"),
        target_names=tuple(np.sort(labels)),
        name=f"{HOSTILE}.csv",
    )
    models, settings = select(["svm-linear", "rmm-linear"]), Settings(cv=3)
    comparison = compare(dataset, models, settings)
    return report.render([(comparison, project(dataset, models, settings))], COMMAND)


def test_nothing_is_loaded_from_elsewhere(page):
    parsed = Page(page)
    assert parsed.addresses
    assert all(address.startswith("#") for address in parsed.addresses)
    assert not {"script", "link", "img", "iframe", "object"} & set(parsed.tags)
    assert "@import" not in page
    assert not re.search(r"url\((?!['\"]?#)", page)
    # Every inner reference has its target.
    targets = set(re.findall(r' id="([^"]+)"', page))
    assert {address[1:] for address in parsed.addresses} <= targets
    assert set(re.findall(r"url\(#([^)]+)\)", page)) <= targets


def test_user_text_is_escaped(page):
    parsed = Page(page)
    assert "script" not in parsed.tags
    assert "i" not in parsed.tags
    assert f"{HOSTILE}.csv" in parsed.text
    assert "<i>u</i>" in parsed.text
    assert "$v_$ \\frac 変数" in parsed.text


def test_all_parts_are_there(page):
    parsed = Page(page)
    assert re.findall(r"<h2>(.*?)</h2>", page) == [
        "Data",
        "Result",
        "Classes",
        "Margins",
        "Boundaries",
        "Shape",
        "Chosen parameters",
        "Certificates",
        "Reproduce",
    ]
    assert parsed.tags.count("svg") == 4
    assert len(re.findall(r"<svg[^>]*role=\"img\"[^>]*><title>[^<]+</title>", page)) == 4
    assert COMMAND in parsed.text
    assert "numba" in parsed.text
    assert "prefers-color-scheme: dark" in page
    for fold in ("1", "2", "3"):
        assert f'<th scope="row">{fold}</th>' in page


def test_the_most_confused_classes_are_found():
    iris = load("iris")
    comparison = compare(iris, select(["svm-linear"]), Settings(cv=3))
    assert confused_pair(comparison) == (1, 2)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(2.5e-5, "25.0 µs"), (0.00735, "7.35 ms"), (0.123, "123 ms"), (12.345, "12.3 s")],
)
def test_times(seconds, text):
    assert format_seconds(seconds) == text


def test_numbers():
    assert [format_p(p) for p in (None, 0.0004, 0.0123, 0.456)] == ["", "< 0.001", "0.012", "0.46"]
    assert [format_points(d) for d in (None, -0.0123, 0.004, -1e-9)] == [
        "",
        "−1.23",
        "+0.40",
        "0.00",
    ]


def rare_class(*areas):
    """Models that always answer with the class of 97 rows in 100, and their AUC."""
    y = np.repeat([0, 1], [194, 6])
    places = np.arange(len(y))
    folds = [(places[places % 3 != k], places[places % 3 == k]) for k in range(3)]
    models, results = select(["svm", "logistic", "majority"]), {}
    for model, area in zip(models, [*areas, 0.5]):
        results[model.name] = [
            FoldResult(
                model=model.name,
                fold=k,
                error=float(np.mean(y[test])),
                balanced_error=0.5,
                auc=area + 0.001 * k * (area != 0.5),
                log_loss=0.1,
                fit_seconds=0.0123,
                predict_seconds=0.0123,
                search_seconds=1.0,
                seconds=2.0,
                memory=None,
                parameters={},
                predicted=np.zeros(len(test), dtype=int),
                gap=None,
                stopped_early=0,
                estimator=None,
            )
            for k, (_, test) in enumerate(folds)
        ]
    dataset = Dataset(
        np.zeros((len(y), 1)), y, ("x",), target_names=("ok", "fraud"), name="rare.csv"
    )
    return Comparison(dataset, models, Settings(cv=3), folds, results)


def test_the_verdict_on_a_rare_class(capsys):
    useless, useful = rare_class(0.5, 0.45), rare_class(0.7, 0.9)
    assert useless.summaries()[0].f1 == f1_score(
        useless.dataset.y, 0 * useless.dataset.y, average="macro"
    )
    # On narrow terminals too, each model has one line.
    for comparison, width in ((useless, 80), (useful, 100)):
        print_table(Console(width=width), comparison)
        out = capsys.readouterr().out
        assert "no model is clearly better than always predicting the most frequent" in out
        assert ("but Logistic ranks" in out) == (comparison is useful)
        words = "reference|not clear|equal"
        lines = re.findall(rf"^ (SVM|Logistic|Majority class) .*({words}) +$", out, re.M)
        assert len(lines) == 3


def test_few_folds_are_enough_to_beat_the_most_frequent_class():
    comparison = rare_class(0.7, 0.9)
    truth = comparison.dataset.y
    assert decision(comparison).startswith("no model is clearly better")
    for (_, test), fold in zip(comparison.folds, comparison.results["logistic"]):
        fold.predicted[:] = truth[test]
    comparison.results["logistic"][:] = [
        replace(fold, error=0.0) for fold in comparison.results["logistic"]
    ]
    # Six rows that only one of two gets right: p = 2 / 2^6.
    assert decision(comparison).startswith("Logistic has the lowest error, 0.00 %")


def test_verdict__models_that_err_alike_are_equal(capsys):
    comparison = rare_class(0.7, 0.9)
    truth = comparison.dataset.y
    for (_, test), *folds in zip(comparison.folds, *comparison.results.values()):
        for fold in folds[:2]:
            fold.predicted[:] = truth[test]
    for name in list(comparison.results)[:2]:
        comparison.results[name][:] = [replace(f, error=0.0) for f in comparison.results[name]]
    print_table(Console(width=100), comparison)
    out = capsys.readouterr().out
    assert re.search(r"^ Logistic .* equal +$", out, re.M)
    assert "Verdict: the SVM has the lowest error, 0.00 %, as has Logistic." in out
