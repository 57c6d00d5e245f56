"""The stored results still mean what they say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from oblong_reproduction import HEADLINES, catalogue, judged
from oblong_reproduction._verdict import CLAIM_VERDICTS, NUMBER_VERDICTS

RESULTS = Path(__file__).parents[1] / "results"
STORED = {path.stem: path for path in sorted(RESULTS.glob("*.json"))}

pytestmark = pytest.mark.skipif(not STORED, reason="the results are not part of this copy")


# Experiments of which nothing is stored: the page on reproduction has their cost.
PENDING: set[str] = set()


def test_every_experiment_has_a_stored_result_or_is_named_as_not_run():
    assert STORED.keys() | PENDING == catalogue().keys()
    assert not STORED.keys() & PENDING


@pytest.mark.parametrize("name", [name for name in catalogue() if name in STORED])
def test_the_code_gives_the_stored_words_and_verdicts(name):
    document = json.loads(STORED[name].read_text("utf-8"))
    found = judged(catalogue()[name], document)
    for key in ("title", "protocol", "finding", "rows", "edges", "warnings"):
        assert found[key] == document[key]
    assert {row["verdict"] for row in found["rows"]} <= {*NUMBER_VERDICTS, *CLAIM_VERDICTS}
    assert not any(row["why"] == "" for row in found["rows"])


def _documents():
    return {name: json.loads(path.read_text("utf-8")) for name, path in STORED.items()}


@pytest.mark.parametrize("headline", HEADLINES, ids=lambda headline: headline.claim)
def test_every_headline_rests_on_stored_rows(headline):
    documents = _documents()
    assert headline.verdict(documents) != "not run"
    for part in headline.parts:
        rows = part.deciding(documents.get(part.experiment))
        assert rows or part.experiment in PENDING
        assert {row["verdict"] for row in rows} <= set(CLAIM_VERDICTS)


def test_the_headlines_are_of_all_papers_and_not_only_the_favourable_ones():
    assert {headline.paper for headline in HEADLINES} == {"RMM", "e-SVM", "IELLIP", "CW", "EKM"}
    assert 10 <= len(HEADLINES) <= 12
    documents = _documents()
    words = {headline.verdict(documents) for headline in HEADLINES}
    assert {"confirmed", "not confirmed", "contradicted"} <= words


def test_a_circular_experiment_settles_nothing():
    document = json.loads(STORED["rmm-table1"].read_text("utf-8"))
    assert {row["verdict"] for row in document["rows"]} == {"not comparable"}
