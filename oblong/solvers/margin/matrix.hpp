// The kernel matrix of the rows of one problem: given, or computed row by row as steps ask for
// them.
#pragma once

#include <algorithm>
#include <vector>

#include "oblong/_native/base/blas.hpp"
#include "oblong/_native/base/powers.hpp"
#include "oblong/solvers/margin/pair_steps.hpp"

namespace oblong::OBLONG_VARIANT::margin {

enum class KernelKind : std::int64_t { linear, poly, rbf, values };

// A kernel over all rows. Rows are scaled so that values are functions of products alone: x.z,
// (x.z + coef0)^degree, or 2^(x.z - half(x) - half(z)) with half of the squared norms.
struct KernelSource {
    std::int64_t kind, degree;
    double coef0;
    Mat<const double> rows;
    Given half, diagonal;
    // What was subtracted from the rows of the linear kernel.
    Given shift;
    // The matrix, where it is in memory.
    Mat<const float> values32;
    Mat<const double> values64;
    // Rounding of a value over sqrt(k(x, x) k(z, z)): in working precision, and in double.
    double single_unit, double_unit;
    // By how much the matrix may be indefinite, over its diagonal: rounding of values that are
    // given.
    double noise;

    KernelKind of() const { return static_cast<KernelKind>(kind); }
    bool linear() const { return of() == KernelKind::linear; }
    // Whether outputs in double precision come from the rows, and not from the matrix.
    bool has_rows() const { return !rows.empty(); }
    template <class T>
    Mat<const T> values() const {
        if constexpr (sizeof(T) == 4)
            return values32;
        else
            return values64;
    }
    template <class T>
    bool available() const {
        return has_rows() || !values<T>().empty();
    }
    double size(index i) const { return std::sqrt(std::abs(diagonal[i])); }
};

// Turn products of one row with others into kernel values, in place; `own` is half of its squared
// norm.
template <class T>
void map_products(const KernelSource& kernel, Vec<T> values, T own, Vec<const T> half) {
    T* v = values.data;
    const index n = values.size;
    if (kernel.of() == KernelKind::rbf) {
        OBLONG_ASSERT(half.size >= n);
        const T* other = half.data;
#pragma omp simd
        for (index j = 0; j < n; ++j) v[j] = power_of_two(v[j] - own - other[j]);
    } else if (kernel.of() == KernelKind::poly) {
        const T constant = static_cast<T>(kernel.coef0);
        for (index j = 0; j < n; ++j) {
            T base = v[j] + constant, power = 1;
            // By squaring.
            for (std::int64_t rest = kernel.degree; rest > 0; rest >>= 1, base *= base)
                if (rest & 1) power *= base;
            v[j] = power;
        }
    }
}

inline double product(Given x, Given z) {
    OBLONG_ASSERT(x.size <= z.size);
    const double *a = x.data, *b = z.data;
    double total = 0.0;
#pragma omp simd reduction(+ : total)
    for (index k = 0; k < x.size; ++k) total += a[k] * b[k];
    return total;
}

// Up to so many rows, or so many per column, the matrix of a problem is one product of matrices:
// rows one by one take four times as long each, and most are asked for.
inline constexpr index WHOLE_ROWS = 400;
inline constexpr double WHOLE_PER_COLUMN = 1.5;
// Rows of a tile in double precision.
inline constexpr index TILE = 64;

template <class T>
class GroupMatrix {
public:
    // Memory is for the largest group that will be opened.
    explicit GroupMatrix(const KernelSource& kernel, index largest)
        : kernel_(kernel), largest_(largest) {}

    // Take the matrix of some of the rows, in this order.
    void open(Vec<const index> members) {
        members_ = members;
        const index q = members.size, n = kernel_.diagonal.size;
        diagonal_.resize(q);
        for (index i = 0; i < q; ++i) diagonal_[i] = kernel_.diagonal[members[i]];
        const Mat<const T> all = kernel_.values<T>();
        bool every = q == n && !all.empty();
        for (index i = 0; every && i < q; ++i) every = members[i] == i;
        if (every) {
            rows_ = {all, {}, {}};
            return;
        }
        if (memory_.empty()) memory_.resize(largest_ * largest_), have_.resize(largest_);
        const Mat<T> K{memory_.data(), q, q};
        rows_ = {K, {have_.data(), q}, [this](index i) { write_row(i); }};
        std::fill_n(have_.data(), q, 0);
        if (!all.empty()) return;
        transpose_rows();
        const double few = WHOLE_PER_COLUMN * static_cast<double>(kernel_.rows.cols);
        if (q > WHOLE_ROWS && static_cast<double>(q) > few) return;
        const index d = kernel_.rows.cols;
        if (columns_.rows > 0) multiply_columns(K);
        for (index i = 0; i < q; ++i) {
            if (d == 0) std::fill_n(K[i].data, q, T(0));
            map_products<T>(
                kernel_, K[i], half_.empty() ? T(0) : half_[i],
                {half_.data(), static_cast<index>(half_.size())}
            );
        }
        std::fill_n(have_.data(), q, 1);
    }

    const Rows<T>& rows() const { return rows_; }
    Given diagonal() const { return {diagonal_.data(), static_cast<index>(diagonal_.size())}; }
    const KernelSource& kernel() const { return kernel_; }
    Vec<const index> members() const { return members_; }

    // Write K c in double precision to u, at least on the rows that matter. For the linear kernel w
    // becomes the weight vector.
    void image(Given c, Vec<const char> matters, Numbers u, Numbers w) const {
        if (kernel_.linear() && kernel_.has_rows())
            image_by_weights(c, u, w);
        else if (kernel_.has_rows())
            image_by_rows(c, matters, u);
        else
            image_by_values(c, u);
    }

    // The same from the matrix in working precision.
    void image_by_values(Given c, Numbers u) const {
        std::vector<index> support;
        std::vector<double> coef;
        for (index i = 0; i < c.size; ++i)
            if (c[i] != 0.0) support.push_back(i), coef.push_back(c[i]);
        std::fill_n(u.data, u.size, 0.0);
        const index count = static_cast<index>(support.size());
        add_rows<T>(rows_, {support.data(), count}, {coef.data(), count}, u);
    }

private:
    // The rows in columns, in working precision: kernel values of one with all others in vectors.
    void transpose_rows() {
        const index q = members_.size, d = kernel_.rows.cols;
        transposed_.resize(d * q);
        columns_ = {transposed_.data(), d, q};
        for (index i = 0; i < q; ++i) {
            const Given row = kernel_.rows[members_[i]];
            for (index k = 0; k < d; ++k) columns_(k, i) = static_cast<T>(row[k]);
        }
        half_.resize(kernel_.half.empty() ? 0 : q);
        for (index i = 0; i < static_cast<index>(half_.size()); ++i)
            half_[i] = static_cast<T>(kernel_.half[members_[i]]);
    }

    // K = X X' from the rows in columns, which BLAS reads as they are.
    void multiply_columns(Mat<T> K) const {
        char as_it_is = 'N', transposed = 'T';
        int q = blas_int(K.rows), d = blas_int(columns_.rows);
        T one = 1, zero = 0;
        auto* X = const_cast<T*>(columns_.data);
        blas<T>.gemm(&as_it_is, &transposed, &q, &q, &d, &one, X, &q, X, &q, &zero, K.data, &q);
    }

    void write_row(index i) {
        const index q = members_.size;
        const Vec<T> out{memory_.data() + i * q, q};
        if (const Mat<const T> all = kernel_.values<T>(); !all.empty()) {
            const Vec<const T> row = all[members_[i]];
            for (index j = 0; j < q; ++j) out[j] = row[members_[j]];
            return;
        }
        T* into = out.data;
        std::fill_n(into, q, T(0));
        const index d = columns_.rows, fours = d - d % 4;
        for (index k = 0; k < fours; k += 4) {
            const T *x = columns_[k].data, *y = columns_[k + 1].data, *z = columns_[k + 2].data;
            const T* w = columns_[k + 3].data;
            const T a = x[i], b = y[i], c = z[i], e = w[i];
#pragma omp simd
            for (index j = 0; j < q; ++j) into[j] += a * x[j] + b * y[j] + c * z[j] + e * w[j];
        }
        for (index k = fours; k < d; ++k) {
            const T* x = columns_[k].data;
            const T a = x[i];
#pragma omp simd
            for (index j = 0; j < q; ++j) into[j] += a * x[j];
        }
        map_products<T>(
            kernel_, out, half_.empty() ? T(0) : half_[i],
            {half_.data(), static_cast<index>(half_.size())}
        );
    }

    void image_by_weights(Given c, Numbers u, Numbers w) const {
        std::fill_n(w.data, w.size, 0.0);
        for (index i = 0; i < c.size; ++i) {
            if (c[i] == 0.0) continue;
            const Given row = kernel_.rows[members_[i]];
            for (index k = 0; k < w.size; ++k) w[k] += c[i] * row[k];
        }
        for (index i = 0; i < c.size; ++i) u[i] = product(w, kernel_.rows[members_[i]]);
    }

    // Rows with coefficients first, then those that matter without: tiles below the diagonal of the
    // first count in both directions.
    void image_by_rows(Given c, Vec<const char> matters, Numbers u) const {
        const index d = kernel_.rows.cols;
        std::vector<index> listed;
        for (index i = 0; i < c.size; ++i)
            if (c[i] != 0.0) listed.push_back(i);
        const index count = static_cast<index>(listed.size());
        for (index i = 0; i < c.size; ++i)
            if (c[i] == 0.0 && matters[i]) listed.push_back(i);
        const index total = static_cast<index>(listed.size());
        std::vector<double> copied(total * d), half(total), coef(total), image(total, 0.0);
        const Mat<double> own{copied.data(), total, d};
        for (index a = 0; a < total; ++a) {
            const index row = members_[listed[a]];
            std::copy_n(kernel_.rows[row].data, d, own[a].data);
            coef[a] = c[listed[a]];
            half[a] = kernel_.half.empty() ? 0.0 : kernel_.half[row];
        }
        std::vector<double> tile(std::min(TILE, total) * count);
        for (index first = 0; first < total && count > 0; first += TILE) {
            const index last = std::min(first + TILE, total), width = std::min(last, count);
            const Mat<double> values{tile.data(), last - first, width};
            multiply_transposed<double>(own.part(first, last), own.first(width), values);
            for (index a = first; a < last; ++a) {
                const Numbers row = values[a - first];
                map_products<double>(kernel_, row, half[a], {half.data(), total});
                const index size = std::min(a + 1, count);
                image[a] += product(row.first(size), {coef.data(), size});
                if (a >= count) continue;
                double* into = image.data();
                const double* from = row.data;
                const double mine = coef[a];
#pragma omp simd
                for (index b = 0; b < a; ++b) into[b] += from[b] * mine;
            }
        }
        for (index a = 0; a < total; ++a) u[listed[a]] = image[a];
    }

    const KernelSource& kernel_;
    index largest_;
    Vec<const index> members_;
    Rows<T> rows_;
    std::vector<T> memory_, transposed_, half_;
    std::vector<char> have_;
    std::vector<double> diagonal_;
    Mat<T> columns_;
};

}  // namespace oblong::OBLONG_VARIANT::margin
