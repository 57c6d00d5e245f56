"""Saving models and loading them, without running anything that a file brings along."""

import os
import platform
import re
import warnings
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
from sklearn.exceptions import InconsistentVersionWarning
from sklearn.pipeline import Pipeline

from oblong.persistence._archive import open_archive, write_archive
from oblong.persistence._declared import Unsound
from oblong.persistence._decode import Decoder
from oblong.persistence._encode import Encoder, Unsaveable
from oblong.persistence._errors import ModelFileError
from oblong.persistence._trial import check_usable

# Names and classes beyond these are counted, not listed: a manifest is for reading.
_LISTED = 1000
_CERTIFICATE = ("converged_", "dual_gap_", "gap_", "residual_", "objective_", "n_iter_")


def save(
    model: Any, path: str | os.PathLike[str], *, training: dict[str, Any] | None = None
) -> None:
    """Save a model to a file that runs no code when it is loaded.

    The file is either complete or absent: it is written under another name, flushed to disk and
    then renamed. The same model gives the same bytes.

    Parameters
    ----------
    model : estimator
        An estimator of oblong, or a pipeline of such and of the transformers of scikit-learn that
        are common before a classifier; see the user guide for the list.
    path : str or path-like
        The file. The customary extension is ``.oblong``.
    training : dict, default=None
        What to record about the training data, as JSON values: :func:`read_manifest` returns it.

    Raises
    ------
    ModelFileError
        If the model holds something that is not data, such as a kernel that is a function, or
        the file cannot be written.

    See Also
    --------
    load : The way back.

    Examples
    --------
    >>> import os, tempfile
    >>> import oblong
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = oblong.AROWClassifier(random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "iris.oblong")
    ...     oblong.save(model, path)
    ...     again = oblong.load(path)
    >>> bool((again.decision_function(X) == model.decision_function(X)).all())
    True
    """
    path = Path(path)
    encoder = Encoder()
    try:
        tree = encoder.encode(model)
    except Unsaveable as error:
        raise ModelFileError(path.name, f"the model cannot be saved: {error}") from None
    manifest = _describe(model) | {
        "versions": _versions(),
        "types": sorted(encoder.types),
        "training": training or {},
    }
    try:
        write_archive(path, manifest, tree, encoder.chunks())
    except OSError as error:
        problem = f"cannot be written: {error.strerror or error}"
        raise ModelFileError(path.name, problem) from error


def load(path: str | os.PathLike[str]) -> Any:
    r"""Load a model that :func:`save` wrote.

    Nothing in the file is executed. Its types are looked up in a fixed list, every array is checked
    before it is made, and the file is compared with its digests. The model has to predict a few
    rows, so one that cannot is refused here and not later. A file can still contain a model that
    predicts nonsense: only rely on models from a source that you trust.

    Parameters
    ----------
    path : str or path-like
        The file.

    Returns
    -------
    estimator
        The model, with predictions identical to those of the saved one.

    Raises
    ------
    ModelFileError
        If the file is truncated, changed, of a newer format, or not a model at all.

    See Also
    --------
    save : The way there, with an example.

    Examples
    --------
    >>> import os, tempfile
    >>> import oblong
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.pkl")
    ...     with open(path, "wb") as file:
    ...         _ = file.write(b"\x80\x05 and more")
    ...     oblong.load(path)
    Traceback (most recent call last):
        ...
    oblong.persistence...ModelFileError: model.pkl: a pickle, which runs code when it is loaded; ...
    """
    return load_with_manifest(path)[0]


def load_with_manifest(path: str | os.PathLike[str]) -> tuple[Any, dict[str, Any]]:
    """Load a model, and what its file says about it.

    Parameters
    ----------
    path : str or path-like
        The file.

    Returns
    -------
    model : estimator
        See :func:`load`.
    manifest : dict
        See :func:`read_manifest`.
    """
    path = Path(path)
    with open_archive(path, path.name or str(path)) as archive:
        decoder = Decoder(archive.read_array, archive.arrays_length)
        try:
            model = decoder.decode(archive.tree())
            decoder.finish()
            # A trial must not move a source of random numbers on.
            check_usable(deepcopy(model) if decoder.random else model)
        except Unsound as error:
            raise ModelFileError(path.name, f"damaged: {error}") from None
        except (RecursionError, MemoryError):
            raise ModelFileError(path.name, "damaged: nested too deeply, or too large") from None
        _warn_versions(archive.manifest)
    return model, archive.manifest


def read_manifest(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What a model file says about itself; the model is not loaded.

    Parameters
    ----------
    path : str or path-like
        The file.

    Returns
    -------
    dict
        Format and versions, the class and its parameters, features and classes, the certificate
        of the solution, what :func:`save` was told about the training data, and the digests.
    """
    path = Path(path)
    with open_archive(path, path.name or str(path)) as archive:
        return archive.manifest


def _versions() -> dict[str, str]:
    import oblong

    return {
        "oblong": oblong.__version__,
        "scikit-learn": sklearn.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


def _describe(model: Any) -> dict[str, Any]:
    """What to say about a model."""
    final = model.steps[-1][1] if isinstance(model, Pipeline) else model
    final = _inner(final)
    description: dict[str, Any] = {"class": _class_name(model)}
    if isinstance(model, Pipeline):
        description["steps"] = [[name, _class_name(step)] for name, step in model.steps]
    if hasattr(final, "get_params"):
        parameters = final.get_params(deep=False)
        description["parameters"] = {name: _plain(value) for name, value in parameters.items()}
    n_features = getattr(model, "n_features_in_", None)
    if n_features is not None:
        description["n_features"] = int(n_features)
    names = getattr(model, "feature_names_in_", None)
    if names is not None:
        description["feature_names"] = [str(name) for name in names[:_LISTED]]
    classes = getattr(model, "classes_", None)
    if classes is not None:
        description["n_classes"] = len(classes)
        description["classes"] = [_plain(label) for label in classes[:_LISTED]]
    certificate = {
        name.rstrip("_"): _plain(value)
        for name in _CERTIFICATE
        if (value := getattr(final, name, None)) is not None
    }
    if certificate:
        description["certificate"] = certificate
    return description


def _inner(final: Any) -> Any:
    """The classifier inside a search, a calibration or a threshold."""
    for name in ("best_estimator_", "estimator_"):
        inner = getattr(final, name, None)
        if inner is not None and hasattr(inner, "get_params"):
            return _inner(inner)
    return final


def _class_name(value: Any) -> str:
    return value if isinstance(value, str) else type(value).__name__


def _plain(value: Any) -> Any:
    """A value as JSON has it, or as Python prints it."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, np.ndarray):
        return [_plain(item) for item in value.ravel()[:_LISTED].tolist()]
    if isinstance(value, float) and not np.isfinite(value):
        return repr(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return " ".join(repr(value).split())[:200]


def _warn_versions(manifest: dict[str, Any]) -> None:
    """Warn if parts of scikit-learn come from another version of it, as pickle does."""
    versions, types = manifest.get("versions"), manifest.get("types")
    saved = versions.get("scikit-learn") if isinstance(versions, dict) else None
    if not isinstance(saved, str) or not isinstance(types, list):
        return
    outside = [t for t in types if isinstance(t, str) and t.startswith("sklearn.")]
    if outside and _minor(saved) != _minor(sklearn.__version__):
        warnings.warn(
            InconsistentVersionWarning(
                estimator_name=outside[0],
                current_sklearn_version=sklearn.__version__,
                original_sklearn_version=saved,
            ),
            stacklevel=3,
        )


def _minor(version: str) -> list[str]:
    return re.findall(r"\d+", version)[:2]
