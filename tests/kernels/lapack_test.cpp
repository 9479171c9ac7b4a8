// LAPACK is opened by name; without one, or with something else of that name, the reason is kept.
#include "kernels/cpu/lapack.h"

#include <gtest/gtest.h>

namespace lamina::kernels::cpu {
namespace {

TEST(Lapack, MissingLibrariesAreNamed) {
  constexpr const char* names[] = {"liblamina_no_such.so.1", "liblamina_nor_this.so.2"};
  const LapackLibrary found = open_lapack(names);
  EXPECT_TRUE(found.path.empty());
  for (const char* name : names) EXPECT_NE(found.why.find(name), std::string::npos) << found.why;
}
TEST(Lapack, LibraryWithoutItsFunctionsIsRefused) {
  constexpr const char* names[] = {"libz.so.1"};
  const LapackLibrary found = open_lapack(names);
  EXPECT_TRUE(found.path.empty());
  EXPECT_EQ(found.why, "libz.so.1 has not all of LAPACK's functions");
}

}  // namespace
}  // namespace lamina::kernels::cpu
