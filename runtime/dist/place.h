// Place: where the data of a collective lie, in host memory or on a device; who moves and adds them there.
#pragma once
#include <memory>

#include "kernels/copy_pieces.h"
#include "kernels/tree_sum.h"
#include "runtime/device/launch_memory.h"
#include "runtime/dist/communicator.h"

namespace lamina::distributed {

// Joins this rank's device with those of the other ranks; each rank has one of its own. Collective. `c` must outlive the result. A failure
// of started work is one of the job: Communicator::abort.
LAMINA_API std::unique_ptr<Peers> join_devices(Communicator& c, Device device);

class LAMINA_API Place {
 public:
  Place(Communicator& c) : c_(c) {}  // in host memory
  // On the stream's device. Collectives return once their work is started; `c` compares the ranks' calls. Without peers: one rank.
  Place(Communicator& c, Peers* peers, Stream stream) : c_(c), peers_(peers), stream_(stream) {}
  // Where kernels on the stream find their data: the CPU's streams in host memory; a device's in its own, which is joined with those of
  // the other ranks at its first collective. Collective.
  static Place of(Communicator& c, const Stream& stream);
  Communicator& ranks() const { return c_; }
  bool on_host() const { return !stream_.backend; }

  void exchange(std::span<const Transfer> transfers) const;
  void all_gather(const void* own, void* all, size_t bytes) const;
  void broadcast(void* data, size_t bytes, int root) const;
  void sum(DType dtype, void* data, int64_t count) const;  // of all ranks' f32 or f64, in the library's order
  void add(const TreeSum& sum, std::span<const void* const> arrays, void* result) const;
  void copy(std::span<const Piece> pieces) const;
  void clear(void* data, size_t bytes) const;

  bool has_windows() const { return peers_ && peers_->has_windows(); }
  std::vector<char*> window(size_t bytes) const;
  void watch(const std::string& what) const;

  // Memory for a call. A thread keeps that of the host for its next call: fresh pages would take longer than the sums.
  class LAMINA_API Room {
   public:
    Room(const Place& at, size_t bytes);
    ~Room();
    Room(const Room&) = delete;
    char* data() { return device_ ? static_cast<char*>(device_->data()) : host_.data(); }

   private:
    std::vector<char> host_;
    std::unique_ptr<LaunchMemory> device_;
  };

 private:
  Communicator& c_;
  Peers* peers_ = nullptr;
  mutable Stream stream_;
};

}  // namespace lamina::distributed
