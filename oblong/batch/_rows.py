"""How rows are validated."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import validate_data

from oblong._core.missing import check_present

_LARGEST = np.iinfo(np.int32).max


def validated_rows(estimator: Any, X: Any, *y: Any, **options: Any) -> Any:
    """Rows, and targets if given: floats in C order, or CSR with indices of 32 bits.

    SciPy keeps the 64 bits of the indices that it was given also where 32 suffice.
    """
    if getattr(X, "is_cuda", False) or type(X).__module__.partition(".")[0] == "cupy":
        raise TypeError(
            "X is on a CUDA device, and models are fitted on cores: move it to main memory, for "
            "example by X.cpu().numpy() or X.get()"
        )
    for targets in y:
        check_present(targets)
    if sp.issparse(X) and X.ndim == 2 and max(X.nnz, *X.shape) <= _LARGEST:
        rows = X.tocsr()
        if rows.indices.dtype != np.int32 or rows.indptr.dtype != np.int32:
            parts = rows.data, rows.indices.astype(np.int32), rows.indptr.astype(np.int32)
            X = sp.csr_matrix(parts, shape=rows.shape)
    options = {"dtype": [np.float64, np.float32], **options}
    return validate_data(
        estimator, X, *y, order="C", accept_sparse="csr", accept_large_sparse=False, **options
    )
