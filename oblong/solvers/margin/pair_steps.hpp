// Pairwise ascent: raise one coefficient, lower another of the same group, by the exact maximiser
// of the dual along that line.
#pragma once

#include <functional>
#include <utility>

#include "oblong/_native/base/vectors.hpp"
#include "oblong/solvers/margin/pieces.hpp"

namespace oblong::OBLONG_VARIANT::margin {

// The rows of a symmetric matrix. A row that is not there is written when it is first asked for.
template <class T>
struct Rows {
    Mat<const T> values;
    // Which rows are there, and what writes one; empty where all are.
    Vec<char> have;
    std::function<void(index)> write;

    Vec<const T> operator[](index i) const {
        if (!have.empty() && !have[i]) {
            write(i);
            have[i] = true;
        }
        return values[i];
    }
};

// Numbers looked at together: the index of an extremum is looked for in one strip alone.
inline constexpr index STRIP = 128;

struct Coefficient {
    double value, up, low;
};

// Raise ci and lower cj. `up` and `low` are the right slope at ci and the left slope at cj, less
// the outputs. The dual is piecewise quadratic along the line: walk from kink to kink, landing on
// each exactly, until its derivative is no longer positive. Returns the coefficients with their
// right and left slopes, less the outputs they had before.
inline std::pair<Coefficient, Coefficient> pair_step(
    const Pieces& pieces, index i, double ci, index j, double cj, double up, double low,
    double curvature, double snap
) {
    Slopes at_i = pieces.slopes_at(i, ci), at_j = pieces.slopes_at(j, cj);
    const double ui = at_i.right - up, uj = at_j.left - low;
    double moved = 0.0;
    // Two coefficients pass eight breakpoints at most.
    for (int kink = 0; kink < 9; ++kink) {
        const double rise = at_i.right - at_j.left + (uj - ui) - curvature * moved;
        if (!(rise > 0.0)) break;
        const double step = rise / curvature;
        const double above = pieces.above(i, ci), below = pieces.below(j, cj);
        const double room_i = above - ci, room_j = cj - below;
        const bool inside = step < room_i && step < room_j;
        if (inside) {
            ci = pieces.snapped(i, ci + step, snap);
            cj = pieces.snapped(j, cj - step, snap);
        } else if (room_i <= room_j) {
            moved += room_i;
            cj = pieces.snapped(j, cj - room_i, snap);
            ci = above;
        } else {
            moved += room_j;
            ci = pieces.snapped(i, ci + room_j, snap);
            cj = below;
        }
        at_i = pieces.slopes_at(i, ci);
        at_j = pieces.slopes_at(j, cj);
        if (inside) break;
    }
    return {{ci, at_i.right - ui, at_i.left - ui}, {cj, at_j.right - uj, at_j.left - uj}};
}

// The first index of a value; `last` if it is nowhere.
inline index first_equal(Given values, index first, index last, double target) {
    OBLONG_ASSERT(last <= values.size);
    const double* v = values.data;
    Indices least[TOGETHER];
    for (Indices& at : least) at = indices(last, 0);
    const Doubles wanted = all(target);
    index k = in_vectors(first, last, [&](index from, int m) OBLONG_INLINE {
        const Indices here = doubles(v + from) == wanted ? indices(from, 1) : indices(last, 0);
        least[m] = here < least[m] ? here : least[m];
    });
    index at = last;
    for (const Indices& some : least)
        for (index l = 0; l < WIDTH; ++l) at = smaller<index>(at, lane(some, l));
    for (; k < last && at == last; ++k)
        if (v[k] == target) at = k;
    return at;
}

// Subtract a change of the image; return the largest of `up` and the least of `low`.
template <class T>
inline Interval shift(
    Numbers ups, Numbers lows, double di, Vec<const T> rows_i, double dj, Vec<const T> rows_j,
    index first, index last
) {
    OBLONG_ASSERT(
        last <= ups.size && last <= lows.size && last <= rows_i.size && last <= rows_j.size
    );
    double* up = ups.data;
    double* low = lows.data;
    const T *Ki = rows_i.data, *Kj = rows_j.data;
    Doubles most[TOGETHER], least[TOGETHER];
    for (int m = 0; m < TOGETHER; ++m) most[m] = all(-inf), least[m] = all(inf);
    const index rest = in_vectors(first, last, [&](index k, int m) OBLONG_INLINE {
        const Doubles change = di * doubles(Ki + k) + dj * doubles(Kj + k);
        const Doubles above = doubles(up + k) - change, below = doubles(low + k) - change;
        put(up + k, above);
        put(low + k, below);
        most[m] = larger(most[m], above);
        least[m] = smaller(least[m], below);
    });
    Interval at{largest_of_all(most), smallest_of_all(least)};
    for (index k = rest; k < last; ++k) {
        const double change = di * static_cast<double>(Ki[k]) + dj * static_cast<double>(Kj[k]);
        up[k] -= change;
        low[k] -= change;
        at.highest = larger(at.highest, up[k]);
        at.lowest = smaller(at.lowest, low[k]);
    }
    return at;
}

// Write what the dual gains, to second order, by pairing row i with each other; return the largest.
template <class T>
inline double write_gains(
    double top, Given lows, Given diagonals, Vec<const T> row, index i, double tiny, Numbers out,
    index first, index last
) {
    OBLONG_ASSERT(
        last <= lows.size && last <= diagonals.size && last <= row.size && last <= out.size
    );
    const double *low = lows.data, *diagonal = diagonals.data, own = diagonals[i];
    double* gains = out.data;
    const T* Ki = row.data;
    Doubles most[TOGETHER];
    for (Doubles& some : most) some = all(0.0);
    const index rest = in_vectors(first, last, [&](index k, int m) OBLONG_INLINE {
        const Doubles rise = larger(top - doubles(low + k), all(0.0));
        const Doubles curvature = own + doubles(diagonal + k) - 2.0 * doubles(Ki + k);
        const Doubles gain = rise * rise / larger(curvature, all(tiny));
        put(gains + k, gain);
        most[m] = larger(most[m], gain);
    });
    double best = largest_of_all(most);
    for (index k = rest; k < last; ++k) {
        const double rise = larger(top - low[k], 0.0);
        gains[k] = rise * rise / larger(own + diagonal[k] - 2.0 * static_cast<double>(Ki[k]), tiny);
        best = larger(best, gains[k]);
    }
    return best;
}

struct Ascent {
    index steps;
    double violation;
};

// What pair steps work on besides the point itself.
struct PairMemory {
    Numbers up, low, gains;
};

struct PairLimits {
    double tol, least_curvature, snap;
    index steps;
};

// Ascend by maximal violating pairs with second-order choice, in the group that is violated most.
//
// `up` and `low` are the right and left slopes at c less the image; both are updated in place, as c
// is. Returns the steps taken and the violation reached, NaN if values are not finite.
template <class T>
Ascent ascend_pairs(
    const Rows<T>& K, Given diagonal, const Pieces& pieces, Numbers c, PairMemory memory,
    PairLimits limits
) {
    const auto [up, low, gains] = memory;
    double di = 0.0, dj = 0.0;
    index i = 0, j = 0, taken = 0;
    // Nothing moves yet, but what it is multiplied by has to be a number.
    for (index k = 0; k < K.have.size; ++k)
        if (K.have[k]) {
            i = j = k;
            break;
        }
    while (true) {
        const Vec<const T> row_i = K[i], row_j = K[j];
        double top = -inf, violation = -inf;
        index strip = 0, begin = 0, end = 0;
        bool finite = true;
        for (int g = 0; g < pieces.groups(); ++g) {
            const index last = pieces.end(g);
            Interval whole;
            index at = pieces.begin(g);
            for (index first = pieces.begin(g); first < last; first += STRIP) {
                const Interval part =
                    shift<T>(up, low, di, row_i, dj, row_j, first, smaller(last, first + STRIP));
                whole.lowest = smaller(whole.lowest, part.lowest);
                if (part.highest > whole.highest) whole.highest = part.highest, at = first;
            }
            finite = finite && whole.violation() < inf;
            if (g == 0 || whole.violation() > violation) {
                violation = whole.violation(), top = whole.highest;
                strip = at, begin = pieces.begin(g), end = last;
            }
        }
        index after = smaller(end, strip + STRIP);
        i = first_equal(up, strip, after, top);
        // A value that was not found: some number is not one.
        if (!finite || i == after) violation = std::numeric_limits<double>::quiet_NaN();
        if (!(violation > limits.tol) || taken == limits.steps) return {taken, violation};
        ++taken;
        double best = 0.0;
        const Vec<const T> row = K[i];
        for (index first = begin; first < end; first += STRIP) {
            const double gain = write_gains<T>(
                top, low, diagonal, row, i, limits.least_curvature, gains, first,
                smaller(end, first + STRIP)
            );
            if (gain > best) best = gain, strip = first;
        }
        after = smaller(end, strip + STRIP);
        j = first_equal(gains, strip, after, best);
        if (j == after) return {taken, std::numeric_limits<double>::quiet_NaN()};
        const double curvature = larger(
            diagonal[i] + diagonal[j] - 2.0 * static_cast<double>(row[j]), limits.least_curvature
        );
        const auto [raised, lowered] =
            pair_step(pieces, i, c[i], j, c[j], up[i], low[j], curvature, limits.snap);
        di = raised.value - c[i];
        dj = lowered.value - c[j];
        c[i] = raised.value, up[i] = raised.up, low[i] = raised.low;
        c[j] = lowered.value, up[j] = lowered.up, low[j] = lowered.low;
    }
}

// Ascend from a point with the image u and write its slopes; the image of coefficients that cannot
// move stays as it is.
template <class T>
Ascent ascend(
    const Rows<T>& K, Given diagonal, const Pieces& pieces, Numbers c, Numbers u, Numbers right,
    Numbers left, PairMemory memory, PairLimits limits
) {
    write_slopes(pieces, c, right, left);
    for (index k = 0; k < c.size; ++k) {
        memory.up[k] = right[k] - u[k];
        memory.low[k] = left[k] - u[k];
    }
    const Ascent done = ascend_pairs(K, diagonal, pieces, c, memory, limits);
    write_slopes(pieces, c, right, left);
    for (index k = 0; k < c.size; ++k) {
        if (right[k] > -inf)
            u[k] = right[k] - memory.up[k];
        else if (left[k] < inf)
            u[k] = left[k] - memory.low[k];
    }
    return done;
}

// Add the change of some coefficients to the image, four rows of the matrix at a time.
template <class T>
void add_rows(const Rows<T>& K, Vec<const index> rows, Given changes, Numbers image) {
    double* u = image.data;
    const index n = image.size, whole = rows.size - rows.size % 4;
    for (index a = 0; a < whole; a += 4) {
        const Vec<const T> first = K[rows[a]], second = K[rows[a + 1]];
        const Vec<const T> third = K[rows[a + 2]], fourth = K[rows[a + 3]];
        OBLONG_ASSERT(n <= first.size);
        const T *r0 = first.data, *r1 = second.data, *r2 = third.data, *r3 = fourth.data;
        const double x = changes[a], y = changes[a + 1], z = changes[a + 2], w = changes[a + 3];
#pragma omp simd
        for (index k = 0; k < n; ++k) u[k] += x * r0[k] + y * r1[k] + z * r2[k] + w * r3[k];
    }
    for (index a = whole; a < rows.size; ++a) {
        const T* row = K[rows[a]].data;
        const double x = changes[a];
#pragma omp simd
        for (index k = 0; k < n; ++k) u[k] += x * row[k];
    }
}

}  // namespace oblong::OBLONG_VARIANT::margin
