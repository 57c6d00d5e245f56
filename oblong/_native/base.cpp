// What base/ has, for its tests.
#include "oblong/_native/base/bindings.hpp"
#include "oblong/_native/base/blas.hpp"
#include "oblong/_native/base/powers.hpp"
#include "oblong/_native/base/vectors.hpp"

namespace oblong::OBLONG_VARIANT {

namespace {

template <class T>
void raise_two(Vec<T> values) {
    for (T& t : values) t = power_of_two(t);
}

// The least and the largest number, none of which is NaN.
template <class T>
std::pair<double, double> extrema(Vec<const T> v) {
    Doubles least[TOGETHER], most[TOGETHER];
    for (int m = 0; m < TOGETHER; ++m) least[m] = all(inf), most[m] = all(-inf);
    const index rest = in_vectors(0, v.size, [&](index k, int m) OBLONG_INLINE {
        least[m] = smaller(least[m], doubles(v.data + k));
        most[m] = larger(most[m], doubles(v.data + k));
    });
    std::pair<double, double> found{smallest_of_all(least), largest_of_all(most)};
    for (const T x : v.from(rest))
        found = {smaller(found.first, double(x)), larger(found.second, double(x))};
    return found;
}

// The same, as a plain loop.
template <class T>
std::pair<double, double> plain_extrema(Vec<const T> v) {
    std::pair<double, double> found{inf, -inf};
    for (const T x : v) found = {smaller(found.first, double(x)), larger(found.second, double(x))};
    return found;
}

std::int64_t index_of(Vec<const double> v, double target) {
    const Doubles wanted = all(target);
    Indices found[TOGETHER];
    for (Indices& k : found) k = indices(v.size, 0);
    const index rest = in_vectors(0, v.size, [&](index k, int m) OBLONG_INLINE {
        const Indices here = doubles(v.data + k) == wanted ? indices(k, 1) : indices(v.size, 0);
        found[m] = here < found[m] ? here : found[m];
    });
    std::int64_t first = v.size;
    for (const Indices& k : found)
        for (index l = 0; l < WIDTH; ++l) first = smaller(first, lane(k, l));
    for (index k = rest; k < v.size && first == v.size; ++k)
        if (v[k] == target) first = k;
    return first;
}

template <class T>
void product(Mat<const T> A, Mat<const T> B, bool transposed, Mat<T> out) {
    require(
        out.rows == A.rows && A.cols == (transposed ? B.cols : B.rows) &&
            out.cols == (transposed ? B.rows : B.cols),
        "the shapes of the matrices do not fit"
    );
    load_blas();
    const nb::gil_scoped_release released;
    if (transposed)
        multiply_transposed(A, B, out);
    else
        multiply(A, B, out);
}

struct Rows {
    Vec<const double> data;
    Vec<const std::int64_t> starts;
    double scale;
};

// Sum of the first number of every row; `starts` are not checked here.
double first_numbers(const Rows& rows) {
    double total = 0.0;
    for (const auto start : rows.starts) total += rows.scale * rows.data[start];
    return total;
}

template <class T>
void bind_types(nb::module_& m) {
    m.def("raise_two", &raise_two<T>, unlocked());
    m.def("extrema", &extrema<T>, unlocked());
    m.def("plain_extrema", &plain_extrema<T>, unlocked());
    m.def("product", &product<T>);
}

}  // namespace
}  // namespace oblong::OBLONG_VARIANT

OBLONG_TUPLE(oblong::OBLONG_VARIANT::Rows, v.data, v.starts, v.scale)

namespace oblong::OBLONG_VARIANT {

void bind_base(nb::module_& m) {
#ifdef OBLONG_CHECKED
    m.attr("checked") = true;
#else
    m.attr("checked") = false;
#endif
    m.attr("width") = WIDTH;
#ifdef OBLONG_SANITIZED
    // A mistake on purpose, to see that it is reported.
    m.def("read_beyond", [](Vec<const double> v) { return *(v.data + v.size); });
#endif
    bind_types<float>(m);
    bind_types<double>(m);
    m.def("index_of", &index_of, unlocked());
    m.def("first_numbers", [](const Rows& rows) {
        require_indices(rows.starts, rows.data.size, "a row begins outside the data");
        return first_numbers(rows);
    });
    m.def("first_numbers_unchecked", &first_numbers);
    m.def("take_rows", [](Mat<const double> A, Vec<const std::int32_t> rows) {
        require_indices(rows, A.rows, "an index of a row is out of range");
        double total = 0.0;
        for (const auto i : rows)
            for (const double x : A[i]) total += x;
        return total;
    });
    m.def("sum", [](Cube<const double> a) {
        double total = 0.0;
        for (index k = 0; k < a.size; ++k)
            for (index i = 0; i < a.rows; ++i)
                for (index j = 0; j < a.cols; ++j) total += a(k, i, j);
        return total;
    });
    m.def("count", [](Vec<const bool> v) {
        std::int64_t n = 0;
        for (const bool x : v) n += x;
        return n;
    });
}

}  // namespace oblong::OBLONG_VARIANT
