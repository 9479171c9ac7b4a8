// Fault: what a kernel on a GPU found wrong with its data. A GPU's kernel cannot throw; it writes the first thing that it cannot use into a
// record that host and device see, and goes on without it.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "runtime/core/error.h"
#include "runtime/core/mutex.h"
#include "runtime/core/source_line.h"

namespace lamina {

// `launch` is 0 until a kernel has claimed the record, and `ready` 0 until it has filled it; the other fields mean what its `describe`
// says.
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

// Whose faults they may be. Launches of one instruction share a number, which stays theirs: a recorded launch may report long after.
class FaultLog {
 public:
  // `instruction` and `line` become part of the error.
  unsigned add(Error (*describe)(const Fault&), const char* instruction, SourceLine line);
  // The error of a filled record, which is then free again; nothing when there is none.
  std::optional<Error> take(Fault& record);

 private:
  using Entry = std::tuple<Error (*)(const Fault&), uint32_t, std::string>;  // the line's number, the instruction
  Mutex mutex_;
  std::map<Entry, unsigned> numbers_;  // from 1
  std::vector<const Entry*> entries_;
};

}  // namespace lamina
