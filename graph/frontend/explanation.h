// What explain() returns for one plan: text for people, and data.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "graph/ir/graph.h"
#include "runtime/core/export.h"
#include "runtime/core/source_line.h"
#include "runtime/device/device.h"
#include "runtime/exec/program.h"

namespace lamina {

struct Explanation {
  struct Launch {
    std::string name;  // "dense_relu", "section of 612 steps"
    Device device;
    int stream = 0;                    // of the device, from 0
    std::vector<int> wait_for;         // events it waits for; an event may also come from a copy
    int signal = -1;                   // the event that it records, or -1
    std::string label;                 // the layers and ops that it runs
    SourceLine line;                   // the user's, if it runs a single op
    int section_steps = 0;             // number of steps, if it is a section
    std::string why_alone;             // why it is not in a section, if known
    std::vector<std::string> details;  // of a section: one line per step
    std::vector<std::string> steps;    // of a section: layer, op, fused ops and line of each step
    double predicted_us = -1;          // by a model of the card (graph/cost/predict.h), not measured; -1: no prediction
    double measured_us = -1;           // of the last measured run, if this is the call's only launch; else -1
  };
  std::string text;
  std::string function;
  bool planned_only = false;  // for a requested device; nothing was run
  int traced_kernels = 0;     // number of launches if every op were a kernel
  std::vector<Launch> launches;
  int copies = 0;  // between devices
  // Under lm.device("auto"): the placements that were compared, the one taken first, with their modelled times and why each lost.
  std::vector<exec::Candidate> placements;
  double modelled_us = -1;  // of a call, by the simulator; -1: neither placed by cost nor planned for a device
  std::vector<std::pair<Device, int64_t>> temporary_bytes;
  // Milliseconds. compile_ms and run_ms are this plan's; run_ms is the last measured run, or -1.
  double trace_ms = 0, passes_ms = 0, compile_ms = 0, run_ms = -1;
  int64_t runs = 0;
};

// Number of kernels if every op of a traced graph were one. Inputs, constants, reads of Variables, assignments of results and views need no
// kernel.
LAMINA_API int traced_kernels(const ir::Graph& traced);

}  // namespace lamina
