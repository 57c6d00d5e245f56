// 2^t in the precision of t, written so that loops around it vectorise: 2^t = 2^n 2^r with a whole
// n and |r| <= 1/2, a polynomial in r, and n written into the bits of the exponent.
#pragma once

#include <bit>

#include "oblong/_native/base/arrays.hpp"

namespace oblong::OBLONG_VARIANT {

inline constexpr double LOG2_E = 1.4426950408889634;

template <class T>
struct Powers;

// Chebyshev interpolation of degree 6: its error is less than the rounding.
template <>
struct Powers<float> {
    using Bits = std::int32_t;
    static constexpr int shift = 23, bias = 127;
    static constexpr float polynomial[] = {
        1.0f,
        0.6931472067028326f,
        0.24022650922288757f,
        0.05550327226670303f,
        0.009618056678524656f,
        0.0013400428177615747f,
        0.00015461444698564738f,
    };
};

// Taylor's series of degree 12.
template <>
struct Powers<double> {
    using Bits = std::int64_t;
    static constexpr int shift = 52, bias = 1023;
    static constexpr double polynomial[] = {
        1.0,
        0.6931471805599453,
        0.2402265069591007,
        0.055504108664821576,
        0.009618129107628477,
        0.0013333558146428441,
        0.00015403530393381606,
        1.5252733804059838e-05,
        1.3215486790144305e-06,
        1.0178086009239696e-07,
        7.054911620801121e-09,
        4.44553827187081e-10,
        2.5678435993488196e-11,
    };
};

// Horner's rule as one expression: with a loop here, GCC would not vectorise the loop around it.
template <int k, class T, std::size_t n>
constexpr T horner(const T (&polynomial)[n], T x) {
    if constexpr (k + 1 == n)
        return polynomial[k];
    else
        return horner<k + 1>(polynomial, x) * x + polynomial[k];
}

// 2^t for t <= 0; a positive t counts as zero. What would be less than the least normal number is
// zero or that number. Not named exp2, which <cmath> may put into the global namespace.
template <class T>
inline T power_of_two(T t) {
    using P = Powers<T>;
    t = smaller(t, T(0));
    t = larger(t, T(-P::bias));
    // Conversion cuts towards zero: t - 1/2 gives the whole number nearest to t.
    const auto whole = static_cast<std::int32_t>(t - T(0.5));
    const T value = horner<0>(P::polynomial, t - static_cast<T>(whole));
    const auto bits = static_cast<typename P::Bits>(whole + P::bias) << P::shift;
    return value * std::bit_cast<T>(bits);
}

}  // namespace oblong::OBLONG_VARIANT
