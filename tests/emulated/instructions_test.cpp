// The emulated instructions agree with the manuals, by the trial that perf/gpu/instructions.cu runs on a card.
#include "tests/emulated/instructions.h"

#include <memory>

#include "tests/emulated/emulated.h"

namespace lamina::kernels::cuda {
namespace {

class HostMemory {
 public:
  Stream& stream() { return emulated_stream(); }
  template <class T>
  T* put(const std::vector<T>& values) {
    auto kept = std::make_shared<Buffer<T>>(values);
    memory_.push_back(kept);
    return kept->data();
  }
  template <class T>
  std::vector<T> take(const T* from, size_t count) {
    return {from, from + count};
  }

 private:
  std::vector<std::shared_ptr<void>> memory_;
};

TEST(Instructions, MatchTheManuals) {
  in_every_order([] {
    HostMemory memory;
    EXPECT_EQ(instructions::wrong(memory), std::vector<std::string>{});
  });
}

// A card whose memory returns the first element with a flipped bit, in the half that every lane uses.
class WrongMemory : public HostMemory {
 public:
  template <class T>
  std::vector<T> take(const T* from, size_t count) {
    std::vector<T> out = HostMemory::take(from, count);
    reinterpret_cast<unsigned char*>(&out.front())[sizeof(T) - 2] ^= 0x40;
    return out;
  }
};

TEST(Instructions, EveryWrongResultIsFound) {
  WrongMemory memory;
  EXPECT_EQ(instructions::wrong(memory).size(), 8u);
}

}  // namespace
}  // namespace lamina::kernels::cuda
