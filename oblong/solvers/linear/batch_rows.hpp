// Rows of a dense or a sparse matrix, as the descent and the passes over many problems read them.
#pragma once

#include <vector>

#include "oblong/_native/base/blas.hpp"
#include "oblong/solvers/linear/lanes.hpp"

namespace oblong::OBLONG_VARIANT::linear {

// Weights of the problems of a pass, in the precision of its outputs.
template <class V>
struct PassWeights {
    index problems = 0;
    // Outputs of a row lie `stride` apart, a multiple of the lanes.
    index stride = 0;
    // By problem for dense rows, by column for sparse ones, padded to the stride.
    std::vector<V> values;
};

template <class T>
struct DenseRows {
    using Value = T;
    Mat<const T> X;

    index size() const { return X.rows; }
    index columns() const { return X.cols; }
    index entries(index) const { return X.cols; }
    // Rows ahead whose memory is asked for.
    static constexpr index ahead = 2;

    const T* row(index i) const {
        OBLONG_ASSERT(0 <= i && i < X.rows);
        return X.data + i * X.cols;
    }
    void prefetch(index i) const {
        const char* from = reinterpret_cast<const char*>(row(i));
        const index bytes = X.cols * static_cast<index>(sizeof(T));
#if OBLONG_VECTORS
        for (index j = 0; j < bytes; j += 64) __builtin_prefetch(from + j, 0, 3);
#else
        (void)from, (void)bytes;
#endif
    }
    T dot(index i, const T* w) const { return product(row(i), w, X.cols); }
    void add(index i, T c, T* w) const { add_multiple(row(i), c, w, X.cols); }
    void add_exactly(index i, double c, double* w) const {
        const T* x = row(i);
        for (index j = 0; j < X.cols; ++j) w[j] += c * static_cast<double>(x[j]);
    }
    double dot_exactly(index i, const double* w) const {
        const T* x = row(i);
        double total = 0.0;
#pragma omp simd reduction(+ : total)
        for (index j = 0; j < X.cols; ++j) total += static_cast<double>(x[j]) * w[j];
        return total;
    }
    double squared_length(index i) const {
        const T* x = row(i);
        double total = 0.0;
#pragma omp simd reduction(+ : total)
        for (index j = 0; j < X.cols; ++j)
            total += static_cast<double>(x[j]) * static_cast<double>(x[j]);
        return total;
    }

    // `coef(a)` is the weight vector of problem a.
    template <class V, class Coef>
    void arrange(PassWeights<V>& weights, Coef coef) const {
        weights.values.resize(static_cast<std::size_t>(weights.problems * X.cols));
        for (index a = 0; a < weights.problems; ++a) {
            const auto* from = coef(a);
            V* to = weights.values.data() + a * X.cols;
            for (index j = 0; j < X.cols; ++j) to[j] = static_cast<V>(from[j]);
        }
    }

    // Outputs of `count` rows, without the intercept.
    template <class V>
    void outputs(
        index first, index count, const PassWeights<V>& weights, V* out, std::vector<V>& buffer
    ) const {
        if (X.cols == 0) {
            for (index k = 0; k < count * weights.stride; ++k) out[k] = 0;
            return;
        }
        const V* rows;
        if constexpr (std::is_same_v<V, T>) {
            rows = row(first);
        } else {
            buffer.resize(static_cast<std::size_t>(count * X.cols));
            const T* from = row(first);
            for (index k = 0; k < count * X.cols; ++k) buffer[k] = from[k];
            rows = buffer.data();
        }
        char transposed = 'T', as_it_is = 'N';
        int m = blas_int(weights.problems), n = blas_int(count), k = blas_int(X.cols);
        int stride = blas_int(weights.stride);
        V one = 1, zero = 0;
        OBLONG_ASSERT(blas<V>.gemm != nullptr);
        blas<V>.gemm(
            &transposed, &as_it_is, &m, &n, &k, &one, const_cast<V*>(weights.values.data()), &k,
            const_cast<V*>(rows), &k, &zero, out, &stride
        );
    }
};

template <class T>
struct SparseRows {
    using Value = T;
    Vec<const T> data;
    Vec<const std::int32_t> indices;
    Vec<const std::int32_t> starts;
    index width;

    index size() const { return starts.size - 1; }
    index columns() const { return width; }
    index entries(index i) const { return starts[i + 1] - starts[i]; }
    static constexpr index ahead = 3;

    void prefetch(index i) const {
#if OBLONG_VECTORS
        for (index t = starts[i]; t < starts[i + 1]; t += 16) {
            __builtin_prefetch(data.data + t, 0, 3);
            __builtin_prefetch(indices.data + t, 0, 3);
        }
#else
        (void)i;
#endif
    }
    T dot(index i, const T* w) const {
        index t = starts[i];
        const index end = starts[i + 1];
        T s0 = 0, s1 = 0, s2 = 0, s3 = 0;
        for (; t + 4 <= end; t += 4) {
            s0 += data[t] * w[indices[t]];
            s1 += data[t + 1] * w[indices[t + 1]];
            s2 += data[t + 2] * w[indices[t + 2]];
            s3 += data[t + 3] * w[indices[t + 3]];
        }
        for (; t < end; ++t) s0 += data[t] * w[indices[t]];
        return (s0 + s1) + (s2 + s3);
    }
    void add(index i, T c, T* w) const {
        for (index t = starts[i]; t < starts[i + 1]; ++t) w[indices[t]] += c * data[t];
    }
    void add_exactly(index i, double c, double* w) const {
        for (index t = starts[i]; t < starts[i + 1]; ++t)
            w[indices[t]] += c * static_cast<double>(data[t]);
    }
    double dot_exactly(index i, const double* w) const {
        double total = 0.0;
        for (index t = starts[i]; t < starts[i + 1]; ++t)
            total += static_cast<double>(data[t]) * w[indices[t]];
        return total;
    }
    double squared_length(index i) const {
        double total = 0.0;
        for (index t = starts[i]; t < starts[i + 1]; ++t)
            total += static_cast<double>(data[t]) * static_cast<double>(data[t]);
        return total;
    }

    // Weights of all problems of a column lie side by side.
    template <class V, class Coef>
    void arrange(PassWeights<V>& weights, Coef coef) const {
        weights.values.assign(static_cast<std::size_t>(width * weights.stride), V(0));
        constexpr index block = 64;
        for (index first = 0; first < width; first += block)
            for (index a = 0; a < weights.problems; ++a) {
                const auto* from = coef(a);
                for (index j = first; j < smaller(width, first + block); ++j)
                    weights.values[j * weights.stride + a] = static_cast<V>(from[j]);
            }
    }

    template <class V>
    void outputs(
        index first, index count, const PassWeights<V>& weights, V* out, std::vector<V>&
    ) const {
        constexpr index L = LANES<V>;
        const index stride = weights.stride;
        for (index r = 0; r < count; ++r) {
            const index start = starts[first + r], end = starts[first + r + 1];
            V* f = out + r * stride;
            index a = 0;
            for (; a + 2 * L <= stride; a += 2 * L) {
                Lanes<V> s0{}, s1{};
                for (index t = start; t < end; ++t) {
                    const V* w = weights.values.data() + indices[t] * stride + a;
                    const Lanes<V> x = every(static_cast<V>(data[t]));
                    s0 += x * load(w);
                    s1 += x * load(w + L);
                }
                store(f + a, s0);
                store(f + a + L, s1);
            }
            for (; a < stride; a += L) {
                Lanes<V> s{};
                for (index t = start; t < end; ++t)
                    s += every(static_cast<V>(data[t])) *
                         load(weights.values.data() + indices[t] * stride + a);
                store(f + a, s);
            }
        }
    }
};

}  // namespace oblong::OBLONG_VARIANT::linear
