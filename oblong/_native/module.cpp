// One extension module for each set of instructions, all from the same sources; CMakeLists.txt
// names the families.
#define OBLONG_FILLS_NUMPY
#include <atomic>

#include "oblong/_native/base/bindings.hpp"
#include "oblong/_native/base/blas.hpp"

namespace oblong::OBLONG_VARIANT {

#define OBLONG_FAMILY(name) void bind_##name(nb::module_& m);
OBLONG_FAMILIES
#undef OBLONG_FAMILY

namespace {

template <class Function>
void fill(Function*& pointer, const nb::dict& functions, const std::string& name) {
    const nb::object capsule = functions[name.c_str()];
    pointer = reinterpret_cast<Function*>(
        PyCapsule_GetPointer(capsule.ptr(), PyCapsule_GetName(capsule.ptr()))
    );
    if (pointer == nullptr) throw nb::python_error();
}

template <class T>
void fill(Blas<T>& functions, const std::string& type) {
    const nb::dict of_blas = nb::module_::import_("scipy.linalg.cython_blas").attr("__pyx_capi__");
    const nb::dict of_lapack =
        nb::module_::import_("scipy.linalg.cython_lapack").attr("__pyx_capi__");
    fill(functions.gemm, of_blas, type + "gemm");
    fill(functions.gemv, of_blas, type + "gemv");
    fill(functions.potrf, of_lapack, type + "potrf");
    fill(functions.potrs, of_lapack, type + "potrs");
    fill(functions.getrf, of_lapack, type + "getrf");
    fill(functions.getri, of_lapack, type + "getri");
    fill(functions.getrs, of_lapack, type + "getrs");
}

}  // namespace

void load_blas() {
    // Where Python has a GIL, imports may give it up, and two threads then write the same pointers.
    static nb::ft_mutex mutex;
    static std::atomic<bool> filled = false;
    if (filled) return;
    const nb::gil_scoped_acquire locked;
    const nb::ft_lock_guard guard(mutex);
    fill(blas<float>, "s");
    fill(blas<double>, "d");
    filled = true;
}

}  // namespace oblong::OBLONG_VARIANT

NB_MODULE(OBLONG_MODULE, m) {
    using namespace oblong::OBLONG_VARIANT;
    if (_import_array() < 0) throw nb::python_error();
#define OBLONG_FAMILY(name)                          \
    {                                                \
        nb::module_ family = m.def_submodule(#name); \
        bind_##name(family);                         \
    }
    OBLONG_FAMILIES
#undef OBLONG_FAMILY
}
