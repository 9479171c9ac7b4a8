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

// Words a fault. `about`: what the launch's host code gave to fault_site, such as a message of the user's.
using DescribeFault = Error (*)(const Fault&, const std::string& about);

// The launches that may report. Launches of one instruction share a number for ever, because a recorded launch may report much later.
class LAMINA_API FaultLog {
 public:
  // `instruction` and `line` become part of the error.
  unsigned add(DescribeFault describe, const std::string& about, const char* instruction, SourceLine line);
  // The error of a filled record, which is then free again; empty if there is none.
  std::optional<Error> take(Fault& record);

 private:
  using Entry = std::tuple<DescribeFault, std::string, uint32_t, std::string>;  // describe, about, line id, instruction
  Mutex mutex_;
  std::map<Entry, unsigned> numbers_;  // from 1
  std::vector<const Entry*> entries_;
};

}  // namespace lamina
