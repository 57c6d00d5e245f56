// Many linear problems over the same rows: their data, and the state of one of them.
//
//     min 1/2 |w|^2 + sum C_i h(y_i f_i),  f_i = w.x_i + b,  perhaps with |f_i| <= B.
//
// One signed multiplier t_i a row: w = sum t_i y_i x_i. Between 0 and C_i it is that of the hinge;
// with a bound, t < 0 is the multiplier of y f <= B and t - C > 0 that of y f >= -B.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <mutex>
#include <vector>

#include "oblong/_native/base/arrays.hpp"

namespace oblong::OBLONG_VARIANT::linear {

inline constexpr double EPSILON = std::numeric_limits<double>::epsilon();

enum class Intercept { none, penalised, free };

// Xorshift.
struct Random {
    std::uint64_t state;

    explicit Random(std::uint64_t seed) {
        // Neighbouring seeds have to give different numbers (splitmix64).
        std::uint64_t z = seed + 0x9e3779b97f4a7c15u;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        state = (z ^ (z >> 31)) | 1u;
    }
    // 0 ... size - 1.
    index below(index size) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        return static_cast<index>(((state >> 32) * static_cast<std::uint64_t>(size)) >> 32);
    }
};

// What all problems share.
struct Task {
    Vec<const std::int32_t> labels;
    // Penalty of each row; where it is of the problem's positive class, times the problem's factor.
    Vec<const double> penalties;
    bool squared = false;
    Intercept intercept = Intercept::free;
    // Squared value of the constant column whose weight is the intercept; with a free intercept the
    // strength of the multiplier method for its constraint.
    double scale = 1.0;
};

struct Problem {
    std::int32_t positive = 0;
    // -1: all other classes.
    std::int32_t negative = -1;
    double factor = 1.0;

    // Rows with a multiplier, and it.
    std::vector<std::int32_t> rows;
    std::vector<double> theta;
    // Rows for the next descent: by the last pass, and those whose multiplier has been other than
    // 0.
    std::vector<std::int32_t> candidates, touched;
    double bias = 0.0;
    double bound = inf, tightened = inf;

    // Objectives: of the last pass, and of the multipliers, less what rounding may hide.
    double primal = inf, dual = 0.0, regulariser = 0.0;
    // Largest |f|, the penalties of rows whose margin is small, and the sum of the multipliers of
    // the bound.
    double largest = 0.0, near = 0.0, pressing = 0.0;
    // Whether candidates of the next pass lie well beyond the bound: the first pass of a bound.
    bool first_bounded = false;
    index epochs = 0;
    // Numbers read by the descent.
    double work = 0.0;

    bool bounded() const { return bound < inf; }
    double sign(const Task& task, std::int32_t i) const {
        return task.labels[i] == positive ? 1.0 : -1.0;
    }
    double penalty(const Task& task, std::int32_t i) const {
        return task.penalties[i] * (task.labels[i] == positive ? factor : 1.0);
    }
    double offset(Intercept intercept, double sum, double scale) const {
        return intercept == Intercept::free ? bias - scale * sum : 0.0;
    }
};

// With a free intercept the multipliers times the labels have to sum to zero: shrink one side.
inline void balance(const Task& task, Problem& p) {
    double up = 0.0, down = 0.0;
    for (std::size_t j = 0; j < p.rows.size(); ++j) {
        const double z = p.sign(task, p.rows[j]) * p.theta[j];
        (z > 0.0 ? up : down) += std::abs(z);
    }
    const double less = smaller(up, down);
    const double of_up = up > less ? less / up : 1.0, of_down = down > less ? less / down : 1.0;
    for (std::size_t j = 0; j < p.rows.size(); ++j)
        p.theta[j] *= p.sign(task, p.rows[j]) * p.theta[j] > 0.0 ? of_up : of_down;
}

// Concave part of the dual for one multiplier.
inline double gain(const Task& task, const Problem& p, double theta, double penalty) {
    if (task.squared) return theta > 0.0 ? theta - theta * theta / (4.0 * penalty) : 0.0;
    if (theta < 0.0) return p.bound * theta;
    return theta <= penalty ? theta : penalty - p.bound * (theta - penalty);
}

// The weights (and a penalised intercept) from the multipliers, with the dual objective.
template <class Rows>
void rebuild(
    const Rows& rows, const Task& task, Vec<const double> lengths, Problem& p, Vec<double> w
) {
    for (std::size_t j = 0; j < p.rows.size(); ++j) {
        // Without a bound the box may have been passed by the rounding of single precision.
        if (p.bounded()) break;
        p.theta[j] = larger(p.theta[j], 0.0);
        if (!task.squared) p.theta[j] = smaller(p.theta[j], p.penalty(task, p.rows[j]));
    }
    if (task.intercept == Intercept::free) balance(task, p);
    for (double& x : w) x = 0.0;
    double sum = 0.0, gains = 0.0, sizes = 0.0, lever = 0.0;
    p.pressing = 0.0;
    for (std::size_t j = 0; j < p.rows.size(); ++j) {
        const std::int32_t i = p.rows[j];
        const double theta = p.theta[j], z = p.sign(task, i) * theta, C = p.penalty(task, i);
        sum += z;
        rows.add_exactly(i, z, w.data);
        const double own = gain(task, p, theta, C);
        gains += own, sizes += std::abs(own) + std::abs(theta);
        lever += std::abs(theta) * lengths[i];
        if (!task.squared) p.pressing += larger(larger(-theta, theta - C), 0.0);
    }
    double squared = 0.0;
    for (const double x : w) squared += x * x;
    // Errors of sums: of w, of its square, of the gains, and of the constraint.
    const double unit = EPSILON * (static_cast<double>(p.rows.size()) + 4.0);
    double error = unit * lever, length = std::sqrt(squared);
    double doubt = error * (length + error) + EPSILON * static_cast<double>(w.size) * squared;
    doubt += unit * sizes;
    if (task.intercept == Intercept::penalised) {
        p.bias = task.scale * sum;
        squared += task.scale * sum * sum;
        doubt += unit * task.scale * sum * sum;
    } else if (task.intercept == Intercept::none) {
        p.bias = 0.0;
    } else {
        doubt += (std::abs(sum) + EPSILON * sizes) * larger(1.0, std::abs(p.bias));
    }
    p.regulariser = 0.5 * squared;
    // No multipliers at all are a dual point, too.
    p.dual = larger(0.0, gains - 0.5 * squared - doubt);
}

// Memory of one thread.
template <class T>
struct Entry {
    std::int32_t row;
    T sign, C, curvature;
};

template <class T>
struct Workspace {
    std::vector<std::int32_t> order;
    std::vector<Entry<T>> entries;
    std::vector<T> theta;
    std::vector<std::uint8_t> touched;
    // By row: whether the working set has it already.
    std::vector<std::uint32_t> mark;
    std::uint32_t stamp = 0;
    // Snapshots of the multipliers, the weights and their sum, and what a step of theirs needs.
    std::vector<T> thetas, weights, directions, step, steps, slopes, moves;
    std::vector<double> sums;
    std::vector<std::int32_t> moving;
};

// Workspaces that are not in use.
template <class T>
class Workspaces {
public:
    std::unique_ptr<Workspace<T>> take() {
        const std::lock_guard guard(mutex);
        if (free.empty()) return std::make_unique<Workspace<T>>();
        auto found = std::move(free.back());
        free.pop_back();
        return found;
    }
    void give_back(std::unique_ptr<Workspace<T>> workspace) {
        const std::lock_guard guard(mutex);
        free.push_back(std::move(workspace));
    }

private:
    std::mutex mutex;
    std::vector<std::unique_ptr<Workspace<T>>> free;
};

}  // namespace oblong::OBLONG_VARIANT::linear
