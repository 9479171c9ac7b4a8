// What ranks of a fake NCCL exchange on the fake GPUs' streams. The n-th piece that one rank sends to another meets the n-th that this one
// receives, once both streams have reached them. Pieces that do not fit wait for ever, as kernels of NCCL do.
#pragma once
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/cuda/fake_cuda.h"

namespace lamina::cuda {

class FakeExchange {
 public:
  struct Part {
    int other = 0;  // rank
    bool sends = false;
    void* data = nullptr;
    size_t bytes = 0;
    std::string kind = "";  // "" for ncclSend and ncclRecv; pieces of different calls do not meet
  };
  // Starts one call, or one group, of a rank. `aborted`: it leaves.
  void start(int rank, const std::vector<Part>& parts, void* stream, std::shared_ptr<bool> aborted) {
    const auto cuda = FakeCuda::lock();
    struct Own {
      Part part;
      std::shared_ptr<Piece> piece;
    };
    auto own = std::make_shared<std::vector<Own>>();
    for (const Part& p : parts) own->push_back({p, piece_of(p.sends ? rank : p.other, p.sends ? p.other : rank, p)});
    FakeWork& work = cuda->work;
    work.add(stream, {.arguments = {}, .other = [own, aborted, &work] {
                        for (auto& [part, piece] : *own) {
                          if (!part.sends) continue;
                          piece->from = part.data, piece->bytes = part.bytes, piece->sender_is_there = true;
                          piece->sender_left = aborted;
                          piece->is_read = work.random() % 2 == 0;  // at once, or when it is received
                          if (piece->is_read) piece->read.assign(static_cast<const char*>(part.data), part.bytes);
                        }
                      }});
    work.add(stream, {.arguments = {},
                      .other =
                          [own, aborted] {
                            for (auto& [part, piece] : *own) {
                              if (part.sends) continue;
                              if (*aborted) {
                                std::memset(part.data, 0xff, part.bytes);
                              } else if (part.bytes) {
                                std::memcpy(part.data, piece->is_read ? piece->read.data() : piece->from, part.bytes);
                              }
                              piece->is_taken = true;
                            }
                          },
                      .may_start =
                          [own, aborted] {
                            for (const auto& [part, piece] : *own)
                              if (!part.sends && !piece->arrives(part.bytes)) return *aborted;
                            return true;
                          }});
    work.add(stream, {.arguments = {},
                      .other = [] {},
                      .may_start =
                          [own, aborted] {
                            for (const auto& [part, piece] : *own)
                              if (part.sends && !piece->is_taken) return *aborted;
                            return true;
                          }});
  }

 private:
  struct Piece {
    bool sender_is_there = false, is_read = false, is_taken = false;
    const void* from = nullptr;
    size_t bytes = 0;
    std::string read;
    std::shared_ptr<bool> sender_left;
    // What a sender that has left had not read yet never comes.
    bool arrives(size_t wanted) const { return sender_is_there && bytes == wanted && (is_read || !*sender_left); }
  };
  std::shared_ptr<Piece> piece_of(int from, int to, const Part& part) {
    auto& [pieces, sent, received] = between_[{from, to, part.kind}];
    const size_t n = part.sends ? sent++ : received++;
    while (pieces.size() <= n) pieces.push_back(std::make_shared<Piece>());
    return pieces[n];
  }
  std::map<std::tuple<int, int, std::string>, std::tuple<std::deque<std::shared_ptr<Piece>>, size_t, size_t>> between_;
};

}  // namespace lamina::cuda
