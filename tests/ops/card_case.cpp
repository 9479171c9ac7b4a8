#include "tests/ops/card_case.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string_view>

#include "runtime/core/error.h"

namespace lamina::tests {
namespace {

// Device memory, freed at the end.
class CardMemory {
 public:
  CardMemory(Backend& backend, Stream& stream, size_t bytes)
      : backend_(backend), stream_(stream), bytes_(std::max<size_t>(bytes, 1)), data_(backend.allocate(stream, bytes_)) {}
  ~CardMemory() { backend_.free(stream_, data_, bytes_); }
  CardMemory(const CardMemory&) = delete;
  std::byte* data() { return static_cast<std::byte*>(data_); }
  void put(const void* from) { backend_.copy(stream_, data_, from, bytes_, CopyKind::to_device); }
  std::vector<std::byte> take() {
    std::vector<std::byte> out(bytes_);
    backend_.copy(stream_, out.data(), data_, bytes_, CopyKind::to_host);
    return out;
  }

 private:
  Backend& backend_;
  Stream& stream_;
  size_t bytes_;
  void* data_;
};

// The elements in memory: in order, or with reversed axes and a gap after every element.
struct Laid {
  View view;  // without memory yet
  std::vector<std::byte> bytes;
};
Laid laid(const Tensor& t, bool spread) {
  const size_t each = size_of(t.type.dtype);
  Laid out{t.view(), std::vector<std::byte>(std::max<size_t>(t.byte_count(), 1))};
  const auto* from = static_cast<const std::byte*>(t.raw());
  if (!spread || t.size() == 0 || out.view.rank == 0) {
    std::copy_n(from, t.byte_count(), out.bytes.begin());
    return out;
  }
  out.bytes.assign(2 * t.byte_count(), std::byte{1});
  int64_t stride = 2;
  for (int a = 0; a < out.view.rank; ++a) out.view.strides[a] = stride, stride *= out.view.shape[a];
  for (int64_t i = 0; i < t.size(); ++i) {
    int64_t at = 0, left = i;
    for (int a = out.view.rank - 1; a >= 0; --a) at += left % out.view.shape[a] * out.view.strides[a], left /= out.view.shape[a];
    std::copy_n(from + size_t(i) * each, each, out.bytes.begin() + ptrdiff_t(size_t(at) * each));
  }
  return out;
}

std::vector<Tensor> run(Backend& backend, const ir::Node& node, const Kernel& kernel, const std::vector<Laid>& inputs) {
  constexpr size_t guard = 256;
  constexpr std::byte filled{0xff};
  Stream stream = backend.default_stream({DeviceKind::gpu, 0, 0});
  std::vector<std::unique_ptr<CardMemory>> memory;
  std::vector<View> views;
  for (const Laid& in : inputs) {
    memory.push_back(std::make_unique<CardMemory>(backend, stream, in.bytes.size()));
    memory.back()->put(in.bytes.data());
    views.push_back(in.view);
    views.back().data = memory.back()->data();
  }
  for (const TensorType& t : node.types) {
    const std::vector<std::byte> nothing(size_t(byte_size(t)) + 2 * guard, filled);
    memory.push_back(std::make_unique<CardMemory>(backend, stream, nothing.size()));
    memory.back()->put(nothing.data());
    views.push_back(contiguous_view(memory.back()->data() + guard, t));
  }
  std::vector<const View*> ins, outs;
  for (size_t i = 0; i < views.size(); ++i) (i < inputs.size() ? ins : outs).push_back(&views[i]);
  backend.launch(stream, kernel, {stream, kernel.args.get(), ins, outs}, node.op->name);
  backend.synchronize(stream);
  std::vector<Tensor> results;
  for (size_t r = 0; r < node.types.size(); ++r) {
    const std::vector<std::byte> got = memory[inputs.size() + r]->take();
    Tensor t(node.types[r]);
    std::copy_n(got.begin() + guard, t.byte_count(), static_cast<std::byte*>(t.raw()));
    for (size_t i = 0; i < guard; ++i)
      EXPECT_TRUE(got[i] == filled && got[got.size() - 1 - i] == filled) << "result " << r << ": memory beside it was written";
    results.push_back(std::move(t));
  }
  return results;
}

// The greatest error of NVIDIA's functions of doubles in ulp, against the correctly rounded result: CUDA C++ Programming Guide, table
// "Double-Precision Mathematical Standard Library Functions with Maximum ULP Error". Functions that are absent are exact there, and floats
// are computed by our own code (scalar_math.h).
double documented_ulps(std::string_view op, DType dtype) {
  static const std::map<std::string_view, double> of_double{
      {"acos", 2}, {"acosh", 3}, {"asin", 2},  {"asinh", 3}, {"atan", 2}, {"atan2", 2}, {"atanh", 2}, {"cbrt", 1},  {"cos", 2},
      {"cosh", 1}, {"erf", 2},   {"erfc", 5},  {"exp", 1},   {"exp2", 1}, {"expm1", 1}, {"log", 1},   {"log10", 1}, {"log1p", 1},
      {"log2", 1}, {"pow", 2},   {"rsqrt", 1}, {"sin", 2},   {"sinh", 2}, {"tan", 2},   {"tanh", 1}};
  const auto found = of_double.find(op);
  return dtype != DType::f64 || found == of_double.end() ? 0 : found->second;
}

}  // namespace

int check_on_card(Backend& backend, const ir::OpDef& op, const OpCase& c) {
  int launches = 0;
  for (DType dtype : c.dtypes) {
    SCOPED_TRACE(cat(op.name, ", ", c.name, ", ", dtype));
    ir::Graph g;
    std::vector<TensorType> types;
    std::vector<Tensor> x;
    for (const CaseInput& in : inputs_as(c, dtype)) {
      x.push_back(random_tensor(in, 1000 + x.size()));
      types.push_back(in.type), g.add_input(in.type);
    }
    const ir::Value first = g.add(op, c.attrs, g.inputs, c.regions);
    const ir::Node node = g[first];
    const Kernel kernel = op.cuda ? op.cuda({*node.attrs, types, node.types, node.regions}) : Kernel{};
    if (!kernel) continue;
    const std::vector<std::vector<double>> want = expected_results(c, node, x);
    for (bool spread : {false, true}) {
      if (spread && !op.strided) continue;
      std::vector<Laid> inputs;
      for (const Tensor& t : x) inputs.push_back(laid(t, spread));
      const std::vector<Tensor> got = run(backend, node, kernel, inputs);
      ++launches;
      // Sums may have other orders than the CPU's, and in f64 the reference is rounded as well.
      const double ulps = 2 * c.ulps + documented_ulps(op.name, dtype);
      for (size_t r = 0; r < got.size(); ++r)
        expect_close(got[r], want[r], ulps, c.of_largest, cat(spread ? "strided, result " : "result ", r));
    }
  }
  return launches;
}

int check_op_on_card(Backend& backend, const std::string& name) {
  const auto cases = cases_of_ops().find(name);
  if (cases == cases_of_ops().end()) {
    ADD_FAILURE() << "there are no cases of " << name;
    return 0;
  }
  int launches = 0;
  for (const OpCase& c : cases->second()) launches += check_on_card(backend, ir::find_op(name), c);
  return launches;
}

int check_all_on_card(Backend& backend, int one_in) {
  int launches = 0, failed = 0, number = 0;
  for (const auto& [name, make] : cases_of_ops()) {
    if (number++ % one_in != 0) continue;
    const auto failures = [] { return testing::UnitTest::GetInstance()->current_test_info()->result()->total_part_count(); };
    const int before = failures();
    launches += check_op_on_card(backend, name);
    failed += failures() > before;
    if (failed == 20) break;
  }
  return launches;
}

}  // namespace lamina::tests
