"""Compiling ahead."""

from __future__ import annotations

import oblong
from oblong.cli import main
from oblong.cli.commands import warm
from oblong.cli.streaming import learners
from oblong.io.cells import parse_cells


def test_every_estimator_is_fitted():
    names = {name.partition(",")[0] for name, _ in [*warm._batch(), *warm._online()]}
    kinds = {name: getattr(oblong, name) for name in oblong.__all__}
    assert names >= {name for name, kind in kinds.items() if hasattr(kind, "fit")}


def test_rows_of_streams_are_read_and_learned_from(monkeypatch, capsys):
    monkeypatch.setattr(learners, "LEARNERS", {"arow": learners.LEARNERS["arow"]})
    assert main(["warm", "--online"]) == 0
    out, err = capsys.readouterr()
    assert [line.partition("s  ")[2] for line in out.splitlines()] == [
        *("AROWClassifier", "stream --learner arow", "done")
    ]
    assert err == ""
    assert getattr(parse_cells, "signatures", True)


def test_parts_that_need_an_extra_are_left_out(monkeypatch, capsys):
    def job():
        raise ImportError("no such extra")

    monkeypatch.setattr(warm, "_online", lambda: [("a part", job)])
    assert main(["warm", "--online"]) == 0
    assert "left out: no such extra" in capsys.readouterr().err
