"""Decision values of rows, without learning from them."""

from oblong._core.compile import compiled
from oblong.solvers.online.calibration import decide
from oblong.solvers.online.slots import BIAS, NOT_YET, TASK
from oblong.solvers.online.structures.table import row_scores
from oblong.solvers.online.units import room_for_row


@compiled
def decide_rows(data, indices, indptr, dense, weights, scale, settings, codes, units, record):
    """Fill ``record``; unknown features are left out."""
    task, bias, n_outputs = codes[TASK], settings[BIAS], record.shape[1]
    known, kept = room_for_row(indptr, indptr, units), indices[:0].copy()
    for i in range(indptr.size - 1):
        start, n = indptr[i], indptr[i + 1] - indptr[i]
        columns = indices[:n] if dense else indices[start : start + n]
        if kept.size < n:
            kept = columns.copy()
        m = 0
        for p in range(n):
            j = columns[p] + 1
            if j >= weights.shape[0]:
                continue
            x = float(data[start + p])
            if units.size > 0:
                x = x / units[j] if units[j] > 0.0 else 0.0
            known[m], kept[m] = x, columns[p]
            m += 1
        for k in range(n_outputs):
            record[i, k] = 0.0
        scores = record[i].copy()
        row_scores(kept[:m], known[:m], bias, weights, scores)
        record[i, 0] = NOT_YET
        decide(task, scores, scale, record[i])
