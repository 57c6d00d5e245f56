// Products of a kernel matrix with vectors, tile by tile: the matrix product of some rows, the map
// of the kernel and the sum while the tile is in second-level cache; products.py has the sizes.
#pragma once

#include <vector>

#include "oblong/_native/base/blas.hpp"
#include "oblong/_native/base/powers.hpp"

namespace oblong::OBLONG_VARIANT::products {

// The map of a kernel: powers of two, or a whole power of the argument.
inline constexpr std::int64_t POWERS_OF_TWO = -1;

// Raise to a whole power by squaring. `base` has room for a row.
template <class T>
void raise(Vec<T> v, std::int64_t degree, Vec<T> base) {
    if (degree == 1) return;
    if (degree == 0) {
        for (T& x : v) x = 1;
        return;
    }
    int highest = 0;
    while (degree >> (highest + 1) > 0) ++highest;
    T* x = v.data;
    T* b = base.data;
    for (index i = 0; i < v.size; ++i) b[i] = x[i];
    for (int bit = highest - 1; bit >= 0; --bit) {
        const bool odd = (degree >> bit) & 1;
#pragma omp simd
        for (index i = 0; i < v.size; ++i) {
            const T square = x[i] * x[i];
            x[i] = odd ? square * b[i] : square;
        }
    }
}

// Replace arguments of the kernel's map by its values.
template <class T>
void map_row(Vec<T> v, std::int64_t degree, Vec<T> base) {
    if (degree != POWERS_OF_TWO) return raise(v, degree, base);
    T* x = v.data;
#pragma omp simd
    for (index i = 0; i < v.size; ++i) x[i] = power_of_two(x[i]);
}

template <class T>
void map_columns(Mat<T> values, std::int64_t degree, index start, index stop) {
    std::vector<T> base(static_cast<std::size_t>(stop - start));
    for (index r = 0; r < values.rows; ++r)
        map_row(values[r].part(start, stop), degree, Vec<T>{base.data(), stop - start});
}

template <class T>
T sum_of_products(Vec<const T> a, Vec<const T> b) {
    T total = 0;
#pragma omp simd reduction(+ : total)
    for (index i = 0; i < a.size; ++i) total += a.data[i] * b.data[i];
    return total;
}

// The sum of powers of two, times coefficients.
template <class T>
T sum_of_powers(Vec<const T> exponents, Vec<const T> coef) {
    T total = 0;
#pragma omp simd reduction(+ : total)
    for (index i = 0; i < exponents.size; ++i)
        total += coef.data[i] * power_of_two(exponents.data[i]);
    return total;
}

// One tile of a product. Panels are some columns of the right side after the other, each `width`
// of them in one piece of memory.
template <class T>
Mat<T> tile_of(Mat<const T> rows, Vec<const T> panels, index first, index last, Vec<T> memory) {
    const index d = rows.cols, width = last - first;
    const auto tile = reshaped(memory.first(rows.rows * width), rows.rows, width);
    multiply(rows, reshaped(panels.part(d * first, d * last), d, width), tile);
    return tile;
}

// Add sums of values along the rows of the matrix; those of a tile are in its precision.
template <class T>
void add_tiles(
    Mat<const T> left, Vec<const T> panels, Vec<const T> coef, Vec<double> out, index height,
    index width, std::int64_t degree
) {
    std::vector<T> memory(static_cast<std::size_t>(height * width + width));
    const Vec<T> tile_memory{memory.data(), height * width},
        base{memory.data() + height * width, width};
    for (index start = 0; start < left.rows; start += height) {
        const auto rows = left.part(start, smaller(left.rows, start + height));
        for (index first = 0; first < coef.size; first += width) {
            const index last = smaller(coef.size, first + width);
            const auto tile = tile_of(rows, panels, first, last, tile_memory);
            const auto some = coef.part(first, last);
            for (index r = 0; r < tile.rows; ++r) {
                if (degree == POWERS_OF_TWO) {
                    out[start + r] += static_cast<double>(sum_of_powers<T>(tile[r], some));
                } else {
                    raise(tile[r], degree, base);
                    out[start + r] += static_cast<double>(sum_of_products<T>(tile[r], some));
                }
            }
        }
    }
}

// One matrix in double precision, used in both directions.
struct Both {
    // Coefficients of its rows and of its columns.
    Vec<const double> down, along;
    // Sums along the rows and down the columns.
    Vec<double> out, sums;
};

// Rows that are those of columns from `at >= 0` on leave out what is below the diagonal, and on it
// they have sums along the rows only.
inline void add_square_tiles(
    Mat<const double> left, Vec<const double> panels, const Both& v, index side, index at,
    std::int64_t degree
) {
    std::vector<double> memory(static_cast<std::size_t>(side * side + side));
    const Vec<double> tile_memory{memory.data(), side * side},
        base{memory.data() + side * side, side};
    for (index start = 0; start < left.rows; start += side) {
        const auto rows = left.part(start, smaller(left.rows, start + side));
        const index begin = at >= 0 ? at + start : 0;
        for (index first = begin; first < v.along.size; first += side) {
            const index last = smaller(v.along.size, first + side);
            const auto tile = tile_of(rows, panels, first, last, tile_memory);
            const bool once = at >= 0 && first == begin;
            const double* along = v.along.part(first, last).data;
            double* sums = v.sums.part(first, last).data;
            for (index r = 0; r < tile.rows; ++r) {
                map_row(tile[r], degree, base);
                const double* x = tile[r].data;
                const double own = once ? 0.0 : v.down[start + r];
                double total = 0.0;
#pragma omp simd reduction(+ : total)
                for (index i = 0; i < last - first; ++i) {
                    total += along[i] * x[i];
                    sums[i] += own * x[i];
                }
                v.out[start + r] += total;
            }
        }
    }
}

// Add some rows of a matrix, times coefficients, four at a time.
template <class T>
void add_rows(
    Vec<double> image, Mat<const T> store, Vec<const index> slots, Vec<const double> coef,
    index start, index stop
) {
    double* out = image.part(start, stop).data;
    const index size = stop - start;
    index k = 0;
    for (; k + 4 <= slots.size; k += 4) {
        const T* w = store[slots[k]].part(start, stop).data;
        const T* x = store[slots[k + 1]].part(start, stop).data;
        const T* y = store[slots[k + 2]].part(start, stop).data;
        const T* z = store[slots[k + 3]].part(start, stop).data;
        const double a = coef[k], b = coef[k + 1], c = coef[k + 2], d = coef[k + 3];
#pragma omp simd
        for (index i = 0; i < size; ++i) out[i] += a * w[i] + b * x[i] + c * y[i] + d * z[i];
    }
    for (; k < slots.size; ++k) {
        const T* w = store[slots[k]].part(start, stop).data;
        const double a = coef[k];
#pragma omp simd
        for (index i = 0; i < size; ++i) out[i] += a * w[i];
    }
}

// Write some columns of some rows of a matrix to rows of another.
template <class T>
void copy_block(
    Mat<const T> store, Vec<const index> slots, Vec<const index> cols, Vec<const index> into,
    Mat<T> out
) {
    for (index a = 0; a < slots.size; ++a) {
        const auto from = store[slots[a]];
        const auto to = out[into[a]];
        for (index b = 0; b < cols.size; ++b) to[b] = from[cols[b]];
    }
}

// Write the columns that are new to a symmetric block, from its rows that are new. A few columns at
// a time, so that the rows which they come from stay in first-level cache.
template <class T>
void mirror(Mat<T> block, Vec<const index> into, Vec<const bool> is_new) {
    for (index first = 0; first < into.size; first += 16) {
        const auto some = into.part(first, smaller(into.size, first + 16));
        for (index b = 0; b < is_new.size; ++b) {
            if (is_new[b]) continue;
            const auto row = block[b];
            for (const index a : some) row[a] = block(a, b);
        }
    }
}

}  // namespace oblong::OBLONG_VARIANT::products
