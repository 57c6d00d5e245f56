// Coordinate descent on the multipliers of one problem, over its working set.
#pragma once

#include "oblong/solvers/linear/batch_subspace.hpp"

namespace oblong::OBLONG_VARIANT::linear {

struct Limits {
    // Estimated gap at which to stop.
    double target;
    index epochs;
    // Numbers to read.
    double work;
};

// New multiplier of a row at margin m and its projected gradient.
template <class T>
struct Move {
    T theta, gradient;
};

template <class T>
inline Move<T> hinge_move(T theta, T m, const Entry<T>& e) {
    const T G = m - 1;
    const T next = smaller(larger(theta - G / e.curvature, T(0)), e.C);
    T gradient = G;
    if (theta == 0) gradient = smaller(G, T(0));
    if (theta == e.C) gradient = larger(G, T(0));
    return {next, gradient};
}

template <class T>
inline Move<T> squared_move(T theta, T m, const Entry<T>& e) {
    const T ridge = T(0.5) / e.C, G = m - 1 + theta * ridge;
    const T next = larger(theta - G / (e.curvature + ridge), T(0));
    return {next, theta == 0 ? smaller(G, T(0)) : G};
}

// The best multiplier on three pieces with slopes B, 1 and -B.
template <class T>
inline Move<T> bounded_move(T theta, T m, const Entry<T>& e, T B) {
    const T q = e.curvature, u = theta - m / q;
    T next = u + 1 / q;
    if (next < 0)
        next = smaller(T(0), u + B / q);
    else if (next > e.C)
        next = larger(e.C, u - B / q);
    return {next, (theta - next) * q};
}

// The rows that the descent works on, each once; the multipliers of those that have one.
template <class Rows>
void gather(
    const Rows& rows, const Task& task, Vec<const double> lengths, Problem& p, double rest,
    Workspace<typename Rows::Value>& work
) {
    using T = typename Rows::Value;
    work.mark.resize(static_cast<std::size_t>(rows.size()), 0);
    if (++work.stamp == 0) {
        std::fill(work.mark.begin(), work.mark.end(), 0u);
        work.stamp = 1;
    }
    work.entries.clear(), work.theta.clear(), work.touched.clear();
    const double constant = task.intercept == Intercept::none ? 0.0 : task.scale;
    auto put = [&](std::int32_t i, double theta, bool touched) {
        const double sign = p.sign(task, i), C = p.penalty(task, i) * (sign > 0.0 ? 1.0 : rest);
        if (work.mark[i] == work.stamp || !(C > 0.0)) return;
        work.mark[i] = work.stamp;
        // A row of zeros without an intercept has no curvature: its step goes to the end of a box.
        const double curvature = larger(lengths[i] * lengths[i] + constant, 1e-30);
        work.entries.push_back({i, T(sign), T(C), T(curvature)});
        work.theta.push_back(T(theta));
        work.touched.push_back(touched);
    };
    for (std::size_t j = 0; j < p.rows.size(); ++j) put(p.rows[j], p.theta[j], true);
    for (const auto i : p.candidates) put(i, 0.0, false);
    for (const auto i : p.touched) put(i, 0.0, true);
    p.candidates.clear(), p.touched.clear();
}

template <class T>
void scatter(Problem& p, const Workspace<T>& work) {
    p.rows.clear(), p.theta.clear();
    for (std::size_t j = 0; j < work.entries.size(); ++j) {
        if (work.theta[j] != 0) {
            p.rows.push_back(work.entries[j].row);
            p.theta.push_back(static_cast<double>(work.theta[j]));
        } else if (p.bounded() && work.touched[j]) {
            // Rows at the bound would come and go.
            p.touched.push_back(work.entries[j].row);
        }
    }
}

// The intercept that minimises the loss of the working set.
template <class Rows>
double best_bias(
    const Rows& rows, bool squared, double bias, const typename Rows::Value* w,
    const Workspace<typename Rows::Value>& work
) {
    const auto& entries = work.entries;
    std::vector<std::pair<double, double>> kinks(entries.size());
    double slope = 0.0;
    for (std::size_t j = 0; j < entries.size(); ++j) {
        const double sign = entries[j].sign, C = entries[j].C;
        kinks[j] = {sign - static_cast<double>(rows.dot(entries[j].row, w)), C};
        if (sign > 0.0) slope -= C;
    }
    if (squared) {
        for (int k = 0; k < 30; ++k) {
            double gradient = 0.0, curvature = 0.0;
            for (std::size_t j = 0; j < entries.size(); ++j) {
                const double off = bias - kinks[j].first;
                if (entries[j].sign * off >= 0.0) continue;
                gradient += 2.0 * kinks[j].second * off;
                curvature += 2.0 * kinks[j].second;
            }
            if (!(curvature > 0.0)) break;
            bias -= gradient / curvature;
            if (std::abs(gradient) <= 1e-12 * curvature * larger(1.0, std::abs(bias))) break;
        }
        return bias;
    }
    // The loss is piecewise linear: its slope grows by C at every kink.
    std::sort(kinks.begin(), kinks.end());
    for (const auto& [place, C] : kinks) {
        slope += C;
        if (slope >= 0.0) return place;
    }
    return bias;
}

// What an epoch found.
template <class T>
struct Epoch {
    // The estimate of the gap: Fenchel-Young terms of the rows, at different moments of the epoch.
    double gap = 0.0;
    double violation = 0.0;
    T most = -std::numeric_limits<T>::infinity(), least = std::numeric_limits<T>::infinity();
};

// Thresholds of the gradient beyond which rows at a kink are left out of the next epochs.
template <class T>
struct Margins {
    T most = std::numeric_limits<T>::infinity(), least = -std::numeric_limits<T>::infinity();
    // For rows at a kink of a bounded problem.
    T still = T(0.1);
};

enum class Form { hinge, squared, bounded };

template <Form form, class Rows>
Epoch<typename Rows::Value> run_epoch(
    const Rows& rows, const Problem& p, Point<typename Rows::Value>& at,
    const Margins<typename Rows::Value>& shrink, Workspace<typename Rows::Value>& work,
    index& active
) {
    using T = typename Rows::Value;
    const T B = static_cast<T>(p.tightened);
    const double bound = p.bound;
    Epoch<T> found;
    std::int32_t* order = work.order.data();
    for (index j = 0; j < active;) {
        if (j + Rows::ahead < active) rows.prefetch(work.entries[order[j + Rows::ahead]].row);
        const std::int32_t place = order[j];
        const Entry<T>& e = work.entries[place];
        const T theta = work.theta[place];
        const T m = e.sign * (rows.dot(e.row, at.w) + static_cast<T>(at.bias()));
        const T G = m - 1;
        Move<T> move;
        bool rests = false;
        if constexpr (form == Form::squared) {
            const T loss = larger(-G, T(0)), ridge = T(0.5) / e.C;
            found.gap += e.C * loss * loss + theta * G + theta * theta * ridge * T(0.5);
            rests = theta == 0 && G > shrink.most;
            move = squared_move(theta, m, e);
        } else if constexpr (form == Form::hinge) {
            found.gap += e.C * larger(-G, T(0)) + theta * G;
            rests = (theta == 0 && G > shrink.most) || (theta == e.C && G < shrink.least);
            move = hinge_move(theta, m, e);
        } else {
            const T value = theta < 0 ? B * theta : theta <= e.C ? theta : e.C - B * (theta - e.C);
            found.gap += std::abs(e.C * larger(-G, T(0)) + theta * m - value);
            found.violation = larger(found.violation, std::abs(double(m)) / bound - 1.0);
            move = bounded_move(theta, m, e, B);
            const T up = smaller(shrink.most, shrink.still);
            const T down = smaller(-shrink.least, shrink.still);
            if (move.theta == theta)
                rests = (theta == 0 && G > up && m < B - up) ||
                        (theta == e.C && G < -down && m > -B + down);
        }
        if (rests) {
            std::swap(order[j], order[--active]);
            continue;
        }
        found.most = larger(found.most, move.gradient);
        found.least = smaller(found.least, move.gradient);
        const T change = move.theta - theta;
        if (change != 0) {
            work.theta[place] = move.theta;
            work.touched[place] = 1;
            rows.add(e.row, e.sign * change, at.w);
            at.sum += static_cast<double>(e.sign * change);
        }
        ++j;
    }
    return found;
}

// Descend until the estimated gap is at most the target on the whole working set; the weights `w`,
// padded, are changed with the multipliers. `rest` multiplies penalties of other classes.
template <Form form, class Rows>
void descend(
    const Rows& rows, const Task& task, Vec<const double> lengths, Problem& p,
    typename Rows::Value* w, double rest, const Limits& limits, std::uint64_t seed,
    Workspace<typename Rows::Value>& work
) {
    using T = typename Rows::Value;
    gather(rows, task, lengths, p, rest, work);
    const auto size = static_cast<index>(work.entries.size());
    work.order.resize(work.entries.size());
    double mean = 0.0;
    for (index j = 0; j < size; ++j) {
        work.order[j] = static_cast<std::int32_t>(j);
        mean += static_cast<double>(rows.entries(work.entries[j].row));
    }
    mean = 8.0 + (size ? mean / static_cast<double>(size) : 0.0);

    Point<T> at{w, 0.0, 0.0, task.intercept == Intercept::none ? 0.0 : task.scale};
    for (index j = 0; j < size; ++j) at.sum += double(work.entries[j].sign * work.theta[j]);
    at.offset = p.offset(task.intercept, at.sum, at.scale);
    Subspace<Rows> subspace(rows, task.squared, p, work, mean);
    Random random(seed);
    Margins<T> shrink;
    index active = size, epoch = 0;
    double read = 0.0;
    while (epoch < limits.epochs && read < limits.work && size > 0) {
        for (index j = 0; j + 1 < active; ++j)
            std::swap(work.order[j], work.order[j + random.below(active - j)]);
        const bool narrow = epoch == 0 || std::isfinite(shrink.most);
        shrink.still = narrow ? T(0.1) : std::numeric_limits<T>::max();
        read += mean * static_cast<double>(active);
        Epoch<T> found = run_epoch<form>(rows, p, at, shrink, work, active);
        ++epoch;
        if constexpr (form == Form::bounded) found.gap += found.violation * p.near;
        if (task.intercept == Intercept::free) {
            const double pull = at.scale * at.sum;
            found.gap += std::abs(at.sum * at.bias()) + std::abs(at.sum * pull);
            at.offset += pull;
        }
        const bool reached = found.gap <= limits.target;
        if (reached && active == size) break;
        subspace.record(at);
        if (reached || active == 0) {
            // Only the whole working set says that this is enough.
            active = size, shrink = {};
            continue;
        }
        constexpr T none = std::numeric_limits<T>::infinity();
        shrink.most = found.most > 0 ? found.most : (form == Form::bounded ? T(1e6) : none);
        shrink.least = found.least < 0 ? found.least : -none;
    }
    p.epochs += epoch;
    p.work += read;
    p.bias = at.bias();
    if (task.intercept == Intercept::free && form != Form::bounded)
        p.bias = best_bias(rows, task.squared, p.bias, w, work);
    scatter(p, work);
}

}  // namespace oblong::OBLONG_VARIANT::linear
