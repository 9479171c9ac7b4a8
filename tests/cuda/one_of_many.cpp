#include "tests/cuda/one_of_many.h"

#include <algorithm>

#include "tests/cuda/wire.h"

namespace lamina::tests {
namespace {

constexpr unsigned long long kMostNanoseconds = 2'000'000'000;

// The section that this thread launches. Its plan says where its values are.
thread_local const section::BlockSection* launched = nullptr;
const section::BlockRunner* product = nullptr;
void run(const KernelCall& call) {
  launched = static_cast<const section::BlockSection*>(call.args);
  product->run(call);
  launched = nullptr;
}

}  // namespace

Wire::Wire(Device device, int ranks) : backend_(backend_of(device)), ranks_(ranks), stream_(backend_.create_stream(device)) {
  product = section::block_runner();
  static const section::BlockRunner watched{run, product->resident_blocks};
  section::set_block_runner(&watched);
  const unsigned zero = 0;
  missing_ = static_cast<unsigned*>(backend_.allocate(stream_, sizeof zero));
  backend_.copy(stream_, missing_, &zero, sizeof zero, CopyKind::to_device);
}

Wire::~Wire() {
  section::set_block_runner(product);
  try {
    backend_.synchronize(stream_);
    for (const Memory& m : memory_) backend_.free(stream_, m.data, m.bytes);
    backend_.free(stream_, missing_, sizeof *missing_);
    backend_.destroy_stream(stream_);
  } catch (...) {  // the card has failed
  }
}

unsigned Wire::missing() {
  unsigned out = 0;
  backend_.copy(stream_, &out, missing_, sizeof out, CopyKind::to_host);
  backend_.synchronize(stream_);
  return out;
}

std::vector<char*> Wire::window(Stream& stream, size_t bytes, const std::string&) {
  const std::vector<char> zeros(bytes);
  std::vector<char*> out;
  for (int rank = 0; rank < ranks_; ++rank) {
    memory_.push_back({backend_.allocate(stream, bytes), bytes});
    out.push_back(static_cast<char*>(memory_.back().data));
    backend_.copy(stream, out.back(), zeros.data(), bytes, CopyKind::to_device);
  }
  backend_.synchronize(stream);
  return out;
}

void Wire::watch(Stream& stream, const std::string&) {
  const section::BlockSection& s = *launched;
  const auto d = std::find_if(s.copies.begin(), s.copies.end(), [&](const auto& one) { return one.stream == stream; });
  size_t values = 0;
  for (const section::RankSum& sum : s.table->sums) values += sum.counts.size();
  if (values > size_t(kernels::cuda::kMostWireValues)) refuse(cat(values, " values"));
  kernels::cuda::launch_wire(
      stream_, {.sums = reinterpret_cast<const section::BlockSum*>(static_cast<const char*>(d->program) + s.plan.program.sums_at),
                .values = int(values),
                .windows = d->windows,
                .launch = s.launches,
                .nanoseconds = nanoseconds_,
                .most_nanoseconds = kMostNanoseconds,
                .missing = missing_});
}

void Wire::refuse(const std::string& what) {
  throw Error(
      ErrorKind::state,
      {.what = cat("the wire on one card does not carry ", what), .where = "", .why = "it carries sums within a launch", .fix = ""});
}

void OneOfMany::exchange(std::span<const Transfer> transfers) {
  if (!transfers.empty())
    throw Error(ErrorKind::state, {.what = "an exchange with ranks that are not there", .where = "", .why = "", .fix = ""});
}

}  // namespace lamina::tests
