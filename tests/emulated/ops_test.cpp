// The cases of tests/ops on GPU kernels: each against the CPU's, in two thread orders, with guards around the results.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "graph/ops/ops.h"
#include "kernels/copy.h"
#include "tests/emulated/emulated.h"
#include "tests/emulated/emulated_backend.h"
#include "tests/ops/op_case.h"

namespace lamina::tests {
namespace {

namespace emulation = kernels::cuda::emulation;
using ir::Value;

struct Operands {
  std::vector<Tensor> memory;
  std::vector<View> views;
};

Operands contiguous(const std::vector<Tensor>& tensors) {
  Operands out{tensors, {}};
  for (const Tensor& t : tensors) out.views.push_back(t.view());
  return out;
}

// Axes in reverse memory order, with a gap after every element.
Operands spread(const std::vector<Tensor>& tensors) {
  Operands out = contiguous(tensors);
  for (View& view : out.views) {
    if (view.size() == 0 || view.rank == 0) continue;
    Shape shape{2};
    for (int a = 0; a < view.rank; ++a) shape.insert(shape.begin(), view.shape[a]);
    Tensor memory(TensorType{view.dtype, shape});
    std::memset(memory.raw(), 1, memory.byte_count());
    View to = view;
    to.data = memory.raw();
    int64_t stride = 2;
    for (int a = 0; a < view.rank; ++a) to.strides[a] = stride, stride *= view.shape[a];
    kernels::cpu::copy_elements(view, to);
    view = to;
    out.memory.push_back(memory);
  }
  return out;
}

std::vector<Tensor> run(const ir::Node& node, const Kernel& kernel, const std::vector<View>& in, std::byte byte) {
  constexpr size_t guard = 64;
  std::vector<std::vector<std::byte>> memory;
  std::vector<View> out;
  for (const TensorType& t : node.types) {
    memory.emplace_back(size_t(byte_size(t)) + 2 * guard + 8, byte);
    auto* first = memory.back().data() + guard;
    first += (8 - reinterpret_cast<uintptr_t>(first) % 8) % 8;
    out.push_back(contiguous_view(first, t));
  }
  std::vector<const View*> ins, outs;
  for (const View& v : in) ins.push_back(&v);
  for (const View& v : out) outs.push_back(&v);
  EmulatedBackend& backend = EmulatedBackend::one();
  Stream stream = backend.default_stream({DeviceKind::gpu, 0, 0});
  const size_t before = backend.bytes_in_use();
  backend.launch(stream, kernel, {stream, kernel.args.get(), ins, outs}, node.op->name);
  EXPECT_EQ(backend.bytes_in_use(), before) << "memory that a kernel took is not given back";
  std::vector<Tensor> results;
  for (size_t r = 0; r < memory.size(); ++r) {
    Tensor t(node.types[r]);
    if (t.byte_count()) std::memcpy(t.raw(), out[r].data, t.byte_count());
    const auto* first = out[r].as<std::byte>();
    for (size_t i = 0; i < guard - 8; ++i)
      EXPECT_TRUE(first[-1 - ptrdiff_t(i)] == byte && first[t.byte_count() + i] == byte)
          << "result " << r << ": memory beside it was written";
    results.push_back(std::move(t));
  }
  return results;
}

void check(const ir::OpDef& op, const OpCase& c) {
  for (DType dtype : c.dtypes) {
    SCOPED_TRACE(cat(c.name, ", ", dtype));
    std::vector<CaseInput> in = c.in;
    for (CaseInput& i : in)
      if (i.type.dtype == DType::f32) i.type.dtype = dtype;
    ir::Graph g;
    std::vector<TensorType> types;
    std::vector<Tensor> x;
    for (size_t i = 0; i < in.size(); ++i)
      g.add_input(in[i].type), types.push_back(in[i].type), x.push_back(random_tensor(in[i], 1000 + i));
    const Value first = g.add(op, c.attrs, g.inputs, c.regions);
    const ir::Node node = g[first];
    const Kernel kernel = op.cuda({*node.attrs, types, node.types, node.regions});
    if (!kernel) {  // it decomposes, or reports that it has none
      EXPECT_FALSE(op.cpu && op.cpu({*node.attrs, types, node.types, node.regions}) && !op.decompose)
          << "the CPU has a kernel, and a GPU has nothing";
      continue;
    }
    const Operands plain = contiguous(x);
    const std::vector<Tensor> want = run_node(node, plain.views);
    std::vector<Operands> ways{plain};
    if (op.strided) ways.push_back(spread(x));
    for (const Operands& operands : ways) {
      std::vector<Tensor> before;
      for (const auto& [order, byte] : {std::pair{emulation::Order::forward, std::byte{0}}, {emulation::Order::random, std::byte{0xff}}}) {
        SCOPED_TRACE(cat(&operands == &ways[0] ? "contiguous" : "strided", order == emulation::Order::random ? ", random order" : ""));
        emulation::settings().order = order;
        const std::vector<Tensor> got = run(node, kernel, operands.views, byte);
        emulation::settings().order = emulation::Order::forward;
        for (size_t r = 0; r < got.size(); ++r) {
          // C libraries differ in the last digits, as do sums in other orders.
          expect_close(got[r], want[r].values(), 2 * c.ulps, c.of_largest, cat("result ", r));
          if (!before.empty()) {
            EXPECT_TRUE(got[r].same_bits(before[r])) << "result " << r << " depends on the order of threads, or on what was there";
          }
        }
        if (testing::Test::HasFailure()) return;
        before = got;
      }
    }
  }
}

class EmulatedOp : public testing::Test {
 public:
  EmulatedOp(const ir::OpDef* op, std::function<std::vector<OpCase>()> make) : op_(op), make_(std::move(make)) {}
  void TestBody() override {
    for (const OpCase& c : make_()) {
      check(*op_, c);
      if (HasFailure()) return;
    }
  }

 private:
  const ir::OpDef* op_;
  std::function<std::vector<OpCase>()> make_;
};

}  // namespace

void take_cases(const ir::OpDef& op, std::function<std::vector<OpCase>()> make) {
  if (!op.cuda) return;
  const ir::OpDef* of = &op;
  testing::RegisterTest("EmulatedOps", cat(op.name, "_agrees_with_the_cpu").c_str(), nullptr, nullptr, __FILE__, __LINE__,
                        [=]() -> testing::Test* { return new EmulatedOp(of, make); });
}

}  // namespace lamina::tests
