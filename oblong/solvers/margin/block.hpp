// One problem whose matrix is in memory, to a violation: pair steps, most of them among the rows
// that take part, with Newton steps between them.
#pragma once

#include <algorithm>
#include <vector>

#include "oblong/solvers/margin/newton.hpp"

namespace oblong::OBLONG_VARIANT::margin {

// Rows from which steps are taken among some of them alone, and rounds of that before all are
// looked at again.
inline constexpr index SHRUNK = 128;
inline constexpr int SHRUNK_ROUNDS = 8;

// Memory for blocks of up to a number of rows.
template <class T>
struct BlockMemory {
    std::vector<double> numbers, p, s;
    std::vector<T> block;
    std::vector<index> chosen;
    std::vector<char> have;

    explicit BlockMemory(index size)
        : numbers(11 * size),
          p(4 * size),
          s(3 * size),
          block(size / 2 * (size / 2)),
          chosen(size),
          have(size) {}

    // The k-th array of so many numbers.
    Numbers array(index k, index size) {
        const index length = static_cast<index>(chosen.size());
        return {numbers.data() + k * length, size};
    }
    PairMemory pairs(index size) { return {array(0, size), array(1, size), array(2, size)}; }
};

// The violation of a group, and the multiplier of its sum: the mean over free coefficients.
struct Level {
    double violation, level;
};

inline Level level_of(Given right, Given left, Given u, index begin, index end) {
    const double *r = right.data, *l = left.data, *v = u.data;
    double highest = -inf, lowest = inf, total = 0.0, count = 0.0;
#pragma omp simd reduction(max : highest) reduction(min : lowest) reduction(+ : total, count)
    for (index i = begin; i < end; ++i) {
        const double up = r[i] - v[i], low = l[i] - v[i];
        highest = up > highest ? up : highest;
        lowest = low < lowest ? low : lowest;
        total += up == low ? up : 0.0;
        count += up == low ? 1.0 : 0.0;
    }
    const double level = count > 0.0 ? total / count : 0.5 * (highest + lowest);
    return {highest - lowest, smaller(larger(level, lowest), highest)};
}

// Pair steps among the rows with free coefficients and those on the wrong side of the level of the
// free ones. Returns false where more than half of the rows take part, or no step was possible.
template <class T>
bool ascend_among_violators(
    const Rows<T>& K, Given diagonal, const Pieces& pieces, Point point, BlockMemory<T>& memory,
    PairLimits limits, Ascent& done
) {
    const auto [c, u, right, left] = point;
    const index q = c.size;
    index count = 0, split = 0;
    done.violation = -inf;
    for (int g = 0; g < pieces.groups(); ++g) {
        const auto [violation, level] = level_of(right, left, u, pieces.begin(g), pieces.end(g));
        done.violation = larger(done.violation, violation);
        for (index i = pieces.begin(g); i < pieces.end(g); ++i) {
            memory.chosen[count] = i;
            count += (right[i] - u[i] > level) | (left[i] - u[i] < level) | (right[i] == left[i]);
        }
        if (g == 0) split = count;
    }
    if (!(done.violation > limits.tol) || done.steps >= limits.steps) return false;
    if (2 * count > q) return false;
    const Vec<index> chosen{memory.chosen.data(), count};
    const Numbers coef = memory.array(3, count), image = memory.array(4, count),
                  curves = memory.array(5, count);
    const Numbers own_right = memory.array(6, count), own_left = memory.array(7, count);
    const Mat<T> block{memory.block.data(), count, count};
    const Mat<double> p{memory.p.data(), count, 4}, s{memory.s.data(), count, 3};
    for (index a = 0; a < count; ++a) {
        const index i = chosen[a];
        coef[a] = c[i], image[a] = u[i], curves[a] = diagonal[i];
        std::copy_n(&pieces.p(i, 0), 4, &p(a, 0));
        std::copy_n(&pieces.s(i, 0), 3, &s(a, 0));
    }
    std::fill_n(memory.have.data(), count, 0);
    const Rows<T> inner{block, {memory.have.data(), count}, [&](index a) {
                            const Vec<const T> row = K[chosen[a]];
                            for (index b = 0; b < count; ++b) block(a, b) = row[chosen[b]];
                        }};
    PairLimits tighter = limits;
    tighter.tol = larger(0.9 * limits.tol, 0.05 * done.violation);
    tighter.steps = limits.steps - done.steps;
    const Ascent found = ascend<T>(
        inner, curves, {p, s, split}, coef, image, own_right, own_left, memory.pairs(count), tighter
    );
    done.steps += found.steps;
    if (std::isnan(found.violation)) done.violation = found.violation;
    index moved = 0;
    for (index a = 0; a < count; ++a) {
        const index i = chosen[a];
        const double change = coef[a] - c[i];
        c[i] = coef[a], right[i] = own_right[a], left[i] = own_left[a];
        if (change != 0.0) chosen[moved] = i, coef[moved] = change, ++moved;
    }
    add_rows<T>(K, chosen.first(moved), coef.first(moved), u);
    return found.steps > 0 && !std::isnan(done.violation);
}

// Pair steps until the violation is met or the steps are spent.
template <class T>
Ascent ascend_whole(
    const Rows<T>& K, Given diagonal, const Pieces& pieces, Point point, BlockMemory<T>& memory,
    PairLimits limits
) {
    const index q = point.c.size;
    Ascent done{0, inf};
    write_slopes(pieces, point.c, point.right, point.left);
    index burst = q >= SHRUNK ? std::max<index>(50, q / 12) : limits.steps;
    while (true) {
        for (int round = 0; q >= SHRUNK && round < SHRUNK_ROUNDS; ++round)
            if (!ascend_among_violators(K, diagonal, pieces, point, memory, limits, done)) break;
        if (q >= SHRUNK && (!(done.violation > limits.tol) || done.steps >= limits.steps)) {
            done.violation = std::isnan(done.violation)
                                 ? done.violation
                                 : violation_of(pieces, point.right, point.left, point.u);
            if (!(done.violation > limits.tol) || done.steps >= limits.steps) return done;
        }
        PairLimits some = limits;
        some.steps = std::min(burst, limits.steps - done.steps);
        const Ascent found = ascend(
            K, diagonal, pieces, point.c, point.u, point.right, point.left, memory.pairs(q), some
        );
        done = {done.steps + found.steps, found.violation};
        if (!(done.violation > limits.tol) || done.steps >= limits.steps) return done;
        burst *= 2;
    }
}

struct BlockOutcome {
    index steps, newton_steps;
    double violation;
};

// Pair steps after which Newton steps on the free coefficients have cost no more than they did.
inline index worth_of_newton(Given right, Given left) {
    double free = 0.0;
    for (index i = 0; i < right.size; ++i) free += right[i] == left[i];
    return static_cast<index>(free * free * free / (10.0 * static_cast<double>(right.size)));
}

// The violation, or NaN where an output is no number: those are lost in maxima.
inline double checked_violation(double violation, Given u) {
    for (const double f : u)
        if (!std::isfinite(f)) return std::numeric_limits<double>::quiet_NaN();
    return violation;
}

template <class T>
BlockOutcome solve_block(
    const Rows<T>& K, Given diagonal, const Pieces& pieces, Point point, BlockMemory<T>& memory,
    PairLimits limits
) {
    const index q = point.c.size, turn = std::max<index>(50, 2 * q);
    BlockOutcome outcome{0, 0, inf};
    index stretch = turn, since = 0;
    while (true) {
        PairLimits some = limits;
        some.steps = std::min(stretch, limits.steps - outcome.steps);
        const Ascent found = ascend_whole(K, diagonal, pieces, point, memory, some);
        outcome.steps += found.steps;
        outcome.violation = checked_violation(found.violation, point.u);
        if (!(found.violation > limits.tol) || outcome.steps >= limits.steps) return outcome;
        since += found.steps;
        stretch = worth_of_newton(point.right, point.left) - since;
        if (stretch <= 0) {
            outcome.newton_steps += newton_steps(K, diagonal, pieces, point, limits.snap);
            stretch = turn, since = 0;
        }
        // A step that is possible is taken: where there is none, nothing will change.
        stretch = std::max<index>(stretch, 50);
    }
}

}  // namespace oblong::OBLONG_VARIANT::margin
