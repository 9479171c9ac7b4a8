// Predicts how long a launch takes on a GPU from its arithmetic, its bytes and the card's latencies; nothing of the launch is measured. The
// card figures and the limits of the model are in predict.cpp. It serves to compare plans and to find what bounds one; explain() shows it
// beside the measured time.
#pragma once
#include <optional>

#include "runtime/exec/program.h"

namespace lamina::cost {

// Published for a node of a CUDA graph on an H100; a separate launch takes longer.
constexpr double kLaunchMicroseconds = 1.3;

// Microseconds. Empty on a CPU; on cards without figures (there are figures for null:h100, h200, a100, l40s, rtx5090 and the real cards of
// these names); and where the work is unknown: uncounted loops, convolutions, sorting, copies between devices. A loop of data-dependent
// length counts with its maximum.
LAMINA_API std::optional<double> predicted_microseconds(const exec::Program& program, const exec::Instruction& instruction);

}  // namespace lamina::cost
