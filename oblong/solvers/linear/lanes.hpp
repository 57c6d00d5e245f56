// Vectors of numbers of one precision, as wide as a register, for products of rows.
#pragma once

#include <cstdint>

#include "oblong/_native/base/vectors.hpp"

namespace oblong::OBLONG_VARIANT::linear {

#if OBLONG_VECTORS

#if defined(__AVX512F__)
inline constexpr int BYTES = 64;
#elif defined(__AVX__)
inline constexpr int BYTES = 32;
#else
inline constexpr int BYTES = 16;
#endif

template <class T>
struct LanesOf;
template <>
struct LanesOf<float> {
    typedef float Type __attribute__((vector_size(BYTES), aligned(4), may_alias));
};
template <>
struct LanesOf<double> {
    typedef double Type __attribute__((vector_size(BYTES), aligned(8), may_alias));
};
template <class T>
using Lanes = typename LanesOf<T>::Type;
template <class T>
inline constexpr index LANES = BYTES / static_cast<int>(sizeof(T));

template <class T>
inline Lanes<T> load(const T* from) {
    return *reinterpret_cast<const Lanes<T>*>(from);
}
template <class T>
inline void store(T* to, Lanes<T> value) {
    *reinterpret_cast<Lanes<T>*>(to) = value;
}

// The first `count` numbers, which are fewer than a vector has; the rest is zero.
template <class T>
inline Lanes<T> load_first(const T* from, index count) {
    Lanes<T> value{};
    for (index k = 0; k < count; ++k) value[k] = from[k];
    return value;
}
#if defined(__AVX512F__) && !defined(__clang__)
template <>
inline Lanes<float> load_first(const float* from, index count) {
    return (Lanes<float>)_mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << count) - 1u), from);
}
template <>
inline Lanes<double> load_first(const double* from, index count) {
    return (Lanes<double>)_mm512_maskz_loadu_pd(static_cast<__mmask8>((1u << count) - 1u), from);
}
#endif

template <class T>
inline T sum(Lanes<T> v) {
    T total = 0;
    for (index k = 0; k < LANES<T>; ++k) total += v[k];
    return total;
}
#if defined(__AVX512F__) && !defined(__clang__)
template <>
inline float sum<float>(Lanes<float> v) {
    return _mm512_reduce_add_ps((__m512)v);
}
template <>
inline double sum<double>(Lanes<double> v) {
    return _mm512_reduce_add_pd((__m512d)v);
}
#endif

// Bits of the lanes in which a comparison holds.
template <class T, class Comparison>
inline std::uint32_t bits_of(Comparison holds) {
#if defined(__AVX512DQ__) && !defined(__clang__)
    if constexpr (sizeof(T) == 4)
        return _mm512_movepi32_mask((__m512i)holds);
    else
        return _mm512_movepi64_mask((__m512i)holds);
#else
    std::uint32_t bits = 0;
    for (index k = 0; k < LANES<T>; ++k) bits |= holds[k] ? 1u << k : 0u;
    return bits;
#endif
}

#else

template <class T>
using Lanes = T;
template <class T>
inline constexpr index LANES = 1;
template <class T>
inline T load(const T* from) {
    return *from;
}
template <class T>
inline void store(T* to, T value) {
    *to = value;
}
template <class T>
inline T load_first(const T*, index) {
    return 0;
}
template <class T>
inline T sum(T v) {
    return v;
}
template <class T>
inline std::uint32_t bits_of(bool holds) {
    return holds;
}

#endif

template <class T>
inline Lanes<T> every(T x) {
    return x - Lanes<T>{};
}
// The size of an array whose last vector is whole.
template <class T>
inline index padded(index size) {
    return (size + LANES<T> - 1) / LANES<T> * LANES<T>;
}

// Product of `x` with `w`, which is padded.
template <class T>
inline T product(const T* x, const T* w, index size) {
    constexpr index L = LANES<T>;
    Lanes<T> s0{}, s1{}, s2{}, s3{};
    index j = 0;
    for (; j + 4 * L <= size; j += 4 * L) {
        s0 += load(x + j) * load(w + j);
        s1 += load(x + j + L) * load(w + j + L);
        s2 += load(x + j + 2 * L) * load(w + j + 2 * L);
        s3 += load(x + j + 3 * L) * load(w + j + 3 * L);
    }
    for (; j + L <= size; j += L) s0 += load(x + j) * load(w + j);
    if (j < size) s1 += load_first(x + j, size - j) * load(w + j);
    return sum<T>((s0 + s1) + (s2 + s3));
}

// w += c x, where `w` is padded.
template <class T>
inline void add_multiple(const T* x, T c, T* w, index size) {
    constexpr index L = LANES<T>;
    const Lanes<T> factor = every(c);
    index j = 0;
    for (; j + L <= size; j += L) store(w + j, load(w + j) + factor * load(x + j));
    if (j < size) store(w + j, load(w + j) + factor * load_first(x + j, size - j));
}

}  // namespace oblong::OBLONG_VARIANT::linear
