"""Compiled functions of the margin solver: bad arguments are errors, whatever they are."""

from __future__ import annotations

import numpy as np
import pytest

from oblong._native import margin
from oblong.solvers.margin.grid import SOLUTION_VALUES, VARIANT, Groups, variants_of, without_folds
from oblong.solvers.margin.problem import svm_pieces

N, Q = 7, 5
BAD = (TypeError, ValueError)


def _kernel(kind=3, n=N, **changes):
    """A matrix in double precision, or rows for the kernels that have them."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    none, flat = np.empty((0, 0)), np.empty(0)
    rows = none if kind == 3 else X
    names = ("kind", "degree", "coef0", "rows", "half", "diagonal", "shift", "values32", "values64",
             "single_unit", "double_unit", "noise")  # fmt: skip
    K = X @ X.T
    half = 0.5 * np.diag(K).copy() if kind == 2 else flat
    values = K if kind == 3 else none
    diagonal = ((np.diag(K) + 1.0) ** 2, np.ones(n))[kind - 1] if kind in (1, 2) else np.diag(K)
    source = dict(zip(names, (
        kind, 2, 1.0, rows, half, diagonal.copy(), flat, none.astype(np.float32), values, 1e-7,
        1e-16, 0.0,
    )))  # fmt: skip
    return tuple((source | changes).values())


def _groups(**changes):
    members = [np.arange(Q), np.array([6, 1, 6])]
    y = np.array([1.0, -1.0, 1.0, -1.0, 1.0, 1.0, -1.0, -1.0])
    return Groups.of(members, svm_pieces(y, np.ones(8)))._replace(**changes).native()


def _out(m=1, d=0):
    return (
        np.zeros(8 * m), np.zeros(8 * m), np.zeros((2, m), dtype=SOLUTION_VALUES),
        np.zeros((2, m, d)), np.zeros(2, dtype=np.int64),
    )  # fmt: skip


def _solve(kernel=None, groups=None, variants=None, out=None, *, single=False, first=0, last=2):
    kernel = _kernel() if kernel is None else kernel
    groups = _groups() if groups is None else groups
    variants = variants_of(tol=1e-3) if variants is None else variants
    out = _out(len(variants)) if out is None else out
    margin.solve_groups(single, kernel, groups, variants, np.inf, 1000, False, out, first, last)
    return out


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("kind", range(4))
def test_solve_groups__well_formed_arguments_are_solved(kind, single):
    d = 3 if kind == 0 else 0
    kernel = _kernel(kind)
    out = _solve(kernel, out=_out(d=d), single=single and kind < 3)
    assert out[4].tolist() == [1, 1]
    assert (out[2]["status"] == 0).all()
    # A matrix of the other precision is not there: the group stays where it is.
    if kind == 3:
        assert _solve(kernel, single=True)[4].tolist() == [0, 0]


def _changed(array, change):
    if change == "dtype":
        kind = np.float32 if array.dtype.kind == "f" else np.float64
        return array.astype(np.float64 if array.dtype == np.float32 else kind)
    if change == "list":
        return array.tolist()
    if change == "none":
        return None
    if change == "dimensions":
        return array[None]
    if change == "order":
        return np.asfortranarray(np.repeat(array, 2, axis=-1))[..., ::2]
    if change == "longer":
        return np.ascontiguousarray(np.concatenate([array, array[-1:]]))
    assert change == "shorter"
    return np.ascontiguousarray(array[:-1])


CHANGES = ("dtype", "list", "none", "dimensions", "order", "longer", "shorter")


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("field", range(7))
def test_solve_groups__malformed_groups_are_an_error(field, change):
    groups = list(_groups())
    groups[field] = _changed(groups[field], change)
    with pytest.raises(BAD):
        _solve(groups=tuple(groups))


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("field", range(5))
def test_solve_groups__malformed_results_are_an_error(field, change):
    out = list(_out(2, d=3))
    structured = field == 2 and change == "dtype"
    out[field] = np.zeros((2, 2)) if structured else _changed(out[field], change)
    with pytest.raises(BAD):
        _solve(_kernel(0), variants=variants_of([1.0, 2.0], tol=1e-3), out=tuple(out))


@pytest.mark.parametrize("field", range(5))
def test_solve_groups__results_that_are_read_only_are_an_error(field):
    out = _out()
    out[field].setflags(write=False)
    with pytest.raises(ValueError, match="read-only"):
        _solve(out=out)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("field", ["rows", "half", "diagonal"])
def test_solve_groups__malformed_rows_are_an_error(field, change):
    names = {"rows": 3, "half": 4, "diagonal": 5}
    given = _kernel(2)[names[field]]
    with pytest.raises(BAD):
        _solve(_kernel(2, **{field: _changed(given, change)}), single=True)


@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize("size", [1, N - 1, N + 1])
def test_solve_groups__norms_of_other_kernels_are_as_many_as_rows(kind, size):
    with pytest.raises(BAD):
        _solve(_kernel(kind, half=np.ones(size)), out=_out(d=0 if kind else 3), single=True)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("field", ["values64", "values32"])
def test_solve_groups__a_malformed_matrix_is_an_error(field, change):
    K = _kernel()[8].astype(np.float32 if field == "values32" else np.float64)
    with pytest.raises(BAD):
        _solve(_kernel(**{field: _changed(K, change)}), single=field == "values32")


@pytest.mark.parametrize(
    "changes",
    [{"kind": -1}, {"kind": 4}, {"degree": -1}, {"kind": 1.5}, {"kind": None},
     {"shift": np.ones(2)}, {"shift": np.ones(4)}],
)  # fmt: skip
def test_solve_groups__an_unknown_kernel_is_an_error(changes):
    with pytest.raises(BAD):
        _solve(_kernel(0, **changes), out=_out(d=3))


@pytest.mark.parametrize("row", [-1, N, 2**40, -(2**62)])
def test_solve_groups__members_that_are_no_rows_are_an_error(row):
    members = np.array([0, 1, 2, 3, 4, 6, row, 6])
    with pytest.raises(ValueError, match="not a row"):
        _solve(groups=_groups(members=members))


@pytest.mark.parametrize(
    "ends", [[0, 8, 8], [0, 0, 8], [1, 5, 8], [0, 9, 8], [0, 5, 7], [0, 5, 9], [0, -1, 8], [8], []]
)
def test_solve_groups__groups_that_are_not_all_members_are_an_error(ends):
    with pytest.raises(ValueError, match="group"):
        _solve(groups=_groups(ends=np.array(ends, dtype=np.int64)))


@pytest.mark.parametrize("splits", [[0, 3], [5, 4], [6, 3], [-1, 3], [5, 2**60]])
def test_solve_groups__splits_outside_of_their_groups_are_an_error(splits):
    with pytest.raises(ValueError, match="split"):
        _solve(groups=_groups(splits=np.array(splits)))


@pytest.mark.parametrize("field", ["reference", "start", "other_start"])
@pytest.mark.parametrize("value", [-2, 1, 2, 2**40])
def test_solve_groups__variants_start_from_earlier_ones(field, value):
    variants = variants_of([1.0, 2.0], tol=1e-3)
    variants[field][1] = value
    with pytest.raises(ValueError, match="later"):
        _solve(variants=variants)


def test_solve_groups__rows_are_left_out_of_a_variant_that_there_is():
    variants = without_folds(np.array([0]), tol=1e-3)
    variants["start"][1] = -1
    with pytest.raises(ValueError, match="variant"):
        _solve(variants=variants)


def test_solve_groups__variants_have_fields_of_their_own():
    for variants in (np.zeros((1, 10)), np.zeros(1, dtype=VARIANT.descr[:-1]), np.zeros(10), None):
        with pytest.raises(BAD):
            margin.solve_groups(False, _kernel(), _groups(), variants, 1.0, 10, False, _out(), 0, 2)


@pytest.mark.parametrize(("first", "last"), [(-1, 1), (0, 3), (2, 1), (3, 3)])
def test_solve_groups__groups_that_there_are_not_are_an_error(first, last):
    with pytest.raises(ValueError, match="group"):
        _solve(first=first, last=last)


@pytest.mark.parametrize("came", [-1, 2, 2**40])
def test_solve_groups__a_group_has_come_to_one_of_its_variants(came):
    out = _out()
    out[4][1] = came
    with pytest.raises(ValueError, match="variant"):
        _solve(out=out)


def _block(dtype=np.float64):
    rng = np.random.default_rng(1)
    F = rng.normal(size=(Q, 3))
    K = (F @ F.T).astype(dtype)
    y = np.array([1.0, -1.0, 1.0, -1.0, 1.0])
    numbers = [np.zeros(Q) for _ in range(4)]
    return [
        K, K.diagonal().astype(float), *svm_pieces(y, np.ones(Q)), Q, np.zeros(2), *numbers, 1e-3,
        1e-12, 1e-12, 100,
    ]  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_solve_block__well_formed_arguments_are_solved(dtype):
    assert margin.solve_block(*_block(dtype))[2] <= 1e-3


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("field", [0, 1, 2, 3, 5, 6, 7, 8, 9])
def test_solve_block__malformed_arguments_are_an_error(field, change):
    given = _block()
    if field == 0 and change == "dtype":
        given[0] = given[0].astype(np.float16)
    else:
        given[field] = _changed(given[field], change)
    with pytest.raises(BAD):
        margin.solve_block(*given)


@pytest.mark.parametrize("field", [6, 7, 8, 9])
def test_solve_block__numbers_that_are_read_only_are_an_error(field):
    given = _block()
    given[field].setflags(write=False)
    with pytest.raises(ValueError, match="read-only"):
        margin.solve_block(*given)


def test_solve_block__reads_what_is_read_only():
    given = _block()
    for field in (0, 1, 2, 3, 5):
        given[field].setflags(write=False)
    assert margin.solve_block(*given)[2] <= 1e-3


@pytest.mark.parametrize("split", [-1, Q + 1, 2**40])
def test_solve_block__a_split_is_inside(split):
    given = _block()
    given[4] = split
    with pytest.raises(ValueError, match="split"):
        margin.solve_block(*given)


def _certificate():
    y = np.array([1.0, -1.0, 1.0, -1.0, 1.0])
    zeros = [np.zeros(Q) for _ in range(3)]
    return [
        *svm_pieces(y, np.ones(Q)), Q, np.zeros(2), *zeros, 1.0, 0.0, False, (0.0, 0.0), 1e-3
    ]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("field", [0, 1, 3, 4, 5, 6])
def test_certify__malformed_arguments_are_an_error(field, change):
    given = _certificate()
    assert len(margin.certify(*given)) == 6
    given[field] = _changed(given[field], change)
    with pytest.raises(BAD):
        margin.certify(*given)


@pytest.mark.parametrize("bias", [0.0, (0.0,), (0.0, 0.0, 0.0), None, np.zeros(2)])
def test_certify__biases_are_two(bias):
    given = _certificate()
    given[10] = bias
    if isinstance(bias, np.ndarray):
        # A sequence of two numbers is as good as a pair.
        assert len(margin.certify(*given)) == 6
        return
    with pytest.raises(BAD):
        margin.certify(*given)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", ["write_slopes", "write_values", "write_losses", "write_attained"])
def test_functions_of_terms__malformed_arguments_are_an_error(name, change):
    y = np.array([1.0, -1.0, 1.0])
    function = getattr(margin, name)
    outs = [np.empty(3), np.empty(3)][: 2 if name == "write_slopes" else 1]
    given = [*svm_pieces(y, np.ones(3)), np.zeros(3), *outs]
    function(*given)
    for field in range(len(given)):
        changed = list(given)
        changed[field] = _changed(given[field], change)
        with pytest.raises(BAD):
            function(*changed)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("field", range(4))
def test_dual_objective__malformed_arguments_are_an_error(field, change):
    given = [*svm_pieces(np.array([1.0, -1.0]), np.ones(2)), np.zeros(2), np.zeros(2)]
    assert margin.dual_objective(*given) == 0.0
    given[field] = _changed(given[field], change)
    with pytest.raises(BAD):
        margin.dual_objective(*given)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gather__writes_rows_and_columns(dtype):
    values = np.arange(12, dtype=dtype).reshape(3, 4)
    rows, columns, out = np.array([2, 0, 2]), np.array([3, 1]), np.empty((3, 2), dtype=dtype)
    margin.gather(values, rows, columns, 2.0, 1.0, out)
    np.testing.assert_array_equal(out, 2.0 * values[np.ix_(rows, columns)] + 1.0)


@pytest.mark.parametrize(
    ("rows", "columns"), [([0, 3], [0]), ([-1], [0]), ([0], [4]), ([0], [-1]), ([0], [2**50])]
)
def test_gather__places_outside_are_an_error(rows, columns):
    rows, columns = np.array(rows), np.array(columns)
    with pytest.raises(ValueError, match="there is not"):
        margin.gather(
            np.zeros((3, 4)), rows, columns, 1.0, 0.0, np.empty((rows.size, columns.size))
        )


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("field", [0, 1, 2, 5])
def test_gather__malformed_arguments_are_an_error(field, change):
    given = [np.zeros((3, 4)), np.array([0, 1]), np.array([1, 2]), 1.0, 0.0, np.empty((2, 2))]
    if field == 0 and change in ("longer", "shorter"):
        pytest.skip("a matrix may have any number of rows")
    given[field] = _changed(given[field], change)
    with pytest.raises(BAD):
        margin.gather(*given)


@pytest.mark.parametrize("group", [-1, 2, 2**40])
def test_write_terms__a_group_that_there_is(group):
    with pytest.raises(ValueError, match="group"):
        margin.write_terms(
            _groups(), group, variants_of(tol=0.1), np.inf, np.empty((Q, 4)), np.empty((Q, 3))
        )


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("field", ["p", "s"])
def test_write_terms__malformed_results_are_an_error(field, change):
    out = {"p": np.empty((Q, 4)), "s": np.empty((Q, 3))}
    out[field] = _changed(out[field], change)
    with pytest.raises(BAD):
        margin.write_terms(_groups(), 0, variants_of(tol=0.1), np.inf, **out)


@pytest.mark.parametrize("ends", [[0, 9, 8], [0, -5, 8], [-3, 5, 8], [0, 20, 8]])
def test_write_terms__ends_outside_of_the_members_are_an_error(ends):
    size = abs(ends[1] - ends[0])
    with pytest.raises(ValueError, match="terms"):
        margin.write_terms(
            _groups(ends=np.array(ends)), 0, variants_of(tol=0.1), np.inf, np.empty((size, 4)),
            np.empty((size, 3)),
        )  # fmt: skip
