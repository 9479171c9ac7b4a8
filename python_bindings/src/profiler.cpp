// lm.profiler, for profiler.py of the package and for the layers of nn.
#include "python_bindings/src/profiler.h"

#include <optional>
#include <vector>

#include <nanobind/stl/string.h>

#include "graph/frontend/profiler.h"
#include "graph/frontend/trace.h"
#include "runtime/device/recording.h"

namespace lamina::python {
namespace {

// Ranges that a `with` or a layer's call has begun on this thread. Kept by address: a thread that ends within one leaves it open.
struct Entered {
  std::optional<NameScope> names;
  std::optional<profiler::Range> range;
};
thread_local std::vector<Entered*> entered;

// While tracing, the name goes with the ops, and a profiler sees it whenever they run.
void enter(const std::string& name, profiler::Kind kind) {
  auto* one = new Entered;
  entered.push_back(one);
  const bool eager = executing_eagerly();
  if (!eager || kind == profiler::Kind::layer) one->names.emplace(name);
  if (eager) one->range.emplace(name, kind);
}

}  // namespace

void bind_profiler(nb::module_& root) {
  nb::module_ m = root.def_submodule("profiler", "Ranges for profilers; use lm.profiler.");
  m.def("_enter", [](const std::string& name) { enter(name, profiler::Kind::user); }, nb::arg("name"));
  m.def("_enter_layer", [](const std::string& name) { enter(name, profiler::Kind::layer); }, nb::arg("name"));
  m.def("_names_wanted", [] {
    check_stack({});  // each call of a layer asks here
    return profiler::listening() || !executing_eagerly();
  });
  m.def("_leave", [] {
    if (entered.empty()) return;
    delete entered.back();
    entered.pop_back();
  });
  m.def("_start_capture", [] { profiler::start_capture(); }, nb::call_guard<ReleasedGil>());
  m.def("_stop_capture", [] { profiler::stop_capture(); }, nb::call_guard<ReleasedGil>());
  m.def("_start_recording", [](bool device_steps) { profiler::start_recording(device_steps); });
  m.def("_stop_recording", [] {
    const profiler::Recording recording = profiler::stop_recording();
    const auto index = [](int i) { return i < 0 ? nb::object(nb::none()) : nb::object(nb::int_(i)); };
    nb::list ranges, device_steps;
    for (const profiler::TimedRange& r : recording.ranges) {
      constexpr const char* kinds[] = {"", "function", "instruction", "step", "layer", "user", "input"};
      ranges.append(nb::make_tuple(r.text, kinds[size_t(r.kind)], r.payload < 0 ? nb::object(nb::none()) : nb::int_(r.payload), r.thread,
                                   index(r.parent), r.begin, r.end, r.lane.stream < 0 ? std::string() : text(r.lane.device),
                                   index(r.lane.stream)));
    }
    for (const profiler::DeviceStep& s : recording.device_steps)
      device_steps.append(nb::make_tuple(s.text, index(s.range), s.times, s.blocks, s.began, s.ended, s.busy, s.waited));
    return nb::make_tuple(ranges, device_steps);
  });
  m.def(
      "listening", [] { return profiler::listening(); },
      "Whether ranges are taken: by the library that NVTX_INJECTION64_PATH named when the first was due (nsys and ncu set it), or by "
      "lm.profiler.record().");
  m.def("status", [] { return profiler::status(); }, "In words where ranges go, or why no tool listens.");
  m.def(
      "attached_by", [] { return profiler::attached_by(); },
      "Why this process is taken to be under a profiler, a sanitizer or a debugger: \"NSYS_PROFILING_SESSION_ID is set\"; \"\" when it is "
      "not.\n\n"
      "Looked at are LAMINA_RESIDENT=staged, NVTX_INJECTION64_PATH, CUDA_INJECTION64_PATH, what nsys, ncu and compute-sanitizer set, and "
      "whether a\n"
      "process traces this one, as debuggers do.");
}

}  // namespace lamina::python
