#include "oblong/_native/base/bindings.hpp"
#include "oblong/solvers/linear/batch.hpp"

namespace oblong::OBLONG_VARIANT {

namespace {

using namespace linear;

// A batch with the checks of what its loops rely on.
template <class Rows>
void make(
    Batch<Rows>* self, const Rows& rows, Vec<const std::int32_t> labels,
    Vec<const double> penalties, Mat<const std::int32_t> pairs, Vec<const double> factors,
    bool squared, int intercept, double scale
) {
    const index n = rows.size();
    require(labels.size == n && penalties.size == n, "rows, labels and penalties differ in number");
    require(n > 0 && n < std::numeric_limits<std::int32_t>::max(), "too many rows, or none");
    require(pairs.cols == 2 && pairs.rows == factors.size, "problems and factors differ in number");
    require(0 <= intercept && intercept <= 2, "no such intercept");
    index classes = 0;
    for (const auto label : labels) {
        require(label >= 0, "a label is negative");
        classes = larger(classes, static_cast<index>(label) + 1);
    }
    std::vector<Problem> problems(static_cast<std::size_t>(pairs.rows));
    for (index k = 0; k < pairs.rows; ++k) {
        require(0 <= pairs(k, 0) && pairs(k, 0) < classes, "a problem has no such class");
        require(-1 <= pairs(k, 1) && pairs(k, 1) < classes, "a problem has no such class");
        problems[k].positive = pairs(k, 0), problems[k].negative = pairs(k, 1);
        problems[k].factor = factors[k];
    }
    const Task task{labels, penalties, squared, static_cast<Intercept>(intercept), scale};
    load_blas();
    new (self) Batch<Rows>(rows, task, std::move(problems), classes);
}

template <class Rows, class Init>
void bind_batch(nb::module_& m, const char* name, Init init) {
    using B = Batch<Rows>;
    nb::class_<B> c(m, name);
    init(c);
    c.def(
         "start", &B::start, nb::arg("k"), nb::arg("epochs"), nb::arg("seed"), nb::arg("work"),
         unlocked()
    )
        .def(
            "descend", &B::descend_on, nb::arg("k"), nb::arg("target"), nb::arg("epochs"),
            nb::arg("work"), nb::arg("seed"), unlocked()
        )
        .def("renew", &B::renew, nb::arg("k"), unlocked())
        .def("prepare", &B::prepare, nb::arg("problems"), nb::arg("certifies"), unlocked())
        .def(
            "run_rows", [](B& b, index chunk) { b.run_rows(chunk); }, nb::arg("chunk"), unlocked()
        )
        .def("finish", &B::finish, unlocked())
        .def("visit_pair", &B::visit_pair, nb::arg("k"), nb::arg("certifies"), unlocked())
        .def("bound", &B::bound, nb::arg("k"), nb::arg("B"), nb::arg("tightened"), nb::arg("first"))
        .def("shrink", &B::shrink, nb::arg("k"), nb::arg("factor"))
        .def(
            "read_weights",
            [](B& b, index k, Vec<double> out) {
                const Vec<double> w = b.weights(k);
                require(out.size == w.size, "weights and columns differ in number");
                for (index j = 0; j < w.size; ++j) out[j] = w[j];
            },
            nb::arg("k"), nb::arg("out")
        )
        // Objectives, intercept and counts of a problem.
        .def(
            "state",
            [](const B& b, index k) {
                const Problem& p = b.problem(k);
                return std::tuple(
                    p.primal, p.dual, p.regulariser, p.largest, p.near, p.pressing, p.bias,
                    p.epochs, p.work
                );
            },
            nb::arg("k")
        );
}

template <class T>
void bind_dense(nb::module_& m, const char* name) {
    bind_batch<DenseRows<T>>(m, name, [](nb::class_<Batch<DenseRows<T>>>& c) {
        c.def(
            "__init__",
            [](Batch<DenseRows<T>>* self, Mat<const T> X, Vec<const std::int32_t> labels,
               Vec<const double> penalties, Mat<const std::int32_t> pairs,
               Vec<const double> factors, bool squared, int intercept, double scale) {
                make(
                    self, DenseRows<T>{X}, labels, penalties, pairs, factors, squared, intercept,
                    scale
                );
            },
            nb::keep_alive<1, 2>(), nb::keep_alive<1, 3>(), nb::keep_alive<1, 4>()
        );
    });
}

template <class T>
void bind_sparse(nb::module_& m, const char* name) {
    bind_batch<SparseRows<T>>(m, name, [](nb::class_<Batch<SparseRows<T>>>& c) {
        c.def(
            "__init__",
            [](Batch<SparseRows<T>>* self, Vec<const T> data, Vec<const std::int32_t> indices,
               Vec<const std::int32_t> starts, index width, Vec<const std::int32_t> labels,
               Vec<const double> penalties, Mat<const std::int32_t> pairs,
               Vec<const double> factors, bool squared, int intercept, double scale) {
                require(starts.size > 0 && starts[0] == 0, "rows do not begin with the data");
                require(data.size == indices.size, "values and columns differ in number");
                for (index i = 0; i + 1 < starts.size; ++i)
                    require(starts[i] <= starts[i + 1], "a row ends before it begins");
                require(starts[starts.size - 1] <= data.size, "a row ends beyond the data");
                require_indices(indices, width, "a column is out of range");
                make(
                    self, SparseRows<T>{data, indices, starts, width}, labels, penalties, pairs,
                    factors, squared, intercept, scale
                );
            },
            nb::keep_alive<1, 2>(), nb::keep_alive<1, 3>(), nb::keep_alive<1, 4>(),
            nb::keep_alive<1, 6>(), nb::keep_alive<1, 7>()
        );
    });
}

}  // namespace

void bind_linear(nb::module_& m) {
    bind_dense<float>(m, "DenseBatch32");
    bind_dense<double>(m, "DenseBatch64");
    bind_sparse<float>(m, "SparseBatch32");
    bind_sparse<double>(m, "SparseBatch64");
}

}  // namespace oblong::OBLONG_VARIANT
