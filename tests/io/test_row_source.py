"""Rows of files in several passes: the same bits as arrays, whatever the format."""

from __future__ import annotations

import gzip
import os
import pickle
import re
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import dump_svmlight_file

from oblong import (
    EllipsoidalKernelClassifier,
    LinearRelativeMarginClassifier,
    MinimumVolumeEllipsoid,
    RelativeMarginClassifier,
    SigmaSVC,
)
from oblong.io import DataFileError, open_rows
from oblong.io.row_source import as_bytes


def rows(n=900, seed=0):
    rng = np.random.default_rng(seed)
    X = (rng.standard_normal((n, 3)) + 2.0).round(4)
    y = np.where(X[:, 0] - X[:, 1] + 0.5 * rng.standard_normal(n) > 0, 1, -1)
    return X, y


def table(X, y, labels=None):
    columns = {f"x{j}": X[:, j] for j in range(X.shape[1])}
    return pa.table({**columns, "y": y if labels is None else labels[y]})


def written(folder, kind, X, y):
    """The rows as two files of a format."""
    folder.mkdir(exist_ok=True)
    cut = len(y) // 3
    for part, (a, b) in enumerate(zip((X[:cut], X[cut:]), (y[:cut], y[cut:]))):
        path = folder / f"part-{part}.{kind}"
        if kind == "parquet":
            pq.write_table(table(a, b), path, row_group_size=100)
        elif kind == "arrow":
            with pa.ipc.new_file(path, table(a, b).schema) as file:
                file.write_table(table(a, b), max_chunksize=70)
        elif kind == "npy":
            np.save(path, np.column_stack([a, b]))
        elif kind.startswith("csv"):
            text = "x0,x1,x2,y\n" + "".join(
                ",".join(map(repr, [*map(float, row), int(label)])) + "\n"
                for row, label in zip(a, b)
            )
            path.write_bytes(gzip.compress(text.encode()) if kind.endswith("gz") else text.encode())
        else:
            dump_svmlight_file(sp.csr_matrix(a), b, str(path), zero_based=False)
    return folder


@pytest.mark.parametrize("kind", ["parquet", "arrow", "npy", "csv", "csv.gz", "libsvm"])
def test_formats_give_the_same_bits_as_arrays(kind, tmp_path):
    X, y = rows()
    folder = written(tmp_path / "data", kind, X, y)
    target = {"npy": -1, "libsvm": None}.get(kind, "y")
    found = open_rows(str(folder / f"*.{kind}"), target=target, batch_size=150)
    assert len(found) == len(y)
    assert found.n_features == 3
    assert found.n_blocks > 4
    for _ in range(2):
        blocks = list(pickle.loads(pickle.dumps(found)))
        parts = [b.X.toarray() if sp.issparse(b.X) else b.X for b in blocks]
        np.testing.assert_array_equal(np.vstack(parts), X)
        np.testing.assert_array_equal(np.concatenate([b.y for b in blocks]), y)
    # Blocks in any order.
    np.testing.assert_array_equal(found.block(3).y, blocks[3].y)
    np.testing.assert_array_equal(found.block(1).y, blocks[1].y)


def test_fits_as_to_arrays(tmp_path):
    X, y = rows(4000)
    folder = written(tmp_path / "data", "parquet", X, y)
    X = table(X, y).drop_columns("y").to_pandas()
    small = open_rows(folder, target="y", batch_size=500, memory=2e5)
    for model in (
        LinearRelativeMarginClassifier(tol=1e-8),
        SigmaSVC(kernel="linear", tol=1e-5),
        EllipsoidalKernelClassifier(kernel="linear", C=30.0, tol=1e-6),
        EllipsoidalKernelClassifier(kernel="linear", shape="covariance", tol=1e-6),
    ):
        kind, params = type(model), model.get_params()
        exact = kind(**params).fit(X, y)
        for source in (small, open_rows(folder, target="y")):
            found = kind(**params).fit(source)
            np.testing.assert_allclose(found.objective_, exact.objective_, rtol=1e-6)
            np.testing.assert_array_equal(found.predict(X), exact.predict(X))
            assert found.feature_names_in_.tolist() == ["x0", "x1", "x2"]
            assert found.converged_
            assert found.n_passes_ > 2 or source is not small
    features = ["x0", "x1", "x2"]
    sphere = MinimumVolumeEllipsoid().fit(open_rows(folder, columns=features, memory=2e5))
    exact = MinimumVolumeEllipsoid().fit(X)
    assert sphere.log_volume_ == pytest.approx(exact.log_volume_, abs=4e-6)
    assert sphere.gap_ <= 1e-6
    assert (sphere.predict(X) == 1).all()
    assert set(sphere.support_) == set(exact.support_)
    most = MinimumVolumeEllipsoid(coverage=0.9)
    part = clone(most).fit(open_rows(folder, columns=features, batch_size=500, memory=2e5))
    exact = clone(most).fit(X)
    assert part.log_volume_ == pytest.approx(exact.log_volume_, abs=1e-4)
    assert part.gap_ <= 1e-6
    assert part.coverage_ == pytest.approx(exact.coverage_, abs=1e-3)
    assert (part.predict(X) == exact.predict(X)).mean() > 0.999
    np.testing.assert_array_equal(part.mahalanobis(X.iloc[part.support_]) > 0.99, True)


def test_a_flat_ellipsoid_of_files(tmp_path):
    X, _ = rows(600)
    flat = np.column_stack([X, X @ [1.0, 2.0, 3.0]])
    np.save(tmp_path / "flat.npy", flat)
    found = MinimumVolumeEllipsoid().fit(open_rows(tmp_path / "flat.npy", memory=1e4))
    exact = MinimumVolumeEllipsoid().fit(flat)
    assert found.rank_ == 3
    assert found.log_volume_ == pytest.approx(exact.log_volume_, abs=4e-6)


def test_weights_words_and_columns(tmp_path):
    X, y = rows(300)
    weight = np.random.default_rng(1).integers(0, 3, 300)
    whole = table(X, (y > 0).astype(int), np.array(["no", "yes"]))
    pq.write_table(whole.append_column("w", pa.array(weight)), tmp_path / "a.parquet")
    source = open_rows(
        tmp_path / "a.parquet", target="y", weight="w", columns=["x1", "x0"], memory=2e4
    )
    model = LinearRelativeMarginClassifier(spread=1.0, class_weight="balanced").fit(source)
    labels = np.where(y > 0, "yes", "no")
    exact = LinearRelativeMarginClassifier(spread=1.0, class_weight="balanced").fit(
        X[:, [1, 0]], labels, sample_weight=weight
    )
    np.testing.assert_allclose(model.objective_, exact.objective_, rtol=1e-4)
    assert model.classes_.tolist() == ["no", "yes"]


def test_arrow_data_and_memory_maps(tmp_path):
    X, y = rows(200)
    model = LinearRelativeMarginClassifier().fit(open_rows(table(X, y), target="y"))
    np.save(tmp_path / "X.npy", X)
    mapped = open_rows(np.load(tmp_path / "X.npy", mmap_mode="r"), target=y, batch_size=30)
    again = LinearRelativeMarginClassifier().fit(mapped)
    np.testing.assert_array_equal(model.coef_, again.coef_)
    # The index of a table is none of its columns, by whatever name it travels.
    frame = table(X, y).to_pandas().set_index(np.arange(200) * 3 + 7)
    assert open_rows(frame, target="y").feature_names == ["x0", "x1", "x2"]


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_few_rows():
    """As few as are solved by their products, where the SVM has no bound."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=60) > 0.0, 1, -1)
    weight = np.arange(60.0) % 3
    model = LinearRelativeMarginClassifier(tol=1e-7)
    found = clone(model).fit(open_rows(X, target=y, weight=weight))
    np.testing.assert_allclose(found.coef_, model.fit(X, y, sample_weight=weight).coef_, rtol=1e-4)
    model = SigmaSVC(kernel="linear", tol=1e-6)
    found = clone(model).fit(open_rows(X, target=y))
    np.testing.assert_allclose(found.coef_, model.fit(X, y).coef_, rtol=1e-3)


def test_a_file_that_changes_is_noticed(tmp_path):
    X, y = rows(300)
    folder = written(tmp_path / "data", "parquet", X, y)
    source = open_rows(folder, target="y", batch_size=50)
    source.block(0)
    os.utime(folder / "part-1.parquet", ns=(1, 1))
    with pytest.raises(DataFileError, match=r"part-1.parquet: the file changed while it was read"):
        LinearRelativeMarginClassifier().fit(source)


def test_bad_partitions_are_named(tmp_path):
    X, y = rows(300)
    folder = written(tmp_path / "data", "parquet", X, y)
    bad = table(X, y).to_pandas()
    bad.loc[217, "x1"] = np.nan
    pq.write_table(pa.Table.from_pandas(bad), folder / "part-2.parquet", row_group_size=100)
    before = LinearRelativeMarginClassifier()
    with pytest.raises(ValueError, match=r"part-2.parquet, row 218: a number is missing"):
        before.fit(open_rows(folder, target="y", batch_size=100))
    assert not hasattr(before, "coef_")
    bad["x1"] = bad["x1"].astype(str)
    bad.loc[120, "x1"] = "many"
    pq.write_table(pa.Table.from_pandas(bad), folder / "part-2.parquet", row_group_size=100)
    with pytest.raises(DataFileError, match=r'part-2.parquet, row 121, column "x1"'):
        before.fit(open_rows(folder, target="y", batch_size=100))
    (folder / "part-2.parquet").write_bytes(b"PAR1 nothing")
    with pytest.raises(DataFileError, match=r"part-2.parquet: damaged"):
        open_rows(folder, target="y")
    other = table(X, y).rename_columns(["x0", "x1", "z", "y"])
    pq.write_table(other, folder / "part-2.parquet")
    with pytest.raises(DataFileError, match=r'part-2.parquet: no column "x2"'):
        open_rows(folder, target="y")


@pytest.mark.parametrize("kind", ["csv", "libsvm"])
def test_files_without_rows(kind, tmp_path):
    X, y = rows(60)
    folder = written(tmp_path / "data", kind, X, y)
    (folder / f"a.{kind}").touch()
    if kind == "csv":
        (folder / "part-00.csv").write_text("x0,x1,x2,y\n")
    assert len(open_rows(folder, target="y" if kind == "csv" else None)) == 60
    with pytest.raises(DataFileError, match="the file is empty"):
        open_rows(folder / f"a.{kind}", target="y")


def test_what_is_asked_wrongly(tmp_path):
    X, y = rows(50)
    folder = written(tmp_path / "data", "csv", X, y)
    source = open_rows(folder, target="y")
    with pytest.raises(ValueError, match="has its own labels"):
        LinearRelativeMarginClassifier().fit(source, y)
    with pytest.raises(ValueError, match="open it with target="):
        LinearRelativeMarginClassifier().fit(open_rows(folder))
    with pytest.raises(TypeError, match="takes rows in memory"):
        RelativeMarginClassifier().fit(source)
    with pytest.raises(ValueError, match=re.escape('takes kernel="linear"')):
        SigmaSVC().fit(source)
    with pytest.raises(ValueError, match="without E, ridge and kernel"):
        MinimumVolumeEllipsoid(E=0.9).fit(source)
    with pytest.raises(DataFileError, match="no files there"):
        open_rows(str(tmp_path / "*.parquet"))
    with pytest.raises(DataFileError, match="cannot be read"):
        open_rows(tmp_path / "missing.csv", target="y")
    with pytest.raises(DataFileError, match="no column"):
        open_rows(folder, target="z")
    for columns in (["x0", "x0"], ["x0", "y"]):
        with pytest.raises(ValueError, match="more than once"):
            open_rows(folder, target="y", columns=columns)
    with pytest.raises(ValueError, match="memory must be"):
        as_bytes("much")
    assert as_bytes("1.5 GB") == 1.5e9


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("model", [LinearRelativeMarginClassifier(), SigmaSVC(kernel="linear")])
def test_squares_that_overflow_are_an_error(model, container):
    X, y = rows(20)
    with pytest.raises(ValueError, match="not finite: scale the data"):
        model.fit(open_rows(container(1e200 * X), target=y))


def npy(folder, X, name="x.npy"):
    np.save(folder / name, X)
    return folder / name


@pytest.mark.parametrize("target", [2, -2, "3"])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["f8", "f4", "i2"])
def test_open_rows__columns_of_npy_files(tmp_path, target, order, dtype):
    array = np.asarray(np.arange(40).reshape(10, 4) % 7, dtype=dtype, order=order)
    path = npy(tmp_path, array)
    rows = open_rows(path, target=target, weight=0, batch_size=4)
    blocks = list(rows)
    np.testing.assert_array_equal(np.vstack([b.X for b in blocks]), array[:, [1, 3]])
    np.testing.assert_array_equal(np.concatenate([b.y for b in blocks]), array[:, 2])
    np.testing.assert_array_equal(np.concatenate([b.weight for b in blocks]), array[:, 0])
    assert (blocks[0].y.dtype.kind, rows.n_features, rows.feature_names) == ("i", 2, None)
    chosen = open_rows(path, columns=[-1, "1"], target=target)
    np.testing.assert_array_equal(chosen.block(0).X, array[:, [3, 0]])
    assert chosen.block(0).weight is None


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"target": 3}, "x.npy: expected an index of a column from -3 to 2, got 3"),
        ({"target": -4}, "from -3 to 2, got -4"),
        ({"weight": 7}, "from -3 to 2, got 7"),
        ({"columns": [0, 5]}, "from -3 to 2, got 5"),
        ({"target": "4"}, 'x.npy: no column "4"; the columns are "1", "2", "3"'),
        ({"target": "0"}, 'no column "0"'),
        ({"columns": ["a"]}, 'no column "a"'),
        ({"target": True}, "target must be a name, or an index, got True"),
        ({"target": 2.0}, "target must be a name, or an index, got 2.0"),
        ({"weight": [1, 2]}, r"weight must be a name, or an index, got \[1, 2\]"),
        ({"columns": [True]}, "columns must be names, or indices in NPY files, got True"),
        ({"columns": "12"}, "columns must be a list of names, got '12'"),
        ({"target": 2, "weight": "3"}, "target, weight and columns have a column in common"),
        ({"target": -1, "columns": [1, 2]}, "have a column in common"),
    ],
)
def test_open_rows__refuses_columns_that_npy_files_lack(tmp_path, how, message):
    with pytest.raises(ValueError, match=message):
        open_rows(npy(tmp_path, np.zeros((5, 3))), **how)


def test_open_rows__weights_of_npy_files_count(tmp_path):
    X, y = rows(200)
    weight = np.random.default_rng(1).integers(0, 3, 200)
    path = npy(tmp_path, np.column_stack([X, y, weight]))
    model = LinearRelativeMarginClassifier(tol=1e-8)
    found = clone(model).fit(open_rows(path, target=3, weight=4))
    exact = model.fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(found.coef_, exact.coef_, rtol=1e-4)


@pytest.mark.parametrize("kind", ["parquet", "arrow", "csv"])
@pytest.mark.parametrize("how", [{"target": 0}, {"weight": 1}, {"columns": ["x0", 1]}])
def test_open_rows__indices_are_for_npy_files(tmp_path, kind, how):
    X, y = rows(20)
    folder = written(tmp_path / "data", kind, X, y)
    with pytest.raises(DataFileError, match=r"names of columns, got [01]; indices are for NPY"):
        open_rows(folder, **how)
    with pytest.raises(DataFileError, match=r"names of columns, got [01]; indices are for NPY"):
        open_rows(table(X, y), **how)


@pytest.mark.parametrize("how", [{"target": "1"}, {"weight": "1"}, {"columns": ["1"]}])
def test_open_rows__libsvm_rows_have_no_columns_with_names(tmp_path, how):
    (tmp_path / "t.libsvm").write_text("1 1:1\n2 1:2\n")
    with pytest.raises(DataFileError, match=r"t.libsvm: (the label of )?this format"):
        open_rows(tmp_path / "t.libsvm", **how)


def test_open_rows__columns_without_a_header(tmp_path):
    (tmp_path / "t.csv").write_text("1,2,3,0\n4,5,6,1\n")
    found = open_rows(tmp_path / "t.csv", target="4", columns=["3", "1"])
    assert found.block(0).X.tolist() == [[3, 1], [6, 4]]
    assert found.n_features == 2
    with pytest.raises(DataFileError, match='no column "x"'):
        open_rows(tmp_path / "t.csv", target="4", columns=["x"])


@pytest.mark.parametrize("how", [{"target": 3}, {"target": [1, 0]}, {"weight": "w"}])
def test_open_rows__labels_of_arrays_are_one_per_row(how):
    with pytest.raises(ValueError, match=r"must have one value per row of \(5, 3\), got \("):
        open_rows(np.zeros((5, 3)), **how)
    with pytest.raises(ValueError, match="columns are for files"):
        open_rows(np.zeros((5, 3)), columns=[0])


def damage(content, seed, spare):
    rng = np.random.default_rng(seed)
    content = bytearray(content)
    for place in rng.integers(spare, len(content), int(rng.integers(1, 5))):
        content[place] = int(rng.integers(256))
    return bytes(content)


ATTACK = """
import sys
import numpy as np
from oblong.io import DataFileError, open_rows
from oblong.streams import ArrowReader
for path in sys.argv[1:]:
    try:
        with ArrowReader(path, target="y", hash_bits=6) as reader:
            list(reader)
    except DataFileError:
        pass
    try:
        list(open_rows(path, target="y"))
    except DataFileError:
        pass
"""


def test_open_rows__damaged_arrow_files_are_errors(tmp_path):
    """In a process of its own, which offsets beyond the data would end."""
    words = pa.array([["red", "blue", None][k % 3] for k in range(60)])
    columns = {"a": np.arange(60.0), "w": words, "d": words.dictionary_encode()}
    columns["y"] = pa.array(["p", "q"] * 30).dictionary_encode()
    data, sink = pa.table(columns), pa.BufferOutputStream()
    with pa.ipc.new_file(sink, data.schema) as file:
        file.write_table(data, max_chunksize=25)
    whole = sink.getvalue().to_pybytes()
    paths = []
    for seed in range(200):
        paths.append(tmp_path / f"{seed}.arrow")
        paths[-1].write_bytes(damage(whole, seed, 8))
    done = subprocess.run([sys.executable, "-c", ATTACK, *paths], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("kind", ["file", "stream"])
@pytest.mark.parametrize("encoded", [False, True])
def test_open_rows__offsets_beyond_the_data(tmp_path, kind, encoded):
    words = pa.array([f"{k:03d}" for k in range(40)])
    column = words.dictionary_encode() if encoded else words
    data = pa.table({"a": np.arange(40.0), "w": column, "y": ["p", "q"] * 20})
    sink = pa.BufferOutputStream()
    with (pa.ipc.new_file if kind == "file" else pa.ipc.new_stream)(sink, data.schema) as file:
        file.write_table(data)
    offsets = np.arange(0, 121, 3, dtype=np.int32)
    content = sink.getvalue().to_pybytes()
    assert offsets.tobytes() in content
    offsets[20:] += 1 << 30
    path = tmp_path / "t.arrow"
    path.write_bytes(content.replace(np.arange(0, 121, 3, dtype=np.int32).tobytes(), offsets))
    done = subprocess.run([sys.executable, "-c", ATTACK, path], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("header", [b"{'descr': '<f8', (", b"{'descr': '<f8'\n  '", b"["])
def test_open_rows__damaged_headers_of_npy_files(tmp_path, header):
    content = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
    (tmp_path / "t.npy").write_bytes(content)
    with pytest.raises(DataFileError, match=r"t.npy: damaged NPY file \("):
        open_rows(tmp_path / "t.npy")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("dtype", ["f2", "f4", ">f8"])
@pytest.mark.parametrize("label", [np.nan, np.inf])
def test_open_rows__labels_of_npy_files_are_there(tmp_path, dtype, label):
    X = np.arange(30).reshape(10, 3).astype(dtype)
    assert open_rows(npy(tmp_path, X), target=1).block(0).y.dtype.kind == "i"
    X[7, 1] = label
    rows = open_rows(npy(tmp_path, X), target=1, batch_size=5)
    with pytest.raises(DataFileError, match=r"x.npy, row 8, column 2: expected a class label, got"):
        list(rows)
