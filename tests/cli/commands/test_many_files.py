"""Folders and many files, which are read in passes."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from distributed import Client, LocalCluster
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from oblong import LinearRelativeMarginClassifier
from oblong.cli import main
from oblong.persistence import load


@pytest.fixture
def parts(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1200, 3)) * [1.0, 10.0, 100.0] + 5.0
    y = np.where(X[:, 0] + X[:, 1] / 10 + 0.3 * rng.standard_normal(1200) > 5.5, "yes", "no")
    (tmp_path / "big").mkdir()
    for part in range(3):
        own = slice(400 * part, 400 * part + 400)
        columns = {"a": X[own, 0], "b": X[own, 1], "c": X[own, 2], "kind": y[own]}
        path = tmp_path / "big" / f"part-{part}.parquet"
        pq.write_table(pa.table(columns), path, row_group_size=150)
    return tmp_path, X, y


def run(capsys, *words, code=0):
    assert main([str(word) for word in words]) == code
    return capsys.readouterr()


def test_train_and_predict_a_folder(parts, capsys):
    folder, X, y = parts
    model = folder / "model.oblong"
    train = ("train", folder / "big", "--model", "rmm-linear", "-o", model)
    told = json.loads(run(capsys, *train, "--json").out)
    assert told["rows"] == 1200
    assert told["target_names"] == ["no", "yes"]
    exact = make_pipeline(StandardScaler(), LinearRelativeMarginClassifier()).fit(X, y)
    loaded = load(model)
    np.testing.assert_allclose(loaded[-1].coef_, exact[-1].coef_, rtol=1e-6)
    assert told["training_error"] == pytest.approx(1 - exact.score(X, y))
    files = sorted((folder / "big").iterdir())
    run(capsys, "predict", model, *files, "-o", folder / "labels.txt")
    assert (folder / "labels.txt").read_text().split() == exact.predict(X).tolist()
    # One file, as ever, and a pattern.
    assert run(capsys, "predict", model, files[0]).out.split() == exact.predict(X[:400]).tolist()
    pattern = folder / "big" / "part-[12].parquet"
    run(capsys, "predict", model, pattern, "-o", folder / "labels.txt")
    assert (folder / "labels.txt").read_text().split() == exact.predict(X[400:]).tolist()


def test_on_a_cluster(parts, capsys):
    folder, *_ = parts
    here, there = folder / "here.oblong", folder / "there.oblong"
    train = ("train", folder / "big", "--model", "rmm-linear", "--target", "kind")
    run(capsys, *train, "-o", here)
    options = {"n_workers": 1, "threads_per_worker": 2, "dashboard_address": None}
    with LocalCluster(processes=False, **options) as cluster:
        found = run(capsys, *train, "--cluster", cluster.scheduler_address, "-o", there)
        assert "passes over the rows" in found.out
        assert "pass 1, relative gap" in found.err
        for cluster_words in ((), ("--cluster", cluster.scheduler_address)):
            output = folder / f"labels-{len(cluster_words)}.txt"
            run(capsys, "predict", there, folder / "big", *cluster_words, "-o", output)
        with Client(cluster) as client:
            assert client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks)) == 0
    np.testing.assert_array_equal(load(here)[-1].coef_, load(there)[-1].coef_)
    labels = [(folder / f"labels-{words}.txt").read_text() for words in (0, 2)]
    assert labels[0] == labels[1]
    assert labels[0].count("\n") == 1200


def test_what_is_asked_wrongly(parts, capsys, monkeypatch):
    monkeypatch.setattr("oblong.cli.shared.many_files._CONNECT", 0.5)
    folder, *_ = parts
    output = ("-o", folder / "model.oblong")
    for words, message in (
        (("--model", "rmm"), "need rmm-linear"),
        (("--model", "rmm-linear", "--cv"), "need one file that fits into memory"),
        (("--model", "rmm-linear", "--target", "d"), 'no column "d"'),
        (("--model", "rmm-linear", "--memory", "lots"), "expected a size such as 256MB"),
    ):
        error = run(capsys, "train", folder / "big", *words, *output, code=2).err
        assert message in error
        assert error.count("\n") == 1
    cluster = ("--model", "rmm-linear", "--cluster", "tcp://127.0.0.1:9")
    assert "no cluster at" in run(capsys, "train", folder / "big", *cluster, *output, code=1).err
    (folder / "big" / "part-1.parquet").write_bytes(b"PAR1")
    error = run(capsys, "train", folder / "big", "--model", "rmm-linear", *output, code=2).err
    assert "part-1.parquet: damaged" in error
