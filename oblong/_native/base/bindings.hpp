// What binding files include: arguments of Python as views, and the helpers that check them.
//
// An array must be exactly of the type, in C order, aligned, and writable unless the view is const:
// nothing is copied or converted. Another dtype is another overload, and in the end a TypeError
// which lists the signatures.
#pragma once

#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
// One table of NumPy's functions for all files of a module; module.cpp fills it.
#define PY_ARRAY_UNIQUE_SYMBOL oblong_numpy_api
#ifndef OBLONG_FILLS_NUMPY
#define NO_IMPORT_ARRAY
#endif
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <numpy/arrayobject.h>

#include <string>
#include <type_traits>

#include "oblong/_native/base/arrays.hpp"

namespace nb = nanobind;

namespace oblong::OBLONG_VARIANT {

// For loops: other threads of Python run meanwhile. Arguments are converted before.
using unlocked = nb::call_guard<nb::gil_scoped_release>;

// Fill `blas`, once; module.cpp.
void load_blas();

// Raise ValueError unless what the loops rely on holds; needs no GIL.
inline void require(bool condition, const char* message) {
    if (!condition) throw nb::value_error(message);
}

// Every index lies in 0 ... size - 1.
template <class I>
void require_indices(Vec<const I> indices, index size, const char* message) {
    bool inside = true;
    for (const I i : indices) inside &= 0 <= i && static_cast<index>(i) < size;
    require(inside, message);
}

template <class T>
constexpr char kind_of() {
    if (std::is_same_v<T, bool>) return 'b';
    return std::is_floating_point_v<T> ? 'f' : (std::is_unsigned_v<T> ? 'u' : 'i');
}

[[noreturn]] inline void refuse(const std::string& why) { throw nb::value_error(why.c_str()); }

// The array, or null if its dtype is another one; what no overload could take is an error at once.
template <class T>
PyArrayObject* array_of(nb::handle source, int dimensions) {
    using Value = std::remove_const_t<T>;
    if (!PyArray_Check(source.ptr())) return nullptr;
    auto* array = reinterpret_cast<PyArrayObject*>(source.ptr());
    if (PyArray_DESCR(array)->kind != kind_of<Value>() || PyArray_ITEMSIZE(array) != sizeof(Value))
        return nullptr;
    if (PyArray_NDIM(array) != dimensions)
        refuse(
            "an array has " + std::to_string(PyArray_NDIM(array)) + " dimensions where " +
            std::to_string(dimensions) + " are expected"
        );
    if (!PyArray_IS_C_CONTIGUOUS(array)) refuse("an array is not in C order");
    if (!PyArray_ISBEHAVED_RO(array))
        refuse("an array is not aligned, or not in the byte order of the machine");
    if (!std::is_const_v<T> && !PyArray_ISWRITEABLE(array))
        refuse("an array that is written is read-only");
    return array;
}

template <class T>
bool read(nb::handle source, Vec<T>& out) {
    auto* array = array_of<T>(source, 1);
    if (array == nullptr) return false;
    out = {static_cast<T*>(PyArray_DATA(array)), PyArray_DIM(array, 0)};
    return true;
}

template <class T>
bool read(nb::handle source, Mat<T>& out) {
    auto* array = array_of<T>(source, 2);
    if (array == nullptr) return false;
    out = {static_cast<T*>(PyArray_DATA(array)), PyArray_DIM(array, 0), PyArray_DIM(array, 1)};
    return true;
}

template <class T>
bool read(nb::handle source, Cube<T>& out) {
    auto* array = array_of<T>(source, 3);
    if (array == nullptr) return false;
    out = {
        static_cast<T*>(PyArray_DATA(array)), PyArray_DIM(array, 0), PyArray_DIM(array, 1),
        PyArray_DIM(array, 2)
    };
    return true;
}

// Other fields, by the casters of nanobind.
template <class T>
bool read(nb::handle source, T& out) {
    return nb::try_cast<T>(source, out);
}

// The fields of a named tuple, in their order.
template <class... Fields>
bool read_fields(nb::handle source, Fields&... fields) {
    if (!PyTuple_Check(source.ptr()) || PyTuple_Size(source.ptr()) != sizeof...(Fields))
        return false;
    Py_ssize_t k = 0;
    return (read(nb::handle(PyTuple_GetItem(source.ptr(), k++)), fields) && ...);
}

}  // namespace oblong::OBLONG_VARIANT

// Take a named tuple of Python as a struct; outside every namespace:
//     OBLONG_TUPLE(Rows, v.data, v.indices, v.indptr)
#define OBLONG_TUPLE(Type, ...)                                              \
    template <>                                                              \
    struct nanobind::detail::type_caster<Type> {                             \
        NB_TYPE_CASTER(Type, const_name("tuple"))                            \
        bool from_python(handle source, uint8_t, cleanup_list*) {            \
            Type& v = value;                                                 \
            return oblong::OBLONG_VARIANT::read_fields(source, __VA_ARGS__); \
        }                                                                    \
    };

namespace nanobind::detail {

template <class T>
constexpr auto dtype_name() {
    if constexpr (std::is_same_v<T, bool>)
        return const_name("bool");
    else
        return const_name<std::is_floating_point_v<T>>(
                   const_name("float"), const_name<std::is_unsigned_v<T>>("uint", "int")
               ) +
               const_name<sizeof(T) * 8>();
}

template <class View, class T>
struct view_caster {
    NB_TYPE_CASTER(
        View, const_name("numpy.typing.NDArray[numpy.") + dtype_name<std::remove_const_t<T>>() +
                  const_name("]")
    )
    // May throw, which ends the call with a clear message.
    bool from_python(handle source, uint8_t, cleanup_list*) {
        return oblong::OBLONG_VARIANT::read(source, value);
    }
};

template <class T>
struct type_caster<oblong::OBLONG_VARIANT::Vec<T>>
    : view_caster<oblong::OBLONG_VARIANT::Vec<T>, T> {};
template <class T>
struct type_caster<oblong::OBLONG_VARIANT::Mat<T>>
    : view_caster<oblong::OBLONG_VARIANT::Mat<T>, T> {};
template <class T>
struct type_caster<oblong::OBLONG_VARIANT::Cube<T>>
    : view_caster<oblong::OBLONG_VARIANT::Cube<T>, T> {};

}  // namespace nanobind::detail
