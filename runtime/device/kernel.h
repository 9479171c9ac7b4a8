// Kernel: a function chosen for given dtypes and attributes. KernelCall: one run of it on views.
#pragma once
#include <memory>
#include <span>

#include "runtime/core/source_line.h"
#include "runtime/core/view.h"
#include "runtime/device/stream.h"

namespace lamina {

struct KernelCall {
  Stream& stream;
  const void* args;  // the kernel's immutable arguments
  std::span<const View* const> in;
  std::span<const View* const> out;
  SourceLine line = {};  // the user's, for errors found later
};

struct Kernel {
  void (*run)(const KernelCall&) = nullptr;  // only Backend::launch calls it
  std::shared_ptr<const void> args;
  explicit operator bool() const { return run != nullptr; }
};

}  // namespace lamina
