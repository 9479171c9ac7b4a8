#include "tests/source_file.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

namespace lamina::tests {

std::string source_file(const std::string& path) { return LAMINA_SOURCE_DIR "/" + path; }

void expect_text_of_file(const std::string& text, const std::string& path) {
  if (std::getenv("LAMINA_UPDATE_TEXTS")) std::ofstream(source_file(path)) << text;
  std::ifstream file(source_file(path));
  ASSERT_TRUE(file) << path;
  std::stringstream want;
  want << file.rdbuf();
  EXPECT_EQ(text, want.str());
}

}  // namespace lamina::tests
