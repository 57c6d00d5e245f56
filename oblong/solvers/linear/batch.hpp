// Many linear problems over the same rows, solved side by side: one class against the rest, or
// pairs. Python says what is done next (batch.py); the calls for different problems, and for
// different chunks of a pass, may come from different threads.
#pragma once

#include "oblong/solvers/linear/batch_descent.hpp"
#include "oblong/solvers/linear/batch_pass.hpp"

namespace oblong::OBLONG_VARIANT::linear {

template <class Rows>
class Batch {
public:
    using T = typename Rows::Value;

    Batch(const Rows& rows, const Task& task, std::vector<Problem> problems, index classes)
        : rows(rows),
          task(task),
          problems(std::move(problems)),
          classes(classes),
          width(padded<T>(rows.columns())) {
        const auto count = static_cast<index>(this->problems.size());
        single.resize(static_cast<std::size_t>(count * width));
        coef.resize(static_cast<std::size_t>(count * rows.columns()));
        lengths.resize(static_cast<std::size_t>(rows.size()));
        double mean = 0.0, total = 0.0;
        for (index i = 0; i < rows.size(); ++i) {
            const double square = rows.squared_length(i);
            lengths[i] = std::sqrt(square);
            mean += square / static_cast<double>(rows.size());
            total += task.penalties[i];
        }
        // As strong as the rows; or, with small penalties, so that the multipliers can move the
        // intercept by one.
        if (task.intercept == Intercept::free && total > 0.0)
            this->task.scale = larger(mean, 1.0 / total);
        members.resize(static_cast<std::size_t>(classes));
        for (index i = 0; i < rows.size(); ++i)
            if (task.penalties[i] > 0.0)
                members[task.labels[i]].push_back(static_cast<std::int32_t>(i));
    }

    const Problem& problem(index k) const { return problems[checked(k)]; }

    // First multipliers: of a pair all rows, of a class its rows and a sample of the others, whose
    // penalties stand for all of them.
    void start(index k, index epochs, std::uint64_t seed, double work_limit) {
        Problem& p = problems[checked(k)];
        p.candidates = members[p.positive];
        double rest = 1.0;
        if (p.negative >= 0) {
            const auto& others = members[p.negative];
            p.candidates.insert(p.candidates.end(), others.begin(), others.end());
        } else {
            rest = sample(p, seed);
        }
        double most = 0.0;
        for (const auto i : p.candidates)
            most += p.penalty(task, i) * (task.labels[i] == p.positive ? 1.0 : rest);
        run(p, k, rest, {0.02 * most, smaller(epochs, index(30)), work_limit}, seed + 1);
        if (p.negative >= 0) {
            renew(k);
            return;
        }
        // The weights of the sample choose the rows of the first pass; its objective is no bound.
        const double bias = p.bias;
        std::vector<double> unused(static_cast<std::size_t>(rows.columns()));
        rebuild(rows, task, view(lengths), p, Vec<double>{unused.data(), rows.columns()});
        p.bias = bias;
    }

    void descend_on(index k, double target, index epochs, double work_limit, std::uint64_t seed) {
        run(problems[checked(k)], k, 1.0, {target, epochs, work_limit}, seed);
        renew(k);
    }

    // Weights, sums and the dual objective from the multipliers.
    void renew(index k) {
        Vec<double> exact = weights(k);
        rebuild(rows, task, view(lengths), problems[checked(k)], exact);
        T* w = single.data() + k * width;
        for (index j = 0; j < exact.size; ++j) w[j] = static_cast<T>(exact[j]);
    }

    index prepare(Vec<const std::int32_t> chosen, bool certifies) {
        for (const auto k : chosen) checked(k);
        certifying = certifies;
        if (certifies)
            prepare_pass<double>(
                rows, problems, chosen, classes, true, [&](index k) { return weights(k).data; },
                exact_pass
            );
        else
            prepare_pass<T>(
                rows, problems, chosen, classes, false,
                [&](index k) { return static_cast<const T*>(single.data() + k * width); }, pass
            );
        return certifies ? exact_pass.chunks : pass.chunks;
    }

    void run_rows(index chunk) {
        if (certifying)
            run_rows(exact_pass, chunk);
        else
            run_rows(pass, chunk);
    }

    void finish() {
        if (certifying)
            finish_pass(problems, exact_pass, rows.size());
        else
            finish_pass(problems, pass, rows.size());
    }

    void visit_pair(index k, bool certifies) {
        run_pair(
            rows, task, view(lengths), members, Vec<const double>(weights(k)), certifies,
            problems[checked(k)]
        );
    }

    void bound(index k, double B, double tightened, bool first) {
        Problem& p = problems[checked(k)];
        p.bound = B, p.tightened = tightened, p.first_bounded = first;
    }

    // Multiply the model by a number that brings it into its bound.
    void shrink(index k, double factor) {
        Problem& p = problems[checked(k)];
        for (double& x : weights(k)) x *= factor;
        p.bias *= factor;
        p.regulariser *= factor * factor * (1.0 + 8.0 * EPSILON);
    }

    Vec<double> weights(index k) {
        return {coef.data() + checked(k) * rows.columns(), rows.columns()};
    }

private:
    static Vec<const double> view(const std::vector<double>& v) {
        return {v.data(), static_cast<index>(v.size())};
    }
    index checked(index k) const {
        if (k < 0 || k >= static_cast<index>(problems.size())) throw std::out_of_range("a problem");
        return k;
    }

    double sample(Problem& p, std::uint64_t seed) {
        Random random(seed);
        const auto positives = static_cast<index>(p.candidates.size());
        index others = 0;
        for (const auto& some : members) others += static_cast<index>(some.size());
        others -= positives;
        const index wanted = smaller(others, 3 * positives + 50);
        const auto first = static_cast<std::ptrdiff_t>(positives);
        for (index t = 0; t < wanted; ++t) {
            const auto i = static_cast<std::int32_t>(random.below(rows.size()));
            if (task.labels[i] != p.positive && task.penalties[i] > 0.0) p.candidates.push_back(i);
        }
        std::sort(p.candidates.begin() + first, p.candidates.end());
        p.candidates.erase(
            std::unique(p.candidates.begin() + first, p.candidates.end()), p.candidates.end()
        );
        const double found = static_cast<double>(p.candidates.size()) - double(positives);
        return found > 0.0 ? double(others) / found : 1.0;
    }

    void run(Problem& p, index k, double rest, const Limits& limits, std::uint64_t seed) {
        auto workspace = workspaces.take();
        T* w = single.data() + k * width;
        const auto lengths_ = view(lengths);
        if (task.squared)
            descend<Form::squared>(rows, task, lengths_, p, w, rest, limits, seed, *workspace);
        else if (p.bounded())
            descend<Form::bounded>(rows, task, lengths_, p, w, rest, limits, seed, *workspace);
        else
            descend<Form::hinge>(rows, task, lengths_, p, w, rest, limits, seed, *workspace);
        workspaces.give_back(std::move(workspace));
    }

    template <class V>
    void run_rows(Pass<V>& some, index chunk) {
        if (chunk < 0 || chunk >= some.chunks) throw std::out_of_range("a chunk of a pass");
        if (task.squared)
            run_chunk<true>(rows, task, view(lengths), problems, some, chunk);
        else
            run_chunk<false>(rows, task, view(lengths), problems, some, chunk);
    }

    Rows rows;
    Task task;
    std::vector<Problem> problems;
    index classes, width;
    // The weights in the precision of the rows, padded, for the descent; and as they are stored.
    std::vector<T> single;
    std::vector<double> coef, lengths;
    std::vector<std::vector<std::int32_t>> members;
    Pass<T> pass;
    Pass<double> exact_pass;
    bool certifying = false;
    Workspaces<T> workspaces;
};

}  // namespace oblong::OBLONG_VARIANT::linear
