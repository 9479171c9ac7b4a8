// Rank 0 of a job whose other ranks are not there: their GPUs' windows are memory of this rank's card, which hold zeros, and the wire
// (wire.h) says when their values have arrived. All that a data_parallel step with sums in its launch needs of them.
#pragma once
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "kernels/section/block_section.h"
#include "runtime/device/backend.h"
#include "runtime/dist/communicator.h"
#include "runtime/dist/processes.h"

namespace lamina::tests {

// The card's side.
class Wire final : public Peers {
 public:
  Wire(Device device, int ranks);
  ~Wire() override;
  void set_time(double microseconds) { nanoseconds_ = static_cast<unsigned long long>(1e3 * microseconds); }
  // Waits for what was started; how many values were never announced.
  unsigned missing();

  bool has_windows() const override { return true; }
  std::vector<char*> window(Stream& stream, size_t bytes, const std::string& what) override;
  void watch(Stream& stream, const std::string& what) override;  // behind each launch with sums
  void abort(const Error&) override {}                           // the wire and the step's launch end by themselves
  void exchange(Stream&, std::span<const Transfer>, const std::string& what) override { refuse(what); }
  void all_gather(Stream&, const void*, void*, size_t, const std::string& what) override { refuse(what); }
  void broadcast(Stream&, void*, size_t, int, const std::string& what) override { refuse(what); }
  void sum(Stream&, DType, void*, int64_t, const std::string& what) override { refuse(what); }

 private:
  [[noreturn]] static void refuse(const std::string& what);
  struct Memory {
    void* data;
    size_t bytes;
  };
  Backend& backend_;
  const int ranks_;
  Stream stream_;  // the wire's, beside the steps'
  std::vector<Memory> memory_;
  unsigned* missing_ = nullptr;
  unsigned long long nanoseconds_ = 0;
};

// The host's side: the other ranks say what this one says.
class OneOfMany final : public distributed::Communicator {
 public:
  OneOfMany(int ranks, Wire& wire) : Communicator(0, ranks, Patience::of_settings()), wire_(wire) {}
  const char* name() const override { return "one of many"; }
  Peers& joined(Device) override { return wire_; }
  void all_gather(const void* own, void* all, size_t bytes) override {
    for (int rank = 0; rank < size(); ++rank) std::memmove(static_cast<char*>(all) + size_t(rank) * bytes, own, bytes);
  }
  void broadcast(void*, size_t, int) override {}
  void exchange(std::span<const Transfer>) override;
  void abort(const Error&) override {}
  std::vector<distributed::RankStatus> ranks() const override { return {distributed::this_process(rank())}; }

 private:
  void stalled(const Error& error) override { throw error; }
  Wire& wire_;
};

}  // namespace lamina::tests
