#include "runtime/device/fault.h"

namespace lamina {

unsigned FaultLog::add(Error (*describe)(const Fault&), const char* instruction, SourceLine line) {
  std::lock_guard lock(mutex_);
  Entry entry{describe, instruction, line};
  if (entries_.size() < kKept)
    entries_.push_back(std::move(entry));
  else
    entries_[(next_ - 1) % kKept] = std::move(entry);
  const unsigned launch = next_;
  if (++next_ == 0) next_ = 1 + unsigned(kKept);  // 0 is nobody's; the place in the list stays that of the number
  return launch;
}

std::optional<Error> FaultLog::take(Fault& record) {
  if (!*static_cast<const volatile unsigned*>(&record.ready)) return std::nullopt;
  const Fault fault = record;
  record = {};
  std::lock_guard lock(mutex_);
  const Entry& entry = entries_.at((fault.launch - 1) % kKept);
  Error error = entry.describe(fault).at(cat("instruction ", entry.instruction));
  return entry.line.known() ? error.at(text(entry.line)) : error;
}

}  // namespace lamina
