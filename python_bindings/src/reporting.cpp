// lm.print, lm.check, lm.check_numerics and lm.Graph, used by reporting.py and graph.py of the package.
#include "graph/functions/reporting.h"

#include <memory>
#include <optional>

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "graph/frontend/explicit_graph.h"
#include "graph/frontend/trace.h"
#include "graph/functions/growing_list.h"
#include "graph/ops/short_slices.h"
#include "python_bindings/src/containers.h"
#include "python_bindings/src/convert.h"
#include "python_bindings/src/raises.h"
#include "runtime/core/interrupt.h"

namespace lamina::python {
namespace {

void write_to(nb::handle file, std::string_view text) {
  if (!file.is_valid() || file.is_none()) return;  // without a console there is no sys.stdout
  file.attr("write")(nb::str(text.data(), text.size()));
}

// sys.stdout or sys.stderr, as current at the time of writing.
class StandardStream final : public TextTarget {
 public:
  explicit StandardStream(const char* name) : name_(name) {}
  void write(std::string_view text) override {
    if (!Py_IsInitialized()) return;
    HeldGil gil;
    write_to(nb::borrow(PySys_GetObject(name_)), text);
  }

 private:
  const char* name_;
};

class FileObject final : public TextTarget {
 public:
  explicit FileObject(nb::object file) : file_(std::move(file)) {}
  ~FileObject() override {
    if (!Py_IsInitialized()) {
      file_.release();
      return;
    }
    HeldGil gil;
    file_.reset();
  }
  void write(std::string_view text) override {
    HeldGil gil;
    write_to(file_, text);
  }

 private:
  nb::object file_;
};

// Enters and leaves Graph.building() in a with statement.
struct Building {
  Graph graph;
  std::unique_ptr<TraceScope> scope;
};

// Ctrl-C in a long loop: Python runs signal handlers only on its main thread.
unsigned long main_thread = 0;
void check_signals() {
  if (PyThread_get_thread_ident() != main_thread) return;
  HeldGil gil;
  if (PyErr_CheckSignals() != 0) throw_python_error();
}

}  // namespace

void bind_reporting(nb::module_& m) {
  main_thread = nb::cast<unsigned long>(nb::module_::import_("threading").attr("main_thread")().attr("ident"));
  set_interrupt_check(check_signals);
  set_standard_targets(std::make_shared<StandardStream>("stdout"), std::make_shared<StandardStream>("stderr"));
  m.def(
      "_print",
      [](const std::string& format, nb::handle values, int64_t summarize, int64_t stream, nb::object file) {
        PrintOptions options{summarize, stream, nullptr};
        if (!file.is_none()) {
          options.stream = new_text_stream();
          options.target = std::make_shared<FileObject>(std::move(file));
        }
        print_format(format, tensors_of(values), options, CallSite());
      },
      nb::arg("format"), nb::arg("values"), nb::arg("summarize"), nb::arg("stream"), nb::arg("file").none());
  m.def(
      "_check",
      [](nb::handle condition, const std::string& message, nb::handle values,
         const std::vector<std::pair<std::string, nb::object>>& named) {
        std::vector<std::pair<std::string, Tensor>> tensors;
        for (auto& [name, value] : named) tensors.emplace_back(name, to_operand(value).resolve());
        check(to_operand(condition), message, tensors_of(values), tensors);
      },
      nb::arg("condition"), nb::arg("message"), nb::arg("values"), nb::arg("named"));
  m.def("_escaped_format", escaped_format, nb::arg("text"));
  Functions(m).def(
      "check_numerics", [](nb::handle x, const std::string& message) { return to_python(check_numerics(to_operand(x), message)); },
      nb::arg("x"), nb::arg("message") = "", doc_of("check_numerics"));

  m.def(
      "_list_buffer",
      [](nb::handle shape, nb::handle dtype) { return to_python(list::buffer({to_dtype(dtype), to_shape(shape)}, CallSite())); },
      nb::arg("shape"), nb::arg("dtype"));
  m.def(
      "_list_set",
      [](nb::handle buffer, nb::handle position, nb::handle value) {
        return to_python(list::set(to_operand(buffer).resolve(), to_operand(position).resolve(), to_operand(value).resolve(), CallSite()));
      },
      nb::arg("buffer"), nb::arg("position"), nb::arg("value"));
  m.def(
      "_list_close", [](nb::handle buffer, nb::handle count) { list::close(to_operand(buffer).resolve(), to_operand(count).resolve()); },
      nb::arg("buffer"), nb::arg("count"));
  m.def(
      "_may_be_short",
      [](nb::handle x) {
        const Tensor t = to_operand(x).resolve();
        const std::shared_ptr<Trace> trace = t.is_symbolic() ? t.handle()->trace.lock() : nullptr;
        return trace && t.rank() > 0 && ops::may_be_short(trace->graph, t.handle()->value, 0);
      },
      "Whether a tensor's first length is one of slices, and less in calls whose axes are too short for them.", nb::arg("x"));

  nb::class_<Building>(m, "_Building")
      .def("__enter__", [](Building& b) { b.scope.reset(new TraceScope(b.graph.building())); })
      .def("__exit__", [](Building& b, nb::args) { b.scope.reset(); });
  nb::class_<Graph>(m, "_Graph")
      .def(nb::init<std::string>())
      .def(
          "building", [](const Graph& g) { return new Building{g, {}}; }, nb::rv_policy::take_ownership)
      .def("input", [](Graph& g, const TensorSpec& spec, const std::string& name) { return to_python(g.input(spec, name)); })
      .def("variable",
           [](Graph& g, nb::handle initial, const std::string& name) {
             std::optional<Operand> value;
             {
               EagerScope outside;
               value.emplace(Operand(to_tensor(initial, std::nullopt), CallSite()));
             }
             return to_python(g.variable(*value, name));
           })
      .def("initialize", &Graph::initialize)
      .def("operations", &Graph::operations)
      .def("tensor", [](const Graph& g, const std::string& name) { return to_python(g.tensor(name)); })
      .def("name_of", [](const Graph& g, nb::handle t) { return g.name_of(as_tensor(t.ptr())); })
      .def("run", [](const Graph& g, nb::handle fetches, const std::vector<std::pair<std::string, nb::object>>& inputs) {
        std::vector<Graph::Fetch> wanted;
        for (const nb::object& one : elements_of(fetches)) {
          if (PyUnicode_Check(one.ptr()))
            wanted.emplace_back(nb::cast<std::string>(one));
          else
            wanted.emplace_back(as_tensor(one.ptr()));
        }
        std::vector<std::pair<std::string, Tensor>> given;
        for (auto& [name, value] : inputs) given.emplace_back(name, to_tensor(value));
        std::vector<Tensor> results;
        {
          ReleasedGil release;
          results = g.run(wanted, given);
        }
        nb::list out;
        for (Tensor& t : results) out.append(t.defined() ? nb::object(to_python(std::move(t))) : nb::object(nb::none()));
        return out;
      });
}

}  // namespace lamina::python
