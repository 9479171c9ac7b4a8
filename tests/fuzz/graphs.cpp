// lamina_fuzz_graphs: the input is the text of a graph. A graph that is accepted is printed and read back as the same, also after its
// open lengths became numbers.
#include <cstring>

#include "graph/ir/graph.h"
#include "tests/fuzz/harness.h"
#include "tests/graph/damage.h"

namespace lamina::fuzz {
namespace {

// What verify() refuses is refused; every other internal error is a finding.
bool is_verified(const ir::Graph& g) {
  try {
    ir::verify(g);
    return true;
  } catch (const Error&) {
    return false;
  }
}

void require_stable(const ir::Graph& g) {
  const std::string text = ir::print(g, true);
  ir::Graph again;
  if (!succeeds([&] { again = ir::parse(text); })) finding("what print() gives is refused:\n" + text);
  if (!is_verified(again)) finding("what print() gives is not verified:\n" + text);
  if (ir::print(again, true) != text) finding("what print() gives is printed in another way:\n" + text);
  if (!ir::equal(g, again) || ir::hash(g) != ir::hash(again)) finding("what print() gives is another graph:\n" + text);
}

// With 2 for each open length of an input.
ir::Graph with_lengths(const ir::Graph& g) {
  std::vector<TensorType> types;
  for (const ir::Value v : g.inputs) {
    types.push_back(g.type(v));
    for (Dim& d : types.back().shape) d = d.known() ? d : Dim(2);
  }
  return ir::specialize(g, ir::bind_dims(g, types));
}

}  // namespace
}  // namespace lamina::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lamina;
  const std::string text(reinterpret_cast<const char*>(data), size);
  ir::Graph g;
  if (!fuzz::succeeds([&] { g = ir::parse(text); }) || !fuzz::is_verified(g)) return 0;
  fuzz::count("inputs accepted");
  fuzz::require_stable(g);
  ir::Graph numbers;
  if (fuzz::succeeds([&] { numbers = fuzz::with_lengths(g); })) fuzz::require_stable(numbers);
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
  using namespace lamina;
  tests::Random random(seed);
  const size_t kind = tests::below(random, 4);
  if (kind == 0) return LLVMFuzzerMutate(data, size, most);
  std::string text(reinterpret_cast<const char*>(data), size);
  if (kind == 1) {
    text = tests::with_one_token_changed(text, random);
  } else {
    try {
      text = ir::print(tests::with_one_change(ir::parse(text), random), true);
    } catch (const Error&) {
      text = tests::with_one_token_changed(text, random);
    }
  }
  if (text.size() > most) return LLVMFuzzerMutate(data, size, most);
  std::memcpy(data, text.data(), text.size());
  return text.size();
}
