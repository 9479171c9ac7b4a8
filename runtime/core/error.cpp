#include "runtime/core/error.h"

#include <algorithm>

namespace lamina {
namespace {

std::string text(const Error::Parts& p) {
  std::string s = p.what;
  if (!p.where.empty()) s += "\n  where: " + p.where;
  if (!p.why.empty()) s += "\n  why:   " + p.why;
  if (!p.fix.empty()) s += "\n  fix:   " + p.fix;
  return s;
}

char lower(char c) { return 'A' <= c && c <= 'Z' ? char(c - 'A' + 'a') : c; }

// Levenshtein distance, in lower case.
size_t distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (lower(a[i - 1]) != lower(b[j - 1]))});
      diagonal = above;
    }
  }
  return row[b.size()];
}

}  // namespace

const char* name(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::invalid_argument: return "invalid argument";
    case ErrorKind::type: return "type mismatch";
    case ErrorKind::signature: return "signature mismatch";
    case ErrorKind::state: return "wrong state";
    case ErrorKind::assertion: return "assertion failed";
    case ErrorKind::index: return "index out of range";
    case ErrorKind::not_found: return "not found";
    case ErrorKind::conversion: return "conversion failed";
    case ErrorKind::retrace: return "retrace limit";
    case ErrorKind::out_of_memory: return "out of memory";
    case ErrorKind::time_limit: return "time limit";
    case ErrorKind::device: return "device unavailable";
    case ErrorKind::collective: return "collective failed";
    case ErrorKind::file: return "bad file";
    case ErrorKind::internal: return "internal error";
  }
  return "unknown";
}

Error::Error(ErrorKind k, Parts p) : std::runtime_error(text(p)), kind(k), parts(std::move(p)) {}

Error Error::at(const std::string& where) const {
  Parts p = parts;
  p.where = p.where.empty() ? where : where.empty() ? p.where : p.where + ", at " + where;
  return Error(kind, p);
}

void internal_error(const std::string& what) {
  throw Error(ErrorKind::internal, {.what = "internal error: " + what,
                                    .where = "",
                                    .why = "this is a bug in Lamina",
                                    .fix = "please report it with the program that shows it"});
}

Error unknown_name(const std::string& what_kind, const std::string& name, std::vector<std::string> existing) {
  constexpr size_t kShown = 24, kCompared = 64;  // names; bytes of a name, which a file may have made long
  const std::string beginning = name.substr(0, kCompared);
  std::vector<std::pair<size_t, std::string>> nearest;
  for (std::string& one : existing) nearest.emplace_back(distance(beginning, one.substr(0, kCompared)), std::move(one));
  std::stable_sort(nearest.begin(), nearest.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (size_t i = 0; i < existing.size(); ++i) existing[i] = std::move(nearest[i].second);
  const bool near = !existing.empty() && 2 * nearest.front().first <= std::max(beginning.size(), existing.front().size());
  std::string list;
  for (size_t i = 0; i < std::min(existing.size(), kShown); ++i) list += (list.empty() ? "" : ", ") + existing[i];
  if (existing.size() > kShown) list += cat(" and ", existing.size() - kShown, " more");
  return Error(ErrorKind::not_found,
               {.what = cat("there is no ", what_kind, " named '", beginning, name.size() > kCompared ? "..." : "", "'"),
                .where = "",
                .why = existing.empty() ? cat("there is no ", what_kind, " at all") : "there are: " + list,
                .fix = existing.empty() ? ""
                       : near           ? cat("did you mean '", existing.front(), "'?")
                                        : "use one of these"});
}

}  // namespace lamina
