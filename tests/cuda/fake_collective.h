// One rank's part in a collective. The result is computed on the host from the arguments alone, on the ranks' fake streams.
#pragma once
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "runtime/core/dtype.h"
#include "runtime/cuda/nccl.h"
#include "tests/cuda/fake_cuda.h"

namespace lamina::cuda {

struct FakeCollective {
  enum class Kind { all_reduce, broadcast, reduce_scatter, all_gather };
  Kind kind = Kind::all_reduce;
  const void* in = nullptr;
  void* out = nullptr;
  size_t count = 0;
  int type = 0, op = 0, root = 0;
  void* communicator = nullptr;
  void* stream = nullptr;

  bool meets(const FakeCollective& o) const { return kind == o.kind && count == o.count && type == o.type && op == o.op && root == o.root; }

  // Starts when all ranks' streams have reached it; writes only after everything has been read.
  static void start(std::vector<FakeCollective> ranks) {
    struct Meeting {
      std::vector<FakeCollective> ranks;
      std::vector<std::string> read;
    };
    auto meeting = std::make_shared<Meeting>(Meeting{std::move(ranks), {}});
    meeting->read.resize(meeting->ranks.size());
    const auto cuda = FakeCuda::lock();
    for (size_t r = 0; r < meeting->ranks.size(); ++r) {
      FakeCollective& rank = meeting->ranks[r];
      cuda->work.add(rank.stream,
                     {.arguments = {}, .other = [meeting, r] { meeting->read[r] = meeting->ranks[r].brought(r, meeting->ranks.size()); }});
      cuda->work.record(&rank, rank.stream);  // its address stands for an event
    }
    for (FakeCollective& rank : meeting->ranks)
      for (FakeCollective& other : meeting->ranks)
        if (&other != &rank) cuda->work.wait(rank.stream, &other);
    for (size_t r = 0; r < meeting->ranks.size(); ++r)
      cuda->work.add(meeting->ranks[r].stream, {.arguments = {}, .other = [meeting, r] { meeting->ranks[r].write(r, meeting->read); }});
  }

 private:
  DType dtype() const {
    switch (type) {
      case nccl::kInt8: return DType::i8;
      case nccl::kUint8: return DType::u8;
      case nccl::kInt32: return DType::i32;
      case nccl::kInt64: return DType::i64;
      case nccl::kHalf: return DType::f16;
      case nccl::kFloat: return DType::f32;
      case nccl::kDouble: return DType::f64;
      default: return DType::bf16;
    }
  }
  std::string brought(size_t rank, size_t ranks) const {
    if (kind == Kind::broadcast && root != int(rank)) return "";
    return {static_cast<const char*>(in), count * (kind == Kind::reduce_scatter ? ranks : 1) * size_of(dtype())};
  }
  void write(size_t rank, const std::vector<std::string>& read) const {
    char* to = static_cast<char*>(out);
    if (kind == Kind::all_reduce || kind == Kind::reduce_scatter) {
      with_dtype(dtype(), [&]<class T>() { reduce<T>(kind == Kind::reduce_scatter ? rank * count : 0, read); });
      return;
    }
    for (const std::string& piece : read) std::memcpy(to, piece.data(), piece.size()), to += piece.size();
  }
  // In the order of ranks.
  template <class T>
  void reduce(size_t first, const std::vector<std::string>& read) const {
    for (size_t i = 0; i < count; ++i) {
      T sum{};
      for (size_t r = 0; r < read.size(); ++r) {
        T v;
        std::memcpy(&v, read[r].data() + (first + i) * sizeof(T), sizeof(T));
        if (r == 0)
          sum = v;
        else if (op == nccl::kSum || op == nccl::kAverage)
          sum = T(sum + v);
        else if (op == nccl::kProduct)
          sum = T(sum * v);
        else if (op == nccl::kMax)
          sum = sum < v ? v : sum;
        else
          sum = v < sum ? v : sum;
      }
      if (op == nccl::kAverage) sum = T(sum / T(int(read.size())));
      static_cast<T*>(out)[i] = sum;
    }
  }
};

}  // namespace lamina::cuda
