// Newton steps on the coefficients that lie inside a piece.
#pragma once

#include <vector>

#include "oblong/_native/base/blas.hpp"
#include "oblong/solvers/margin/pair_steps.hpp"

namespace oblong::OBLONG_VARIANT::margin {

// The point of an ascent: coefficients, their image, and the slopes there.
struct Point {
    Numbers c, u, right, left;
};

// Solve K X' = B' in place, for right-hand sides that are rows; false unless K is positive
// definite.
inline bool solve_definite(Mat<double> K, Mat<double> B) {
    OBLONG_ASSERT(K.rows == K.cols && B.cols == K.rows && K.rows > 0 && B.rows > 0);
    char lower = 'L';
    int n = blas_int(K.rows), count = blas_int(B.rows), failed = 0;
    blas<double>.potrf(&lower, &n, K.data, &n, &failed);
    if (failed != 0) return false;
    blas<double>.potrs(&lower, &n, &count, K.data, &n, B.data, &n, &failed);
    return failed == 0;
}

// The maximiser along a direction in which the dual rises by `rise (1 - t)`, less the drops of
// slope at the kinks that are passed; at most one. Also the free row and the breakpoint on which it
// lies.
struct LineSearch {
    double step;
    index at = -1;
    int breakpoint = -1;
};

inline LineSearch line_search(
    const Pieces& pieces, Given c, const std::vector<index>& free, Given direction, double rise
) {
    struct Kink {
        double time, drop;
        index at;
        int breakpoint;
    };
    std::vector<Kink> kinks;
    for (index a = 0; a < direction.size; ++a) {
        const index i = free[a];
        for (int k = 0; k < 4; ++k) {
            const double time = (pieces.p(i, k) - c[i]) / direction[a];
            if (!(0.0 < time && time < 1.0)) continue;
            const double before = k == 0 ? inf : pieces.s(i, k - 1),
                         after = k == 3 ? -inf : pieces.s(i, k);
            kinks.push_back({time, (before - after) * std::abs(direction[a]), a, k});
        }
    }
    double passed = 0.0;
    // Few kinks are passed as a rule: looking for the next one beats sorting them all.
    for (std::size_t turn = 0; turn < kinks.size(); ++turn) {
        Kink* next = &kinks[0];
        for (Kink& kink : kinks)
            if (kink.time < next->time) next = &kink;
        const double left = rise * (1.0 - next->time);
        if (left <= passed) break;
        if (left <= passed + next->drop) return {next->time, next->at, next->breakpoint};
        passed += next->drop;
        next->time = 2.0;
    }
    return {1.0 - passed / rise};
}

// Jump to the optimum of the free coefficients, or as far towards it as the dual rises.
//
// Solves K_FF d + sum_g beta_g 1_g = sigma - u_F with 1_g'd = 0 in each group, for the coefficients
// F strictly inside a piece of slope sigma, and moves along d by an exact line search over the
// kinks on the way. Returns the share of the way that was taken; zero if no step was possible.
template <class T>
double newton_step(
    const Rows<T>& K, Given diagonal, const Pieces& pieces, Point point, double snap
) {
    const auto [c, u, right, left] = point;
    std::vector<index> free;
    index split = 0;
    for (index i = 0; i < c.size; ++i)
        if (right[i] == left[i]) {
            free.push_back(i);
            split += i < pieces.split;
        }
    const index count = static_cast<index>(free.size());
    if (count < 2) return 0.0;
    const index ends[3] = {0, split, count};
    std::vector<double> sides(3 * count, 0.0);
    const Mat<double> B{sides.data(), 3, count};
    // The residuals, of which the common part goes into the bias: left in, it would swamp the rest
    // where K_FF is singular.
    const auto take_mean = [&](Numbers v) {
        for (int g = 0; g < 2; ++g) {
            double mean = 0.0;
            for (index a = ends[g]; a < ends[g + 1]; ++a)
                mean += v[a] / static_cast<double>(ends[g + 1] - ends[g]);
            for (index a = ends[g]; a < ends[g + 1]; ++a) v[a] -= mean;
        }
    };
    std::vector<double> residuals(count);
    const Numbers target{residuals.data(), count};
    double mean = 0.0;
    for (index a = 0; a < count; ++a) {
        target[a] = right[free[a]] - u[free[a]];
        mean += diagonal[free[a]] / static_cast<double>(count);
        B(a < split ? 1 : 2, a) = 1.0;
    }
    take_mean(target);
    if (!(mean > 0.0)) return 0.0;
    for (index a = 0; a < count; ++a) B(0, a) = target[a];

    // Single precision has fewer digits to lose.
    double ridge = mean * (sizeof(T) == 8 ? 1e-10 : 1e-6);
    std::vector<double> entries(count * count);
    const Mat<double> matrix{entries.data(), count, count};
    std::vector<double> solution;
    bool solved = false;
    for (int attempt = 0; attempt < 3 && !solved; ++attempt, ridge *= 100.0) {
        for (index a = 0; a < count; ++a) {
            const Vec<const T> row = K[free[a]];
            for (index b = 0; b < count; ++b) matrix(a, b) = row[free[b]];
            matrix(a, a) = diagonal[free[a]] + ridge;
        }
        solution = sides;
        solved = solve_definite(matrix, Mat<double>{solution.data(), 3, count});
    }
    if (!solved) return 0.0;
    const Mat<double> X{solution.data(), 3, count};
    // Biases that keep the sum of each group; a group without free coefficients has none.
    double sums[2][3] = {};
    for (int g = 0; g < 2; ++g)
        for (int k = 0; k < 3; ++k)
            for (index a = ends[g]; a < ends[g + 1]; ++a) sums[g][k] += X(k, a);
    double beta[2] = {0.0, 0.0};
    if (split == 0 || split == count) {
        const int g = split == 0;
        beta[g] = sums[g][0] / sums[g][g + 1];
    } else {
        const double determinant = sums[0][1] * sums[1][2] - sums[0][2] * sums[1][1];
        beta[0] = (sums[0][0] * sums[1][2] - sums[0][2] * sums[1][0]) / determinant;
        beta[1] = (sums[0][1] * sums[1][0] - sums[0][0] * sums[1][1]) / determinant;
    }
    const Numbers direction = X[0];
    for (index a = 0; a < count; ++a) direction[a] -= beta[0] * X(1, a) + beta[1] * X(2, a);
    take_mean(direction);
    double rise = 0.0;
    for (index a = 0; a < count; ++a) rise += direction[a] * target[a];
    if (!(rise > 0.0 && rise < inf)) return 0.0;

    const LineSearch found = line_search(pieces, c, free, direction, rise);
    std::vector<double> values(count), changes(count), image(c.size, 0.0);
    for (index a = 0; a < count; ++a) {
        const index i = free[a];
        double value =
            smaller(larger(c[i] + found.step * direction[a], pieces.p(i, 0)), pieces.p(i, 3));
        value = pieces.snapped(i, value, snap);
        if (a == found.at) value = pieces.p(i, found.breakpoint);
        values[a] = value;
        changes[a] = value - c[i];
    }
    add_rows<T>(K, {free.data(), count}, {changes.data(), count}, {image.data(), c.size});
    double curvature = 0.0;
    for (index a = 0; a < count; ++a) curvature += changes[a] * image[free[a]];
    // A curvature unlike the one that was factored: round-off spoilt the direction.
    if (!(curvature <= 2.0 * found.step * found.step * rise)) return 0.0;
    for (index a = 0; a < count; ++a) c[free[a]] = values[a];
    for (index i = 0; i < c.size; ++i) u[i] += image[i];
    write_slopes(pieces, c, right, left);
    return found.step;
}

// Newton steps in succession while they meet kinks; returns how many.
//
// More rows may be free than the matrix has ranks. Along its null space every step then ends where
// one of them meets its bound, and only a row of steps takes all that are too many: as many as cost
// about what the pair steps between them do.
inline constexpr int NEWTON_MOST = 30, NEWTON_COSTLY = 3;
inline constexpr double NEWTON_SHORT = 0.05;

template <class T>
int newton_steps(const Rows<T>& K, Given diagonal, const Pieces& pieces, Point point, double snap) {
    double free = 1.0;
    for (index i = 0; i < point.c.size; ++i) free += point.right[i] == point.left[i];
    const double size = static_cast<double>(point.c.size);
    const double cheap = 100.0 * size * size / (free * free * free);
    for (int count = 1; count <= NEWTON_MOST; ++count) {
        const double step = newton_step(K, diagonal, pieces, point, snap);
        if (step == 0.0) return count - 1;
        if (step == 1.0 || (count >= cheap && (count >= NEWTON_COSTLY || step < NEWTON_SHORT)))
            return count;
    }
    return NEWTON_MOST;
}

}  // namespace oblong::OBLONG_VARIANT::margin
