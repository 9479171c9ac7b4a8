#include "python_bindings/src/open_lengths.h"

#include <algorithm>
#include <cctype>

namespace lamina::python {
namespace {

// Calls visit(tensor, axis, length).
template <class Types, class Visit>
void for_each_length(Types& types, const Visit& visit) {
  for (size_t i = 0; i < types.size(); ++i)
    for (size_t axis = 0; axis < types[i].shape.size(); ++axis) visit(i, axis, types[i].shape[axis]);
}

// n0, n1, ...: the first that is nowhere in the types.
template <class Types>
Dim new_length(const Types& types) {
  for (int k = 0;; ++k) {
    const Dim d = Dim::symbol(cat("n", k));
    if (std::none_of(types.begin(), types.end(), [&](const auto& t) { return std::ranges::find(t.shape, d) != t.shape.end(); })) return d;
  }
}

// Where the text has this name and no longer one.
size_t place_of(std::string_view name, std::string_view text) {
  const auto in_name = [&](size_t at) {
    return at < text.size() && (std::isalnum(static_cast<unsigned char>(text[at])) || text[at] == '_');
  };
  for (size_t at = text.find(name); at != text.npos; at = text.find(name, at + 1))
    if ((at == 0 || !in_name(at - 1)) && !in_name(at + name.size())) return at;
  return text.npos;
}

// Widens `known` to accept `given`: a length that differs becomes open. Empty if they differ in more than lengths, else whether it changed.
std::optional<bool> widen(std::vector<TensorType>& known, std::span<const Tensor> given) {
  if (known.size() != given.size()) return {};
  for (size_t i = 0; i < given.size(); ++i)
    if (known[i].dtype != given[i].dtype() || known[i].rank() != given[i].type().rank()) return {};
  struct Length {
    Dim was, now;
    int places = 0;
    Dim open;
  };
  std::vector<Length> lengths;
  const auto find = [&](Dim was, Dim now) {
    return std::ranges::find_if(lengths, [&](const Length& l) { return l.was == was && l.now == now; });
  };
  const auto changes = [&](Dim was, Dim now) { return was != any_length() && !(was.known() && was == now); };
  for_each_length(known, [&](size_t i, size_t axis, Dim& was) {
    const Dim now = given[i].shape()[axis];
    if (!changes(was, now)) return;
    if (find(was, now) == lengths.end()) lengths.push_back({was, now, 0, any_length()});
    ++find(was, now)->places;
  });
  bool wider = false;
  for (Length& l : lengths) {
    const bool whole = !l.was.known() && std::ranges::count(lengths, l.was, &Length::was) == 1;
    wider |= !whole;
    if (whole) l.open = l.was;
  }
  std::vector<TensorType> wide = known;
  for_each_length(wide, [&](size_t i, size_t axis, Dim& length) {
    const Dim now = given[i].shape()[axis];
    if (!changes(known[i].shape[axis], now)) return;
    Length& l = *find(known[i].shape[axis], now);
    if (l.open == any_length() && l.places > 1) l.open = new_length(wide);
    length = l.open;
  });
  known = std::move(wide);
  return wider;
}

}  // namespace

Relaxed* relax(std::vector<Relaxed>& all, const std::string& key, std::span<const Tensor> given, const Function& exact, bool of_model,
               int& retired_traces) {
  constexpr int kOwnGraphs = 4;
  for (Relaxed& r : all) {
    if (r.key != key) continue;
    std::vector<TensorType> types = r.types;
    const std::optional<bool> wider = widen(types, given);
    if (!wider) continue;
    if (r.refused && (*wider || !r.function)) return nullptr;
    std::swap(types, r.types);
    const bool seen_once = std::ranges::all_of(r.types, [](const TensorType& t) { return known(t.shape); });
    if (!r.function && (seen_once || (of_model && ++r.exact <= kOwnGraphs))) return nullptr;
    if (*wider || !r.function) {
      if (r.function) retired_traces += r.function->trace_count();
      r.before = std::move(types), r.narrower = r.function;
      FunctionOptions options = exact.options();
      options.signature.emplace();
      for (const TensorType& t : r.types) options.signature->push_back({t.shape, t.dtype, ""});
      r.function.emplace(std::move(options));
    }
    return &r;
  }
  std::vector<TensorType> types;
  for (const Tensor& t : given) types.push_back(t.type());
  all.push_back({.key = key, .types = std::move(types), .function = {}});
  return nullptr;
}

void refuse(std::vector<Relaxed>& all, const Function& function, int& retired_traces) {
  for (Relaxed& r : all) {
    if (!r.function || !r.function->same(function)) continue;
    retired_traces += function.trace_count();
    if (r.narrower) r.types = r.before, retired_traces -= r.narrower->trace_count();
    r.function = r.narrower;
    r.refused = true;
  }
}

bool make_equal(std::vector<TensorSpec>& signature, std::string_view error, std::span<const Tensor> given) {
  struct Named {
    size_t place;
    Dim name, length;
    Dim* in_signature;
  };
  std::vector<Named> named;  // the open lengths that the error names
  for_each_length(signature, [&](size_t i, size_t axis, Dim& length) {
    if (length.known() || i >= given.size() || axis >= given[i].shape().size()) return;
    for (int depth = 0; depth < 8; ++depth) {
      const Dim name = length == any_length() ? open_length(depth, i, axis) : length;
      if (const size_t place = place_of(name.text(), error); place != error.npos) {
        named.push_back({place, name, given[i].shape()[axis], &length});
        break;
      }
    }
  });
  std::ranges::sort(named, {}, &Named::place);
  for (const Named& a : named)
    for (const Named& b : named) {
      if (&b <= &a || a.name == b.name || (a.length.known() && b.length.known() && a.length != b.length)) continue;
      const bool a_named = *a.in_signature != any_length(), b_named = *b.in_signature != any_length();
      if (a_named && b_named) continue;
      *a.in_signature = *b.in_signature = a_named ? *a.in_signature : b_named ? *b.in_signature : new_length(signature);
      return true;
    }
  return false;
}

}  // namespace lamina::python
