// BLAS and LAPACK as SciPy has them: pointers that are found at run time, so that nothing is
// linked.
//
// A binding that reaches them calls `load_blas()` (bindings.hpp) before it releases the GIL.
// Operands are in C order, which BLAS reads as transposed; none is ever empty when BLAS is called.
#pragma once

#include "oblong/_native/base/arrays.hpp"

namespace oblong::OBLONG_VARIANT {

template <class T>
struct Blas {
    void (*gemm)(char*, char*, int*, int*, int*, T*, T*, int*, T*, int*, T*, T*, int*) = nullptr;
    void (*gemv)(char*, int*, int*, T*, T*, int*, T*, int*, T*, T*, int*) = nullptr;
    void (*potrf)(char*, int*, T*, int*, int*) = nullptr;
    void (*potrs)(char*, int*, int*, T*, int*, T*, int*, int*) = nullptr;
    void (*getrf)(int*, int*, T*, int*, int*, int*) = nullptr;
    void (*getri)(int*, T*, int*, int*, T*, int*, int*) = nullptr;
    void (*getrs)(char*, int*, int*, T*, int*, int*, T*, int*, int*) = nullptr;
};

template <class T>
inline Blas<T> blas;

inline int blas_int(index n) {
    OBLONG_ASSERT(0 <= n && n <= std::numeric_limits<int>::max());
    return static_cast<int>(n);
}

// out = A B'.
template <class T>
void multiply_transposed(Mat<const T> A, Mat<const T> B, Mat<T> out) {
    OBLONG_ASSERT(blas<T>.gemm != nullptr);
    OBLONG_ASSERT(A.cols == B.cols && out.rows == A.rows && out.cols == B.rows);
    if (out.empty()) return;
    if (A.cols == 0) {
        for (T& x : out.flat()) x = 0;
        return;
    }
    // In columns: out' = B A'.
    char transposed = 'T', as_it_is = 'N';
    int m = blas_int(B.rows), n = blas_int(A.rows), k = blas_int(A.cols);
    T one = 1, zero = 0;
    blas<T>.gemm(
        &transposed, &as_it_is, &m, &n, &k, &one, const_cast<T*>(B.data), &k,
        const_cast<T*>(A.data), &k, &zero, out.data, &m
    );
}

// out = A B.
template <class T>
void multiply(Mat<const T> A, Mat<const T> B, Mat<T> out) {
    OBLONG_ASSERT(blas<T>.gemm != nullptr);
    OBLONG_ASSERT(A.cols == B.rows && out.rows == A.rows && out.cols == B.cols);
    if (out.empty()) return;
    if (A.cols == 0) {
        for (T& x : out.flat()) x = 0;
        return;
    }
    char as_it_is = 'N';
    int m = blas_int(B.cols), n = blas_int(A.rows), k = blas_int(A.cols);
    T one = 1, zero = 0;
    blas<T>.gemm(
        &as_it_is, &as_it_is, &m, &n, &k, &one, const_cast<T*>(B.data), &m, const_cast<T*>(A.data),
        &k, &zero, out.data, &m
    );
}

// out = A x.
template <class T>
void multiply(Mat<const T> A, Vec<const T> x, Vec<T> out) {
    multiply_transposed(Mat<const T>{x.data, 1, x.size}, A, Mat<T>{out.data, 1, out.size});
}

}  // namespace oblong::OBLONG_VARIANT
