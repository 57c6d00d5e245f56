// The set of instructions that processor and operating system have. Compiled for every processor of
// its kind: this module is asked before any other is loaded.
#include <cstdint>

#if defined(__x86_64__) || defined(_M_X64)
#if defined(_MSC_VER)
#include <intrin.h>
#else
#include <cpuid.h>
#endif

namespace {

struct Registers {
    std::uint32_t a, b, c, d;
};

Registers cpuid(std::uint32_t leaf) {
#if defined(_MSC_VER)
    int r[4];
    __cpuidex(r, static_cast<int>(leaf), 0);
    return {std::uint32_t(r[0]), std::uint32_t(r[1]), std::uint32_t(r[2]), std::uint32_t(r[3])};
#else
    Registers r{};
    __cpuid_count(leaf, 0, r.a, r.b, r.c, r.d);
    return r;
#endif
}

// The registers that the operating system saves.
std::uint32_t saved_state() {
#if defined(_MSC_VER) && !defined(__clang__)
    return std::uint32_t(_xgetbv(0));
#else
    std::uint32_t low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
#endif
}

template <class... Bits>
bool has(std::uint32_t word, Bits... bits) {
    return (((word >> bits) & 1) && ...);
}

// The levels of the x86-64 psABI.
const char* level() {
    const std::uint32_t highest = cpuid(0).a, extended = cpuid(0x80000000u).a;
    const Registers one = cpuid(1);
    const std::uint32_t more = extended >= 0x80000001u ? cpuid(0x80000001u).c : 0;
    // SSE3, SSSE3, CMPXCHG16B, SSE4.1, SSE4.2, POPCNT; LAHF.
    if (!has(one.c, 0, 9, 13, 19, 20, 23) || !has(more, 0)) return "baseline";
    // FMA, MOVBE, OSXSAVE, AVX, F16C; LZCNT; BMI1, AVX2, BMI2.
    const std::uint32_t seven = highest >= 7 ? cpuid(7).b : 0;
    if (!has(one.c, 12, 22, 27, 28, 29) || !has(more, 5) || !has(seven, 3, 5, 8)) return "v2";
    const std::uint32_t saved = saved_state();
    if (!has(saved, 1, 2)) return "v2";
    // AVX512F, DQ, CD, BW, VL.
    if (!has(seven, 16, 17, 28, 30, 31) || !has(saved, 5, 6, 7)) return "v3";
    return "v4";
}

}  // namespace
#else
namespace {

const char* level() { return "baseline"; }

}  // namespace
#endif

#ifdef OBLONG_PRINTS_LEVEL
// CMake runs it to find the set for a build on this machine.
#include <cstdio>

int main() { std::puts(level()); }
#else
#include <nanobind/nanobind.h>

NB_MODULE(_cpu, m) { m.def("level", &level); }
#endif
