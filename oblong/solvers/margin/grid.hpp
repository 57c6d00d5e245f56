// Many margin problems over one kernel matrix: groups of rows, and for each group the same variants
// of its problem, every one of which starts from a solution nearby.
#pragma once

#include "oblong/solvers/margin/problem.hpp"

namespace oblong::OBLONG_VARIANT::margin {

// A problem of a group; the fields of a structured array of NumPy.
struct Variant {
    // Factor of the breakpoints; bound on the outputs, infinite if there is none; a bound relative
    // to the largest output of a reference; half the width of a tube around the slopes in the
    // middle, NaN where the terms are as they are.
    double penalty, bound, spread, epsilon, tol;
    // The variant whose largest output sets the bound, or -1; two variants to start from, or -1;
    // the fold whose rows are left out, or -1.
    std::int64_t reference, start, other_start, without;
    // What is wanted of it.
    std::int64_t wanted;
};

// Coefficients that are there to start others from; the largest output alone; a solution.
enum Wanted : std::int64_t { GIVEN, LARGEST, SOLUTION };

// All groups, one after the other.
struct Groups {
    // Where the rows of each group begin, and where those of the last one end.
    Vec<const index> ends;
    // Rows by index, and the fold of each.
    Vec<const index> members, folds;
    // Terms of the rows for a penalty of one; where the second sum begins in each group, and the
    // sums.
    Mat<const double> p, s;
    Vec<const index> splits;
    Mat<const double> sums;
};

// Solutions: coefficients and images of all variants, group after group; values; weight vectors.
struct Solutions {
    Numbers coefs, images;
    Mat<Solution> table;
    Cube<double> weights;
    // The variant that each group has come to; their number where it is done.
    Vec<index> next;
};

// Terms of a variant.
inline void write_terms(
    const Groups& groups, index begin, index size, const Variant& variant, double bound,
    Mat<double> p, Mat<double> s
) {
    for (index i = 0; i < size; ++i) {
        const index row = begin + i;
        const bool out = variant.without >= 0 && groups.folds[row] == variant.without;
        for (int k = 0; k < 4; ++k) p(i, k) = out ? 0.0 : variant.penalty * groups.p(row, k);
        for (int k = 0; k < 3; ++k) s(i, k) = groups.s(row, k);
        if (!std::isnan(variant.epsilon))
            s(i, 0) = s(i, 1) + variant.epsilon, s(i, 2) = s(i, 1) - variant.epsilon;
        if (bound < inf && !out) p(i, 0) = -inf, p(i, 3) = inf;
        if (bound < inf) s(i, 0) = bound, s(i, 2) = -bound;
    }
}

// Whether coefficients lie on the same pieces of both terms, so that one solution is that of the
// other.
inline bool same_pieces(const Pieces& one, const Pieces& other, Given c) {
    for (index i = 0; i < c.size; ++i) {
        const Slopes a = one.slopes_at(i, c[i]), b = other.slopes_at(i, c[i]);
        if (a.right != b.right || a.left != b.left) return false;
    }
    return true;
}

// Bring the sums of the groups back to what they are to be, inside the domains.
//
// The surplus is taken from free coefficients, each of which gives half of its room up to the next
// breakpoint: the fewer that change, the fewer kernel rows change the image. What is left then goes
// in proportion to the room that they have, and at last by scaling the heavier sign down, where a
// sum is to be zero.
inline void restore_sums(const Pieces& pieces, Numbers c, Given sums, Numbers room) {
    for (int g = 0; g < pieces.groups(); ++g) {
        const index begin = pieces.begin(g), end = pieces.end(g);
        double surplus = -sums[g], total = 0.0, high = 0.0, low = 0.0;
        for (index i = begin; i < end; ++i) surplus += c[i];
        const double sign = surplus > 0.0 ? 1.0 : -1.0;
        for (index i = begin; i < end; ++i) {
            const Slopes at = pieces.slopes_at(i, c[i]);
            room[i] = 0.0;
            if (at.right != at.left) continue;
            // Where a piece has no end, a coefficient moves by about its own size.
            const double ahead =
                surplus > 0.0 ? c[i] - pieces.below(i, c[i]) : pieces.above(i, c[i]) - c[i];
            room[i] = smaller(ahead, std::abs(c[i]) + 1.0);
            const double part = smaller(0.5 * room[i], sign * surplus);
            if (part > 0.0) c[i] -= sign * part, room[i] -= part, surplus -= sign * part;
            total += room[i];
        }
        const bool some = total > 0.0 && sign * surplus > 0.0;
        const double share = some ? sign * smaller(sign * surplus / total, 1.0) : 0.0;
        for (index i = begin; i < end; ++i) {
            c[i] -= share * room[i];
            high += larger(c[i], 0.0);
            low += larger(-c[i], 0.0);
        }
        // Every domain holds zero, so that smaller coefficients stay inside.
        if (sums[g] != 0.0 || std::abs(high - low) <= 1e-14 * high) continue;
        const double up = high > low ? low / high : 1.0, down = low > high ? high / low : 1.0;
        for (index i = begin; i < end; ++i) c[i] *= c[i] > 0.0 ? up : down;
    }
}

struct GridGoal {
    double promise;
    std::int64_t steps, polish;
};

// Rows up to which the matrix of a group is held whole.
inline constexpr index WHOLE = 4096;

template <class T>
class GridSolver {
public:
    GridSolver(
        const KernelSource& kernel, const Groups& groups, Vec<const Variant> variants,
        GridGoal goal, Solutions& out, index largest
    )
        : kernel_(kernel),
          groups_(groups),
          variants_(variants),
          goal_(goal),
          out_(out),
          largest_(std::min(largest, WHOLE)),
          solver_(kernel, largest_),
          terms_(14 * largest),
          numbers_(largest) {}

    void solve_group(index g) {
        const index begin = groups_.ends[g], q = groups_.ends[g + 1] - begin, m = variants_.size;
        const bool here = q <= largest_ && kernel_.available<T>();
        if (here) solver_.matrix.open(groups_.members.part(begin, begin + q));
        const Mat<double> coefs = reshaped(out_.coefs.part(m * begin, m * (begin + q)), m, q);
        const Mat<double> images = reshaped(out_.images.part(m * begin, m * (begin + q)), m, q);
        const Given sums = groups_.sums[g];
        for (index& k = out_.next[g]; k < m; ++k) {
            const Variant& variant = variants_[k];
            Solution& values = out_.table(g, k);
            if (variant.wanted == GIVEN) continue;
            values.bound = bound_of(g, variant);
            const Mat<double> p = terms(0, q, 4), s = terms(4, q, 3);
            write_terms(groups_, begin, q, variant, values.bound, p, s);
            const Pieces pieces{p, s, groups_.splits[g]};
            if (const index same = solved_by(g, begin, q, k, pieces, coefs); same >= 0) {
                take(g, k, same, coefs, images);
                continue;
            }
            const bool moved = start_from(variant, pieces, sums, coefs, k, images);
            values.status = UNSOLVED;
            // What is too large to be held whole is solved elsewhere, from this start.
            if (!here) return;
            if (moved) carry(coefs[k], coefs[variant.start], images[k]);
            const Goal goal{
                variant.tol, goal_.promise, goal_.steps, goal_.polish != 0,
                variant.wanted == LARGEST
            };
            solver_.solve(pieces, sums, coefs[k], images[k], goal, values);
            values.source = k;
            const Given w = solver_.weights();
            for (index j = 0; j < w.size; ++j) out_.weights(g, k, j) = values.scale * w[j];
            if (values.status == UNSOLVED) return;
        }
    }

private:
    Mat<double> terms(index from, index size, index columns) {
        const index length = static_cast<index>(numbers_.size());
        return {terms_.data() + from * length, size, columns};
    }

    double bound_of(index g, const Variant& variant) {
        if (variant.reference < 0) return variant.bound;
        const double theta = out_.table(g, variant.reference).largest;
        return larger(1.0, 1.0 + variant.spread * (theta - 1.0));
    }

    // The variant whose solution is that of this one, too; -1 if there is none.
    index solved_by(
        index g, index begin, index q, index k, const Pieces& pieces, Mat<double> coefs
    ) {
        const Variant& variant = variants_[k];
        Solution& values = out_.table(g, k);
        if (variant.without >= 0) {
            // Rows without a coefficient change nothing.
            const Given c = coefs[variant.start];
            bool none = true;
            for (index i = 0; i < q && none; ++i)
                none = c[i] == 0.0 || groups_.folds[begin + i] != variant.without;
            return none ? variant.start : -1;
        }
        if (variant.reference >= 0) {
            const Solution& reference = out_.table(g, variant.reference);
            values.theta = reference.largest;
            // Rounding may hide that a model which is not proven breaks the bound.
            if (!(values.bound < reference.largest) && reference.proven(goal_.promise))
                return variant.reference;
        }
        if (goal_.promise < inf || variant.other_start < 0) return -1;
        const Solution& other = out_.table(g, variant.other_start);
        if (other.status != CONVERGED || other.bound != values.bound ||
            !(other.violation <= variant.tol))
            return -1;
        const Mat<double> p = terms(7, q, 4), s = terms(11, q, 3);
        write_terms(groups_, begin, q, variants_[variant.other_start], other.bound, p, s);
        return same_pieces(pieces, {p, s, pieces.split}, coefs[variant.other_start])
                   ? variant.other_start
                   : -1;
    }

    // Take the solution of another variant; the bound and the steps are its own.
    void take(index g, index k, index same, Mat<double> coefs, Mat<double> images) {
        Solution& values = out_.table(g, k);
        const Solution own = values;
        values = out_.table(g, same);
        values.bound = own.bound, values.n_iter = values.n_newton = 0;
        values.theta = variants_[k].reference >= 0 ? own.theta : values.theta;
        std::copy_n(coefs[same].data, coefs.cols, coefs[k].data);
        std::copy_n(images[same].data, coefs.cols, images[k].data);
        for (index j = 0; j < out_.weights.cols; ++j)
            out_.weights(g, k, j) = out_.weights(g, same, j);
    }

    // Write the start of a variant; returns whether its image is still that of all rows.
    bool start_from(
        const Variant& variant, const Pieces& pieces, Given sums, Mat<double> coefs, index k,
        Mat<double> images
    ) {
        index start = variant.start;
        if (start >= 0 && variant.other_start >= 0 &&
            dual_objective(pieces, coefs[variant.other_start], images[variant.other_start]) >
                dual_objective(pieces, coefs[start], images[start]))
            start = variant.other_start;
        if (start < 0) return false;
        const Numbers c = coefs[k], u = images[k];
        std::copy_n(coefs[start].data, c.size, c.data);
        std::copy_n(images[start].data, c.size, u.data);
        if (variant.without < 0) return false;
        for (index i = 0; i < c.size; ++i)
            if (pieces.p(i, 0) == 0.0 && pieces.p(i, 3) == 0.0) c[i] = 0.0;
        restore_sums(pieces, c, sums, {numbers_.data(), c.size});
        return true;
    }

    // Bring an image up to date with coefficients that differ from those it is of.
    void carry(Given c, Given before, Numbers u) {
        std::vector<index> moved;
        std::vector<double> changes;
        for (index i = 0; i < c.size; ++i)
            if (c[i] != before[i]) moved.push_back(i), changes.push_back(c[i] - before[i]);
        const index count = static_cast<index>(moved.size());
        add_rows(solver_.matrix.rows(), {moved.data(), count}, {changes.data(), count}, u);
    }

    const KernelSource& kernel_;
    const Groups& groups_;
    Vec<const Variant> variants_;
    GridGoal goal_;
    Solutions& out_;
    index largest_;
    ProblemSolver<T> solver_;
    std::vector<double> terms_, numbers_;
};

// Solve the groups `first` to `last`, each from the variant that it has come to.
template <class T>
void solve_groups(
    const KernelSource& kernel, const Groups& groups, Vec<const Variant> variants, GridGoal goal,
    Solutions& out, index first, index last
) {
    index largest = 0;
    for (index g = first; g < last; ++g)
        largest = std::max(largest, groups.ends[g + 1] - groups.ends[g]);
    GridSolver<T> solver(kernel, groups, variants, goal, out, largest);
    for (index g = first; g < last; ++g) solver.solve_group(g);
}

}  // namespace oblong::OBLONG_VARIANT::margin
