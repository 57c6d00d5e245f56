"""Models and checkpoints that earlier releases saved, with what they predicted then."""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest

import oblong

from .save_release import STREAMS, predictions, run_stream, stream_file

FOLDERS = sorted(Path(__file__).parent.glob("saved_*"))
SAVED = [path for folder in FOLDERS for path in sorted(folder.glob("*.oblong"))]


def known(folder: Path) -> dict:
    return json.loads((folder / "predictions.json").read_text())


def test_every_release_has_its_models():
    assert [folder.name for folder in FOLDERS] == ["saved_0_1"]
    for folder in FOLDERS:
        names = {path.stem for path in (*folder.glob("*.oblong"), *folder.glob("*.ckpt"))}
        assert names == set(known(folder))


# Options that are gone: their models say so.
REMOVED = {"ConfidenceWeightedClassifier-exact": "diag_update"}


@pytest.mark.parametrize("path", [path for path in SAVED if path.stem in REMOVED])
def test_models_with_options_that_are_gone_say_so(path):
    with pytest.raises(oblong.ModelFileError, match=REMOVED[path.stem]):
        oblong.load(path)


SAVED = [path for path in SAVED if path.stem not in REMOVED]


@pytest.mark.parametrize("path", SAVED, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_models_predict_what_they_predicted(path):
    with warnings.catch_warnings():
        # Transformers of another scikit-learn, which the message is about, are as they were.
        warnings.simplefilter("ignore")
        model = oblong.load(path)
    found, expected = predictions(path.stem, model), known(path.parent)[path.stem]
    assert expected.keys() <= found.keys()
    for method, values in expected.items():
        if method == "predict":
            assert found[method] == values
        else:
            np.testing.assert_allclose(found[method], values, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", STREAMS)
@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_streams_go_on_from_checkpoints(folder, kind, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / f"rows.{kind}").write_text(stream_file(kind))
    shutil.copy(folder / f"stream-{kind}.ckpt", tmp_path)
    found, expected = run_stream(kind, "--resume"), known(folder)[f"stream-{kind}"]
    assert "no checkpoint yet" not in capsys.readouterr().err
    np.testing.assert_allclose(found.pop("coef"), expected.pop("coef"), rtol=1e-12)
    assert found == expected
