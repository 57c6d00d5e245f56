// One pass over the rows for many problems: objectives, and the rows that a descent needs next.
#pragma once

#include "oblong/solvers/linear/batch_problem.hpp"
#include "oblong/solvers/linear/batch_rows.hpp"

namespace oblong::OBLONG_VARIANT::linear {

// What a chunk of rows has found; joined in the order of the chunks, whichever thread had them.
struct ChunkSums {
    std::vector<double> loss, near, most, least;
    std::vector<std::vector<std::int32_t>> candidates;
};

// Rows whose outputs stay in the cache.
inline constexpr index BLOCK = 512;
inline constexpr index MOST_CHUNKS = 64;
// A margin below which a row counts as near: outputs may be scaled down by a twentieth.
inline constexpr double NEAR = 1.05;

// V is the precision of the outputs. Those in double precision are for certificates: every output
// is off by at most what rounding can do, to the worse.
template <class V>
struct Pass {
    PassWeights<V> weights;
    std::vector<std::int32_t> problems;
    // By class, its place among the problems, or -1.
    std::vector<std::int32_t> place_of;
    std::vector<V> bias, lengths, biases, bounds;
    bool certifies = false, bounded = false;
    index chunk = BLOCK, chunks = 0;
    std::vector<ChunkSums> sums;
};

// Error of an output, over |x| |w|, of so many products.
inline double rounding_unit(index terms) { return EPSILON * (static_cast<double>(terms) + 4.0); }

template <class V, class Rows, class Coef>
void prepare_pass(
    const Rows& rows, const std::vector<Problem>& all, Vec<const std::int32_t> chosen,
    index classes, bool certifies, Coef coef, Pass<V>& pass
) {
    const index count = chosen.size, stride = padded<V>(count);
    pass.problems.assign(chosen.begin(), chosen.end());
    pass.certifies = certifies, pass.bounded = false;
    pass.weights.problems = count, pass.weights.stride = stride;
    rows.arrange(pass.weights, [&](index a) { return coef(pass.problems[a]); });
    // Outputs of the padding never matter.
    pass.bias.assign(stride, V(-1e30));
    pass.lengths.assign(stride, V(0)), pass.biases.assign(stride, V(0));
    pass.bounds.assign(stride, V(1e30));
    pass.place_of.assign(classes, -1);
    for (index a = 0; a < count; ++a) {
        const Problem& p = all[chosen[a]];
        pass.place_of[p.positive] = static_cast<std::int32_t>(a);
        pass.bias[a] = static_cast<V>(p.bias);
        double square = 0.0;
        const auto* w = coef(chosen[a]);
        for (index j = 0; j < rows.columns(); ++j) square += double(w[j]) * double(w[j]);
        pass.lengths[a] = static_cast<V>(std::sqrt(square));
        pass.biases[a] = static_cast<V>(2.0 * EPSILON * std::abs(p.bias));
        if (!p.bounded()) continue;
        pass.bounded = true;
        const double beyond = p.first_bounded ? 0.5 * larger(0.0, p.largest - p.bound) : 0.0;
        pass.bounds[a] = static_cast<V>(p.bound + beyond);
    }
    const index each = (rows.size() + MOST_CHUNKS - 1) / MOST_CHUNKS;
    pass.chunk = larger(BLOCK, (each + BLOCK - 1) / BLOCK * BLOCK);
    pass.chunks = (rows.size() + pass.chunk - 1) / pass.chunk;
    pass.sums.assign(pass.chunks, {});
}

// Sums over one block of rows, of all problems side by side.
template <class V>
struct BlockSums {
    std::vector<V> loss, near, most, least;

    explicit BlockSums(index stride)
        : loss(stride), near(stride), most(stride, V(-1e30)), least(stride, V(1e30)) {}
};

// The outputs of one row for problems of other classes.
template <bool squared, class V>
inline void scan_row(
    const Pass<V>& pass, const V* f, V penalty, V error, std::int32_t i, BlockSums<V>& block,
    ChunkSums& out
) {
    constexpr index L = LANES<V>;
    const Lanes<V> one = every(V(1)), zero{}, c = every(penalty);
    for (index a = 0; a < pass.weights.stride; a += L) {
        Lanes<V> g = load(f + a) + load(pass.bias.data() + a);
        const auto real = g > every(V(-1e29));
        Lanes<V> low = g;
        if (pass.certifies) {
            const Lanes<V> off =
                every(error) * load(pass.lengths.data() + a) + load(pass.biases.data() + a);
            g += off, low -= off;
        }
        store(&block.least[a], real && load(&block.least[a]) > low ? low : load(&block.least[a]));
        store(&block.most[a], load(&block.most[a]) > g ? load(&block.most[a]) : g);
        const auto loses = g > -one;
        std::uint32_t bits = bits_of<V>(loses);
        if (bits) {
            const Lanes<V> h = g + one > zero ? g + one : zero;
            store(&block.loss[a], load(&block.loss[a]) + c * (squared ? h * h : h));
        }
        if (pass.bounded) {
            const Lanes<V> b = load(pass.bounds.data() + a);
            store(&block.near[a], load(&block.near[a]) + (g > every(V(-NEAR)) ? c : zero));
            bits |= bits_of<V>(real && (g > b || -g > b));
        }
        if (pass.certifies) continue;
        for (index k = 0; bits; ++k, bits >>= 1)
            if (bits & 1u) out.candidates[a + k].push_back(i);
    }
}

template <bool squared, class V, class Rows>
void run_chunk(
    const Rows& rows, const Task& task, Vec<const double> lengths, const std::vector<Problem>& all,
    Pass<V>& pass, index chunk
) {
    const index count = pass.weights.problems, stride = pass.weights.stride;
    ChunkSums& out = pass.sums[chunk];
    out.loss.assign(count, 0.0), out.near.assign(count, 0.0);
    out.most.assign(count, -inf), out.least.assign(count, inf);
    out.candidates.assign(stride, {});
    std::vector<V> outputs(BLOCK * stride), buffer;
    const index last = smaller(rows.size(), (chunk + 1) * pass.chunk);
    for (index first = chunk * pass.chunk; first < last; first += BLOCK) {
        const index m = smaller(BLOCK, last - first);
        rows.outputs(first, m, pass.weights, outputs.data(), buffer);
        BlockSums<V> block(stride);
        for (index r = 0; r < m; ++r) {
            const auto i = static_cast<std::int32_t>(first + r);
            V* f = outputs.data() + r * stride;
            for (index a = count; a < stride; ++a) f[a] = 0;
            const std::int32_t own = pass.place_of[task.labels[i]];
            const double penalty = task.penalties[i];
            const double error = rounding_unit(rows.entries(i)) * lengths[i];
            if (own >= 0) {
                const Problem& p = all[pass.problems[own]];
                double g = static_cast<double>(f[own]) + static_cast<double>(pass.bias[own]);
                f[own] = V(-1e30);
                double off = 0.0;
                if (pass.certifies)
                    off = error * double(pass.lengths[own]) + double(pass.biases[own]);
                out.most[own] = larger(out.most[own], g + off);
                g -= off;
                out.least[own] = smaller(out.least[own], g);
                const double h = larger(0.0, 1.0 - g), C = penalty * p.factor;
                out.loss[own] += C * (squared ? h * h : h);
                if (g < NEAR) out.near[own] += C;
                if (!pass.certifies && (h > 0.0 || std::abs(g) > double(pass.bounds[own])))
                    out.candidates[own].push_back(i);
            }
            scan_row<squared>(
                pass, f, static_cast<V>(penalty), static_cast<V>(error), i, block, out
            );
        }
        for (index a = 0; a < count; ++a) {
            out.loss[a] += double(block.loss[a]), out.near[a] += double(block.near[a]);
            out.most[a] = larger(out.most[a], double(block.most[a]));
            out.least[a] = smaller(out.least[a], double(block.least[a]));
        }
    }
}

// Sums of all chunks, in their order, for one problem.
inline void put_objective(Problem& p, double loss, double near, double largest, double terms) {
    p.near = near, p.largest = largest;
    p.primal = p.regulariser + loss * (1.0 + EPSILON * terms);
}

template <class V>
void finish_pass(std::vector<Problem>& all, Pass<V>& pass, index n) {
    for (std::size_t a = 0; a < pass.problems.size(); ++a) {
        Problem& p = all[pass.problems[a]];
        double loss = 0.0, near = 0.0, most = -inf, least = inf;
        p.candidates.clear();
        for (ChunkSums& one : pass.sums) {
            loss += one.loss[a], near += one.near[a];
            most = larger(most, one.most[a]), least = smaller(least, one.least[a]);
            p.candidates.insert(
                p.candidates.end(), one.candidates[a].begin(), one.candidates[a].end()
            );
        }
        const double terms = double(BLOCK) + double(n) / double(BLOCK);
        put_objective(p, loss, near, larger(std::abs(most), std::abs(least)), terms);
    }
    pass.sums.clear();
}

// The same for a pair of classes: over its own rows alone.
template <class Rows>
void run_pair(
    const Rows& rows, const Task& task, Vec<const double> lengths,
    const std::vector<std::vector<std::int32_t>>& members, Vec<const double> w, bool certifies,
    Problem& p
) {
    double loss = 0.0, near = 0.0, largest = 0.0, square = 0.0;
    for (const double x : w) square += x * x;
    const double length = std::sqrt(square);
    const double beyond = p.first_bounded ? 0.5 * larger(0.0, p.largest - p.bound) : 0.0;
    p.candidates.clear();
    for (const auto label : {p.positive, p.negative})
        for (const auto i : members[label]) {
            double error = 0.0;
            if (certifies)
                error = rounding_unit(rows.entries(i)) * lengths[i] * length +
                        2.0 * EPSILON * std::abs(p.bias);
            const double f = rows.dot_exactly(i, w.data) + p.bias, m = p.sign(task, i) * f - error;
            const double C = p.penalty(task, i), h = larger(0.0, 1.0 - m);
            loss += C * (task.squared ? h * h : h);
            if (m < NEAR) near += C;
            largest = larger(largest, std::abs(f) + error);
            if (h > 0.0 || std::abs(f) > p.bound + beyond) p.candidates.push_back(i);
        }
    const auto terms = static_cast<double>(members[p.positive].size() + members[p.negative].size());
    put_objective(p, loss, near, largest, terms);
}

}  // namespace oblong::OBLONG_VARIANT::linear
