#include "graph/passes/cut_rows.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "graph/ops/batching.h"
#include "graph/ops/rows.h"
#include "graph/passes/pipeline.h"
#include "graph/passes/rewrite.h"
#include "runtime/dist/tree.h"

namespace lamina::passes {
namespace {

using distributed::part_of;
using distributed::Range;
using ir::Cut;
using ir::RowsRule;
using Leaves = RowsRule::Leaves;

// The rows of a batch, its shards and ranks.
struct Batch {
  int64_t rows, shards, ranks, rank, bucket_bytes;
  bool reproducible, in_launch;

  Range leaves_of(int64_t r) const { return part_of(shards, ranks, r); }
  Range rows_of_leaf(int64_t leaf) const { return part_of(rows, shards, leaf); }
  Range rows_of(int64_t r) const { return distributed::rows_of_rank(rows, shards, ranks, r); }
};

// Cuts a graph, or a region of one whose inputs lie on the ranks as `inputs` says.
class Cutter {
 public:
  Cutter(const Graph& from, const Batch& batch, std::vector<Cut> inputs, std::vector<Device> devices = {})
      : from_(from), batch_(batch), inputs_(std::move(inputs)), devices_(std::move(devices)) {
    label();
  }
  // How the outputs lie by themselves.
  std::vector<Cut> outputs() const {
    std::vector<Cut> out;
    for (Value v : from_.outputs) out.push_back(cut_of(v));
    return out;
  }
  // The graph of this rank, with outputs as wanted.
  Graph run(std::span<const Cut> outputs, std::vector<GatheredRows>& gathered) {
    gathered_ = &gathered;
    find_wants(outputs);
    forms_.resize(wants_.size());
    to_.resources = from_.resources;
    for (int n = 0; n < from_.size(); ++n) {
      to_.place = {from_[n].line, from_[n].scope, from_[n].device};
      stand_on(0);
      emit(n);
    }
    for (Value v : from_.inputs) to_.inputs.push_back(forms_[index(v)][0].value);
    for (size_t i = 0; i < outputs.size(); ++i) {
      const Node& node = from_[from_.outputs[i]];
      to_.place = {node.line, node.scope, node.device};
      stand_on(0);
      to_.outputs.push_back(get(from_.outputs[i], outputs[i], 0));
    }
    send_sums();
    to_.place = from_.place;
    return std::move(to_);
  }

 private:
  struct NodePlan {
    std::vector<Cut> in, out;
    std::optional<RowsRule> rule;
    std::vector<std::vector<Cut>> region_in, region_out;
    std::vector<std::pair<Cut, RowsRule>> others;  // other forms of the result, made directly
    bool mixes = false;                            // rows are gathered for it
    bool constant = false;                         // depends on constants alone
    bool needed = false;                           // in the form `out`
  };
  struct Form {
    Cut cut;
    int64_t replica;
    Value value;
  };
  struct Sum {  // of all ranks' leaves; `value` is this rank's roots of the tree, or leaves, and once they are exchanged their sum
    Value old, value;
    double divisor;
    DType dtype;
    Graph::Place place;
    bool leaves = false;
  };

  size_t index(Value v) const { return size_t(first_value_[size_t(v.node)] + v.result); }
  Cut cut_of(Value v) const { return plans_[size_t(v.node)].out[size_t(v.result)]; }
  std::vector<TensorType> types_of(std::span<const Value> values) const {
    std::vector<TensorType> out;
    for (Value v : values) out.push_back(from_.type(v));
    return out;
  }

  // --- how each value lies ---
  void label() {
    first_value_ = ir::number_values(from_);
    plans_.resize(size_t(from_.size()));
    for (int n = 0; n < from_.size(); ++n) {
      label(n);
      plans_[size_t(n)].constant =
          !is(from_[n], ops::def::input) && !has_effects(from_[n]) &&
          std::all_of(from_[n].inputs.begin(), from_[n].inputs.end(), [&](Value v) { return plans_[size_t(v.node)].constant; });
      check(from_[n], plans_[size_t(n)].in, plans_[size_t(n)].out);
    }
  }
  void label(int n) {
    const Node& node = from_[n];
    NodePlan& plan = plans_[size_t(n)];
    plan.in.resize(node.inputs.size());
    plan.out.resize(node.types.size());
    if (is(node, ops::def::input)) {
      const auto at = std::find(from_.inputs.begin(), from_.inputs.end(), Value{n, 0});
      if (at != from_.inputs.end() && size_t(at - from_.inputs.begin()) < inputs_.size())
        plan.out[0] = inputs_[size_t(at - from_.inputs.begin())];
      return;
    }
    if (node.op->effect == ir::Effect::ranks)
      throw Error(ErrorKind::invalid_argument, {.what = cat(node.op->name, ": it stands in a function that data_parallel cuts by rows"),
                                                .where = text(node.line),
                                                .why = "such a function is about the whole batch; sums over ranks follow by themselves",
                                                .fix = "leave the collective out, or call the function without data_parallel"});
    std::vector<Cut> cuts;
    for (Value v : node.inputs) cuts.push_back(cut_of(v));
    if (is(node, ops::def::cond)) return label_branches(node, plan, cuts);
    if (is(node, ops::def::while_loop) || is(node, ops::def::scan)) return label_loop(node, plan, cuts);
    if (std::all_of(cuts.begin(), cuts.end(), [](const Cut& c) { return c.whole(); })) return;
    if (node.op->rows && node.op->effect == ir::Effect::none)
      plan.rule = node.op->rows({*node.attrs, types_of(node.inputs), node.types, cuts, batch_.rows, batch_.rows < batch_.shards});
    if (plan.rule)
      plan.in = plan.rule->in, plan.out = plan.rule->out, plan.mixes = plan.rule->of_all;
    else
      plan.mixes = node.op->effect == ir::Effect::none;
  }
  // A rule that names a wrong axis would otherwise fail far away.
  void check(const Node& node, const std::vector<Cut>& in, const std::vector<Cut>& out) const {
    const auto fits = [&](const TensorType& type, Cut cut) {
      return cut.whole() || (size_t(cut.axis) < type.rank() && type.shape[size_t(cut.axis)] == Dim(batch_.rows * cut.each));
    };
    bool all = in.size() == node.inputs.size() && out.size() == node.types.size();
    for (size_t i = 0; all && i < in.size(); ++i) all = fits(from_.type(node.inputs[i]), in[i]);
    for (size_t i = 0; all && i < out.size(); ++i) all = fits(node.types[i], out[i]);
    if (!all) internal_error(cat(node.op->name, ": the axes of its rows do not fit its types"));
  }

  void label_branches(const Node& node, NodePlan& plan, const std::vector<Cut>& cuts) {
    plan.in = cuts;  // the predicate is whole: it has no axes
    const std::vector<Cut> inner(cuts.begin() + 1, cuts.end());
    plan.region_in.assign(2, inner);
    const std::vector<Cut> a = Cutter(*node.regions[0], batch_, inner).outputs(), b = Cutter(*node.regions[1], batch_, inner).outputs();
    for (size_t i = 0; i < a.size(); ++i) plan.out[i] = a[i] == b[i] || b[i].whole() ? a[i] : a[i].whole() ? b[i] : Cut{};
    plan.region_out.assign(2, plan.out);
  }

  // A carried value that becomes cut is cut from the start.
  void label_loop(const Node& node, NodePlan& plan, const std::vector<Cut>& cuts) {
    const bool scans = is(node, ops::def::scan);
    const size_t carried =
        scans ? size_t(ir::attrs_of<ops::ScanAttrs>(*node.attrs).carried) : size_t(ir::attrs_of<ops::LoopAttrs>(*node.attrs).carried);
    const size_t stacked = scans ? size_t(ir::attrs_of<ops::ScanAttrs>(*node.attrs).stacked) : 0;
    plan.in = cuts;
    for (size_t i = carried; i < carried + stacked; ++i)
      if (cuts[i].axis == 0) plan.in[i] = {}, plan.mixes = true;
    const Graph& body = *node.regions.back();
    std::vector<Cut> in(plan.in.begin(), plan.in.begin() + int64_t(body.inputs.size())), out;
    for (size_t i = carried; i < carried + stacked; ++i)
      if (!in[i].whole()) --in[i].axis;
    for (bool again = true; again;) {
      again = false;
      out = Cutter(body, batch_, in).outputs();
      for (size_t i = 0; i < carried; ++i)
        if (in[i].whole() && !out[i].whole()) in[i] = plan.in[i] = out[i], again = true;
    }
    for (size_t i = 0; i < carried; ++i) out[i] = in[i];
    plan.region_in.assign(node.regions.size(), in);
    plan.region_out.assign(node.regions.size(), out);
    if (!scans) plan.region_out[0] = {Cut{}};
    for (size_t i = 0; i < out.size(); ++i) {  // a while_loop also counts its iterations
      plan.out[i] = out[i];
      if (i >= carried && !out[i].whole()) ++plan.out[i].axis;
    }
  }

  // --- which values are needed, and in which form ---
  void find_wants(std::span<const Cut> outputs) {
    wants_.resize(size_t(first_value_.back()));
    for (size_t i = 0; i < outputs.size(); ++i) want(from_.outputs[i], outputs[i]);
    for (int n = from_.size() - 1; n >= 0; --n) {
      const Node& node = from_[n];
      NodePlan& plan = plans_[size_t(n)];
      plan.needed = is(node, ops::def::input) || has_effects(node);
      for (size_t r = 0; r < node.types.size(); ++r) plan.needed = plan.needed || wants_[index({n, int(r)})].contains(plan.out[r]);
      for (size_t r = 0; r < node.types.size(); ++r)
        for (const Cut& cut : wants_[index({n, int(r)})])
          if (cut != plan.out[r] && !make_directly(node, plan, cut)) plan.needed = true;
      for (size_t i = 0; plan.needed && i < node.inputs.size(); ++i) want(node.inputs[i], plan.in[i]);
      for (const auto& [cut, rule] : plan.others)
        for (size_t i = 0; i < node.inputs.size(); ++i) want(node.inputs[i], rule.in[i]);
    }
  }
  void want(Value v, Cut cut) { wants_[index(v)].insert(cut); }
  // Whether a value that is whole by itself, but needed by nobody in that form, can be computed for this rank's rows alone.
  bool make_directly(const Node& node, NodePlan& plan, Cut cut) {
    if (plan.needed || plan.rule || plan.mixes || node.types.size() != 1 || cut.whole() || !node.op->rows || !node.regions.empty())
      return false;
    std::optional<RowsRule> rule =
        node.op->rows({*node.attrs, types_of(node.inputs), node.types, plan.in, batch_.rows, batch_.rows < batch_.shards, cut});
    if (!rule || rule->leaves != Leaves::none || rule->out[0] != cut) return false;
    check(node, rule->in, rule->out);
    plan.others.emplace_back(cut, std::move(*rule));
    return true;
  }

  // --- the new graph ---
  // The ranks that the graph computes for: this one, or all of them, on a device each. What is whole is then computed by the first.
  bool together() const { return !devices_.empty(); }
  int64_t replicas() const { return together() ? batch_.ranks : 1; }
  int64_t rank_of(int64_t replica) const { return together() ? replica : batch_.rank; }
  Range own_rows(int64_t replica) const { return batch_.rows_of(rank_of(replica)); }
  void stand_on(int64_t replica) {
    if (together()) to_.place.device = devices_[size_t(replica)];
  }

  void emit(int n) {
    const Node& node = from_[n];
    NodePlan& plan = plans_[size_t(n)];
    for (const auto& [cut, rule] : plan.others)
      for (int64_t r = 0; r < replicas(); ++r) put({n, 0}, cut, r, copy(node, rule, own_rows(r), r));
    if (!plan.needed) return;
    if (is(node, ops::def::input)) return emit_input(n, plan);
    if (plan.mixes) gathered_->push_back({node.op->name, text(node.types.empty() ? TensorType{} : node.types[0]), node.line});
    if (plan.rule && plan.rule->leaves != Leaves::none) return emit_leaves(n, *plan.rule);
    if (plan.rule) return emit_rows(n, plan);
    Node changed = node;
    Batch inside = batch_;
    if (together()) inside.ranks = 1;
    if (together() && node.op->effect == ir::Effect::none) changed.device = devices_[0];
    for (size_t r = 0; r < plan.region_in.size(); ++r)
      changed.regions[r] =
          std::make_shared<const Graph>(Cutter(*node.regions[r], inside, plan.region_in[r]).run(plan.region_out[r], *gathered_));
    std::vector<Value> in;
    for (size_t i = 0; i < node.inputs.size(); ++i) in.push_back(get(node.inputs[i], together() ? Cut{} : plan.in[i], 0));
    if (is(node, ops::def::print) && batch_.rank != 0) return;  // the first rank prints
    const Value first = to_.copy(changed, std::move(in));
    for (size_t r = 0; r < node.types.size(); ++r) put({n, int(r)}, together() ? Cut{} : plan.out[r], 0, {first.node, int(r)});
  }

  void emit_rows(int n, const NodePlan& plan) {
    const bool of_all = plan.rule->of_all;
    const bool whole = of_all || std::all_of(plan.out.begin(), plan.out.end(), [](const Cut& c) { return c.whole(); });
    for (int64_t r = 0; r < (whole ? 1 : replicas()); ++r) {
      const Value first = copy(from_[n], *plan.rule, own_rows(r), r);
      for (size_t i = 0; i < plan.out.size(); ++i) put({n, int(i)}, of_all ? Cut{} : plan.out[i], r, {first.node, int(i)});
    }
  }

  void emit_input(int n, const NodePlan& plan) {
    ir::InputAttrs attrs = ir::attrs_of<ir::InputAttrs>(*from_[n].attrs);
    const Cut cut = together() ? Cut{} : plan.out[0];
    attrs.type = local(attrs.type, cut, 0);
    moving_ = to_.add(ops::def::input, ir::make_attrs(std::move(attrs)), {});
    put({n, 0}, cut, 0, moving_);
  }

  // The node for some of a replica's rows.
  Value copy(const Node& node, const RowsRule& rule, Range rows, int64_t replica) {
    Node changed = node;
    if (rule.op) changed.op = rule.op;
    if (rule.attrs) changed.attrs = rule.attrs(rows.begin, rows.end);
    if (together()) changed.device = devices_[size_t(replica)];
    std::vector<Value> in;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      Value v = get(node.inputs[i], rule.in[i], replica);
      stand_on(replica);
      if (!rule.in[i].whole()) v = slice(v, rule.in[i], rows, own_rows(replica).begin);
      in.push_back(rule.leaves == Leaves::added ? for_leaf(v) : v);
    }
    return to_.copy(changed, std::move(in));
  }
  // What is added up is rounded once, at the end: leaves of half types are f32.
  Value for_leaf(Value v) {
    const DType dtype = to_.type(v).dtype;
    return dtype == DType::f16 || dtype == DType::bf16 ? ops::astype(to_, v, DType::f32) : v;
  }

  void emit_leaves(int n, const RowsRule& rule) {
    const Node& node = from_[n];
    std::vector<Value> parts;
    std::vector<Range> nodes;
    for (int64_t r = 0; r < replicas(); ++r) {
      std::vector<Value> own = leaves_of(n, rule, r);
      if (rule.leaves == Leaves::added && !sends_leaves(own)) own = roots_of(own, r, nodes);
      for (Value v : own) parts.push_back(moved(v, r, 0));
    }
    stand_on(0);
    if (rule.leaves == Leaves::reduced) {
      Value all = joined(parts, 0);
      if (!together()) all = gather(all, 0, [&](int64_t r) { return batch_.leaves_of(r).size(); });
      put({n, 0}, {}, 0, to_.add(*node.op, ir::make_attrs(ops::ReduceAttrs{Axes{0}, false}), {all}));
      return;
    }
    Sum sum{{n, 0}, {}, rule.divisor, node.types[0].dtype, to_.place};
    if (together() || batch_.ranks == 1) {
      sum.value = added(parts, nodes);
      summed_[index(sum.old)] = sum;
      return;
    }
    sum.leaves = nodes.empty();
    if (!sum.leaves)
      for (Value& v : parts) v = ops::reshape(to_, v, ops::with_model_axis(1, to_.type(v).shape));
    sum.value = joined(parts, 0);
    const TensorType& type = to_.type(sum.value);
    const int64_t bytes = size_of(type.shape).number() / type.shape[0].number() * int64_t(size_of(type.dtype));
    if (bytes_ + bytes > batch_.bucket_bytes) send_sums();
    bytes_ += bytes;
    sums_.push_back(sum);
  }
  // Whether a rank does not add up its leaves: a launch adds those of all ranks, and saves the steps and the wait for it.
  bool sends_leaves(const std::vector<Value>& stacks) const {
    constexpr int64_t kMostOfRank = 4, kMostBytes = 256 << 10;  // of a leaf
    return batch_.in_launch && !together() && batch_.ranks > 1 && batch_.leaves_of(0).size() <= kMostOfRank &&
           std::all_of(stacks.begin(), stacks.end(), [&](Value stack) {
             const TensorType& type = to_.type(stack);
             return type.dtype == DType::f32 && byte_size(type) <= kMostBytes * type.shape[0].number();
           });
  }
  // A replica's leaves in order, stacked along the first axis of one value or more.
  std::vector<Value> leaves_of(int n, const RowsRule& rule, int64_t replica) {
    const Node& node = from_[n];
    std::vector<Value> out;
    const Range own = batch_.leaves_of(rank_of(replica));
    for (int64_t leaf = own.begin, end; leaf < own.end; leaf = end) {
      const int64_t rows = batch_.rows_of_leaf(leaf).size();
      for (end = leaf + 1; end < own.end && batch_.rows_of_leaf(end).size() == rows; ++end) {
      }
      if (may_stack(node, rule) && rows > 0) {
        out.push_back(stacked_leaves(node, rule, {leaf, end}, replica));
        continue;
      }
      for (int64_t one = leaf; one < end; ++one) {
        const Value v = copy(node, rule, batch_.rows_of_leaf(one), replica);
        out.push_back(ops::reshape(to_, v, ops::with_model_axis(1, to_.type(v).shape)));
      }
    }
    return out;
  }
  // A replica's leaves added as far as they cover nodes of the tree; adds these nodes to `nodes`.
  std::vector<Value> roots_of(std::vector<Value> stacks, int64_t replica, std::vector<Range>& nodes) {
    constexpr int64_t kMostOneByOne = 16;  // more leaves would make large graphs
    const Range own = batch_.leaves_of(rank_of(replica));
    stand_on(replica);
    for (Value& stack : stacks) stack = for_leaf(stack);
    if (own.size() > kMostOneByOne) stacks = {joined(stacks, 0)};
    std::vector<Value> leaves, out;
    if (own.size() <= kMostOneByOne)
      for (Value stack : stacks) split(stack, leaves);
    for (const Range& root : distributed::roots_of(own, batch_.shards)) {
      int64_t width = 1;
      std::vector<Value> of_root;
      if (leaves.empty()) {
        Value stack = slice(stacks[0], {0, 1}, root, own.begin);
        for (; rows_in(stack) > kMostOneByOne; width *= 2) stack = added_in_pairs(stack);
        split(stack, of_root);
      } else {
        of_root.assign(leaves.begin() + (root.begin - own.begin), leaves.begin() + (root.end - own.begin));
      }
      std::vector<Range> parts;
      for (int64_t at = root.begin; at < root.end; at += width) parts.push_back({at, std::min(at + width, root.end)});
      out.push_back(added(of_root, parts));
      nodes.push_back(root);
    }
    return out;
  }
  int64_t rows_in(Value stack) const { return to_.type(stack).shape[0].number(); }
  // Appends the entries of the first axis.
  void split(Value stack, std::vector<Value>& out) {
    const Shape shape(to_.type(stack).shape.begin() + 1, to_.type(stack).shape.end());
    for (int64_t i = 0; i < rows_in(stack); ++i) out.push_back(ops::reshape(to_, slice(stack, {0, 1}, {i, i + 1}, 0), shape));
  }
  // [n,...] -> [(n + 1) / 2,...]: entries 0 + 1, 2 + 3, ...; a last one without a partner stays.
  Value added_in_pairs(Value stack) {
    const int64_t n = rows_in(stack), pairs = n / 2;
    const auto every_second = [&](int64_t first) {
      std::vector<int64_t> begin(to_.type(stack).shape.size()), end, step(begin.size(), 1);
      for (Dim d : to_.type(stack).shape) end.push_back(d.number());
      begin[0] = first, end[0] = 2 * pairs, step[0] = 2;
      return ops::slice(to_, stack, std::move(begin), std::move(end), std::move(step));
    };
    const Value sums = ops::add(to_, every_second(0), every_second(1));
    return n % 2 == 0 ? sums : ops::concat(to_, {sums, slice(stack, {0, 1}, {n - 1, n}, 0)}, 0);
  }
  // The sum of nodes that cover one node of the tree.
  Value added(std::span<const Value> values, std::span<const Range> nodes) {
    const std::vector<uint8_t> joins = distributed::joins_of(nodes, batch_.shards);
    std::vector<Value> stack;
    for (size_t i = 0; i < values.size(); ++i) {
      stack.push_back(values[i]);
      for (int join = 0; join < joins[i]; ++join) {
        const Value upper = stack.back();
        stack.pop_back();
        stack.back() = ops::add(to_, stack.back(), upper);
      }
    }
    return stack.back();
  }
  // Products and sums make leaves of equally many rows as one node, in which they are models of a stack (OpDef::batch).
  static bool may_stack(const Node& node, const RowsRule& rule) {
    return rule.leaves == Leaves::added && !rule.attrs &&
           (is(node, ops::def::matmul) || is(node, ops::def::sum) || is(node, ops::def::mean));
  }
  Value stacked_leaves(const Node& node, const RowsRule& rule, Range leaves, int64_t replica) {
    const ir::OpDef& op = rule.op ? *rule.op : *node.op;
    const Range rows{batch_.rows_of_leaf(leaves.begin).begin, batch_.rows_of_leaf(leaves.end - 1).end};
    std::vector<ir::Batched> in;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const Cut cut = rule.in[i];
      Value v = get(node.inputs[i], cut, replica);
      stand_on(replica);
      v = for_leaf(slice(v, cut, rows, own_rows(replica).begin));
      Shape shape = to_.type(v).shape;
      shape[size_t(cut.axis)] = rows.size() / leaves.size() * cut.each;
      shape.insert(shape.begin() + cut.axis, Dim(leaves.size()));
      v = ops::reshape(to_, v, std::move(shape));
      in.push_back({cut.axis == 0 ? v : ops::move_axis(to_, v, cut.axis, 0), true});
    }
    return op.batch({to_, *node.attrs, in, Dim(leaves.size()), node.regions})[0].value;
  }
  Value joined(const std::vector<Value>& parts, int axis) { return parts.size() == 1 ? parts[0] : ops::concat(to_, parts, axis); }

  // Exchanges the sums that wait: one all_reduce per dtype, and for leaves.
  void send_sums() {
    const Graph::Place place = to_.place;
    std::vector<Sum> all = std::move(sums_);
    sums_.clear();
    bytes_ = 0;
    while (!all.empty()) {
      const DType dtype = to_.type(all[0].value).dtype;
      const bool of_leaves = all[0].leaves;
      const auto others = std::stable_partition(all.begin(), all.end(),
                                                [&](const Sum& s) { return to_.type(s.value).dtype == dtype && s.leaves == of_leaves; });
      std::vector<Value> leaves;
      for (auto s = all.begin(); s != others; ++s) leaves.push_back(s->value);
      to_.place = all[0].place;
      const std::vector<Value> results = ops::all_reduce(to_, leaves,
                                                         {.ranks = together() ? 1 : batch_.ranks,
                                                          .shards = batch_.shards,
                                                          .name = cat(sent_++, " of data_parallel"),
                                                          .reproducible = batch_.reproducible,
                                                          .of_rows = true,
                                                          .leaves = of_leaves,
                                                          .in_launch = batch_.in_launch && !together()});
      for (auto s = all.begin(); s != others; ++s) {
        s->value = results[size_t(s - all.begin())];
        summed_[index(s->old)] = *s;
      }
      all.erase(all.begin(), others);
    }
    to_.place = place;
  }

  // Where the sum is first needed: until then other work goes on beside the exchange.
  void finish_sum(Value old) {
    if (!summed_.contains(index(old))) send_sums();
    const auto found = summed_.find(index(old));
    if (found == summed_.end()) return;
    const Sum& sum = found->second;
    const Graph::Place place = std::exchange(to_.place, sum.place);
    Value v = sum.value;
    if (sum.divisor != 1) v = ops::div(to_, v, ops::scalar(to_, to_.type(v).dtype, sum.divisor));
    put(old, {}, 0, ops::astype(to_, v, sum.dtype));
    to_.place = place;
  }

  // --- forms of values ---
  TensorType local(TensorType type, Cut cut, int64_t replica) const {
    const Range own = own_rows(replica);
    type.shape = ops::shape_of_rows(std::move(type.shape), cut, own.begin, own.end);
    return type;
  }
  void put(Value old, Cut cut, int64_t replica, Value now) {
    const TensorType want = local(from_.type(old), cut, replica);
    if (!(to_.type(now) == want))
      internal_error(cat(from_[old].op->name, ": its rule for rows gives ", to_.type(now), " instead of ", want));
    forms_[index(old)].push_back({cut, replica, now});
  }
  Value get(Value old, Cut cut, int64_t replica) {
    if (forms_[index(old)].empty()) finish_sum(old);
    const std::vector<Form>& forms = forms_[index(old)];
    if (forms.empty()) internal_error(cat(from_[old].op->name, ": data_parallel has not made its value"));
    for (const Form& form : forms)
      if (form.cut == cut && form.replica == replica) return form.value;
    const Form have = forms[0];
    const Graph::Place place = to_.place;
    stand_on(0);
    Value made;
    if (!cut.whole())
      made = moved(rows_of_whole(old, get(old, {}, 0), cut, replica), 0, replica);
    else if (replica > 0)
      made = moved(get(old, {}, 0), 0, replica);
    else if (!together())
      made = gather(have.value, have.cut.axis, [&](int64_t r) { return batch_.rows_of(r).size() * have.cut.each; });
    else
      made = joined(parts_on_first(old, have.cut), have.cut.axis);
    to_.place = place;
    forms_[index(old)].push_back({cut, replica, made});
    return made;
  }
  Value rows_of_whole(Value old, Value whole, Cut cut, int64_t replica) {
    const Value made = slice(whole, cut, own_rows(replica), 0);
    // Passes would see a constant's rows as a constant, whose elements may be equal on some ranks only, and round in another order there.
    return plans_[size_t(old.node)].constant && moving_.valid() ? ops::after(to_, made, moving_) : made;
  }
  std::vector<Value> parts_on_first(Value old, Cut cut) {
    std::vector<Value> parts;
    for (int64_t r = 0; r < replicas(); ++r) parts.push_back(moved(get(old, cut, r), r, 0));
    return parts;
  }
  // A value of one replica's device on another one's.
  Value moved(Value v, int64_t from, int64_t to) {
    if (from == to) return v;
    stand_on(to);
    const Value there = to_.add(ops::def::to_device, {v});
    stand_on(0);
    return there;
  }
  // Rows of a value that begins with row `first`.
  Value slice(Value v, Cut cut, Range rows, int64_t first) {
    const Shape& shape = to_.type(v).shape;
    if (shape[size_t(cut.axis)] == Dim(rows.size() * cut.each)) return v;
    std::vector<int64_t> begin(shape.size()), end;
    for (Dim d : shape) end.push_back(d.number());
    begin[size_t(cut.axis)] = (rows.begin - first) * cut.each, end[size_t(cut.axis)] = (rows.end - first) * cut.each;
    return ops::slice(to_, v, std::move(begin), std::move(end), std::vector<int64_t>(shape.size(), 1));
  }
  // All ranks' parts along an axis; rank r has length_of(r) entries.
  template <class Length>
  Value gather(Value own, int axis, Length length_of) {
    if (batch_.ranks == 1) return own;
    int64_t most = 0, all = 0;
    for (int64_t r = 0; r < batch_.ranks; ++r) most = std::max(most, length_of(r)), all += length_of(r);
    Value v = axis == 0 ? own : ops::move_axis(to_, own, axis, 0);
    TensorType type = to_.type(v);
    if (const int64_t missing = most - type.shape[0].number()) {
      type.shape[0] = missing;
      v = ops::concat(to_, {v, ops::full(to_, type, 0)}, 0);
    }
    v = ops::all_gather(to_, v, {.ranks = batch_.ranks, .name = cat(sent_++, " of data_parallel"), .of_rows = true});
    type.shape[0] = batch_.ranks * most;
    v = ops::reshape(to_, v, type.shape);
    if (all != batch_.ranks * most) {
      std::vector<Value> parts;
      for (int64_t r = 0; r < batch_.ranks; ++r) parts.push_back(slice(v, {0, 1}, {r * most, r * most + length_of(r)}, 0));
      v = ops::concat(to_, std::move(parts), 0);
    }
    return axis == 0 ? v : ops::move_axis(to_, v, 0, axis);
  }

  const Graph& from_;
  const Batch batch_;
  const std::vector<Cut> inputs_;
  const std::vector<Device> devices_;
  Graph to_;
  std::vector<int> first_value_;
  std::vector<NodePlan> plans_;
  std::vector<std::set<Cut>> wants_;      // per value
  std::vector<std::vector<Form>> forms_;  // per value
  std::vector<Sum> sums_;                 // not yet exchanged
  std::map<size_t, Sum> summed_;          // per value that nothing has needed yet
  int64_t bytes_ = 0;
  int sent_ = 0;
  Value moving_;  // one that differs from call to call
  std::vector<GatheredRows>* gathered_ = nullptr;
};

}  // namespace

RowsGraph cut_rows(const Graph& g, const RowsRequest& request) {
  if (request.rows < 1 || request.ranks > request.shards || request.ranks < 1)
    internal_error(cat("a batch of ", request.rows, " rows in ", request.shards, " shards for ", request.ranks, " ranks"));
  Graph simple = g;
  for (const Pass& pass : pipeline())  // these leave plain nodes, whose rules then hold
    if (pass.name == std::string_view("inline_checkpoints")) simple = run_everywhere(pass, simple);
  RowsGraph out;
  const int64_t ranks = request.devices.empty() ? request.ranks : int64_t(request.devices.size());
  Cutter cutter(simple, {request.rows, request.shards, ranks, request.rank, request.bucket_bytes, request.reproducible, request.in_launch},
                {request.inputs.begin(), request.inputs.end()}, request.devices);
  out.outputs = request.devices.empty() ? cutter.outputs() : std::vector<Cut>(g.outputs.size());
  out.graph = cutter.run(out.outputs, out.gathered);
  ir::verify(out.graph);
  return out;
}

}  // namespace lamina::passes
