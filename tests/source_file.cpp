#include "tests/source_file.h"

namespace lamina::tests {

std::string source_file(const std::string& path) { return LAMINA_SOURCE_DIR "/" + path; }

}  // namespace lamina::tests
