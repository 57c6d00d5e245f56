#include "oblong/_native/base/bindings.hpp"
#include "oblong/solvers/margin/bound_and_bias.hpp"
#include "oblong/solvers/margin/grid.hpp"

namespace oblong::OBLONG_VARIANT {

// Structured arrays of NumPy as structs of the same layout.
template <>
constexpr char kind_of<margin::Solution>() {
    return 'V';
}
template <>
constexpr char kind_of<margin::Variant>() {
    return 'V';
}

}  // namespace oblong::OBLONG_VARIANT

namespace nanobind::detail {
template <>
constexpr auto dtype_name<oblong::OBLONG_VARIANT::margin::Solution>() {
    return const_name("void");
}
template <>
constexpr auto dtype_name<oblong::OBLONG_VARIANT::margin::Variant>() {
    return const_name("void");
}
}  // namespace nanobind::detail

using oblong::OBLONG_VARIANT::margin::Groups;
using oblong::OBLONG_VARIANT::margin::KernelSource;
using oblong::OBLONG_VARIANT::margin::Solutions;

OBLONG_TUPLE(
    KernelSource, v.kind, v.degree, v.coef0, v.rows, v.half, v.diagonal, v.shift, v.values32,
    v.values64, v.single_unit, v.double_unit, v.noise
)
OBLONG_TUPLE(Groups, v.ends, v.members, v.folds, v.p, v.s, v.splits, v.sums)
OBLONG_TUPLE(Solutions, v.coefs, v.images, v.table, v.weights, v.next)

namespace oblong::OBLONG_VARIANT {

namespace {

using namespace margin;

void check_kernel(const KernelSource& kernel) {
    const index n = kernel.diagonal.size;
    require(0 <= kernel.kind && kernel.kind <= 3 && kernel.degree >= 0, "unknown kernel");
    require(
        kernel.rows.empty() || kernel.rows.rows == n, "rows and diagonal differ in their number"
    );
    require(
        kernel.half.size == n ||
            (kernel.half.empty() && (kernel.of() != KernelKind::rbf || kernel.rows.empty())),
        "norms and rows differ in their number"
    );
    require(
        kernel.shift.empty() || kernel.shift.size == kernel.rows.cols,
        "shift and rows differ in columns"
    );
    for (const auto& [rows, cols] :
         {std::pair(kernel.values32.rows, kernel.values32.cols),
          std::pair(kernel.values64.rows, kernel.values64.cols)})
        require(rows == cols && (rows == 0 || rows == n), "a kernel matrix has another size");
}

void check_groups(const Groups& groups, index n) {
    const index n_groups = groups.ends.size - 1, total = groups.members.size;
    require(n_groups >= 0 && groups.splits.size == n_groups, "groups differ in their number");
    require(groups.sums.rows == n_groups && groups.sums.cols == 2, "every group has two sums");
    require(groups.folds.size == total, "members and folds differ in their number");
    require(groups.p.rows == total && groups.p.cols == 4, "terms have four breakpoints");
    require(groups.s.rows == total && groups.s.cols == 3, "terms have three slopes");
    require(
        groups.ends[0] == 0 && groups.ends[n_groups] == total, "groups do not hold all members"
    );
    for (index g = 0; g < n_groups; ++g) {
        const index size = groups.ends[g + 1] - groups.ends[g];
        require(size > 0, "a group has no rows");
        require(
            0 < groups.splits[g] && groups.splits[g] <= size, "a group is split outside of its rows"
        );
    }
    require_indices(groups.members, n, "a member is not a row");
}

void check_variants(Vec<const Variant> variants) {
    for (index k = 0; k < variants.size; ++k)
        for (const std::int64_t before :
             {variants[k].reference, variants[k].start, variants[k].other_start})
            require(-1 <= before && before < k, "a variant starts from a later one");
    for (const Variant& variant : variants)
        require(
            variant.without < 0 || variant.start >= 0, "a variant leaves rows out of no other one"
        );
}

template <class T>
void solve(
    const KernelSource& kernel, const Groups& groups, Vec<const Variant> variants, GridGoal goal,
    Solutions out, index first, index last
) {
    check_kernel(kernel);
    check_groups(groups, kernel.diagonal.size);
    check_variants(variants);
    const index n_groups = groups.ends.size - 1, m = variants.size, total = groups.members.size;
    const index d = kernel.linear() ? kernel.rows.cols : 0;
    require(0 <= first && first <= last && last <= n_groups, "groups that there are not");
    require(
        out.coefs.size == m * total && out.images.size == m * total,
        "coefficients have another size"
    );
    require(out.table.rows == n_groups && out.table.cols == m, "solutions have another size");
    require(
        d == 0 || (out.weights.size == n_groups && out.weights.rows == m && out.weights.cols == d),
        "weights have another size"
    );
    require(out.next.size == n_groups, "every group has come to a variant");
    for (const index k : out.next) require(0 <= k && k <= m, "every group has come to a variant");
    solve_groups<T>(kernel, groups, variants, goal, out, first, last);
}

void solve_some_groups(
    bool single, const KernelSource& kernel, const Groups& groups, Vec<const Variant> variants,
    double promise, std::int64_t steps, bool polish, const Solutions& out, std::int64_t first,
    std::int64_t last
) {
    load_blas();
    const nb::gil_scoped_release unlocked;
    const GridGoal goal{promise, steps, polish};
    (single ? &solve<float> : &solve<double>)(kernel, groups, variants, goal, out, first, last);
}

// Terms of a variant of a group, for what is not solved here.
void write_group_terms(
    const Groups& groups, std::int64_t g, Vec<const Variant> variants, double bound, Mat<double> p,
    Mat<double> s
) {
    require(0 <= g && g + 1 < groups.ends.size && variants.size == 1, "a group that there is not");
    const index begin = groups.ends[g], size = groups.ends[g + 1] - begin;
    require(
        0 <= begin && 0 <= size && begin + size <= groups.p.rows &&
            groups.s.rows == groups.p.rows && groups.folds.size == groups.p.rows &&
            groups.p.cols == 4 && groups.s.cols == 3,
        "terms and groups do not belong together"
    );
    require(
        p.rows == size && p.cols == 4 && s.rows == size && s.cols == 3, "terms have another size"
    );
    write_terms(groups, begin, size, variants[0], bound, p, s);
}

Pieces checked(Mat<const double> p, Mat<const double> s, std::int64_t split) {
    require(
        p.cols == 4 && s.cols == 3 && p.rows == s.rows,
        "terms have four breakpoints and three slopes"
    );
    require(0 <= split && split <= p.rows, "terms are split outside of their rows");
    return {p, s, split};
}

// The value of a function of every row and its number in `x`.
template <class Function>
void write_each(Mat<const double> p, Mat<const double> s, Given x, Numbers out, Function function) {
    const Pieces pieces = checked(p, s, p.rows);
    require(x.size == p.rows && out.size == p.rows, "terms and numbers differ in their number");
    for (index i = 0; i < x.size; ++i) out[i] = function(pieces, i, x[i]);
}

template <class T>
std::tuple<std::int64_t, std::int64_t, double> solve_one_block(
    Mat<const T> K, Given diagonal, Mat<const double> p, Mat<const double> s, std::int64_t split,
    Given sums, Numbers c, Numbers u, Numbers right, Numbers left, double tol,
    double least_curvature, double snap, std::int64_t steps
) {
    load_blas();
    const nb::gil_scoped_release unlocked;
    const Pieces pieces = checked(p, s, split);
    const index q = c.size;
    require(
        q > 0 && K.rows == q && K.cols >= q && diagonal.size == q && p.rows == q,
        "a block is not square"
    );
    require(
        u.size == q && right.size == q && left.size == q && sums.size == 2,
        "a point has another size"
    );
    BlockMemory<T> memory(q);
    const Rows<T> rows{K, {}, {}};
    const Point point{c, u, right, left};
    const BlockOutcome done =
        solve_block(rows, diagonal, pieces, point, memory, {tol, least_curvature, snap, steps});
    balance(pieces, c, right, left, sums);
    return {done.steps, done.newton_steps, done.violation};
}

// Rows and columns of a matrix, times a factor, plus a constant.
template <class T>
void gather(
    Mat<const T> values, Vec<const std::int64_t> rows, Vec<const std::int64_t> columns,
    double factor, double constant, Mat<T> out
) {
    const nb::gil_scoped_release unlocked;
    require_indices(rows, values.rows, "a row that there is not");
    require_indices(columns, values.cols, "a column that there is not");
    require(out.rows == rows.size && out.cols == columns.size, "the values have another size");
    const T a = static_cast<T>(factor), b = static_cast<T>(constant);
    for (index i = 0; i < rows.size; ++i) {
        const Vec<const T> from = values[rows[i]];
        const Vec<T> into = out[i];
        for (index j = 0; j < columns.size; ++j) into[j] = a * from[columns[j]] + b;
    }
}

auto certify(
    Mat<const double> p, Mat<const double> s, std::int64_t split, Given sums, Given c, Given image,
    Given error, double norm, double norm_error, bool by_weights, std::pair<double, double> bias,
    double promise
) {
    const nb::gil_scoped_release unlocked;
    const Pieces pieces = checked(p, s, split);
    require(
        c.size == p.rows && image.size == p.rows && error.size == p.rows && sums.size == 2,
        "terms and coefficients differ in their number"
    );
    const Appraisal found = appraise(
        pieces, c, {image, error, norm, norm_error, by_weights}, sums, {{bias.first, bias.second}},
        promise
    );
    return std::tuple(
        std::pair(found.bias[0], found.bias[1]), found.scale, found.objective, found.upper,
        found.dual, found.doubt
    );
}

}  // namespace

void bind_margin(nb::module_& m) {
    m.def(
        "solve_groups", &solve_some_groups, nb::arg("single"), nb::arg("kernel"), nb::arg("groups"),
        nb::arg("variants"), nb::arg("promise"), nb::arg("steps"), nb::arg("polish"),
        nb::arg("out"), nb::arg("first"), nb::arg("last")
    );
    m.attr("WHOLE") = WHOLE;
    m.def("solve_block", &solve_one_block<float>);
    m.def("solve_block", &solve_one_block<double>);
    m.def("certify", &certify);
    m.def("quantile", [](Given sizes, Given weights, double goal) {
        require(sizes.size == weights.size, "sizes and weights differ in their number");
        const Quantile found = quantile(sizes, weights, goal);
        return std::pair(found.size, found.weight);
    });
    m.def(
        "tangents",
        [](Given u, Given y, Given C, Given U, double D, double bias, double low, double high) {
            require(
                u.size == y.size && u.size == C.size && u.size == U.size,
                "outputs and penalties differ in their number"
            );
            const Tangents at = tangents({u, y, C, U, D}, bias, low, high);
            return std::tuple(at.value, at.left, at.right);
        }
    );
    m.def("gather", &gather<float>);
    m.def("gather", &gather<double>);
    m.def(
        "write_slopes",
        [](Mat<const double> p, Mat<const double> s, Given c, Numbers right, Numbers left) {
            require(
                c.size == p.rows && right.size == p.rows && left.size == p.rows,
                "terms and slopes differ"
            );
            write_slopes(checked(p, s, p.rows), c, right, left);
        }
    );
    m.def("write_values", [](Mat<const double> p, Mat<const double> s, Given c, Numbers out) {
        write_each(p, s, c, out, [](const Pieces& pieces, index i, double x) {
            return pieces.term(i, x);
        });
    });
    m.def("write_losses", [](Mat<const double> p, Mat<const double> s, Given f, Numbers out) {
        write_each(p, s, f, out, [](const Pieces& pieces, index i, double x) {
            return pieces.loss(i, x).value;
        });
    });
    m.def("write_attained", [](Mat<const double> p, Mat<const double> s, Given f, Numbers out) {
        write_each(p, s, f, out, [](const Pieces& pieces, index i, double x) {
            return -pieces.loss(i, x).slope;
        });
    });
    m.def("dual_objective", [](Mat<const double> p, Mat<const double> s, Given c, Given u) {
        require(
            c.size == p.rows && u.size == p.rows, "terms and coefficients differ in their number"
        );
        return dual_objective(checked(p, s, p.rows), c, u);
    });
    m.def(
        "write_terms", &write_group_terms, nb::arg("groups"), nb::arg("group"), nb::arg("variant"),
        nb::arg("bound"), nb::arg("p"), nb::arg("s")
    );
}

}  // namespace oblong::OBLONG_VARIANT
