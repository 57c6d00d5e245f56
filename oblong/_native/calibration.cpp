#include "oblong/_native/base/bindings.hpp"
#include "oblong/solvers/calibration/maps.hpp"

namespace oblong::OBLONG_VARIANT {

void bind_calibration(nb::module_& m) {
    using namespace calibration;
    m.def(
        "fit_sigmoid",
        [](Vec<const double> x, Vec<const double> targets, Vec<const double> weights) {
            require(
                x.size == targets.size && x.size == weights.size,
                "outputs, targets and weights differ in their number"
            );
            const Sigmoid found = fit_sigmoid({x, targets, weights});
            return std::pair(found.slope, found.offset);
        },
        nb::arg("x"), nb::arg("targets"), nb::arg("weights"), unlocked()
    );
}

}  // namespace oblong::OBLONG_VARIANT
