// Views of arrays in C order. A view owns nothing and is passed by value. In a build with
// OBLONG_CHECKED every index is checked, and a wrong one raises IndexError in Python.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#ifdef OBLONG_CHECKED
#include <stdexcept>
#define OBLONG_ASSERT(condition)                                                   \
    do {                                                                           \
        if (!(condition)) throw std::out_of_range("violated in C++: " #condition); \
    } while (0)
#else
#define OBLONG_ASSERT(condition) ((void)0)
#endif

// All code is in the namespace of the set of instructions that it is compiled for.
#ifndef OBLONG_VARIANT
#define OBLONG_VARIANT baseline
#endif

namespace oblong::OBLONG_VARIANT {

using index = std::ptrdiff_t;

inline constexpr double inf = std::numeric_limits<double>::infinity();

template <class T>
struct Vec {
    T* data = nullptr;
    index size = 0;

    T& operator[](index i) const {
        OBLONG_ASSERT(0 <= i && i < size);
        return data[i];
    }
    Vec part(index start, index stop) const {
        OBLONG_ASSERT(0 <= start && start <= stop && stop <= size);
        return {data + start, stop - start};
    }
    Vec first(index n) const { return part(0, n); }
    Vec from(index start) const { return part(start, size); }
    bool empty() const { return size == 0; }
    T* begin() const { return data; }
    T* end() const { return data + size; }
    operator Vec<const T>() const { return {data, size}; }
};

template <class T>
struct Mat {
    T* data = nullptr;
    index rows = 0, cols = 0;

    T& operator()(index i, index j) const {
        OBLONG_ASSERT(0 <= i && i < rows && 0 <= j && j < cols);
        return data[i * cols + j];
    }
    Vec<T> operator[](index i) const {
        OBLONG_ASSERT(0 <= i && i < rows);
        return {data + i * cols, cols};
    }
    Mat part(index start, index stop) const {
        OBLONG_ASSERT(0 <= start && start <= stop && stop <= rows);
        return {data + start * cols, stop - start, cols};
    }
    Mat first(index n) const { return part(0, n); }
    Mat from(index start) const { return part(start, rows); }
    Vec<T> flat() const { return {data, rows * cols}; }
    bool empty() const { return rows == 0 || cols == 0; }
    operator Mat<const T>() const { return {data, rows, cols}; }
};

// Matrices of one shape, one after the other.
template <class T>
struct Cube {
    T* data = nullptr;
    index size = 0, rows = 0, cols = 0;

    T& operator()(index k, index i, index j) const {
        OBLONG_ASSERT(0 <= k && k < size && 0 <= i && i < rows && 0 <= j && j < cols);
        return data[(k * rows + i) * cols + j];
    }
    Mat<T> operator[](index k) const {
        OBLONG_ASSERT(0 <= k && k < size);
        return {data + k * rows * cols, rows, cols};
    }
    operator Cube<const T>() const { return {data, size, rows, cols}; }
};

template <class T>
Mat<T> reshaped(Vec<T> v, index rows, index cols) {
    OBLONG_ASSERT(0 <= rows && 0 <= cols && rows * cols == v.size);
    return {v.data, rows, cols};
}

// Of numbers that are not NaN: one instruction, and vectors of them.
template <class T>
constexpr T larger(T a, T b) {
    return a > b ? a : b;
}
template <class T>
constexpr T smaller(T a, T b) {
    return a < b ? a : b;
}

}  // namespace oblong::OBLONG_VARIANT
