// Devices, waiting for them, and the switches that concern functions.
#include <memory>

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "graph/frontend/device.h"
#include "graph/frontend/trace.h"
#include "python_bindings/src/convert.h"
#include "runtime/core/config.h"
#include "runtime/device/peak_flops.h"

namespace lamina::python {
namespace {

// with lm.device("cpu:0"): ...
class DeviceContext {
 public:
  explicit DeviceContext(std::string device) : device_(std::move(device)) { parse_device(device_); }
  DeviceContext(const DeviceContext&) = delete;
  void enter() { scopes_.push_back(std::make_unique<DeviceScope>(device_)); }
  void exit() {
    if (!scopes_.empty()) scopes_.pop_back();
  }

 private:
  std::string device_;
  std::vector<std::unique_ptr<DeviceScope>> scopes_;  // one object may be entered several times
};

// Sets the switch at once; `with` sets it back at the end.
class EagerSwitch {
 public:
  explicit EagerSwitch(bool before) : before_(before) {}
  void exit() { config::run_functions_eagerly(before_); }

 private:
  bool before_;
};

}  // namespace

void bind_devices(nb::module_& m) {
  nb::class_<DeviceContext>(m, "device", "with lm.device(\"cpu:1\"): tensors, Variables and ops inside are placed there.\n\nRaises DeviceUnavailable when there is none.")
      .def(nb::init<std::string>(), nb::arg("name"))
      .def("__enter__", [](nb::object self) {
        nb::inst_ptr<DeviceContext>(self)->enter();
        return self;
      })
      .def("__exit__", [](DeviceContext& c, nb::args) { c.exit(); });
  m.def("device_of", [](nb::handle x) {
    if (is_variable(x.ptr())) return device_of(as_variable(x.ptr()));
    if (is_tensor(x.ptr())) return device_of(as_tensor(x.ptr()));
    throw_type_error(cat("device_of: ", a_type(x.ptr()), " lies on no device"), "", "pass a tensor or a Variable");
  }, nb::arg("x"), "Where a tensor or Variable lies: \"cpu:0\".");
  m.def("synchronize", [] { synchronize(); }, nb::call_guard<ReleasedGil>(),
        "Waits until everything started so far has finished, and raises its first error. Without it a clock may stop before the work is done.");
  m.def("executing_eagerly", [] { return executing_eagerly(); }, "False while a function is traced.");

  m.def("fma_peak", [](double seconds) { return peak_flops(seconds); }, nb::arg("seconds") = 0.05, nb::call_guard<ReleasedGil>(),
        "float32 operations per second of one core with the instruction set in use, measured; a multiplication and an addition count as two.");

  nb::module_ c = m.def_submodule("config", "Switches and what this machine has.");
  nb::class_<EagerSwitch>(c, "EagerSwitch", "What run_functions_eagerly gives: usable in `with`, which sets the switch back.")
      .def("__enter__", [](nb::object self) { return self; })
      .def("__exit__", [](EagerSwitch& s, nb::args) { s.exit(); });
  c.def("run_functions_eagerly", [](bool on) {
    const bool before = config::functions_run_eagerly();
    config::run_functions_eagerly(on);
    return EagerSwitch(before);
  }, nb::arg("on"), "While on, calls of lm.function objects run their Python code, also those traced before. For debugging.\n\n"
                    "`with lm.config.run_functions_eagerly(True):` sets it back at the end.");
  c.def("functions_run_eagerly", [] { return config::functions_run_eagerly(); });
  c.def("list_devices", [](const std::string& kind) { return list_devices(kind); }, nb::arg("kind") = "", "[\"cpu:0\"]; of one kind when it is given.");
  c.def("threads", [] { return config::threads(); }, "Threads per CPU device: LAMINA_THREADS, else the cores this process may use.");
  c.def("cpu_isa", [] { return config::cpu_isa(); }, "The instruction set of the CPU kernels: avx512, avx2 or scalar; LAMINA_CPU forces one.");

  nb::module_ cuda = m.def_submodule("cuda", "Whether there is a GPU.");
  cuda.def("is_available", [] { return cuda::is_available(); });
  cuda.def("why_unavailable", [] { return cuda::why_unavailable(); }, "Why not; \"\" when it is available.");
  cuda.def("libraries", [] {
    nb::list out;
    for (const LibraryReport& r : cuda::libraries()) {
      nb::dict d;
      d["name"] = r.name, d["wanted"] = r.wanted, d["found"] = r.found, d["version"] = r.version;
      d["why"] = r.why, d["fix"] = r.fix, d["required"] = r.required;
      out.append(d);
    }
    return out;
  }, "NVIDIA's driver and libraries, a dict each: name, wanted (its file), found (its path or \"\"), version, and where it is missing why and fix.\n\n"
     "Empty in a build without CUDA. `python -m lamina doctor` prints it.");
}

}  // namespace lamina::python
