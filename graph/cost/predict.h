// How long a launch takes on a GPU, by a model: arithmetic, bytes and latencies of the card, and nothing measured of the launch. The
// figures and what the model leaves out stand in predict.cpp. It is for comparing plans and for seeing what bounds one; explain shows it
// beside what was measured.
#pragma once
#include <optional>

#include "runtime/exec/program.h"

namespace lamina::cost {

// Microseconds; nothing on a CPU, on a card that the model has no figures of (it has those of null:h100, a100, l40s and rtx5090, and of
// real cards with these names), and where the work is not known beforehand: loops that nobody has counted, convolutions, batch
// normalisation by a library, sorting, copies between devices; and for sections with products on tensor cores, whose rates differ from card
// to card, unless their blocks are a cluster, whose model has rates. A loop whose length is found when it runs counts with its most
// iterations.
LAMINA_API std::optional<double> predicted_microseconds(const exec::Program& program, const exec::Instruction& instruction);

}  // namespace lamina::cost
