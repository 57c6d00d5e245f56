// Platt's sigmoid by Newton's method; maps.py has the problem and its smoothed targets.
#pragma once

#include <cmath>

#include "oblong/_native/base/powers.hpp"

namespace oblong::OBLONG_VARIANT::calibration {

struct Outputs {
    Vec<const double> x, targets, weights;
};

struct Sigmoid {
    double slope, offset;
};

// Gradient and Hessian of the cross entropy at the sigmoid of a x + b.
struct Derivatives {
    double a = 0.0, b = 0.0, aa = 0.0, ab = 0.0, bb = 0.0;
};

inline Derivatives derivatives(const Outputs& rows, Sigmoid at) {
    double a = 0.0, b = 0.0, aa = 0.0, ab = 0.0, bb = 0.0;
#pragma omp simd reduction(+ : a, b, aa, ab, bb)
    for (index i = 0; i < rows.x.size; ++i) {
        const double x = rows.x[i], weight = rows.weights[i];
        const double z = at.slope * x + at.offset;
        const double small = power_of_two(-LOG2_E * std::abs(z));
        const double p = (z > 0.0 ? 1.0 : small) / (1.0 + small);
        const double slack = weight * (p - rows.targets[i]), curve = weight * p * (1.0 - p);
        a += slack * x;
        b += slack;
        aa += curve * x * x;
        ab += curve * x;
        bb += curve;
    }
    return {a, b, aa, ab, bb};
}

// Newton steps: more than have ever been needed.
inline constexpr int STEPS = 200;

// Minimise the cross entropy over slopes >= 0 and offsets.
inline Sigmoid fit_sigmoid(const Outputs& rows) {
    double total = 0.0, mean = 0.0;
    for (index i = 0; i < rows.x.size; ++i) {
        total += rows.weights[i];
        mean += rows.weights[i] * rows.targets[i];
    }
    mean /= total;
    Sigmoid at{0.0, std::log(mean / (1.0 - mean))};
    Derivatives d = derivatives(rows, at);
    // The problem is convex: with a slope that must not be negative, the best one is zero.
    if (d.a >= 0.0) return at;
    for (int step = 0; step < STEPS; ++step) {
        if (larger(std::abs(d.a), std::abs(d.b)) <= 1e-10 * total) break;
        const double aa = d.aa + 1e-12 * total, bb = d.bb + 1e-12 * total;
        const double det = aa * bb - d.ab * d.ab;
        const double da = (d.ab * d.b - bb * d.a) / det, db = (d.ab * d.a - aa * d.b) / det;
        const double fall = -(d.a * da + d.b * db);
        double length = 1.0;
        while (length > 1e-10) {
            d = derivatives(rows, {at.slope + length * da, at.offset + length * db});
            // Along the step the derivative ascends: far above zero, the least value is behind.
            if (d.a * da + d.b * db <= 0.5 * fall) break;
            length *= 0.5;
        }
        at = {at.slope + length * da, at.offset + length * db};
    }
    return {larger(at.slope, 0.0), at.offset};
}

}  // namespace oblong::OBLONG_VARIANT::calibration
