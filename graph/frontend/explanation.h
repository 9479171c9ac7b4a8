// What a function says of one of its plans: as text for people, and as data.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "graph/ir/graph.h"
#include "runtime/core/export.h"
#include "runtime/core/source_line.h"
#include "runtime/device/device.h"

namespace lamina {

struct Explanation {
  struct Launch {
    std::string name;  // "dense_relu", "section of 612 steps"
    Device device;
    int stream = 0;                    // of the device, from 0
    std::vector<int> wait_for;         // events, before it starts; a copy may be what they are recorded after
    int signal = -1;                   // the event recorded after it, or -1
    std::string label;                 // the layers and ops that it runs
    SourceLine line;                   // of the user, where it is one op's
    int section_steps = 0;             // of a section
    std::string why_alone;             // why it is in no section, where that is known
    std::vector<std::string> details;  // a section's steps, a line each
    double predicted_us = -1;          // by a model of the card (graph/cost/predict.h), which was not measured; -1: the model has no figure
    double measured_us = -1;           // of the run measured last, where this is the only launch of the call; else -1
  };
  std::string text;
  std::string function;
  bool planned_only = false;  // for a device that was asked for; nothing ran
  int traced_kernels = 0;     // launches, if every op of the traced graph were one
  std::vector<Launch> launches;
  int copies = 0;  // from one device to another
  std::vector<std::pair<Device, int64_t>> temporary_bytes;
  // Milliseconds. compile, run: of this plan; run: of the run measured last, or -1.
  double trace_ms = 0, passes_ms = 0, compile_ms = 0, run_ms = -1;
  int64_t runs = 0;
};

// How many kernels a call would launch if every op of a traced graph were one. Inputs, constants, reads of Variables, assignments of
// results and views of other tensors need none.
LAMINA_API int traced_kernels(const ir::Graph& traced);

}  // namespace lamina
