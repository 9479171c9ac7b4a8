// Sorting, top-k, binary search and distinct values.
#include "graph/functions/sorting.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "python_bindings/src/methods.h"
#include "python_bindings/src/raises.h"

namespace lamina::python {

void bind_sorting(nb::module_& module) {
  Functions m(module);
  add_both(
      m, "sort",
      [](nb::handle x, int axis, bool descending) {
        const Operand operand = to_operand(x);
        return unlocked({&operand}, [&] { return sort(operand, axis, descending); });
      },
      doc_of("sort"), nb::arg("axis") = -1, nb::arg("descending") = false);
  add_both(
      m, "argsort",
      [](nb::handle x, int axis, bool descending) {
        const Operand operand = to_operand(x);
        return unlocked({&operand}, [&] { return argsort(operand, axis, descending); });
      },
      doc_of("argsort"), nb::arg("axis") = -1, nb::arg("descending") = false);
  m.def(
      "top_k",
      [](nb::handle x, int64_t k, int axis) {
        auto [values, places] = top_k(to_operand(x), k, axis);
        return nb::make_tuple(to_python(std::move(values)), to_python(std::move(places)));
      },
      nb::arg("x"), nb::arg("k"), nb::arg("axis") = -1, doc_of("top_k"));
  m.def(
      "searchsorted",
      [](nb::handle sorted, nb::handle values, const std::string& side) {
        if (side != "left" && side != "right") throw_type_error(cat("searchsorted: side '", side, "'"), "", "pass \"left\" or \"right\"");
        return to_python(searchsorted(to_operand(sorted), to_operand(values), side == "right"));
      },
      nb::arg("sorted"), nb::arg("values"), nb::arg("side") = "left", doc_of("searchsorted"));
  m.def(
      "unique",
      [](nb::handle x, bool return_index, bool return_inverse, bool return_counts, std::optional<int64_t> size) -> nb::object {
        const Unique u = size ? unique(to_operand(x), *size) : unique(to_operand(x));
        if (!return_index && !return_inverse && !return_counts) return to_python(u.values);
        nb::list out;
        out.append(to_python(u.values));
        if (return_index) out.append(to_python(u.first));
        if (return_inverse) out.append(to_python(u.inverse));
        if (return_counts) out.append(to_python(u.counts));
        return nb::tuple(out);
      },
      nb::arg("x"), nb::arg("return_index") = false, nb::arg("return_inverse") = false, nb::arg("return_counts") = false,
      nb::arg("size") = nb::none(),
      "The distinct elements of the flattened x in ascending order; and the place where each stands first, which of them each element of x "
      "is, how often\n"
      "each occurs. How many there are follows from data, so inside a traced function pass size: the first `size` of them, and the "
      "smallest again, with\n"
      "count 0, for those that are missing.");
}

}  // namespace lamina::python
