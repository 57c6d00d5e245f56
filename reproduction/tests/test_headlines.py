from __future__ import annotations

import pytest

from oblong_reproduction import Choice, Headline

HEADLINE = Headline("a claim", "paper", "experiment", "^decides")


@pytest.mark.parametrize(
    ("words", "verdict"),
    [
        ([], "not run"),
        (["confirmed", "confirmed"], "confirmed"),
        (["confirmed", "not comparable"], "confirmed"),
        (["confirmed", "agrees: no difference"], "confirmed"),
        (["confirmed", "not confirmed"], "not confirmed"),
        (["confirmed", "contradicted"], "not confirmed"),
        (["not confirmed", "contradicted"], "contradicted"),
        (["agrees: no difference", "contradicted"], "contradicted"),
        (["agrees: no difference", "agrees: no difference"], "agrees: no difference"),
        (["agrees: no difference", "not confirmed"], "not confirmed"),
        (["too few runs", "too few runs", "not run"], "too few runs"),
    ],
)
def test_a_headline_is_confirmed_by_all_its_rows_only(words, verdict):
    rows = [{"what": f"decides {k}", "verdict": word} for k, word in enumerate(words)]
    rows += [{"what": "another row", "verdict": "contradicted"}]
    assert HEADLINE.verdict(rows) == verdict
    assert len(HEADLINE.deciding(rows)) == len(words)


@pytest.mark.parametrize(
    ("value", "natural", "edge"),
    [
        (0.1, (), "smallest"),
        (0.1 + 1e-12, (), "smallest"),
        (1.0, (), ""),
        (10.0, (), "largest"),
        (10.0, (10.0,), "natural"),
        (30.0, (), ""),
    ],
)
def test_choices_know_the_ends_of_their_grid(value, natural, edge):
    assert Choice("C", value, (1.0, 0.1, 10.0), natural).edge == edge


def test_a_grid_of_one_value_has_no_edge():
    assert Choice("C", 1.0, (1.0,)).edge == ""
