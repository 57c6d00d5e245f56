"""The stored results still mean what they say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from oblong_reproduction import Results, catalogue

RESULTS = Path(__file__).parents[1] / "results"
STORED = {path.stem: path for path in sorted(RESULTS.glob("*.json"))}

pytestmark = pytest.mark.skipif(not STORED, reason="the results are not part of this copy")


def test_every_stored_result_is_of_an_experiment():
    assert STORED.keys() == catalogue().keys()


@pytest.mark.parametrize("name", [n for n, e in catalogue().items() if not e.bulky and n in STORED])
def test_the_cells_give_the_stored_verdicts(name):
    document = json.loads(STORED[name].read_text("utf-8"))
    results = Results({**cell["parameters"], **cell["result"]} for cell in document["cells"])
    found = [(row.what, row.ours, row.verdict) for row in catalogue()[name].rows(results)]
    assert found == [(row["what"], row["ours"], row["verdict"]) for row in document["rows"]]
