#include "graph/functions/einsum.h"

#include <algorithm>
#include <cctype>
#include <limits>
#include <map>
#include <set>

#include "graph/functions/shape_functions.h"

namespace lamina {
namespace {

using Label = int;  // a letter, or kEllipsis + an axis of "..." counted from the end
using Labels = std::vector<Label>;
constexpr Label kEllipsis = 256;

bool has(const Labels& labels, Label l) { return std::find(labels.begin(), labels.end(), l) != labels.end(); }

struct Term {
  Tensor t;
  Labels labels;  // of its axes, each once
};

class Contraction {
 public:
  Contraction(std::string text, CallSite at) : text_(std::move(text)), at_(at) {}

  Tensor run(const std::vector<Labels>& inputs, const std::vector<Tensor>& operands, Labels output) {
    output_ = std::move(output);
    find_lengths(inputs, operands);
    for (size_t i = 0; i < inputs.size(); ++i) terms_.push_back(prepared(operands[i], inputs[i]));
    for (Label l : output_)
      if (std::none_of(terms_.begin(), terms_.end(), [&](const Term& t) { return has(t.labels, l); }))
        refuse("the result has a letter that no operand has", "take the letter from an operand");
    for (size_t i = 0; i < terms_.size(); ++i) sum_alone(i);
    while (terms_.size() > 1) {
      const auto [a, b] = next_pair();
      Term product = contract(terms_[a], terms_[b], wanted_without(a, b), terms_.size() == 2);
      terms_.erase(terms_.begin() + int64_t(std::max(a, b)));
      terms_.erase(terms_.begin() + int64_t(std::min(a, b)));
      terms_.push_back(std::move(product));
    }
    return ordered(terms_[0], output_).t;
  }

 private:
  Operand here(const Tensor& t) const { return Operand(t, at_); }
  [[noreturn]] void refuse(const std::string& why, const std::string& fix) const {
    throw Error(ErrorKind::invalid_argument,
                {.what = cat("einsum: '", text_, "' does not fit its operands"), .where = text(at_.line()), .why = why, .fix = fix});
  }
  static std::string name(Label l) { return l >= kEllipsis ? "..." : std::string(1, char(l)); }

  void find_lengths(const std::vector<Labels>& inputs, const std::vector<Tensor>& operands) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      for (size_t a = 0; a < inputs[i].size(); ++a) {
        const Dim length = operands[i].shape()[a];
        auto [known, is_new] = lengths_.try_emplace(inputs[i][a], length);
        if (is_new || known->second == length || length == Dim(1)) continue;
        if (known->second != Dim(1))
          refuse(cat("the axes '", name(inputs[i][a]), "' have the lengths ", known->second, " and ", length),
                 "axes of one letter have one length, or 1");
        known->second = length;
      }
    }
  }

  // Makes labels unique: repeated ones become a diagonal, and broadcast axes of length 1 are dropped.
  Term prepared(const Tensor& operand, const Labels& given) const {
    Term term{operand, given};
    for (size_t a = 0; a < term.labels.size(); ++a) {
      const auto again = std::find(term.labels.begin() + int64_t(a) + 1, term.labels.end(), term.labels[a]);
      if (again == term.labels.end()) continue;
      const size_t b = size_t(again - term.labels.begin());
      if (term.t.shape()[a] != term.t.shape()[b])
        refuse(cat("the axes '", name(term.labels[a]), "' of one operand have the lengths ", term.t.shape()[a], " and ", term.t.shape()[b]),
               "a diagonal needs equal lengths");
      const Label l = term.labels[a];
      term.t = diagonal(here(term.t), 0, int(a), int(b));
      term.labels.erase(term.labels.begin() + int64_t(b));
      term.labels.erase(term.labels.begin() + int64_t(a));
      term.labels.push_back(l);
      --a;  // the next axis has moved here
    }
    Shape shape;
    Labels kept;
    for (size_t a = 0; a < term.labels.size(); ++a) {
      if (term.t.shape()[a] == Dim(1) && lengths_.at(term.labels[a]) != Dim(1)) continue;
      shape.push_back(term.t.shape()[a]), kept.push_back(term.labels[a]);
    }
    term.t = reshape_to(here(term.t), shape);
    term.labels = kept;
    return term;
  }

  // Labels still needed after terms a and b are combined.
  Labels wanted_without(size_t a, size_t b) const {
    Labels out = output_;
    for (size_t i = 0; i < terms_.size(); ++i)
      if (i != a && i != b) out.insert(out.end(), terms_[i].labels.begin(), terms_[i].labels.end());
    return out;
  }

  // Sums out labels that no other term and no result has.
  void sum_alone(size_t i) {
    const Labels wanted = wanted_without(i, i);
    Axes axes;
    Labels kept;
    for (size_t a = 0; a < terms_[i].labels.size(); ++a)
      if (has(wanted, terms_[i].labels[a]))
        kept.push_back(terms_[i].labels[a]);
      else
        axes.push_back(int64_t(a));
    if (axes.empty()) return;
    const DType dtype = terms_[i].t.dtype();
    terms_[i] = {astype(here(sum(here(terms_[i].t), axes)), dtype), kept};
  }

  double length(Label l) const {
    const Dim d = lengths_.at(l);
    return d.known() ? double(d.number()) : 64;  // a guess
  }
  double size(const Labels& labels) const {
    double n = 1;
    for (Label l : labels) n *= length(l);
    return n;
  }
  Labels united(const Labels& a, const Labels& b) const {
    Labels out = a;
    for (Label l : b)
      if (!has(out, l)) out.push_back(l);
    return out;
  }
  // The labels of the product of two terms.
  static Labels left(const Labels& both, const Labels& wanted) {
    Labels out;
    for (Label l : both)
      if (has(wanted, l)) out.push_back(l);
    return out;
  }

  // The first product of the cheapest order: tries all orders for few terms, otherwise takes the product that shrinks most.
  std::pair<size_t, size_t> next_pair() const {
    if (terms_.size() == 2) return {0, 1};
    std::vector<Labels> all;
    for (const Term& t : terms_) all.push_back(t.labels);
    double best = std::numeric_limits<double>::infinity();
    std::pair<size_t, size_t> pair{0, 1};
    for (size_t a = 0; a < all.size(); ++a)
      for (size_t b = a + 1; b < all.size(); ++b) {
        const double cost = all.size() <= kAllOrders
                                ? cost_with(all, a, b)
                                : size(left(united(all[a], all[b]), wanted_without(a, b))) - size(all[a]) - size(all[b]);
        if (cost < best) best = cost, pair = {a, b};
      }
    return pair;
  }
  // Multiplications of the cheapest order that starts with the product of a and b.
  double cost_with(std::vector<Labels> all, size_t a, size_t b) const {
    Labels wanted = output_;
    for (size_t i = 0; i < all.size(); ++i)
      if (i != a && i != b) wanted.insert(wanted.end(), all[i].begin(), all[i].end());
    const Labels both = united(all[a], all[b]);
    const double here = size(both);
    all[a] = left(both, wanted);
    all.erase(all.begin() + int64_t(b));
    double rest = all.size() > 1 ? std::numeric_limits<double>::infinity() : 0;
    for (size_t i = 0; i < all.size(); ++i)
      for (size_t j = i + 1; j < all.size(); ++j) rest = std::min(rest, cost_with(all, i, j));
    return here + rest;
  }

  Term ordered(const Term& term, const Labels& order) const {
    if (term.labels == order) return term;
    Axes axes;
    for (Label l : order) axes.push_back(std::find(term.labels.begin(), term.labels.end(), l) - term.labels.begin());
    return {transpose(here(term.t), axes), order};
  }
  Dim product(const Labels& labels) const {
    Dim n(1);
    for (Label l : labels) n = n * lengths_.at(l);
    return n;
  }
  Shape shape_of(const Labels& labels) const {
    Shape out;
    for (Label l : labels) out.push_back(lengths_.at(l));
    return out;
  }
  static Labels joined(std::initializer_list<const Labels*> lists) {
    Labels out;
    for (const Labels* list : lists) out.insert(out.end(), list->begin(), list->end());
    return out;
  }

  Term contract(Term a, Term b, const Labels& wanted, bool last) const {
    Labels shared, summed;
    for (Label l : a.labels)
      if (has(b.labels, l)) (has(wanted, l) ? shared : summed).push_back(l);
    if (summed.empty()) return multiplied(a, b, last);
    auto own = [&](const Term& t) {
      Labels out;
      for (Label l : t.labels)
        if (!has(shared, l) && !has(summed, l)) out.push_back(l);
      return out;
    };
    Labels of_a = own(a), of_b = own(b);
    if (last && !of_b.empty() && shared.size() < output_.size() && has(of_b, output_[shared.size()]))
      std::swap(a, b), std::swap(of_a, of_b);
    // Small integers have no matmul; i32 wraps the same way.
    const DType dtype = a.t.dtype();
    const bool small = is_integer(dtype) && size_of(dtype) < 4;
    if (small) a.t = astype(here(a.t), DType::i32), b.t = astype(here(b.t), DType::i32);

    // Dot products are long sums, not matrices. A half type's one is a matmul, which does not round the products.
    if (of_a.empty() && of_b.empty() && (!shared.empty() || !is_half(dtype))) {
      const Labels order = joined({&shared, &summed});
      Axes axes;
      for (size_t i = shared.size(); i < order.size(); ++i) axes.push_back(int64_t(i));
      const Tensor y = sum(here(here(ordered(a, order).t) * here(ordered(b, order).t)), axes);
      return {small ? astype(here(y), dtype) : y, shared};
    }

    // Both as stacks of matrices; matmul's flags save transpositions.
    const bool transpose_a = !(a.labels == joined({&shared, &of_a, &summed})) && a.labels == joined({&shared, &summed, &of_a});
    const bool transpose_b = b.labels == joined({&shared, &of_b, &summed}) && !(b.labels == joined({&shared, &summed, &of_b}));
    a = ordered(a, transpose_a ? joined({&shared, &summed, &of_a}) : joined({&shared, &of_a, &summed}));
    b = ordered(b, transpose_b ? joined({&shared, &of_b, &summed}) : joined({&shared, &summed, &of_b}));
    const Dim rows = product(of_a), columns = product(of_b), inside = product(summed);
    const bool many_rows = shared.empty() && !transpose_a && !of_a.empty();  // one matrix on the right for all rows of a
    Shape left = shape_of(many_rows ? of_a : shared), right = shape_of(shared);
    if (!many_rows) left.push_back(transpose_a ? inside : rows);
    left.push_back(many_rows || !transpose_a ? inside : rows);
    right.push_back(transpose_b ? columns : inside), right.push_back(transpose_b ? inside : columns);
    Tensor y = matmul(here(reshape_to(here(a.t), left)), here(reshape_to(here(b.t), right)), transpose_a, transpose_b);
    const Labels labels = joined({&shared, &of_a, &of_b});
    y = reshape_to(here(y), shape_of(labels));
    return {small ? astype(here(y), dtype) : y, labels};
  }

  // Nothing to sum over: a broadcast product.
  Term multiplied(const Term& a, const Term& b, bool last) const {
    const Labels labels = last ? output_ : united(a.labels, b.labels);
    auto spread = [&](const Term& t) {
      Labels own;
      Shape shape;
      for (Label l : labels) {
        if (has(t.labels, l)) own.push_back(l);
        shape.push_back(has(t.labels, l) ? lengths_.at(l) : Dim(1));
      }
      size_t first = 0;
      while (first < shape.size() && !has(t.labels, labels[first])) ++first;
      return reshape_to(here(ordered(t, own).t), Shape(shape.begin() + int64_t(first), shape.end()));
    };
    const Tensor left = spread(a), right = spread(b);
    return {mul(here(left), here(right)), labels};
  }

  static constexpr size_t kAllOrders = 5;  // terms: 180 orders
  const std::string text_;
  const CallSite at_;
  Labels output_;
  std::map<Label, Dim> lengths_;
  std::vector<Term> terms_;
};

struct Expression {
  std::vector<std::string> inputs;
  std::string output;
  bool has_output = false;
};

Expression parse(const std::string& expression, size_t operands, CallSite at) {
  auto refuse = [&](const std::string& why) {
    return Error(ErrorKind::invalid_argument, {.what = cat("einsum: '", expression, "' is not an expression"),
                                               .where = text(at.line()),
                                               .why = why,
                                               .fix = "write it like 'ij,jk->ik': a letter per axis, commas between operands"});
  };
  Expression out;
  std::string clean;
  for (char c : expression)
    if (!std::isspace(static_cast<unsigned char>(c))) clean += c;
  const size_t arrow = clean.find("->");
  out.has_output = arrow != std::string::npos;
  if (out.has_output) out.output = clean.substr(arrow + 2), clean.resize(arrow);
  for (size_t from = 0; from <= clean.size();) {
    const size_t comma = std::min(clean.find(',', from), clean.size());
    out.inputs.push_back(clean.substr(from, comma - from));
    from = comma + 1;
  }
  std::vector<std::string> all = out.inputs;
  all.push_back(out.output);
  for (const std::string& part : all)
    for (size_t i = 0, rests = 0; i < part.size(); ++i) {
      if (std::isalpha(static_cast<unsigned char>(part[i]))) continue;
      if (part.compare(i, 3, "...") != 0 || rests++) throw refuse(cat("'", part, "' has more than letters and one '...'"));
      i += 2;
    }
  if (out.inputs.size() != operands)
    throw refuse(cat("it names ", out.inputs.size(), " operands, and ", operands, operands == 1 ? " is given" : " are given"));
  return out;
}

// A part of the expression as labels; "..." stands for `rest` axes.
Labels labels_of(const std::string& part, int64_t rest) {
  Labels out;
  for (size_t i = 0; i < part.size(); ++i) {
    if (part[i] != '.') {
      out.push_back(static_cast<unsigned char>(part[i]));
      continue;
    }
    for (int64_t r = rest; r-- > 0;) out.push_back(kEllipsis + Label(r));
    i += 2;
  }
  return out;
}

}  // namespace

Tensor einsum(const std::string& expression, const std::vector<Tensor>& given, CallSite at) {
  const Expression e = parse(expression, given.size(), at);
  std::vector<Operand> parts;
  for (const Tensor& t : given) parts.emplace_back(t, at);
  const std::vector<Tensor> operands = resolve_all("einsum", parts, Mixing::numbers);
  auto refuse = [&](const std::string& why, const std::string& fix) {
    return Error(ErrorKind::invalid_argument,
                 {.what = cat("einsum: '", expression, "' does not fit its operands"), .where = text(at.line()), .why = why, .fix = fix});
  };
  std::vector<Labels> inputs;
  int64_t most_rest = 0;
  std::map<Label, int> count;
  for (size_t i = 0; i < operands.size(); ++i) {
    const bool dots = e.inputs[i].find('.') != std::string::npos;
    const int64_t letters = int64_t(e.inputs[i].size()) - (dots ? 3 : 0), rest = operands[i].rank() - letters;
    if (rest < 0 || (rest > 0 && !dots))
      throw refuse(
          cat("operand ", i, " is ", operands[i].type(), ", and '", e.inputs[i], "' names ", letters, letters == 1 ? " axis" : " axes"),
          "name each axis once");
    most_rest = std::max(most_rest, rest);
    inputs.push_back(labels_of(e.inputs[i], rest));
    for (Label l : inputs.back()) ++count[l];
  }
  Labels output = labels_of(e.output, most_rest);
  if (!e.has_output) {
    for (int64_t r = most_rest; r-- > 0;) output.push_back(kEllipsis + Label(r));
    for (auto [label, times] : count)
      if (label < kEllipsis && times == 1) output.push_back(label);
  } else if (most_rest > 0 && e.output.find('.') == std::string::npos) {
    throw refuse("the operands have '...' and the result does not", "write '...' in the result too");
  }
  if (std::set<Label>(output.begin(), output.end()).size() != output.size())
    throw refuse("the result has a letter twice", "name each axis of the result once");
  return Contraction(expression, at).run(inputs, operands, output);
}

Tensor tensordot(const Operand& a, const Operand& b, int axes) {
  const auto [left, right] = resolve_pair("tensordot", a, b, Mixing::numbers);
  Axes of_a, of_b;
  if (axes < 0 || axes > left.rank() || axes > right.rank())
    throw Error(ErrorKind::invalid_argument, {.what = cat("tensordot: ", axes, " axes of ", left.type(), " and ", right.type()),
                                              .where = text(a.at().line()),
                                              .why = "both must have so many",
                                              .fix = cat("pass 0 to ", std::min(left.rank(), right.rank()))});
  for (int i = 0; i < axes; ++i) of_a.push_back(left.rank() - axes + i), of_b.push_back(i);
  return tensordot(Operand(left, a.at()), Operand(right, b.at()), of_a, of_b);
}

Tensor tensordot(const Operand& a, const Operand& b, const Axes& axes_a, const Axes& axes_b) {
  const auto [left, right] = resolve_pair("tensordot", a, b, Mixing::numbers);
  auto refuse = [&, &left = left, &right = right](const std::string& why) {
    return Error(ErrorKind::invalid_argument, {.what = cat("tensordot: ", left.type(), " over ", ir::attr_text(axes_a), " and ",
                                                           right.type(), " over ", ir::attr_text(axes_b)),
                                               .where = text(a.at().line()),
                                               .why = why,
                                               .fix = "pass the axes in pairs of equal length"});
  };
  if (axes_a.size() != axes_b.size()) throw refuse("each axis of a has one of b");
  Labels of_a, of_b;
  for (int i = 0; i < left.rank(); ++i) of_a.push_back(i);
  for (int i = 0; i < right.rank(); ++i) of_b.push_back(100 + i);
  for (size_t i = 0; i < axes_a.size(); ++i) {
    const size_t p = size_t(normalize_axis("tensordot", axes_a[i], of_a.size())),
                 q = size_t(normalize_axis("tensordot", axes_b[i], of_b.size()));
    if (of_b[q] < 100 || has(of_b, of_a[p])) throw refuse("an axis is named twice");
    if (left.shape()[p] != right.shape()[q])
      throw refuse(cat("the axes ", axes_a[i], " and ", axes_b[i], " have the lengths ", left.shape()[p], " and ", right.shape()[q]));
    of_b[q] = of_a[p];
  }
  Labels output;
  for (Label l : of_a)
    if (!has(of_b, l)) output.push_back(l);
  for (Label l : of_b)
    if (l >= 100) output.push_back(l);
  return Contraction("tensordot", a.at()).run({of_a, of_b}, {left, right}, output);
}

Tensor dot(const Operand& a, const Operand& b) {
  const auto [left, right] = resolve_pair("dot", a, b, Mixing::numbers);
  const Operand x(left, a.at()), y(right, b.at());
  if (left.rank() == 0 || right.rank() == 0) return mul(x, y);
  return tensordot(x, y, Axes{-1}, Axes{right.rank() == 1 ? 0 : right.rank() - 2});
}
Tensor vdot(const Operand& a, const Operand& b) {
  const auto [left, right] = resolve_pair("vdot", a, b, Mixing::numbers);
  return tensordot(Operand(flatten(Operand(conj(Operand(left, a.at())), a.at())), a.at()), Operand(flatten(Operand(right, b.at())), b.at()),
                   1);
}
Tensor inner(const Operand& a, const Operand& b) {
  const auto [left, right] = resolve_pair("inner", a, b, Mixing::numbers);
  const Operand x(left, a.at()), y(right, b.at());
  return left.rank() == 0 || right.rank() == 0 ? mul(x, y) : tensordot(x, y, Axes{-1}, Axes{-1});
}
Tensor outer(const Operand& a, const Operand& b) {
  const auto [left, right] = resolve_pair("outer", a, b, Mixing::numbers);
  const Operand x(left, a.at()), y(right, b.at());
  return mul(Operand(reshape(x, {-1, 1}), a.at()), Operand(flatten(y), b.at()));
}

}  // namespace lamina
