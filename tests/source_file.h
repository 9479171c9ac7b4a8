// Source files that tests read.
#pragma once
#include <string>

namespace lamina::tests {

// The full path of a file given relative to the project's root.
std::string source_file(const std::string& path);

// Expects the file's content to equal `text`. LAMINA_UPDATE_TEXTS=1 rewrites the file.
void expect_text_of_file(const std::string& text, const std::string& path);

}  // namespace lamina::tests
