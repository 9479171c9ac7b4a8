// Files of the source tree that tests read.
#pragma once
#include <string>

namespace lamina::tests {

// The full path of a file named by its path from the project's root.
std::string source_file(const std::string& path);

}  // namespace lamina::tests
