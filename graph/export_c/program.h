// Programs as calls of C functions: where each operand lies, and loops where the same calls come again and again.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "graph/compile/compile.h"
#include "graph/export_c/writer.h"

namespace lamina::c_text {

// A node that select.h gave a rule: the arguments of the kernel that stands for it, which is never run.
struct NodeText {
  ir::Node node;
  DType scratch = DType::f32;
};
// compile::KernelWriter. Throws for what C code cannot have.
compile::TextKernel text_kernel(const ir::Node& node, const ir::KernelRequest& request);

// Where an operand lies. State and temporary memory are one array per type in the struct.
struct Pointer {
  enum class Base : uint8_t { memory, constant, input, output } base = Base::memory;
  int number = 0;  // of an input or output
  DType dtype = DType::f32;
  int64_t offset = 0;                                  // in elements
  std::vector<std::pair<std::string, int64_t>> terms;  // loop variables, and elements per step: slices of a scan
  auto operator<=>(const Pointer&) const = default;
};

// A call, or a loop or branch around some.
struct Item {
  enum class Kind : uint8_t { call, copy, branch, while_loop, scan } kind = Kind::call;
  std::string function;            // of a call; of a copy its type
  std::vector<Pointer> arguments;  // of a call; of a copy to and from; of others the condition, iterations or count
  int64_t count = 0;               // elements of a copy; the most iterations, -1: no limit
  int error = 0;                   // the code that a call gives when its data are wrong
  bool reverse = false;
  std::vector<int64_t> slices;           // of a scan with a count: elements of a slice of each result, which follow it in arguments
  std::string variable;                  // that counts iterations
  std::vector<std::vector<Item>> parts;  // branches; condition and body; body
  bool operator==(const Item&) const = default;
};

// What all signatures of a model share.
struct Shared {
  std::map<std::string, std::string> named;  // function text without its name -> name
  std::vector<std::string> functions;        // definitions, in order
  std::map<DType, std::vector<std::byte>> constants;
  std::map<std::pair<DType, std::vector<std::byte>>, int64_t> constant_places;
  std::map<DType, int64_t> state;    // elements of Variables, which come first in the struct's arrays
  std::map<DType, int64_t> scratch;  // elements behind them
  std::vector<std::string> errors;   // texts of codes 1, 2, ...
  Pointer constant(DType dtype, const void* data, int64_t bytes);
  int error(const std::string& text);
};

// Where a program's storages lie.
using Binding = std::map<std::pair<exec::StorageKind, int>, Pointer>;
std::vector<Item> items_of(const exec::Program& program, const Binding& binding, Shared& shared);

// The items as C, with runs of equal ones as loops over their offsets; `tables` gets the offsets that are no straight line. `names`: of the
// inputs and outputs.
struct Names {
  std::vector<std::string> inputs, outputs;
};
struct Tables {
  std::string text;
  int made = 0;
};
void write_items(Code& code, const std::vector<Item>& items, const Names& names, Tables& tables);

}  // namespace lamina::c_text
