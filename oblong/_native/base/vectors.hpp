// Vectors of the width of a register, for loops that compilers do not vectorise by themselves:
// extrema, the index of an extremum, sums in single precision of rows that may overlap. Uses the
// vector extensions of GCC and clang; with other compilers a vector has one number, and the same
// loops are plain ones.
#pragma once

#include "oblong/_native/base/arrays.hpp"

#if (defined(__GNUC__) || defined(__clang__)) && !defined(OBLONG_PLAIN_VECTORS)
#define OBLONG_VECTORS 1
// Clang does not inline lambdas around vectors by itself: 2.5 times slower without.
#define OBLONG_INLINE __attribute__((always_inline))
#if defined(__x86_64__) && !defined(__clang__)
#include <immintrin.h>
#endif
#else
#define OBLONG_VECTORS 0
#define OBLONG_INLINE
#endif

namespace oblong::OBLONG_VARIANT {

#if OBLONG_VECTORS

#if defined(__AVX512F__)
inline constexpr index WIDTH = 8;
#elif defined(__AVX__)
inline constexpr index WIDTH = 4;
#else
inline constexpr index WIDTH = 2;
#endif

// They may lie anywhere in an array.
typedef double Doubles __attribute__((vector_size(WIDTH * sizeof(double)), aligned(8), may_alias));
typedef float Floats __attribute__((vector_size(WIDTH * sizeof(float)), aligned(4), may_alias));
typedef std::int64_t Indices __attribute__((vector_size(WIDTH * sizeof(std::int64_t))));

inline Doubles doubles(const double* from) { return *reinterpret_cast<const Doubles*>(from); }
inline Doubles doubles(const float* from) {
    // GCC converts number by number where the vectors have different lengths.
#if defined(__AVX512F__) && !defined(__clang__)
    return (Doubles)_mm512_cvtps_pd(_mm256_loadu_ps(from));
#elif defined(__AVX__) && !defined(__clang__)
    return (Doubles)_mm256_cvtps_pd(_mm_loadu_ps(from));
#else
    return __builtin_convertvector(*reinterpret_cast<const Floats*>(from), Doubles);
#endif
}
inline void put(double* to, Doubles value) { *reinterpret_cast<Doubles*>(to) = value; }
inline Doubles all(double x) { return x - Doubles{}; }
inline Doubles larger(Doubles a, Doubles b) { return a > b ? a : b; }
inline Doubles smaller(Doubles a, Doubles b) { return a < b ? a : b; }
inline double lane(Doubles v, index k) { return v[k]; }
inline std::int64_t lane(Indices v, index k) { return v[k]; }

// first, first + step, ...
inline Indices indices(index first, index step) {
#if defined(__AVX512F__)
    return first + step * Indices{0, 1, 2, 3, 4, 5, 6, 7};
#elif defined(__AVX__)
    return first + step * Indices{0, 1, 2, 3};
#else
    return first + step * Indices{0, 1};
#endif
}

// A vector is combined with its halves exchanged, then its quarters, then its eighths.
template <class Choose>
OBLONG_INLINE inline double over_all(Doubles v, Choose choose) {
#if defined(__AVX512F__)
    v = choose(v, __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3));
    v = choose(v, __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5));
    v = choose(v, __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6));
#elif defined(__AVX__)
    v = choose(v, __builtin_shufflevector(v, v, 2, 3, 0, 1));
    v = choose(v, __builtin_shufflevector(v, v, 1, 0, 3, 2));
#else
    v = choose(v, __builtin_shufflevector(v, v, 1, 0));
#endif
    return v[0];
}

// A hint that the memory is needed soon: into the second cache, where more requests can be under
// way.
inline void prefetch(const void* address) { __builtin_prefetch(address, 0, 2); }

#else

inline constexpr index WIDTH = 1;
using Doubles = double;
using Indices = std::int64_t;

inline Doubles doubles(const double* from) { return *from; }
inline Doubles doubles(const float* from) { return *from; }
inline void put(double* to, Doubles value) { *to = value; }
inline Doubles all(double x) { return x; }
inline double lane(Doubles v, index) { return v; }
inline std::int64_t lane(Indices v, index) { return v; }
inline Indices indices(index first, index) { return first; }
template <class Choose>
inline double over_all(Doubles v, Choose) {
    return v;
}
inline void prefetch(const void*) {}

#endif

// The largest and the smallest number of several vectors.
template <int n>
inline double largest_of_all(const Doubles (&v)[n]) {
    Doubles most = v[0];
    for (int u = 1; u < n; ++u) most = larger(most, v[u]);
    return over_all(most, [](Doubles a, Doubles b) OBLONG_INLINE { return larger(a, b); });
}
template <int n>
inline double smallest_of_all(const Doubles (&v)[n]) {
    Doubles least = v[0];
    for (int u = 1; u < n; ++u) least = smaller(least, v[u]);
    return over_all(least, [](Doubles a, Doubles b) OBLONG_INLINE { return smaller(a, b); });
}

// Vectors that a loop takes at a time, each with a result of its own, so that they do not wait for
// each other.
inline constexpr int TOGETHER = 4;

// Call `each(k, m)` for the vectors that begin at k; results with equal m belong together. Returns
// where the rest begins, which is shorter than a vector.
template <class Each>
OBLONG_INLINE inline index in_vectors(index first, index last, Each each) {
    for (; first + TOGETHER * WIDTH <= last; first += TOGETHER * WIDTH) {
        each(first, 0);
        each(first + WIDTH, 1);
        each(first + 2 * WIDTH, 2);
        each(first + 3 * WIDTH, 3);
    }
    for (; first + WIDTH <= last; first += WIDTH) each(first, 0);
    return first;
}

}  // namespace oblong::OBLONG_VARIANT
