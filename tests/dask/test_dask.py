"""Estimators on a cluster of this machine: the same bits as without, also when workers die."""

from __future__ import annotations

import ctypes
import os
import pickle
import signal
import sys
import threading
import time

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from distributed import Client, LocalCluster
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from oblong import (
    AROWClassifier,
    LinearRelativeMarginClassifier,
    MinimumVolumeEllipsoid,
    RelativeMarginClassifier,
)
from oblong.dask import (
    DaskAROWClassifier,
    DaskEllipsoidalKernelClassifier,
    DaskLinearRelativeMarginClassifier,
    DaskMinimumVolumeEllipsoid,
    DaskPassiveAggressiveClassifier,
    DaskRelativeMarginClassifier,
    DaskSigmaSVC,
)
from oblong.dask import _passes as passes
from oblong.export import to_onnx
from oblong.io import open_rows
from oblong.persistence import load, save


@pytest.fixture(scope="module")
def client():
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(processes=True, **options) as cluster, Client(cluster) as client:
        yield client


def rows(n=4000, seed=0, d=4):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) + 1.0
    y = np.where((X - 1.0) @ rng.standard_normal(d) + 0.7 * rng.standard_normal(n) > 0, 1, -1)
    return X, y


def arrays(X, y, chunk=500):
    return da.from_array(X, chunks=(chunk, -1)), da.from_array(y, chunks=chunk)


def left_behind(client):
    """Tasks on the scheduler, after it had time to forget them."""
    for _ in range(50):
        count = client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks))
        if not count:
            break
        time.sleep(0.1)
    return count


BANDS = {"spread": 0.5, "tol": 1e-8, "memory": 2e5}


def local_fit(X, y, chunk=500):
    source = open_rows(X, target=y, batch_size=chunk, memory=2e5)
    return LinearRelativeMarginClassifier(spread=0.5, tol=1e-8).fit(source)


def test_the_same_bits_as_without_a_cluster(client):
    X, y = rows()
    local = local_fit(X, y)
    assert local.n_passes_ > 3
    model = DaskLinearRelativeMarginClassifier(**BANDS).fit(*arrays(X, y))
    assert model.client_ is client
    np.testing.assert_array_equal(model.coef_, local.coef_)
    np.testing.assert_array_equal(model.dual_gap_, local.dual_gap_)
    assert model.n_passes_ == local.n_passes_
    exact = LinearRelativeMarginClassifier(spread=0.5, tol=1e-8).fit(X, y)
    np.testing.assert_allclose(model.objective_, exact.objective_, rtol=1e-7)
    assert left_behind(client) == 0


@pytest.mark.parametrize(("workers", "threads"), [(1, 1), (3, 1), (1, 3)])
def test_the_number_of_workers_changes_nothing(workers, threads, monkeypatch):
    X, y = rows()
    if workers == 3:
        # As with many blocks, whose sums are added on the way.
        monkeypatch.setattr(passes, "_FEW", 0)
    options = {"n_workers": workers, "threads_per_worker": threads, "dashboard_address": ":0"}
    with (
        LocalCluster(processes=False, **options) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        model = DaskLinearRelativeMarginClassifier(client=client, **BANDS).fit(*arrays(X, y))
    np.testing.assert_array_equal(model.coef_, local_fit(X, y).coef_)


@pytest.fixture
def no_client(monkeypatch):
    monkeypatch.setattr("oblong.dask._estimators.find_client", lambda client: client)


def test_threads_without_a_client(no_client):
    X, y = rows()
    model = DaskLinearRelativeMarginClassifier(**BANDS).fit(*arrays(X, y))
    assert model.client_ is None
    np.testing.assert_array_equal(model.coef_, local_fit(X, y).coef_)


def test_a_worker_is_killed_in_a_pass(client):
    X, y = rows()

    def slow(block):
        time.sleep(0.05)
        return block

    arrays_ = arrays(X, y)
    X_slow = arrays_[0].map_blocks(slow, dtype=float)
    before = client.run(os.getpid)
    killed = threading.Timer(0.7, lambda: os.kill(next(iter(before.values())), signal.SIGKILL))
    killed.start()
    model = DaskLinearRelativeMarginClassifier(**BANDS).fit(X_slow, arrays_[1])
    killed.join()
    assert set(client.run(os.getpid).values()) != set(before.values())
    np.testing.assert_array_equal(model.coef_, local_fit(X, y).coef_)
    assert left_behind(client) == 0


def test_a_bad_partition_is_named_and_nothing_is_left(client):
    X, y = rows(1000)
    X[777, 1] = np.inf
    model = DaskLinearRelativeMarginClassifier()
    with pytest.raises(ValueError, match="partition 7, row 77: a number is missing or not finite"):
        model.fit(*arrays(X, y, 100))
    assert not hasattr(model, "coef_")
    assert left_behind(client) == 0


def odd(kind):
    """A partition whose rows are not what the others are."""
    X = rows(100)[0]
    return {
        "narrow": X[:, :3],
        "wide": np.hstack([X, X]),
        "flat": X[:, 0],
        "complex": X + 0j,
        "sparse": sp.csr_matrix(X[:, :2]),
        "words": np.full(X.shape, "a", dtype=object),
    }[kind]


ODD = {
    "narrow": r"partition 2: rows of shape \(100, 3\), but there are 4 columns",
    "wide": r"partition 2: rows of shape \(100, 8\), but there are 4 columns",
    "flat": r"partition 2: rows of shape \(100,\), but there are 4 columns",
    "complex": "partition 2: Complex data not supported",
    "sparse": r"partition 2: rows of shape \(100, 2\), but there are 4 columns",
    "words": "partition 2: could not convert string to float",
}


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize(
    "model",
    [
        DaskLinearRelativeMarginClassifier(),
        DaskRelativeMarginClassifier(),
        DaskMinimumVolumeEllipsoid(),
        DaskAROWClassifier(),
    ],
    ids=lambda model: type(model).__name__,
)
def test_rows_of__names_the_partition_that_is_odd(no_client, model, kind):
    X, y = rows(400)
    array, labels = arrays(X, y, 100)
    blocks = [array.blocks[k] for k in range(4)]
    # Dask believes what it is told of a block that is made later.
    blocks[2] = da.from_delayed(dask.delayed(odd)(kind), (100, 4), dtype=float)
    with pytest.raises(ValueError, match=ODD[kind]):
        clone(model).fit(da.concatenate(blocks), labels)


def test_present__names_the_partition_and_the_row(no_client):
    X, y = rows(400)
    words = np.where(y > 0, "yes", "no").astype(object)
    words[213] = None
    with pytest.raises(ValueError, match="partition 2: y has a missing value, None, in row 13"):
        DaskLinearRelativeMarginClassifier().fit(*arrays(X, words, 100))


def test_unknown_chunks_frames_and_sparse_rows(client):
    X, y = rows(1500)
    exact = LinearRelativeMarginClassifier().fit(X, y)
    array, labels = arrays(X, y, 300)
    kept = array[:, 0] > -100
    unknown = DaskLinearRelativeMarginClassifier().fit(array[kept], labels[kept])
    np.testing.assert_allclose(unknown.coef_, exact.coef_, rtol=1e-9)

    frame = pd.DataFrame(X, columns=list("abcd"))
    frame["y"] = np.where(y > 0, "yes", "no")
    partitions = dd.from_pandas(frame, npartitions=3)
    model = DaskLinearRelativeMarginClassifier().fit(partitions[list("abcd")], partitions["y"])
    assert model.feature_names_in_.tolist() == list("abcd")
    assert model.classes_.tolist() == ["no", "yes"]
    np.testing.assert_allclose(model.coef_, exact.coef_, rtol=1e-9)
    found = model.predict(partitions[list("abcd")])
    assert isinstance(found, da.Array)
    np.testing.assert_array_equal(found.compute(), np.where(exact.predict(X) > 0, "yes", "no"))

    sparse = array.map_blocks(sp.csr_matrix, dtype=float)
    again = DaskLinearRelativeMarginClassifier().fit(sparse, labels)
    np.testing.assert_allclose(again.objective_, exact.objective_, rtol=1e-6)
    np.testing.assert_array_equal(again.predict(sparse).compute(), exact.predict(X))


def test_lazy_results(client):
    X, y = rows(900)
    y = np.where(X[:, 0] > 2, 7, y)
    array, labels = arrays(X, y, 300)
    model = DaskLinearRelativeMarginClassifier(tol=1e-8).fit(array, labels)
    exact = LinearRelativeMarginClassifier(tol=1e-8).fit(X, y)
    predicted, scores = model.predict(array), model.decision_function(array)
    assert predicted.chunks == ((300, 300, 300),)
    assert predicted.dtype == y.dtype
    assert scores.shape == (900, 3)
    np.testing.assert_array_equal(predicted.compute(), exact.predict(X))
    np.testing.assert_allclose(scores.compute(), exact.decision_function(X), rtol=1e-6)
    np.testing.assert_array_equal(model.predict(X), exact.predict(X))
    assert model.score(array, labels) == pytest.approx(exact.score(X, y))


def test_back_to_the_local_class(client, tmp_path):
    X, y = rows(600)
    model = DaskLinearRelativeMarginClassifier(client=client, C=0.5).fit(*arrays(X, y, 200))
    local = model.to_local()
    assert type(local) is LinearRelativeMarginClassifier
    assert local.C == 0.5
    save(local, tmp_path / "model.oblong")
    assert to_onnx(local).SerializeToString()
    np.testing.assert_array_equal(load(tmp_path / "model.oblong").predict(X), local.predict(X))
    copied = clone(model)
    assert copied.client is client
    assert not hasattr(copied, "coef_")
    pickled = pickle.loads(pickle.dumps(model))
    assert pickled.client is None
    np.testing.assert_array_equal(pickled.predict(X), local.predict(X))
    assert set(model.get_params()) - set(local.get_params()) == {"client", "memory"}


def test_other_estimators(client, tmp_path):
    X, y = rows(1500, d=3)
    array, labels = arrays(X, y, 300)
    ellipsoid = DaskMinimumVolumeEllipsoid(memory=3e4).fit(array)
    exact = MinimumVolumeEllipsoid().fit(X)
    assert ellipsoid.log_volume_ == pytest.approx(exact.log_volume_, abs=4e-6)
    assert ellipsoid.mahalanobis(array).compute().max() <= 1 + 1e-9
    assert ellipsoid.transform(array).compute().shape == X.shape
    for kind in (DaskSigmaSVC, DaskEllipsoidalKernelClassifier):
        model = kind(kernel="linear", C=5.0).fit(array, labels)
        plain = kind._local(kernel="linear", C=5.0).fit(X, y)
        np.testing.assert_allclose(model.objective_, plain.objective_, rtol=2e-3)
    # Files are read by the workers.
    np.save(tmp_path / "rows.npy", np.column_stack([X, y]))
    source = open_rows(tmp_path / "rows.npy", target=-1, batch_size=300)
    model = DaskLinearRelativeMarginClassifier().fit(source)
    np.testing.assert_array_equal(model.coef_, LinearRelativeMarginClassifier().fit(source).coef_)
    inside = DaskMinimumVolumeEllipsoid(memory=3e4, coverage=0.8).fit(array)
    exact = MinimumVolumeEllipsoid(coverage=0.8).fit(X)
    assert inside.log_volume_ == pytest.approx(exact.log_volume_, abs=1e-3)
    assert inside.gap_ <= 1e-6


@pytest.mark.parametrize(
    "form",
    [
        {"spread": 1.0},
        {"spread": 0.4},
        {"B": 1.5, "kernel": "linear"},
        {"D": 20.0},
        {"D": 50.0, "nu": 20.0},
    ],
)
def test_kernels_over_blocks(no_client, monkeypatch, form):
    monkeypatch.setattr("oblong.dask._kernel._FIRST", 300)
    X, y = rows(2000, d=3)
    weight = np.random.default_rng(1).integers(1, 3, len(y)).astype(float)
    array, labels = arrays(X, y, 300)
    model = DaskRelativeMarginClassifier(C=0.3, **form)
    model.fit(array, labels, da.from_array(weight, chunks=300))
    # A spread is relative to outputs that are known up to a tolerance only.
    same = {"B": float(model.B_[0])} if "spread" in form else form
    exact = RelativeMarginClassifier(C=0.3, tol=1e-4, **same).fit(X, y, sample_weight=weight)
    assert model.converged_
    assert model.working_rows_ < len(y)
    np.testing.assert_allclose(model.objective_, exact.objective_, rtol=2e-3)
    # The bounds hold whatever the other solver found.
    lower = model.objective_ * (1 - model.dual_gap_)
    assert (lower <= exact.objective_ * (1 + 1e-9)).all()
    assert (model.objective_ >= exact.objective_ * (1 - exact.dual_gap_) - 1e-9).all()
    outputs = model.decision_function(array).compute()
    np.testing.assert_allclose(outputs, exact.decision_function(X), atol=2e-2)
    np.testing.assert_allclose(np.abs(outputs).max(), 1 / model.relative_margin_[0], rtol=1e-6)
    if "B" in form:
        assert np.abs(outputs).max() <= 1.5 * (1 + 1e-9)
    local = model.to_local()
    np.testing.assert_allclose(local.decision_function(X), outputs, rtol=1e-9)
    np.testing.assert_allclose(X[model.support_], local.support_vectors_)


def test_kernels_of_several_classes(no_client, monkeypatch):
    monkeypatch.setattr("oblong.dask._kernel._FIRST", 200)
    X, y = rows(1500, d=3)
    y = np.where(X[:, 0] > 1.8, 5, y)
    array, labels = arrays(X, y, 300)
    model = DaskRelativeMarginClassifier(B=1.5).fit(array, labels)
    exact = RelativeMarginClassifier(B=1.5).fit(X, y)
    np.testing.assert_allclose(model.objective_, exact.objective_, rtol=2e-3)
    assert (model.predict(array).compute() == exact.predict(X)).mean() > 0.99
    spread = DaskRelativeMarginClassifier(spread=0.5).fit(array, labels)
    exact = RelativeMarginClassifier(spread=0.5).fit(X, y)
    np.testing.assert_allclose(spread.B_, exact.B_, rtol=1e-2)
    np.testing.assert_allclose(spread.theta_, exact.theta_, rtol=1e-2)
    assert (spread.to_local().predict(X) == exact.predict(X)).mean() > 0.99
    for wrong, message in (
        ({"kernel": "precomputed"}, 'not "precomputed"'),
        ({"B": 2.0, "D": 1.0}, "only one of them"),
    ):
        with pytest.raises(ValueError, match=message):
            DaskRelativeMarginClassifier(**wrong).fit(array, labels)
    with pytest.warns(ConvergenceWarning, match="Allow more working_rows"):
        DaskRelativeMarginClassifier(B=1.5, working_rows=250).fit(array, labels)


@pytest.mark.skipif(
    sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="needs glibc"
)
def test_workers_reuse_the_memory_of_arrays(client):
    # Nannies end glibc's adaptation: without help every array of a pass is mapped anew.
    def mapped() -> int:
        class Info(ctypes.Structure):
            # hblks, the fourth, is the number of mapped regions.
            _fields_ = [(f"field{k}", ctypes.c_size_t) for k in range(10)]

        read = ctypes.CDLL(None).mallinfo2
        read.restype = Info
        before = read().field3
        held = np.ones(1 << 16)
        return int(read().field3 - before) * len(held)

    X, y = rows(400)
    DaskLinearRelativeMarginClassifier().fit(*arrays(X, y, 100))
    assert min(client.run(mapped).values()) == 0


def test_shards_of_online_learners(no_client):
    # In this process, which has compiled the learners before.
    X, y = rows(4000)
    array, labels = arrays(X, y, 250)
    model = DaskAROWClassifier(shards=4, rounds=1, r=2.0).fit(array, labels)
    parts = []
    for shard in range(4):
        learner = AROWClassifier(r=2.0)
        for start in range(250 * shard, 4000, 1000):
            part = slice(start, start + 250)
            learner.partial_fit(X[part], y[part], classes=[-1, 1])
        parts.append(learner)
    np.testing.assert_allclose(model.coef_, parts[0].merge(*parts[1:]).coef_, rtol=1e-12)
    one = AROWClassifier(r=2.0).fit(X, y).score(X, y)
    accuracies = [
        DaskAROWClassifier(shards=4, rounds=rounds).fit(array, labels).score(array, labels)
        for rounds in (1, 5)
    ]
    assert min(accuracies) > one - 0.02
    assert type(model.to_local()) is AROWClassifier
    source = open_rows(X, target=y, batch_size=250)
    again = DaskAROWClassifier(shards=4, r=2.0).fit(source)
    twice = DaskAROWClassifier(shards=4, rounds=2, r=2.0).fit(array, labels)
    np.testing.assert_array_equal(again.coef_, twice.coef_)
    assert not np.array_equal(twice.coef_, model.coef_)
    assert DaskPassiveAggressiveClassifier().fit(array, labels).score(array, labels) > 0.7
    with pytest.raises(ValueError, match="shards must be a whole number"):
        DaskAROWClassifier(shards=0).fit(array, labels)


def test_what_is_asked_wrongly(client):
    X, y = rows(400)
    array, labels = arrays(X, y, 100)
    model = DaskLinearRelativeMarginClassifier()
    with pytest.raises(TypeError, match="expected a Dask array or data frame, got ndarray"):
        model.fit(X, y)
    with pytest.raises(TypeError, match="expected y as a Dask collection"):
        model.fit(array, y)
    with pytest.raises(ValueError, match=r"X.rechunk\({1: -1}\)"):
        model.fit(array.rechunk((100, 2)), labels)
    with pytest.raises(ValueError, match=r"different partitions: \(100, 100, 100, 100\) and"):
        model.fit(array, labels.rechunk(200))
    with pytest.raises(ValueError, match="has no labels"):
        model.fit(array)


def test_a_cluster_without_workers_is_an_error(monkeypatch):
    monkeypatch.setattr(passes, "_PATIENCE", 1.0)
    monkeypatch.setattr(passes, "_LOOK", 0.3)
    options = {"n_workers": 0, "dashboard_address": ":0", "processes": False}
    X, y = rows(200)
    with LocalCluster(**options) as cluster, Client(cluster, set_as_default=False) as empty:
        with pytest.raises(ConnectionError, match="no workers"):
            DaskLinearRelativeMarginClassifier(client=empty).fit(*arrays(X, y, 100))
        assert left_behind(empty) == 0


def test_a_cluster_that_is_lost_is_an_error():
    X, y = rows(200)

    def slow(block):
        time.sleep(0.1)
        return block

    array, labels = arrays(X, y, 10)
    options = {"n_workers": 1, "dashboard_address": ":0", "processes": False}
    with LocalCluster(**options) as cluster, Client(cluster, set_as_default=False) as client:
        model = DaskLinearRelativeMarginClassifier(client=client)
        closing = threading.Timer(0.5, cluster.close)
        closing.start()
        with pytest.raises(ConnectionError, match="is lost"):
            model.fit(array.map_blocks(slow, dtype=float), labels)
        closing.join()
    assert not hasattr(model, "coef_")
