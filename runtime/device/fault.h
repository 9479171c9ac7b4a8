// Fault: what a kernel on a GPU found wrong with its data. A GPU's kernel cannot throw; it writes the first thing that it cannot use into a
// record that host and device see, and goes on without it.
#pragma once
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "runtime/core/error.h"
#include "runtime/core/source_line.h"

namespace lamina {

// `launch` is 0 until a kernel has claimed the record, and `ready` 0 until it has filled it; the other fields mean what its `describe` says.
struct Fault {
  unsigned launch = 0, ready = 0;
  int which = 0;
  int64_t value = 0, limit = 0, place = 0;
};

// What a kernel gets: the record of its device, null where there is none, and the number that says whose fault it was.
struct FaultSite {
  Fault* record = nullptr;
  unsigned launch = 0;
};

// Which launches may still report, and how their faults read.
class FaultLog {
 public:
  // `instruction` and `line` become part of the error.
  unsigned add(Error (*describe)(const Fault&), const char* instruction, SourceLine line);
  // The error of a filled record, which is then free again; nothing when there is none.
  std::optional<Error> take(Fault& record);

 private:
  static constexpr size_t kKept = 4096;  // a fault of an older launch keeps its text but has lost its line
  struct Entry {
    Error (*describe)(const Fault&);
    std::string instruction;
    SourceLine line;
  };
  std::mutex mutex_;
  std::vector<Entry> entries_;
  unsigned next_ = 1;
};

}  // namespace lamina
