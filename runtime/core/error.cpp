#include "runtime/core/error.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace lamina {
namespace {

std::string text(const Error::Parts& p) {
  std::string s = p.what;
  if (!p.where.empty()) s += "\n  where: " + p.where;
  if (!p.why.empty()) s += "\n  why:   " + p.why;
  if (!p.fix.empty()) s += "\n  fix:   " + p.fix;
  return s;
}

// A name in lower case and without underscores: what is left when somebody writes it from memory.
std::string bare(const std::string& name) {
  std::string out;
  for (const char c : name)
    if (c != '_') out += 'A' <= c && c <= 'Z' ? char(c - 'A' + 'a') : c;
  return out;
}

// How many letters are added, left out, replaced or swapped with the next.
size_t distance(const std::string& a, const std::string& b) {
  std::vector<size_t> before(b.size() + 1), row(b.size() + 1), next(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    next[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      next[j] = std::min({row[j] + 1, next[j - 1] + 1, row[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) next[j] = std::min(next[j], before[j - 2] + 1);
    }
    std::swap(before, row);
    std::swap(row, next);
  }
  return row[b.size()];
}

// What other frameworks call things that have another name here; "" is near a name here and means something else.
constexpr std::pair<std::string_view, std::string_view> kElsewhere[] = {
    {"adadelta", ""},
    {"adamax", ""},
    {"bce", "binary_cross_entropy"},
    {"categoricalaccuracy", "accuracy"},
    {"crossentropy", "sparse_cross_entropy"},
    {"double", "float64"},
    {"float", "float32"},
    {"ftrl", ""},
    {"glorot", "glorot_uniform"},
    {"half", "float16"},
    {"he", "he_normal"},
    {"int", "int32"},
    {"kaiming", "he_uniform"},
    {"kaimingnormal", "he_normal"},
    {"kaiminguniform", "he_uniform"},
    {"kld", "kl_divergence"},
    {"l1", "mae"},
    {"l2", "mse"},
    {"lasso", "l1"},
    {"lecunnormal", ""},
    {"lecununiform", ""},
    {"logcosh", ""},
    {"long", "int64"},
    {"mape", ""},
    {"momentum", "sgd"},
    {"msle", ""},
    {"nesterov", "sgd"},
    {"nll", "sparse_cross_entropy"},
    {"normal", "random_normal"},
    {"ridge", "l2"},
    {"rmse", ""},
    {"rocauc", "auc"},
    {"short", "int16"},
    {"smoothl1", "huber"},
    {"sparsecategoricalaccuracy", "accuracy"},
    {"swish", "silu"},
    {"topkaccuracy", "top_k"},
    {"topkcategoricalaccuracy", "top_k"},
    {"truncatednormal", ""},
    {"uniform", "random_uniform"},
    {"weightdecay", "l2"},
    {"xavier", "glorot_uniform"},
    {"xaviernormal", "glorot_normal"},
    {"xavieruniform", "glorot_uniform"},
};

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

void throw_no_function(const char* what) {
  throw Error(ErrorKind::invalid_argument, {.what = cat(what, ": it has no function"),
                                            .where = "",
                                            .why = "the std::function that was passed is empty, or was moved from",
                                            .fix = "pass a function"});
}

void internal_error(const std::string& what) {
  throw Error(ErrorKind::internal, {.what = "internal error: " + what,
                                    .where = "",
                                    .why = "this is a bug in Lamina",
                                    .fix = "please report it with the program that shows it"});
}

Error unknown_name(const std::string& what_kind, const std::string& name, std::vector<std::string> existing) {
  constexpr size_t kShown = 24, kCompared = 64;  // names; bytes of a name, which a file may have made long
  const std::string beginning = name.substr(0, kCompared), given = bare(beginning);
  const auto known = std::find_if(std::begin(kElsewhere), std::end(kElsewhere), [&](const auto& row) { return row.first == given; });
  const bool other = known != std::end(kElsewhere) && known->second.empty();
  bool near = false;
  std::vector<std::pair<size_t, std::string>> nearest;
  for (std::string& one : existing) {
    const std::string candidate = bare(one.substr(0, kCompared));
    const size_t shorter = std::min(given.size(), candidate.size());
    size_t away = distance(given, candidate);
    const bool meant = known != std::end(kElsewhere) && known->second == one;
    const bool begins = shorter >= 4 && given.compare(0, shorter, candidate, 0, shorter) == 0;
    near = near || (!other && (meant || begins || 3 * away <= std::max(given.size(), candidate.size())));
    if (meant || begins) away = std::min<size_t>(away, meant ? 0 : 1);
    nearest.emplace_back(away, std::move(one));
  }
  std::stable_sort(nearest.begin(), nearest.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (size_t i = 0; i < existing.size(); ++i) existing[i] = std::move(nearest[i].second);
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
