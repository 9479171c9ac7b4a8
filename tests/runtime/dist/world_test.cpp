// The job of a process without a launcher: one rank.
#include "runtime/dist/world.h"

#include <gtest/gtest.h>

#include "runtime/dist/collectives.h"
#include "runtime/dist/mpi_library.h"

namespace lamina::distributed {
namespace {

TEST(World, IsOneRankWithoutALauncher) {
  if (launch().mpi) GTEST_SKIP() << "this test itself runs under " << launch().launcher;
  EXPECT_EQ(rank(), 0);
  EXPECT_EQ(size(), 1);
  EXPECT_TRUE(is_started());
  EXPECT_STREQ(world().name(), "one rank");
  set_step(4);
  const float leaves[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  float sum = 0;
  all_reduce(world(), {.dtype = DType::f32, .count = 1, .shards = 8}, leaves, &sum, {.tensor = "w"});
  barrier(world());
  EXPECT_EQ(sum, 36);
  fail("there is no other rank to end");
  ASSERT_EQ(world().ranks().size(), 1u);
  const RankStatus own = world().ranks()[0];
  EXPECT_EQ(own.step, 4);
  EXPECT_EQ(own.last.op, Op::barrier);
  const std::string text = json(world().record(), 0, "a test", world().ranks());
  EXPECT_NE(text.find("\"tensor\": \"w\""), std::string::npos) << text;
}

TEST(World, FindsThePluginBesideTheLibraryOnly) {
  EXPECT_EQ(mpi_library_path(), "") << "these tests link the library's objects, and nothing lies beside them";
  EXPECT_NE(mpi_report().find("Lamina was built without MPI: there is no "), std::string::npos) << mpi_report();
}

TEST(FlightRecord, KeepsTheLastCollectivesInOrder) {
  FlightRecord record(3);
  for (int i = 1; i <= 5; ++i) {
    EXPECT_EQ(record.begin({.op = Op::barrier}).sequence, i);
    EXPECT_EQ(record.current().sequence, i);
    record.end(i == 5 ? State::failed : State::finished);
    EXPECT_EQ(record.current().op, Op::none);
  }
  std::vector<int64_t> kept;
  for (const Entry& e : record.entries()) kept.push_back(e.sequence);
  EXPECT_EQ(kept, (std::vector<int64_t>{3, 4, 5}));
  EXPECT_EQ(record.last().sequence, 4);
}

TEST(FlightRecord, LongTextsKeepTheirEnds) {
  char text[8];
  put_text(text, "a/long/path/train.py:40");
  EXPECT_STREQ(text, "...y:40");
  put_text(text, "short");
  EXPECT_STREQ(text, "short");
}

TEST(FlightRecord, ReportsAFolderThatIsNotThere) {
  setenv("LAMINA_FLIGHT_RECORDS", "/nowhere/at/all", 1);
  const std::string said = write_json(FlightRecord(), 0, "a test", {});
  unsetenv("LAMINA_FLIGHT_RECORDS");
  EXPECT_NE(said.find("/nowhere/at/all"), std::string::npos) << said;
  EXPECT_NE(said.find("where:"), std::string::npos) << said;
}

}  // namespace
}  // namespace lamina::distributed
