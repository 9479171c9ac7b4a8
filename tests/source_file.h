// Files of the source tree that tests read.
#pragma once
#include <string>

namespace lamina::tests {

// The full path of a file named by its path from the project's root.
std::string source_file(const std::string& path);

// Expects `text` to be what the file holds, letter by letter. LAMINA_UPDATE_TEXTS=1 writes the file anew.
void expect_text_of_file(const std::string& text, const std::string& path);

}  // namespace lamina::tests
