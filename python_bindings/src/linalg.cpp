// lamina._core.linalg: the ops of lm.linalg.
#include "graph/functions/linalg.h"

#include "kernels/cpu/lapack.h"
#include "python_bindings/src/methods.h"

namespace lamina::python {

void bind_linalg(nb::module_& root) {
  nb::module_ m = root.def_submodule("linalg");
  const auto pair = [](std::pair<Tensor, Tensor> made) {
    return nb::make_tuple(to_python(std::move(made.first)), to_python(std::move(made.second)));
  };
  m.def("cholesky", [](nb::handle a) { return to_python(linalg::cholesky(to_operand(a))); }, nb::arg("a"), doc_of("cholesky"));
  m.def(
      "solve", [](nb::handle a, nb::handle b) { return to_python(linalg::solve(to_operand(a), to_operand(b))); }, nb::arg("a"),
      nb::arg("b"), doc_of("solve"));
  m.def(
      "triangular_solve",
      [](nb::handle a, nb::handle b, bool lower, bool transpose, bool unit_diagonal) {
        return to_python(linalg::triangular_solve(to_operand(a), to_operand(b), lower, transpose, unit_diagonal));
      },
      nb::arg("a"), nb::arg("b"), nb::arg("lower") = true, nb::arg("transpose") = false, nb::arg("unit_diagonal") = false,
      doc_of("triangular_solve"));
  m.def("slogdet", [pair](nb::handle a) { return pair(linalg::slogdet(to_operand(a))); }, nb::arg("a"), doc_of("slogdet"));
  m.def("eigh", [pair](nb::handle a) { return pair(linalg::eigh(to_operand(a))); }, nb::arg("a"), doc_of("eigh"));
  m.def(
      "qr", [pair](nb::handle a, bool complete) { return pair(linalg::qr(to_operand(a), complete)); }, nb::arg("a"),
      nb::arg("complete") = false, doc_of("qr"));
  m.def(
      "svd",
      [](nb::handle a, bool full_matrices) {
        linalg::Svd made = linalg::svd(to_operand(a), full_matrices);
        return nb::make_tuple(to_python(std::move(made.u)), to_python(std::move(made.s)), to_python(std::move(made.vt)));
      },
      nb::arg("a"), nb::arg("full_matrices") = false, doc_of("svd"));
  m.def(
      "fft", [](nb::handle pairs, bool inverse) { return to_python(linalg::fft(to_operand(pairs), inverse)); }, nb::arg("pairs"),
      nb::arg("inverse") = false, doc_of("fft"));
  m.def(
      "library",
      [] {
        const kernels::cpu::LapackLibrary& library = kernels::cpu::lapack_library();
        return library.path.empty() ? "none: " + library.why + "; apt-get install liblapack3" : library.path;
      },
      "The LAPACK library that runs them, or why there is none.");
}

}  // namespace lamina::python
