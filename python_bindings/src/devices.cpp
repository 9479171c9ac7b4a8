// Devices, waiting for them, and the switches that concern functions.
#include <memory>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "graph/frontend/device.h"
#include "graph/frontend/trace.h"
#include "python_bindings/src/convert.h"
#include "python_bindings/src/raises.h"
#include "runtime/core/config.h"
#include "runtime/core/limits.h"
#include "runtime/core/precision.h"
#include "runtime/core/settings.h"
#include "runtime/device/memory.h"
#include "runtime/device/package_folders.h"
#include "runtime/device/peak_flops.h"

namespace lamina::python {
namespace {

std::vector<std::string> cpu_features() {
  std::vector<std::string> out;
#if defined(__x86_64__)
#define LAMINA_FEATURE(name, word) \
  if (__builtin_cpu_supports(name)) out.emplace_back(word)
  LAMINA_FEATURE("sse2", "sse2");
  LAMINA_FEATURE("sse3", "sse3");
  LAMINA_FEATURE("ssse3", "ssse3");
  LAMINA_FEATURE("sse4.1", "sse4_1");
  LAMINA_FEATURE("sse4.2", "sse4_2");
  LAMINA_FEATURE("avx", "avx");
  LAMINA_FEATURE("avx2", "avx2");
  LAMINA_FEATURE("fma", "fma");
  LAMINA_FEATURE("avx512f", "avx512f");
  LAMINA_FEATURE("avx512bw", "avx512bw");
  LAMINA_FEATURE("avx512dq", "avx512dq");
  LAMINA_FEATURE("avx512vl", "avx512vl");
  LAMINA_FEATURE("avx512vnni", "avx512_vnni");
#undef LAMINA_FEATURE
#elif defined(__aarch64__)
  out.emplace_back("neon");  // part of the architecture
#endif
  return out;
}

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
  std::vector<std::unique_ptr<DeviceScope>> scopes_;  // the object may be entered several times
};

// A changed setting; `with` restores it at the end.
template <auto set, class T>
class Changed {
 public:
  explicit Changed(T before) : before_(before) {}
  void exit() { set(before_); }

 private:
  T before_;
};
using EagerSwitch = Changed<&config::run_functions_eagerly, bool>;
using PrecisionSwitch = Changed<&config::set_matmul_precision, Precision>;

// One block of "with lm.limits(...)"; a Python thread leaves its blocks in the reverse of the order in which it entered them.
class LimitsContext {
 public:
  explicit LimitsContext(Limits::Amounts most) : most_(most) {}
  LimitsContext(const LimitsContext&) = delete;
  void enter() { entered_.push_back(std::make_unique<Limits>(most_)); }
  void exit() {
    if (!entered_.empty()) entered_.pop_back();
  }

 private:
  Limits::Amounts most_;
  std::vector<std::unique_ptr<Limits>> entered_;
};

template <class Switch>
void bind_switch(nb::module_& m, const char* name, const char* doc) {
  nb::class_<Switch>(m, name, doc).def("__enter__", [](nb::object self) { return self; }).def("__exit__", [](Switch& s, nb::args) {
    s.exit();
  });
}

}  // namespace

void bind_devices(nb::module_& m) {
  nb::class_<DeviceContext>(
      m, "device",
      "with lm.device(\"cpu:1\"): tensors, Variables and ops inside are placed there.\n\n"
      "with lm.device(\"auto\"): what is traced inside is placed by cost, on one device or several; explain() says where and why. "
      "All else is\n"
      "where it would be without it.\n\nRaises DeviceUnavailable when there is no such device.")
      .def(nb::init<std::string>(), nb::arg("name"))
      .def("__enter__",
           [](nb::object self) {
             instance<DeviceContext>(self).enter();
             return self;
           })
      .def("__exit__", [](DeviceContext& c, nb::args) { c.exit(); });
  nb::class_<LimitsContext>(m, "limits",
                            "with lm.limits(seconds=2, bytes=2**30): functions and ops that this thread runs inside stop with "
                            "TimeLimitExceeded when the time is over,\n"
                            "and OutOfMemory is raised instead of holding more memory than that, on all devices together. For programs "
                            "that are not trusted, and for\n"
                            "loops that may never end. Time is checked between ops and iterations: one op is not interrupted. A limit that "
                            "is left out does not hold;\n"
                            "an inner one cannot exceed an outer one.")
      .def(
          "__init__",
          [](LimitsContext* self, std::optional<double> seconds, std::optional<int64_t> bytes) {
            Limits::Amounts most;
            if (seconds) most.seconds = *seconds;
            if (bytes) most.bytes = *bytes < 0 ? -2 : *bytes;
            const Limits checked(most);
            new (self) LimitsContext(most);
          },
          nb::kw_only(), nb::arg("seconds") = nb::none(), nb::arg("bytes") = nb::none())
      .def("__enter__",
           [](nb::object self) {
             instance<LimitsContext>(self).enter();
             return self;
           })
      .def("__exit__", [](LimitsContext& c, nb::args) { c.exit(); });
  m.def(
      "device_of",
      [](nb::handle x) {
        if (is_variable(x.ptr())) return device_of(as_variable(x.ptr()));
        if (is_tensor(x.ptr())) return device_of(as_tensor(x.ptr()));
        throw_type_error(cat("device_of: ", a_type(x.ptr()), " lies on no device"), "", "pass a tensor or a Variable");
      },
      nb::arg("x"), "Where a tensor or Variable lies: \"cpu:0\".");
  m.def(
      "memory_stats",
      [](const std::string& device, bool reset_peak) {
        const Device on = parse_device(device);
        const memory::Stats stats = memory::stats(on);
        if (reset_peak) memory::reset_peak(on);
        nb::dict out, largest;
        for (const auto& [what, bytes] : memory::largest(on, 10)) largest[nb::str(what.c_str())] = bytes;
        out["live"] = stats.live, out["peak"] = stats.peak, out["pool"] = stats.pool, out["limit"] = stats.limit, out["largest"] = largest;
        return out;
      },
      nb::arg("device") = "cpu:0", nb::arg("reset_peak") = false,
      nb::sig("def memory_stats(device: str = \"cpu:0\", reset_peak: bool = False) -> dict[str, typing.Any]"),
      "Bytes on a device, as a dict of\n\n"
      "- \"live\": of tensors, Variables, and the temporaries that functions keep between calls. NumPy's memory that a tensor shares is "
      "not "
      "counted.\n"
      "- \"peak\": the most that were live at once, since the start or the last call with reset_peak=True.\n"
      "- \"pool\": freed, and kept for later by Lamina's allocator.\n"
      "- \"limit\": of what may be live: lm.config.set_memory_limit's, else the device's memory.\n"
      "- \"largest\": the ten largest Variables and functions, by name, with their bytes.\n\n"
      "Raises DeviceUnavailable when there is no such device.");
  m.def(
      "synchronize", [] { synchronize(); }, nb::call_guard<ReleasedGil>(),
      "Waits until everything started so far has finished, and raises its first error. Without it a clock may stop before the work is "
      "done.");
  m.def("executing_eagerly", [] { return executing_eagerly(); }, "False while a function is traced.");

  m.def(
      "fma_peak", [](double seconds) { return peak_flops(seconds); }, nb::arg("seconds") = 0.05, nb::call_guard<ReleasedGil>(),
      "float32 operations per second of one core with the instruction set in use, measured; a multiplication and an addition count as "
      "two.");

  nb::module_ c = m.def_submodule("config", "Switches and what this machine has.");
  bind_switch<EagerSwitch>(c, "EagerSwitch", "What run_functions_eagerly gives: usable in `with`, which sets the switch back.");
  c.def(
      "run_functions_eagerly",
      [](bool on) {
        const bool before = config::functions_run_eagerly();
        config::run_functions_eagerly(on);
        return EagerSwitch(before);
      },
      nb::arg("on"),
      "While on, calls of lm.function objects run their Python code, also those traced before. For debugging.\n\n"
      "`with lm.config.run_functions_eagerly(True):` sets it back at the end.");
  bind_switch<PrecisionSwitch>(c, "PrecisionSwitch", "What set_matmul_precision gives: usable in `with`, which sets the precision back.");
  c.def(
      "set_matmul_precision",
      [](const std::string& precision) {
        const Precision before = config::matmul_precision();
        config::set_matmul_precision(parse_precision(precision));
        return PrecisionSwitch(before);
      },
      nb::arg("precision"),
      "How exactly products of float32 matrices are computed that are made from now on, in the whole process: matmul, einsum, Dense and "
      "what\n"
      "gradients make of them. A function is traced again under another precision. Convolutions stay in float32.\n\n"
      "Parameters, gradients, optimizer state and all sums stay float32; only what a product multiplies is rounded first:\n\n"
      "- \"float32\" (the default): not at all; one rounding per multiply-add, on fused multiply-add units.\n"
      "- \"tf32\": to 11 significant bits (relative error at most 2**-11 each), half way cases away from zero; on tensor cores.\n"
      "- \"3xtf32\": each operand is the sum of two tf32 numbers, and three products are made, the small ones first: nearly float32's "
      "accuracy.\n"
      "- \"bf16\": to 8 significant bits (relative error at most 2**-8 each), half way cases to even; on tensor cores.\n\n"
      "A name is a permission: where nothing faster is to be had, products are computed in float32 all the same. That is so on the CPU, "
      "and on a\n"
      "GPU for products that are not large enough for cuBLASLt; cuBLASLt has no 3xtf32 and computes it in float32.\n\n"
      "`with lm.config.set_matmul_precision(\"tf32\"):` sets it back at the end. Raises NotFound for any other name.");
  c.def(
      "matmul_precision", [] { return std::string(name(config::matmul_precision())); },
      "The name that set_matmul_precision has set; \"float32\" before.");
  c.def(
      "functions_run_eagerly", [] { return config::functions_run_eagerly(); },
      "Whether traced functions run as plain Python: what run_functions_eagerly has set.");
  c.def(
      "set_memory_limit", [](std::optional<int64_t> bytes, const std::string& device) { memory::set_limit(parse_device(device), bytes); },
      nb::arg("bytes").none(), nb::arg("device") = "cpu:0",
      "Bytes that may be live on a device, in the whole process; None: as much as it has. What would exceed it raises OutOfMemory, which "
      "names the\n"
      "largest Variables and functions. lm.memory_stats() counts the same bytes.\n\n"
      "Raises InvalidArgument for a negative number, DeviceUnavailable when there is no such device.");
  Functions(c, "config.")
      .def(
          "list_devices", [](const std::string& kind) { return list_devices(kind); }, nb::arg("kind") = "",
          "[\"cpu:0\"]; of one kind when it is given.");
  c.def(
      "set_virtual_devices", [](const std::string& kind, int count) { config::set_virtual_devices(kind, count); }, nb::arg("kind"),
      nb::arg("count"),
      "Splits the CPU (`kind` \"cpu\") into `count` devices, \"cpu:0\" to \"cpu:N-1\", each with its own streams and its share of threads\n"
      "and memory; or each GPU (`kind` \"gpu\") into \"gpu:0/0\" to \"gpu:0/N-1\", each with its own streams and its share of memory and\n"
      "multiprocessors. Call it at the start of the program: it raises once a device other than cpu:0, or a GPU, is in use.");
  c.def(
      "threads", [] { return config::threads(); },
      "Threads per CPU device: LAMINA_THREADS, else the cores this process may use, divided among the CPU's devices.");
  c.def(
      "settings",
      [] {
        nb::list out;
        for (const config::SettingInfo& s : config::settings()) {
          nb::dict row;
          row["name"] = s.name, row["values"] = config::values(s), row["otherwise"] = s.otherwise, row["meaning"] = s.meaning;
          out.append(row);
        }
        return out;
      },
      nb::sig("def settings() -> list[dict[str, str]]"),
      "The LAMINA_ variables that the environment may set: name, possible values, what holds when it is unset, and meaning of each.");
  c.def(
      "cpu_isa", [] { return config::cpu_isa(); },
      "The instruction set of the CPU kernels: avx512, avx2 or scalar; LAMINA_CPU forces one.");
  c.def(
      "cpu_features", [] { return cpu_features(); }, nb::sig("def cpu_features() -> list[str]"),
      "The processor's vector extensions by name, such as sse4_2, avx2, fma, avx512f. Kernels are chosen among them when the program runs: "
      "see "
      "cpu_isa().");

  nb::module_ cuda = m.def_submodule("cuda", "Whether there is a GPU.");
  cuda.def("is_available", [] { return cuda::is_available(); }, "Whether Lamina can use a GPU of this machine.");
  cuda.def("why_unavailable", [] { return cuda::why_unavailable(); }, "Why not; \"\" when it is available.");
  cuda.def("_look_in", [](std::vector<std::string> site_packages) { set_package_folders(std::move(site_packages)); });
  cuda.def(
      "libraries",
      [] {
        nb::list out;
        for (const LibraryReport& r : cuda::libraries()) {
          nb::dict d;
          d["name"] = r.name, d["wanted"] = r.wanted, d["found"] = r.found, d["version"] = r.version;
          d["why"] = r.why, d["fix"] = r.fix, d["required"] = r.required;
          out.append(d);
        }
        return out;
      },
      "NVIDIA's driver and libraries, a dict each: name, wanted (its file), found (its path or \"\"), version, and where it is missing why "
      "and fix.\n\n"
      "Empty in a build without CUDA. `python -m lamina doctor` prints it.");
}

}  // namespace lamina::python
