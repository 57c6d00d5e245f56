#include "oblong/_native/base/bindings.hpp"
#include "oblong/linalg/products.hpp"

namespace oblong::OBLONG_VARIANT {

namespace {

template <class T>
void bind_products(nb::module_& m) {
    m.def(
        "map_columns",
        [](Mat<T> values, std::int64_t degree, index start, index stop) {
            require(
                0 <= start && start <= stop && stop <= values.cols && degree >= -1,
                "no such columns, or no such degree"
            );
            products::map_columns(values, degree, start, stop);
        },
        nb::arg("values"), nb::arg("degree"), nb::arg("start"), nb::arg("stop"), unlocked()
    );
    m.def(
        "add_tiles",
        [](Mat<const T> left, Vec<const T> panels, Vec<const T> coef, Vec<double> out, index height,
           index width, std::int64_t degree) {
            require(
                out.size == left.rows && panels.size == coef.size * left.cols && height > 0 &&
                    width > 0 && degree >= -1,
                "sizes of a product do not fit"
            );
            load_blas();
            products::add_tiles<T>(left, panels, coef, out, height, width, degree);
        },
        nb::arg("left"), nb::arg("panels"), nb::arg("coef"), nb::arg("out"), nb::arg("height"),
        nb::arg("width"), nb::arg("degree"), unlocked()
    );
    m.def(
        "add_rows",
        [](Vec<double> image, Mat<const T> store, Vec<const index> slots, Vec<const double> coef,
           index start, index stop) {
            require(
                image.size == store.cols && slots.size == coef.size && 0 <= start &&
                    start <= stop && stop <= image.size,
                "sizes of a sum of rows do not fit"
            );
            require_indices(slots, store.rows, "a row that is not there");
            products::add_rows<T>(image, store, slots, coef, start, stop);
        },
        nb::arg("image"), nb::arg("store"), nb::arg("slots"), nb::arg("coef"), nb::arg("start"),
        nb::arg("stop"), unlocked()
    );
    m.def(
        "copy_block",
        [](Mat<const T> store, Vec<const index> slots, Vec<const index> cols, Vec<const index> into,
           Mat<T> out) {
            require(slots.size == into.size && cols.size <= out.cols, "sizes of a copy do not fit");
            require_indices(slots, store.rows, "a row that is not there");
            require_indices(cols, store.cols, "a column that is not there");
            require_indices(into, out.rows, "no such row to write");
            products::copy_block<T>(store, slots, cols, into, out);
        },
        nb::arg("store"), nb::arg("slots"), nb::arg("cols"), nb::arg("into"), nb::arg("out"),
        unlocked()
    );
    m.def(
        "mirror",
        [](Mat<T> block, Vec<const index> into, Vec<const bool> is_new) {
            require(
                is_new.size == block.rows && block.rows <= block.cols, "the block is not square"
            );
            require_indices(into, block.rows, "no such row");
            products::mirror<T>(block, into, is_new);
        },
        nb::arg("block"), nb::arg("into"), nb::arg("is_new"), unlocked()
    );
}

}  // namespace

void bind_linalg(nb::module_& m) {
    bind_products<float>(m);
    bind_products<double>(m);
    m.def(
        "add_square_tiles",
        [](Mat<const double> left, Vec<const double> panels, Vec<const double> down,
           Vec<const double> along, Vec<double> out, Vec<double> sums, index side, index at,
           std::int64_t degree) {
            require(
                down.size == left.rows && out.size == left.rows && sums.size == along.size &&
                    panels.size == along.size * left.cols && side > 0 && degree >= -1,
                "sizes of a product do not fit"
            );
            load_blas();
            products::add_square_tiles(left, panels, {down, along, out, sums}, side, at, degree);
        },
        nb::arg("left"), nb::arg("panels"), nb::arg("down"), nb::arg("along"), nb::arg("out"),
        nb::arg("sums"), nb::arg("side"), nb::arg("at"), nb::arg("degree"), unlocked()
    );
}

}  // namespace oblong::OBLONG_VARIANT
