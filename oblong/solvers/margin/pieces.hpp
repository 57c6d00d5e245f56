// The concave piecewise-linear terms in which one margin problem differs from another.
//
// Each row has a term g(c) of its coefficient c: breakpoints p0 <= p1 <= p2 <= p3, slopes
// s0 >= s1 >= s2 between them, minus infinity outside, and g(0) = 0. Its conjugate
// h(f) = max_c g(c) - c f is the loss that the output f of the row pays in the primal problem.
//
// Coefficients belong to one or two groups with a fixed sum each. The rows of the first group come
// first; each group has a bias of its own.
#pragma once

#include <cmath>

#include "oblong/_native/base/arrays.hpp"

namespace oblong::OBLONG_VARIANT::margin {

using Numbers = Vec<double>;
using Given = Vec<const double>;

struct Slopes {
    double right, left;
};

struct Loss {
    double value, slope;
};

struct Pieces {
    Mat<const double> p, s;
    // Where the second group begins; the number of rows if there is one group.
    index split;

    index size() const { return p.rows; }
    index begin(int group) const { return group == 0 ? 0 : split; }
    index end(int group) const { return group == 0 ? split : p.rows; }
    int groups() const { return split < p.rows ? 2 : 1; }

    // Right and left slope at c; infinite where c can go no further.
    //
    // The comparisons are exact: coefficients that reach a breakpoint are set to it.
    Slopes slopes_at(index i, double c) const {
        const double *q = &p(i, 0), *t = &s(i, 0);
        return {
            c < q[1] ? t[0] : (c < q[2] ? t[1] : (c < q[3] ? t[2] : -inf)),
            c > q[2] ? t[2] : (c > q[1] ? t[1] : (c > q[0] ? t[0] : inf)),
        };
    }
    // The next breakpoints above and below c.
    double above(index i, double c) const {
        const double* q = &p(i, 0);
        return c < q[1] ? q[1] : (c < q[2] ? q[2] : (c < q[3] ? q[3] : inf));
    }
    double below(index i, double c) const {
        const double* q = &p(i, 0);
        return c > q[2] ? q[2] : (c > q[1] ? q[1] : (c > q[0] ? q[0] : -inf));
    }
    // c, or the breakpoint that is so near.
    double snapped(index i, double c, double snap) const {
        const double* q = &p(i, 0);
        for (int k = 0; k < 4; ++k) c = std::abs(c - q[k]) <= snap ? q[k] : c;
        return c;
    }
    // The term g_i(c): the integral of its slope from 0 to c.
    double term(index i, double c) const {
        const double *q = &p(i, 0), *t = &s(i, 0);
        double total = 0.0;
        for (int k = 0; k < 3; ++k)
            total +=
                t[k] * (smaller(larger(c, q[k]), q[k + 1]) - smaller(larger(0.0, q[k]), q[k + 1]));
        return total;
    }
    // The loss h_i(f) and its derivative, which is minus the coefficient that attains it: the
    // finite breakpoint nearest to where the slope of the term is f.
    Loss loss(index i, double f) const {
        const double *q = &p(i, 0), *t = &s(i, 0);
        double c;
        if (f > t[1])
            c = f > t[0] && q[0] > -inf ? q[0] : q[1];
        else
            c = f < t[2] && q[3] < inf ? q[3] : q[2];
        // Most rows have no loss.
        return {c != 0.0 ? term(i, c) - c * f : 0.0, -c};
    }
};

inline void write_slopes(const Pieces& pieces, Given c, Numbers right, Numbers left) {
    for (index i = 0; i < c.size; ++i) {
        const Slopes at = pieces.slopes_at(i, c[i]);
        right[i] = at.right;
        left[i] = at.left;
    }
}

// Dual objective: the sum of the terms less half of c.u.
inline double dual_objective(const Pieces& pieces, Given c, Given u) {
    double total = 0.0;
    for (index i = 0; i < c.size; ++i) total += pieces.term(i, c[i]) - 0.5 * c[i] * u[i];
    return total;
}

// Largest of right - u and least of left - u over a group: at an optimum, highest <= lowest, and
// every bias between the two is optimal.
struct Interval {
    double highest = -inf, lowest = inf;

    double violation() const { return highest - lowest; }
    double middle() const {
        // Of an endless interval the end that there is: beyond it no output has a loss either.
        if (std::abs(highest) < inf && std::abs(lowest) < inf) return 0.5 * (highest + lowest);
        return std::abs(highest) < inf ? highest : (std::abs(lowest) < inf ? lowest : 0.0);
    }
};

inline Interval interval(Given right, Given left, Given u, index begin, index end) {
    Interval at;
    for (index i = begin; i < end; ++i) {
        at.highest = larger(at.highest, right[i] - u[i]);
        at.lowest = smaller(at.lowest, left[i] - u[i]);
    }
    return at;
}

inline double violation_of(const Pieces& pieces, Given right, Given left, Given u) {
    double worst = -inf;
    for (int g = 0; g < pieces.groups(); ++g)
        worst = larger(worst, interval(right, left, u, pieces.begin(g), pieces.end(g)).violation());
    return worst;
}

// Distance to a breakpoint that is round-off: next to the coefficients, and to `tol`.
inline double snap_distance(const Pieces& pieces, Given c, double tol, double largest_diagonal) {
    double scale = 0.0;
    for (index i = 0; i < c.size; ++i) {
        const double ends = larger(std::abs(pieces.p(i, 1)), std::abs(pieces.p(i, 2)));
        scale = larger(scale, larger(std::abs(c[i]), ends));
    }
    return smaller(1e-12 * scale, 1e-4 * tol / largest_diagonal);
}

// Take the round-off of the sum of each group, which is to be `sums`, from its largest coefficient
// inside a piece.
inline void balance(const Pieces& pieces, Numbers c, Given right, Given left, Given sums) {
    for (int g = 0; g < pieces.groups(); ++g) {
        double total = 0.0;
        index largest = -1;
        for (index i = pieces.begin(g); i < pieces.end(g); ++i) {
            total += c[i];
            if (right[i] == left[i] && (largest < 0 || std::abs(c[i]) > std::abs(c[largest])))
                largest = i;
        }
        if (largest >= 0) c[largest] -= total - sums[g];
    }
}

}  // namespace oblong::OBLONG_VARIANT::margin
