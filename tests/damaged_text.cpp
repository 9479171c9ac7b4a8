#include "tests/damaged_text.h"

#include <algorithm>
#include <cctype>
#include <iterator>

namespace lamina::tests {
namespace {

constexpr const char* kNumbers[] = {"0", "1", "-1", "2", "3", "7", "99", "2147483648", "9223372036854775807", "1e30", "nan", "inf"};
constexpr const char* kDTypes[] = {"bool", "u8", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64"};

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.'; }
bool is_number(const std::string& token) { return std::isdigit(static_cast<unsigned char>(token[0])) != 0; }
bool is_dtype(const std::string& token) { return std::find(std::begin(kDTypes), std::end(kDTypes), token) != std::end(kDTypes); }
std::string joined(const std::vector<std::string>& tokens) {
  std::string out;
  for (const std::string& token : tokens) out += token;
  return out;
}

}  // namespace

size_t below(Random& random, size_t n) { return n ? size_t(random() % n) : 0; }
bool chance(Random& random, size_t of) { return below(random, of) == 0; }

std::vector<std::string> tokens_of(const std::string& text) {
  std::vector<std::string> out;
  for (size_t at = 0; at < text.size();) {
    size_t end = at + 1;
    if (is_word(text[at]))
      while (end < text.size() && is_word(text[end])) ++end;
    out.push_back(text.substr(at, end - at));
    at = end;
  }
  return out;
}

std::string changed_token(const std::string& token, Random& random) {
  if (is_dtype(token)) return kDTypes[below(random, std::size(kDTypes))];
  if (token == "true") return "false";
  if (token == "false") return "true";
  if (is_number(token) && token.size() < 10 && token.find_first_not_of("0123456789") == std::string::npos && !chance(random, 4))
    return std::to_string(std::max(0l, std::stol(token) + (chance(random, 2) ? 1 : -1)));
  if (is_number(token)) return kNumbers[below(random, std::size(kNumbers))];
  std::string out = token;
  out[below(random, out.size())] = char(32 + below(random, 95));
  return out;
}

std::string with_one_token_changed(const std::string& text, Random& random) {
  std::vector<std::string> tokens = tokens_of(text);
  if (tokens.empty()) return text;
  size_t at = below(random, tokens.size());
  for (int tries = 0; tries < 10 && !is_word(tokens[at][0]); ++tries) at = below(random, tokens.size());
  switch (below(random, 8)) {
    case 0: tokens.erase(tokens.begin() + long(at)); break;
    case 1: tokens.insert(tokens.begin() + long(at), tokens[below(random, tokens.size())]); break;
    case 2:
    case 3:
    case 4: tokens[at] = changed_token(tokens[at], random); break;
    default:
      for (int tries = 0; tries < 50; ++tries) {
        const std::string& other = tokens[below(random, tokens.size())];
        if (is_number(other) == is_number(tokens[at]) && is_word(other[0]) == is_word(tokens[at][0]) && other != tokens[at]) {
          tokens[at] = other;
          break;
        }
      }
  }
  return joined(tokens);
}

std::string with_attribute_changed(const std::string& text, Random& random) {
  std::vector<std::string> tokens = tokens_of(text);
  if (tokens.empty()) return text;
  std::vector<size_t> words;
  for (size_t i = 0; i < tokens.size(); ++i)
    if (is_word(tokens[i][0])) words.push_back(i);
  const size_t at = words.empty() ? below(random, tokens.size()) : words[below(random, words.size())];
  if (tokens.front() == "[" && chance(random, 4)) {
    if (chance(random, 2) || tokens.size() < 4)
      tokens.insert(tokens.begin() + 1, tokens.size() > 2 ? "1," : "1");
    else
      tokens.erase(tokens.begin() + 1, tokens.begin() + 3);
  } else if (is_number(tokens[at]) && (at == 0 || tokens[at - 1] != "-") && chance(random, 5)) {
    tokens[at] = "-" + tokens[at];
  } else {
    tokens[at] = changed_token(tokens[at], random);
  }
  return joined(tokens);
}

}  // namespace lamina::tests
