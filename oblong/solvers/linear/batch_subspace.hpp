// Steps of the descent in the space of its last moves.
#pragma once

#include <cstring>

#include "oblong/solvers/linear/batch_problem.hpp"
#include "oblong/solvers/linear/batch_rows.hpp"

namespace oblong::OBLONG_VARIANT::linear {

// Where the descent is: the weights, the sum of the multipliers times the labels, and the
// intercept.
template <class T>
struct Point {
    T* w;
    double sum, offset, scale;

    double bias() const { return offset + scale * sum; }
};

// Every few epochs the dual is maximised over the span of their differences, for the rows that are
// off the kinks; the step is clipped to the piece of each row, with an exact line search, so that
// the dual cannot fall.
template <class Rows>
class Subspace {
public:
    using T = typename Rows::Value;
    static constexpr int SPAN = 4;

    Subspace(const Rows& rows, bool squared, const Problem& p, Workspace<T>& work, double mean)
        : rows(rows),
          squared(squared),
          bounded(p.bounded()),
          B(static_cast<T>(p.tightened)),
          work(work),
          size(static_cast<index>(work.entries.size())),
          width(padded<T>(rows.columns())) {
        // The step reads rows again; where they have left the cache, half as often.
        const double bytes = mean * static_cast<double>(size) * sizeof(T);
        period = bytes > 2e6 ? 4 : 2;
    }

    // Remember an epoch; take a step once there are enough.
    void record(Point<T>& at) {
        // Nothing to copy: memcpy may not be given an empty array.
        if (size == 0 || width == 0) return;
        if (snapshots == 0) {
            work.thetas.resize((SPAN + 1) * size);
            work.weights.resize((SPAN + 1) * width);
            work.sums.resize(SPAN + 1);
        }
        keep(snapshots++, at);
        if (snapshots <= SPAN) return;
        step(at);
        const int kept = SPAN - period;
        for (int a = 0; a < kept; ++a) {
            std::memcpy(theta(a), theta(a + period), sizeof(T) * size);
            std::memcpy(weights(a), weights(a + period), sizeof(T) * width);
            work.sums[a] = work.sums[a + period];
        }
        // The step itself is a direction of the next.
        keep(kept, at);
        snapshots = kept + 1;
    }

private:
    T* theta(int a) { return work.thetas.data() + a * size; }
    T* weights(int a) { return work.weights.data() + a * width; }
    T* direction(int a) { return work.directions.data() + a * width; }

    void keep(int a, const Point<T>& at) {
        std::memcpy(theta(a), work.theta.data(), sizeof(T) * size);
        std::memcpy(weights(a), at.w, sizeof(T) * width);
        work.sums[a] = at.sum;
    }

    bool at_kink(index j) const {
        const T t = work.theta[j];
        return t == 0 || (!squared && t == work.entries[j].C);
    }
    T slope(index j) const {
        const T t = work.theta[j], C = work.entries[j].C;
        if (squared) return 1 - t * T(0.5) / C;
        return t < 0 ? B : (t <= C ? T(1) : -B);
    }
    // Into the piece that a multiplier is on.
    T clipped(index j, T next) const {
        const T t = work.theta[j], C = work.entries[j].C;
        if (squared) return larger(next, T(0));
        if (bounded && t < 0) return smaller(next, T(0));
        if (bounded && t > C) return larger(next, C);
        return smaller(larger(next, T(0)), C);
    }

    // Differences of the snapshots: of the weights, and of the multipliers that are free to move.
    void differences(double (&sums)[SPAN]) {
        work.directions.resize(SPAN * width);
        for (int a = 0; a < SPAN; ++a) {
            const T *next = weights(a + 1), *last = weights(a);
            T* d = direction(a);
            for (index j = 0; j < width; ++j) d[j] = next[j] - last[j];
            sums[a] = work.sums[a + 1] - work.sums[a];
        }
        work.moving.clear();
        for (index j = 0; j < size; ++j) {
            bool moved = false;
            for (int a = 0; a < SPAN; ++a) moved |= theta(a)[j] != work.theta[j];
            if (!moved) continue;
            if (!at_kink(j)) {
                work.moving.push_back(static_cast<std::int32_t>(j));
                continue;
            }
            // It stays where it is: take its moves out.
            for (int a = 0; a < SPAN; ++a) {
                const T change = work.entries[j].sign * (theta(a + 1)[j] - theta(a)[j]);
                if (change == 0) continue;
                rows.add(work.entries[j].row, -change, direction(a));
                sums[a] -= static_cast<double>(change);
            }
        }
    }

    // Solve the small system; false where nothing moves.
    bool solve(double (&A)[SPAN][SPAN], double (&z)[SPAN]) const {
        double trace = 0.0;
        for (int a = 0; a < SPAN; ++a) trace += A[a][a];
        if (!(trace > 0.0) || !std::isfinite(trace)) return false;
        for (int a = 0; a < SPAN; ++a) A[a][a] += 1e-6 * trace;
        for (int i = 0; i < SPAN; ++i)
            for (int j = i + 1; j < SPAN; ++j) {
                const double l = A[j][i] / A[i][i];
                for (int t = i; t < SPAN; ++t) A[j][t] -= l * A[i][t];
                z[j] -= l * z[i];
            }
        double most = 0.0;
        for (int i = SPAN - 1; i >= 0; --i) {
            for (int t = i + 1; t < SPAN; ++t) z[i] -= A[i][t] * z[t];
            z[i] /= A[i][i];
            most = larger(most, std::abs(z[i]));
        }
        if (!std::isfinite(most)) return false;
        if (most > 10.0)
            for (double& x : z) x *= 10.0 / most;
        return true;
    }

    void step(Point<T>& at) {
        double sums[SPAN], A[SPAN][SPAN], z[SPAN];
        differences(sums);
        const auto count = static_cast<index>(work.moving.size());
        if (count < 2) return;
        work.moves.resize(SPAN * count), work.slopes.resize(count), work.steps.resize(count);
        for (index e = 0; e < count; ++e) {
            const index j = work.moving[e];
            work.slopes[e] = slope(j);
            for (int a = 0; a < SPAN; ++a)
                work.moves[a * count + e] = theta(a + 1)[j] - theta(a)[j];
        }
        for (int a = 0; a < SPAN; ++a) {
            const T* u = work.moves.data() + a * count;
            for (int b = 0; b <= a; ++b) {
                double value =
                    product(direction(a), direction(b), width) + at.scale * sums[a] * sums[b];
                const T* v = work.moves.data() + b * count;
                if (squared)
                    for (index e = 0; e < count; ++e)
                        value += double(u[e]) * v[e] * 0.5 / work.entries[work.moving[e]].C;
                A[a][b] = A[b][a] = value;
            }
            double linear = 0.0;
            for (index e = 0; e < count; ++e) linear += double(work.slopes[e]) * u[e];
            z[a] = linear - product(direction(a), at.w, width) - at.bias() * sums[a];
        }
        if (!solve(A, z)) return;
        for (int k = 0; k < 2 && !move(at, z); ++k)
            for (double& x : z) x *= 0.3;
    }

    // Clip the step, and go along it as far as the dual grows; false where that is not far.
    bool move(Point<T>& at, const double (&z)[SPAN]) {
        const auto count = static_cast<index>(work.moving.size());
        work.step.assign(static_cast<std::size_t>(width), T(0));
        double linear = 0.0, square = 0.0, sum = 0.0;
        for (index e = 0; e < count; ++e) {
            const index j = work.moving[e];
            T change = 0;
            for (int a = 0; a < SPAN; ++a)
                change += static_cast<T>(z[a]) * work.moves[a * count + e];
            change = clipped(j, work.theta[j] + change) - work.theta[j];
            work.steps[e] = change;
            if (change == 0) continue;
            const Entry<T>& entry = work.entries[j];
            if (e + 2 < count) rows.prefetch(work.entries[work.moving[e + 2]].row);
            // From the rows: differences of weights have lost their digits.
            rows.add(entry.row, entry.sign * change, work.step.data());
            sum += static_cast<double>(entry.sign * change);
            linear += double(work.slopes[e]) * change;
            if (squared) square += double(change) * change * 0.5 / entry.C;
        }
        square += at.scale * sum * sum + product(work.step.data(), work.step.data(), width);
        linear -= product(work.step.data(), at.w, width) + at.bias() * sum;
        if (!(linear > 0.0 && square > 0.0 && linear / square > 0.1)) return false;
        const T length = static_cast<T>(smaller(1.0, linear / square));
        double moved = 0.0;
        for (index e = 0; e < count; ++e) {
            const index j = work.moving[e];
            const T next = clipped(j, work.theta[j] + length * work.steps[e]);
            moved += static_cast<double>(work.entries[j].sign * (next - work.theta[j]));
            work.theta[j] = next;
        }
        add_multiple(work.step.data(), length, at.w, width);
        at.sum += moved;
        return true;
    }

    const Rows& rows;
    const bool squared, bounded;
    const T B;
    Workspace<T>& work;
    const index size, width;
    int period = 2, snapshots = 0;
};

}  // namespace oblong::OBLONG_VARIANT::linear
