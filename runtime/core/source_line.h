// SourceLine: the user's file and line that an op came from, as one small number.
#pragma once
#include <cstdint>
#include <string>

#include "runtime/core/export.h"

namespace lamina {

struct SourceLine {
  uint32_t id = 0;  // 0: unknown
  bool known() const { return id != 0; }
  bool operator==(const SourceLine&) const = default;
};

LAMINA_API SourceLine source_line(const std::string& file, int line);
LAMINA_API std::string text(SourceLine line);  // "train.py:41", or "" when unknown

}  // namespace lamina
