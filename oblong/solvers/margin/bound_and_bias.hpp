// The objective with a variable bound as a function of the bias, for given outputs without it.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "oblong/_native/base/arrays.hpp"

namespace oblong::OBLONG_VARIANT::margin {

// Terms of a sum before they are added to the total: long sums lose digits.
inline constexpr index TERMS = 256;

struct Quantile {
    double size, weight;
};

// The largest size such that those not below it weigh more than the goal, and their weight; zero if
// all together do not. Those left are split at one of them until none is.
inline Quantile quantile(Vec<const double> sizes, Vec<const double> weights, double goal) {
    std::vector<double> left(sizes.begin(), sizes.end()), own(weights.begin(), weights.end());
    double above = 0.0;
    std::size_t k = left.size();
    while (k > 0) {
        const double pivot = left[k / 2];
        double greater = 0.0, equal = 0.0;
        for (std::size_t i = 0; i < k; ++i) {
            greater += left[i] > pivot ? own[i] : 0.0;
            equal += left[i] == pivot ? own[i] : 0.0;
        }
        const bool upwards = above + greater > goal;
        if (!upwards && above + greater + equal > goal) return {pivot, above + greater + equal};
        std::size_t count = 0;
        for (std::size_t i = 0; i < k; ++i)
            if (upwards ? left[i] > pivot : left[i] < pivot)
                left[count] = left[i], own[count] = own[i], ++count;
        above += upwards ? 0.0 : greater + equal;
        k = count;
    }
    return {0.0, above};
}

// The data of the problem: outputs without their bias, labels, and penalties of the margin and of
// the bound, which are all infinite where it is hard.
struct VariableBound {
    Vec<const double> u, y, C, U;
    double D;
};

// Value of the objective at a bias, and its left and right derivatives.
struct Tangents {
    double value, left, right;
};

// Least slope of the penalty of the bound over its speeds.
inline double least_slope(
    double D, double slowest, double above, double below, double rising, double falling
) {
    const double slow = D * slowest + above * (1.0 - slowest) - below * (1.0 + slowest) +
                        rising * (1.0 - slowest) + falling * larger(-1.0 - slowest, 0.0);
    return smaller(slow, D - 2.0 * below);
}

// `low` and `high` are the ends of the optimal bounds at the bias.
//
// While the bias grows the bound may move along at any speed; the derivative is the least over
// speeds, which a kink at -1, 0 (for a bound of one) or 1 attains.
inline Tangents tangents(const VariableBound& problem, double bias, double low, double high) {
    const auto& [u, y, C, U, D] = problem;
    const bool hard = U.size > 0 && std::isinf(U[0]);
    struct Sums {
        double loss = 0.0, right = 0.0, left = 0.0;
        // Penalties above the bound, below its negative, on it and on its negative.
        double above = 0.0, below = 0.0, rising = 0.0, falling = 0.0;
    } all;
    bool up = false, down = false;
    for (index start = 0; start < u.size; start += TERMS) {
        Sums part;
        for (index i = start; i < std::min(start + TERMS, u.size); ++i) {
            const double f = u[i] + bias, margin = y[i] * f, size = std::abs(f);
            if (margin < 1.0) part.loss += C[i] * (1.0 - margin);
            if (margin < 1.0 || (margin == 1.0 && y[i] < 0.0)) part.right -= C[i] * y[i];
            if (margin < 1.0 || (margin == 1.0 && y[i] > 0.0)) part.left -= C[i] * y[i];
            up |= f == low;
            down |= f == -low;
            if (hard) continue;
            if (size > high) part.loss += U[i] * (size - high);
            if (size > low) (f > 0.0 ? part.above : part.below) += U[i];
            if (size == low) (f > 0.0 ? part.rising : part.falling) += U[i];
        }
        all.loss += part.loss, all.right += part.right, all.left += part.left;
        all.above += part.above, all.below += part.below;
        all.rising += part.rising, all.falling += part.falling;
    }
    const double slowest = low == 1.0 ? 0.0 : -1.0;
    double left = -D * (down ? 1.0 : slowest), right = D * (up ? 1.0 : slowest);
    if (!hard) {
        left = -least_slope(D, slowest, all.below, all.above, all.falling, all.rising);
        right = least_slope(D, slowest, all.above, all.below, all.rising, all.falling);
    }
    return {D * high + all.loss, all.left + left, all.right + right};
}

}  // namespace oblong::OBLONG_VARIANT::margin
