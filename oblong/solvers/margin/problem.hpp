// One margin problem whose matrix is in memory, with the certificate of its solution.
#pragma once

#include "oblong/solvers/margin/block.hpp"
#include "oblong/solvers/margin/certificate.hpp"
#include "oblong/solvers/margin/matrix.hpp"

namespace oblong::OBLONG_VARIANT::margin {

enum Status : std::int64_t { CONVERGED, MAX_ITER, STALLED, UNSOLVED };

// What is known of one problem; the fields of a structured array of NumPy.
struct Solution {
    // Biases of the groups, times the factor between the dual point and the model.
    double bias, bias2, scale;
    double objective, dual_objective, rounding, violation;
    // The bound on the outputs, the largest output that a spread is relative to, and that of the
    // model.
    double bound, theta, largest;
    std::int64_t n_iter, n_newton, status;
    // Which problem of the group the solution is that of.
    std::int64_t source;

    bool proven(double promise) const {
        const double gap = objective - dual_objective + rounding;
        return status == CONVERGED && (promise == inf || gap <= promise * std::abs(objective));
    }
};

// What is asked of a solution.
struct Goal {
    double tol;
    // Relative duality gap to prove; infinite where a solution to `tol` is enough.
    double promise;
    // Pair steps at most.
    std::int64_t steps;
    // Whether a solution that is done ends with Newton steps for its last digits.
    bool polish;
    // Whether only the largest output is wanted.
    bool only_theta;
};

// Pair steps on a block of this size that cost about what an interior point method does, which
// takes some twenty Cholesky factors.
inline index crawl_steps(index size) {
    const double n = static_cast<double>(size);
    return std::max<index>(20000, static_cast<index>(0.25 * n * n));
}

// Times that steps go on from outputs in double precision.
inline constexpr int ATTEMPTS = 8;
// Share of its violation to which a solution is polished.
inline constexpr double FINE = 1e-3;
// Times that the tolerance is tightened before outputs are computed in double precision.
inline constexpr int EARLY = 2;

template <class T>
class ProblemSolver {
public:
    ProblemSolver(const KernelSource& kernel, index largest)
        : matrix(kernel, largest),
          memory_(largest),
          matters_(largest),
          numbers_(3 * largest),
          w_(kernel.linear() ? kernel.rows.cols : 0) {}

    GroupMatrix<T> matrix;

    // The weight vector of the last solution, for the linear kernel.
    Given weights() const { return {w_.data(), static_cast<index>(w_.size())}; }

    // Solve from the coefficients and the image at hand, both of which are updated.
    void solve(
        const Pieces& pieces, Given sums, Numbers c, Numbers u, const Goal& goal, Solution& out
    ) {
        const index q = c.size;
        const Point point{c, u, number(0, q), number(1, q)};
        const Given diagonal = matrix.diagonal();
        double mean = 1e-300, most = 1e-300;
        for (index i = 0; i < q; ++i) {
            mean += std::abs(diagonal[i]) / static_cast<double>(q);
            most = larger(most, diagonal[i]);
        }
        constexpr double epsilon = sizeof(T) == 8 ? 2.2204460492503131e-16 : 1.1920928955078125e-07;
        const double snap = snap_distance(pieces, c, goal.tol, most);
        least_curvature_ = larger(4.0 * epsilon * mean, 1e-300);
        // Rounding must not make the violation look larger than it is allowed to be.
        double target = sizeof(T) == 8 ? goal.tol : 0.95 * goal.tol;
        const bool bounded = pieces.p.rows > 0 && has_bounds(pieces);
        const bool costly = matrix.kernel().has_rows() && !matrix.kernel().linear();
        out.n_iter = out.n_newton = 0;
        out.status = UNSOLVED;
        out.scale = 1.0;
        int early = 0;
        std::fill(w_.begin(), w_.end(), 0.0);
        for (int attempt = 0; attempt < ATTEMPTS + EARLY; ++attempt) {
            const index budget = std::min<index>(goal.steps, crawl_steps(q)) - out.n_iter;
            const PairLimits limits{target, least_curvature_, snap, std::max<index>(budget, 0)};
            const BlockOutcome done =
                solve_block(matrix.rows(), diagonal, pieces, point, memory_, limits);
            out.n_iter += done.steps;
            out.n_newton += done.newton_steps;
            out.violation = done.violation;
            if (std::isnan(done.violation)) return;
            balance(pieces, c, point.right, point.left, sums);
            const bool reached = done.violation <= target;
            const double error = mark(pieces, point, out);
            // Without a gap to prove, working precision is often enough; the bound on its rounding
            // is a hundred times what it is.
            double enough = goal.promise == inf ? 0.2 * goal.tol : -inf;
            if (goal.only_theta && out.largest > 1.0 + goal.tol) enough = goal.tol;
            if (reached && error <= enough && !goal.polish) {
                // The model of the linear kernel is its weight vector.
                if (!w_.empty()) {
                    write_image(c, u);
                    mark(pieces, point, out);
                }
                out.status = CONVERGED;
                return;
            }
            if (reached && early < EARLY && bounded && costly) {
                // Outputs in working precision tell whether those in double can prove the gap.
                const double gap = appraise_outputs(pieces, sums, point, goal.promise, false, out);
                if (gap > goal.promise) {
                    ++early;
                    target *= smaller(0.3, larger(1e-3, 0.5 * goal.promise / gap));
                    continue;
                }
            }
            write_image(c, u);
            if (reached && goal.polish) polish(pieces, point, sums, snap, out);
            out.violation = violation_of(pieces, point.right, point.left, u);
            const double gap = appraise_outputs(pieces, sums, point, goal.promise, true, out);
            // Rounding in the outputs allows for no smaller violation.
            const bool solved = out.violation <= goal.tol * (1.0 + 1e-6) + 4.0 * worst_error(q);
            if (solved && gap <= goal.promise) {
                out.status = CONVERGED;
                return;
            }
            if (!reached) {
                out.status = out.n_iter >= goal.steps ? MAX_ITER : UNSOLVED;
                return;
            }
            if (!solved) continue;
            if (2.0 * out.rounding > gap * std::abs(out.objective)) return;
            // The gap falls about as the violation does.
            target *= smaller(0.1, larger(1e-3, 0.5 * goal.promise / gap));
        }
    }

private:
    Numbers number(index k, index size) {
        const index length = static_cast<index>(matters_.size());
        return {numbers_.data() + k * length, size};
    }
    Numbers errors(index size) { return number(2, size); }
    double worst_error(index q) {
        double worst = 0.0;
        // Outputs that do not decide may keep the rounding of working precision.
        for (index i = 0; i < q; ++i)
            if (matters_[i]) worst = larger(worst, errors(q)[i]);
        return worst;
    }
    static bool has_bounds(const Pieces& pieces) {
        for (index i = 0; i < pieces.size(); ++i)
            if (pieces.p(i, 0) == -inf || pieces.p(i, 3) == inf) return true;
        return false;
    }
    Biases middles(const Pieces& pieces, Point point) const {
        Biases bias{};
        for (int g = 0; g < pieces.groups(); ++g)
            bias.b[g] =
                interval(point.right, point.left, point.u, pieces.begin(g), pieces.end(g)).middle();
        return bias;
    }

    void write_image(Given c, Numbers u) {
        matrix.image(c, {matters_.data(), c.size}, u, {w_.data(), static_cast<index>(w_.size())});
    }

    // Newton steps make the solution exact once the pieces are right that its coefficients lie on.
    void polish(const Pieces& pieces, Point point, Given sums, double snap, Solution& out) {
        const auto [c, u, right, left] = point;
        const double before = violation_of(pieces, right, left, u);
        const std::vector<double> old_c(c.begin(), c.end()), old_u(u.begin(), u.end());
        int steps = newton_steps(matrix.rows(), matrix.diagonal(), pieces, point, snap);
        const double now = violation_of(pieces, right, left, u);
        if (now > FINE * before) {
            // Some rows had not met their breakpoints yet.
            const PairLimits limits{FINE * now, least_curvature_, snap, 2 * c.size};
            steps += solve_block(matrix.rows(), matrix.diagonal(), pieces, point, memory_, limits)
                         .newton_steps;
            steps += newton_steps(matrix.rows(), matrix.diagonal(), pieces, point, snap);
        }
        balance(pieces, c, right, left, sums);
        write_image(c, u);
        if (violation_of(pieces, right, left, u) <= before) {
            out.n_newton += steps;
            return;
        }
        std::copy(old_c.begin(), old_c.end(), c.data);
        std::copy(old_u.begin(), old_u.end(), u.data);
        write_slopes(pieces, c, right, left);
        if (!w_.empty()) write_image(c, u);
    }

    // Mark the rows whose outputs decide: those with a coefficient, a loss, or a large output.
    // Returns a bound on the rounding of the outputs in working precision, and notes the largest
    // one.
    double mark(const Pieces& pieces, Point point, Solution& out) {
        const auto [c, u, right, left] = point;
        const KernelSource& kernel = matrix.kernel();
        const Biases bias = middles(pieces, point);
        out.bias = bias[0], out.bias2 = bias[1], out.scale = 1.0;
        double weight = 0.0, worst = 0.0;
        out.largest = 0.0;
        for (int g = 0; g < pieces.groups(); ++g)
            for (index i = pieces.begin(g); i < pieces.end(g); ++i) {
                weight += std::abs(c[i]) * kernel.size(matrix.members()[i]);
                out.largest = larger(out.largest, std::abs(u[i] + bias[g]));
            }
        for (int g = 0; g < pieces.groups(); ++g)
            for (index i = pieces.begin(g); i < pieces.end(g); ++i) {
                const double f = u[i] + bias[g];
                const double error =
                    2.0 * kernel.single_unit * weight * kernel.size(matrix.members()[i]);
                worst = larger(worst, error);
                const double bound = pieces.p(i, 0) == -inf ? pieces.s(i, 0) : inf;
                matters_[i] = c[i] != 0.0 || pieces.loss(i, f + error).value > 0.0 ||
                              pieces.loss(i, f - error).value > 0.0 ||
                              std::abs(f) >= smaller(out.largest, bound) - 2.0 * error;
            }
        return worst;
    }

    // Write the values of the model with its outputs as they are; return its relative gap. `fresh`
    // says that outputs that matter are in double precision.
    double appraise_outputs(
        const Pieces& pieces, Given sums, Point point, double promise, bool fresh, Solution& out
    ) {
        const auto [c, u, right, left] = point;
        const KernelSource& kernel = matrix.kernel();
        const index q = c.size;
        const Numbers error = errors(q);
        const bool by_weights = !w_.empty() && fresh;
        double weight = 0.0, norm = 0.0, norm_error = 0.0, far = 0.0;
        for (index i = 0; i < q; ++i) {
            error[i] = kernel.size(matrix.members()[i]);
            weight += std::abs(c[i]) * error[i];
        }
        if (by_weights) {
            for (index k = 0; k < static_cast<index>(w_.size()); ++k) {
                norm += w_[k] * w_[k];
                // The bias of the rows as they are is rounded to the size of w.shift.
                far += kernel.shift.empty() ? 0.0 : std::abs(w_[k] * kernel.shift[k]);
            }
            const double length = std::sqrt(norm), doubt = kernel.double_unit * weight;
            for (index i = 0; i < q; ++i) error[i] = kernel.double_unit * (error[i] * length + far);
            // The vector itself is off from that of the exact coefficients.
            norm_error = doubt * (2.0 * length + doubt);
        } else {
            for (index i = 0; i < q; ++i) {
                // Rows that do not matter keep the rounding of working precision.
                const bool exact = fresh && (matters_[i] || !kernel.has_rows());
                error[i] *= weight * (exact ? kernel.double_unit : 2.0 * kernel.single_unit);
                norm += c[i] * u[i];
                const double size = std::abs(c[i]) * kernel.size(matrix.members()[i]);
                norm_error += std::abs(c[i]) * error[i] + kernel.noise * size * size;
            }
        }
        const Expansion expansion{u, error, norm, norm_error, by_weights};
        const Appraisal found =
            appraise(pieces, c, expansion, sums, middles(pieces, point), fresh ? promise : inf);
        out.bias = found.scale * found.bias[0], out.bias2 = found.scale * found.bias[1];
        out.scale = found.scale;
        out.objective = found.objective, out.dual_objective = found.dual,
        out.rounding = found.rounding();
        out.largest = 0.0;
        for (int g = 0; g < pieces.groups(); ++g)
            for (index i = pieces.begin(g); i < pieces.end(g); ++i)
                out.largest = larger(out.largest, found.scale * std::abs(u[i] + found.bias[g]));
        return found.relative_gap();
    }

    BlockMemory<T> memory_;
    double least_curvature_ = 0.0;
    std::vector<char> matters_;
    std::vector<double> numbers_, w_;
};

}  // namespace oblong::OBLONG_VARIANT::margin
