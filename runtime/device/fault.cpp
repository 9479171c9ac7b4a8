#include "runtime/device/fault.h"

namespace lamina {

unsigned FaultLog::add(DescribeFault describe, const std::string& about, const char* instruction, SourceLine line) {
  std::lock_guard lock(mutex_);
  const auto [place, is_new] = numbers_.try_emplace({describe, about, line.id, instruction}, unsigned(entries_.size()) + 1);
  if (is_new) entries_.push_back(&place->first);
  return place->second;
}

std::optional<Error> FaultLog::take(Fault& record) {
  if (!*static_cast<const volatile unsigned*>(&record.ready)) return std::nullopt;
  const Fault fault = record;
  record = {};
  std::lock_guard lock(mutex_);
  const auto& [describe, about, line, instruction] = *entries_.at(fault.launch - 1);
  Error error = describe(fault, about).at(cat("instruction ", instruction));
  return line ? error.at(text(SourceLine{line})) : error;
}

}  // namespace lamina
