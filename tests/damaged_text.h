// Small damages of texts, for tests of what reads them.
#pragma once
#include <random>
#include <string>
#include <vector>

namespace lamina::tests {

using Random = std::mt19937_64;

size_t below(Random& random, size_t n);  // 0 if n is 0
bool chance(Random& random, size_t of);  // one in `of`

// The words, numbers and signs of a text, which joined are the text.
std::vector<std::string> tokens_of(const std::string& text);
// Another token of the same kind: dtype, bool, number, word.
std::string changed_token(const std::string& token, Random& random);
// The text with one word, number or sign changed, left out, doubled, or replaced by one of the same kind from elsewhere in it.
std::string with_one_token_changed(const std::string& text, Random& random);
// The text of an attribute with one token changed, or with one more or one fewer element in a list.
std::string with_attribute_changed(const std::string& text, Random& random);

}  // namespace lamina::tests
