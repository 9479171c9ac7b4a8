// Fault: bad data found by a GPU kernel. A kernel cannot throw. It writes its first fault to a record shared by host and device, and goes
// on without the element.
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

// `launch` is 0 until a kernel has claimed the record, `ready` is 0 until it is filled in; `describe` interprets the other fields.
struct Fault {
  unsigned launch = 0, ready = 0;
  int which = 0;
  int64_t value = 0, limit = 0, place = 0;
};

// A kernel's view: the device's record (null if there is none), and the number to report as.
struct FaultSite {
  Fault* record = nullptr;
  unsigned launch = 0;
};

// The launches that may report. Launches of one instruction share a number for ever, because a recorded launch may report much later.
class LAMINA_API FaultLog {
 public:
  // `instruction` and `line` become part of the error.
  unsigned add(Error (*describe)(const Fault&), const char* instruction, SourceLine line);
  // The error of a filled record, which is then free again; empty if there is none.
  std::optional<Error> take(Fault& record);

 private:
  using Entry = std::tuple<Error (*)(const Fault&), uint32_t, std::string>;  // describe, line id, instruction
  Mutex mutex_;
  std::map<Entry, unsigned> numbers_;  // from 1
  std::vector<const Entry*> entries_;
};

}  // namespace lamina
