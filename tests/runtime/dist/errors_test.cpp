// Error texts of collectives, compared exactly with tests/errors/collectives.txt.
#include <gtest/gtest.h>

#include "runtime/dist/collectives.h"
#include "runtime/dist/threads.h"
#include "tests/source_file.h"

namespace lamina::distributed {
namespace {

std::string text_with(int ranks, const std::function<void(Communicator&)>& body) {
  try {
    run_ranks(ranks, body);
  } catch (const std::exception& e) {
    return e.what();
  }
  return "no error";
}

TEST(CollectiveErrors, MatchTheirTexts) {
  float x[64] = {}, y[64] = {};
  const auto sum = [&](DType dtype, int64_t count, int64_t shards) {
    return [=, &x](Communicator& c) {
      float result[64];
      all_reduce(c, {.dtype = dtype, .count = count, .shards = shards}, x, result, {.tensor = "w", .line = "train.py:7"});
    };
  };
  const std::vector<std::pair<const char*, std::string>> cases = {
      {"more ranks than shards", text_with(3, sum(DType::f32, 1, 2))},
      {"no shards", text_with(1, sum(DType::f32, 1, 0))},
      {"a sum of bool", text_with(1, sum(DType::boolean, 1, 1))},
      {"a negative length", text_with(1, sum(DType::f32, -1, 8))},
      {"a root that is not there",
       text_with(2, [&](Communicator& c) { broadcast(c, DType::f32, c.rank() ? x : y, 1, 2, {.tensor = "w", .line = "train.py:7"}); })},
      {"another shape on one rank", text_with(4,
                                              [](Communicator& c) {
                                                std::vector<float> own(8), out(8);
                                                all_reduce(c, DType::f32, own.data(), out.data(), c.rank() == 2 ? 7 : 8,
                                                           {.tensor = "w", .line = "train.py:7"});
                                              })},
      {"another op on one rank", text_with(2,
                                           [](Communicator& c) {
                                             float own = 1, all[2];
                                             if (c.rank() == 0)
                                               all_gather(c, DType::f32, &own, all, 1, {.tensor = "loss", .line = "train.py:8"});
                                             else
                                               barrier(c, {.tensor = "epoch", .line = "train.py:8"});
                                           })},
      {"a rank that ends early", text_with(2,
                                           [](Communicator& c) {
                                             if (c.rank() == 0) barrier(c);
                                           })},
      {"pieces of different lengths", text_with(2,
                                                [](Communicator& c) {
                                                  char data[8] = {};
                                                  const Transfer piece = c.rank() ? from_rank(0, data, 7) : to_rank(1, data, 8);
                                                  send_receive(c, {&piece, 1});
                                                })},
      {"no rank", text_with(0, [](Communicator&) {})},
  };
  std::string all;
  for (const auto& [name, text] : cases) all += std::string("== ") + name + "\n" + text + "\n";
  lamina::tests::expect_text_of_file(all, "tests/errors/collectives.txt");
}

}  // namespace
}  // namespace lamina::distributed
