// The certificate of a dual point and of the model that it makes.
//
// For coefficients c with the sums S_g of their groups the dual objective sum g_i(c_i) - c'Kc / 2
// is a lower bound of every primal objective |w|^2 / 2 + sum h_i(w.phi_i + b_g) + sum_g S_g b_g.
// The primal point is the model itself, k sum c_i phi_i with the biases k b_g, evaluated at the
// outputs it gives in double precision, each with a bound on its rounding. The factor k is one, or
// smaller where a hard bound on the outputs asks for it, or the best one where the gap would be too
// large otherwise.
#pragma once

#include "oblong/solvers/margin/pieces.hpp"

namespace oblong::OBLONG_VARIANT::margin {

// Halvings of the interval of a scale or a bias: the last digits do not matter.
inline constexpr int HALVINGS = 50;
// Relative error of a sum of products, whose errors have random signs.
inline constexpr double UNIT = 4.0 * std::numeric_limits<double>::epsilon();

// A function on the rows: its values, bounds on their rounding, its squared norm and a bound on the
// error of that.
struct Expansion {
    Given image, error;
    double norm, norm_error;
    // Whether the model is its weight vector, whose norm is exact, and not its coefficients.
    bool by_weights;
};

struct Biases {
    double b[2];
    double operator[](int group) const { return b[group]; }
};

struct Primal {
    double objective, upper;
};

class Appraiser {
public:
    Appraiser(const Pieces& pieces, const Expansion& expansion, Given sums)
        : pieces_(pieces), at_(expansion), sums_(sums) {}

    // Primal objective of a multiple of the model, and what it may be with rounding.
    Primal primal(Biases bias, double scale) const {
        double objective = 0.5 * scale * scale * larger(at_.norm, 0.0);
        for (int g = 0; g < pieces_.groups(); ++g) objective += scale * sums_[g] * bias[g];
        double upper = objective + 0.5 * scale * scale * (at_.by_weights ? 0.0 : at_.norm_error);
        each(
            [&](index i, double b) {
                const double f = scale * (at_.image[i] + b);
                // An output beside a kink, and its loss, are small differences of numbers of this
                // size.
                const double doubt =
                    scale * (at_.error[i] + UNIT * (std::abs(at_.image[i]) + std::abs(b)));
                objective += pieces_.loss(i, f).value;
                upper += larger(pieces_.loss(i, f + doubt).value, pieces_.loss(i, f - doubt).value);
            },
            bias
        );
        return {objective, larger(upper, objective)};
    }

    // The largest factor with which all outputs meet their hard bounds; infinite if there are none.
    double largest_scale(Biases bias) const {
        double excess = 0.0;
        each(
            [&](index i, double b) {
                const double high = at_.image[i] + b + at_.error[i],
                             low = at_.image[i] + b - at_.error[i];
                const double most = pieces_.s(i, 0), least = pieces_.s(i, 2);
                // An unbounded tail is a hard bound: one of zero is met on its right side only.
                if (pieces_.p(i, 0) == -inf && high > 0.0)
                    excess = larger(excess, most > 0.0 ? high / most : inf);
                if (pieces_.p(i, 3) == inf && low < 0.0)
                    excess = larger(excess, least < 0.0 ? low / least : inf);
            },
            bias
        );
        return excess > 0.0 ? 1.0 / excess : inf;
    }

    // Minimise k^2 |w|^2 / 2 + sum h_i(k f_i) + k sum S_g b_g over 0 <= k <= limit.
    double best_scale(Biases bias, double limit) const {
        double low = 0.0, high = limit, linear = 0.0;
        for (int g = 0; g < pieces_.groups(); ++g) linear += sums_[g] * bias[g];
        for (int step = 0; step < HALVINGS; ++step) {
            const double scale = 0.5 * (low + high);
            double slope = scale * at_.norm + linear;
            each(
                [&](index i, double b) {
                    const double f = at_.image[i] + b;
                    slope += pieces_.loss(i, scale * f).slope * f;
                },
                bias
            );
            (slope > 0.0 ? high : low) = scale;
        }
        return low;
    }

    // Minimise sum h_i(u_i + b_g) + S_g b_g over the bias of each group.
    Biases least_loss() const {
        Biases best{};
        for (int g = 0; g < pieces_.groups(); ++g) {
            double high = 1.0;
            for (index i = pieces_.begin(g); i < pieces_.end(g); ++i)
                high = larger(high, 1.0 + std::abs(at_.image[i]));
            double low = -high;
            for (int step = 0; step < HALVINGS; ++step) {
                const double bias = 0.5 * (low + high);
                double slope = sums_[g];
                for (index i = pieces_.begin(g); i < pieces_.end(g); ++i)
                    slope += pieces_.loss(i, at_.image[i] + bias).slope;
                (slope > 0.0 ? high : low) = bias;
            }
            best.b[g] = low;
        }
        return best;
    }

    // Biases that make the largest output least.
    Biases least_outputs() const {
        Biases middle{};
        for (int g = 0; g < pieces_.groups(); ++g) {
            double highest = -inf, lowest = inf;
            for (index i = pieces_.begin(g); i < pieces_.end(g); ++i) {
                highest = larger(highest, at_.image[i]);
                lowest = smaller(lowest, at_.image[i]);
            }
            middle.b[g] = -0.5 * (highest + lowest);
        }
        return middle;
    }

private:
    template <class Each>
    void each(Each&& visit, Biases bias) const {
        for (int g = 0; g < pieces_.groups(); ++g)
            for (index i = pieces_.begin(g); i < pieces_.end(g); ++i) visit(i, bias[g]);
    }

    const Pieces& pieces_;
    const Expansion& at_;
    Given sums_;
};

// Biases and factor of the model, its primal objective and what that may be with rounding, the dual
// objective and by how much that may be smaller.
struct Appraisal {
    Biases bias;
    double scale, objective, upper, dual, doubt;
    // A gap of which that is all is none: the objective may be zero.
    double least_gap = 0.0;

    double gap() const { return larger(objective - dual, 0.0) + rounding(); }
    double rounding() const { return upper - objective + doubt; }
    double relative_gap() const {
        return gap() <= least_gap ? 0.0 : gap() / larger(std::abs(objective), 1e-300);
    }
};

// Certify the model of a dual point. `promise` is the relative gap that is small enough: only for a
// larger one the best factor and biases are looked for.
inline Appraisal appraise(
    const Pieces& pieces, Given c, const Expansion& expansion, Given sums, Biases bias,
    double promise
) {
    double terms = 0.0, unbalanced = 0.0, idle = 0.0;
    bool without_sums = true;
    for (int g = 0; g < pieces.groups(); ++g) {
        // The sum with the rounding of each addition kept.
        double total = -sums[g], lost = 0.0;
        for (index i = pieces.begin(g); i < pieces.end(g); ++i) {
            terms += pieces.term(i, c[i]);
            idle += pieces.loss(i, 0.0).value;
            const double sum = total + c[i];
            lost += std::abs(total) >= std::abs(c[i]) ? (total - sum) + c[i] : (c[i] - sum) + total;
            total = sum;
        }
        // A sum that is off meets every bias, the optimal one too.
        unbalanced += std::abs(total + lost) * 2.0 * larger(1.0, std::abs(bias[g]));
        without_sums = without_sums && sums[g] == 0.0;
    }
    double dual = terms - 0.5 * expansion.norm;
    double doubt = 0.5 * expansion.norm_error + unbalanced;
    // Where the sums are zero, so are the coefficients of another dual point, whose objective is
    // zero.
    if (without_sums && !(dual < inf && dual - doubt >= 0.0)) dual = doubt = 0.0;
    const Appraiser appraiser(pieces, expansion, sums);
    double scale = smaller(1.0, appraiser.largest_scale(bias));
    auto [objective, upper] = appraiser.primal(bias, scale);
    if (!(upper - dual + doubt <= promise * std::abs(objective))) {
        for (const Biases other : {bias, appraiser.least_loss(), appraiser.least_outputs()}) {
            const double best =
                appraiser.best_scale(other, smaller(appraiser.largest_scale(other), 4.0));
            const Primal found = appraiser.primal(other, best);
            if (!(upper <= found.upper))
                bias = other, scale = best, objective = found.objective, upper = found.upper;
        }
    }
    return {bias, scale, objective, upper, dual, doubt, UNIT * idle};
}

}  // namespace oblong::OBLONG_VARIANT::margin
