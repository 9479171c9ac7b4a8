#include "graph/compile/lower.h"

#include <algorithm>
#include <limits>
#include <map>
#include <unordered_map>

#include "graph/compile/emit.h"
#include "graph/compile/infeed.h"
#include "graph/compile/memory_limit.h"
#include "graph/compile/owners.h"
#include "graph/compile/plan_memory.h"
#include "graph/compile/streams.h"

namespace lamina::compile {
namespace {

using exec::StorageKind;
using ir::Effect;
using ir::Node;
using ir::Value;

constexpr int kEnd = std::numeric_limits<int>::max() / 2;

// Places each value and turns nodes into Work (emit.h), in order. Offsets in arenas are set at the end, when lifetimes are known.
class Lowering {
 public:
  Lowering(const Selection& selection, const std::vector<int>& order, const Options& options, int threads)
      : selection_(selection), g_(selection.graph), order_(order), options_(options), threads_(threads) {}

  Lowered run() {
    number_values();
    find_last_uses();
    find_updates_in_place();
    set_up_variables();
    for (position_ = 0; position_ < int(order_.size()); ++position_) lower_node(order_[size_t(position_)]);
    finish_outputs();
    assign_owners(out_, options_, threads_);
    plan_streams(out_, g_, options_);
    place_storages();
    check_memory(out_, g_, options_);
    return std::move(out_);
  }

 private:
  size_t index(Value v) const { return size_t(first_value_[size_t(v.node)] + v.result); }

  void number_values() {
    int count = 0;
    for (const Node& n : g_.nodes()) {
      first_value_.push_back(count);
      count += int(std::max<size_t>(1, n.types.size()));
    }
    places_.resize(size_t(count));
    home_.assign(size_t(count), -1);
    assigned_.resize(size_t(g_.size()));
    position_of_.resize(size_t(g_.size()));
    for (size_t p = 0; p < order_.size(); ++p) position_of_[size_t(order_[p])] = int(p);
  }

  // The position of the value's last use, including uses through other views of it.
  void find_last_uses() {
    last_use_.assign(places_.size(), -1);
    for (Value v : g_.outputs) last_use_[index(v)] = kEnd;
    for (size_t p = order_.size(); p-- > 0;) {
      int node = order_[p];
      const Node& n = g_[node];
      int last = int(p);
      if (n.op->alias) last = std::max(last, last_use_[index({node, 0})]);  // aliases see the first input
      for (size_t i = 0; i < n.inputs.size(); ++i) {
        int& end = last_use_[index(n.inputs[i])];
        end = std::max(end, i == 0 ? last : int(p));  // only the first input is aliased
      }
    }
  }

  // A value assigned to a variable is computed in the variable's memory if the old value has no later readers.
  void find_updates_in_place() {
    std::vector<std::vector<int>> reads(g_.resources.size()), assigns(g_.resources.size());
    std::vector<int> host;  // positions where the program may stop
    for (int node : order_) {
      if (ir::has_host_effect(g_[node])) host.push_back(position_of_[size_t(node)]);
      if (g_[node].op->effect == Effect::read) reads[size_t(ir::resource_of(g_[node]))].push_back(node);
      if (g_[node].op->effect == Effect::write) {
        assigns[size_t(ir::resource_of(g_[node]))].push_back(node);
        assigned_[size_t(g_[node].inputs[0].node)] = true;
      }
    }
    for (size_t r = 0; r < assigns.size(); ++r) {
      if (assigns[r].empty()) continue;
      int assign = assigns[r].back();
      Value v = g_[assign].inputs[0];
      const Node& producer = g_[v];
      int made = position_of_[size_t(v.node)];
      bool fits = !runs_nothing(producer) && home_[index(v)] < 0 && selection_.nodes[size_t(v.node)].device == variable_device(int(r));
      auto stop = std::lower_bound(host.begin(), host.end(), made);
      fits = fits && (stop == host.end() || *stop > position_of_[size_t(assign)]);
      for (int other : assigns[r]) fits = fits && (other == assign || position_of_[size_t(other)] < made);
      for (int read : reads[r]) {
        if (position_of_[size_t(read)] > position_of_[size_t(assign)]) continue;  // reads the new value
        int last = last_use_[index({read, 0})];
        // A result of the graph is copied where it is read: the Variable has another value at the end.
        if (last == kEnd && position_of_[size_t(read)] < made) continue;
        // The producer itself may read the old value element by element.
        bool in_step = last == made && reads_elementwise(producer, {read, 0}, g_.type(v));
        fits = fits && (last < made || in_step);
      }
      if (fits) home_[index(v)] = int(r), stays_home_.push_back(assign);
    }
  }

  // Whether the producer reads the old value only elementwise, at the position that it writes.
  bool reads_elementwise(const Node& producer, Value old, const TensorType& type) const {
    if (!producer.op->in_place || !(g_.type(old) == type)) return false;
    for (size_t i = 0; i < producer.inputs.size(); ++i) {
      Value root = producer.inputs[i];
      while (g_[root].op->alias) root = g_[root].inputs[0];
      if (root == old && (producer.inputs[i] != old || !input_in_place(producer, i))) return false;
    }
    return true;
  }
  static bool input_in_place(const Node& n, size_t input) { return int(input) >= n.op->first_in_place; }

  Device variable_device(int resource) const {
    return size_t(resource) < options_.variable_devices.size() ? options_.variable_devices[size_t(resource)] : options_.device;
  }

  void set_up_variables() {
    for (size_t r = 0; r < g_.resources.size(); ++r) {
      out_.variables.push_back({.name = g_.resources[r].name,
                                .type = g_.resources[r].type,
                                .device = variable_device(int(r)),
                                .written = false,
                                .written_first = false});
      variable_storage_.push_back(new_storage(StorageKind::variable, int(r), byte_size(g_.resources[r].type), variable_device(int(r))));
    }
    std::vector<bool> seen(g_.resources.size());
    for (int node : order_) {
      int r = ir::resource_of(g_[node]);
      if (r < 0) continue;
      if (g_[node].op->effect == Effect::write) out_.variables[size_t(r)].written = true;
      if (!seen[size_t(r)]) out_.variables[size_t(r)].written_first = g_[node].op->effect == Effect::write;
      seen[size_t(r)] = true;
    }
  }

  int new_storage(StorageKind kind, int number, int64_t bytes, Device device) {
    out_.storages.push_back({.kind = kind, .index = number, .offset = 0, .bytes = bytes});
    out_.storage_devices.push_back(device);
    out_.first_use.push_back(kEnd);
    out_.last_use.push_back(-1);
    return int(out_.storages.size()) - 1;
  }
  Place new_place(const TensorType& type, Device device) {
    return {new_storage(StorageKind::arena, 0, byte_size(type), device), 0, contiguous_view(nullptr, type)};
  }

  void lower_node(int node) {
    const Node& n = g_[node];
    const Selected& selected = selection_.nodes[size_t(node)];
    Value self{node, 0};
    switch (n.op->effect) {
      case Effect::read: return lower_read(self);
      case Effect::write: return lower_assign(node);
      case Effect::none:
      case Effect::host:
      case Effect::ranks: break;
    }
    if (n.op->alias) return lower_alias(self, selected.device);
    if (runs_nothing(n)) {
      if (const ir::Literal* value = ir::constant_value(g_, self))
        places_[index(self)] = constant(*value, selected.device);
      else
        places_[index(self)] = input(self);
      return;
    }
    // Several threads of a CPU share layers by rows, or in chunks of rows, and a step that fills parts would end this: the op's own kernel
    // runs between two sections.
    const bool ends_rows = selected.step && !selected.step->parts.empty() && selected.device.kind == DeviceKind::cpu && threads_ > 1;
    Work work{.name = n.op->name,
              .node = node,
              .device = selected.device,
              .kernel = selected.kernel,
              .step = selected.step && !ends_rows ? &*selected.step : nullptr,
              .nested = selected.nested,
              .why_no_step = selected.why_no_step,
              .inputs = {},
              .outputs = {},
              .line = n.line};
    work.is_update = assigned_[size_t(node)];
    work.infeed = infeed_of(n, selected);
    // Written as text, only elementwise ops read any strides.
    const bool any_strides = n.op->strided && (!work.step || !work.step->parts.empty()) && (!options_.writer || n.op->in_place);
    for (size_t i = 0; i < n.inputs.size(); ++i) {
      const Value v = n.inputs[i];
      const bool on_host = std::find(work.infeed.inputs.begin(), work.infeed.inputs.end(), int32_t(i)) != work.infeed.inputs.end();
      work.inputs.push_back(on_host ? places_[index(v)] : ready(v, selected.device, any_strides));
    }
    for (size_t r = 0; r < n.types.size(); ++r) {
      Value v{node, int(r)};
      int home = home_[index(v)];
      Place place = home >= 0 ? Place{variable_storage_[size_t(home)], 0, contiguous_view(nullptr, n.types[r])}
                              : reuse_input(n, v, work.inputs).value_or(new_place(n.types[r], selected.device));
      places_[index(v)] = place;
      written_as_[place.storage] = n.types[r];
      work.outputs.push_back(place);
    }
    for (size_t i = 0; work.step && i < work.step->parts.size(); ++i) {
      const auto& [view, offset] = work.step->parts[i];
      Place part = work.outputs[0];
      part.offset += offset * int64_t(size_of(view.dtype)), part.view = view;
      work.outputs.push_back(part);
    }
    if (selected.scratch_bytes) work.outputs.push_back(new_place({DType::u8, {selected.scratch_bytes}}, selected.device));
    emit(std::move(work));
  }

  // For a scan in a section on a GPU; only the first one, because a launch waits for the slices of one loop.
  section::Infeed infeed_of(const Node& n, const Selected& selected) {
    constexpr size_t most_operands = 400;  // fits into a section for certain
    const section::Nested* nested = selected.nested.get();
    if (has_infeed_ || !nested || nested->kind != section::Nested::Kind::scan || nested->reverse || nested->count >= 0) return {};
    if (selected.device.kind == DeviceKind::cpu || !options_.sections || n.inputs.size() + n.types.size() > most_operands ||
        why_in_no_section(*selected.step, nested, selected.device))
      return {};
    std::vector<StackOnHost> stacks;
    for (size_t i = 0; i < n.inputs.size(); ++i) {
      const Place& place = places_[index(n.inputs[i])];
      const exec::Storage& storage = out_.storages[size_t(place.storage)];
      if (storage.kind != StorageKind::input || out_.storage_devices[size_t(place.storage)].kind != DeviceKind::cpu ||
          g_[n.inputs[i]].op->alias || uses_of(g_, n.inputs[i]) > 1)
        continue;
      int64_t slice = 0;
      for (const section::InnerBuffer& b : nested->programs[0].buffers)
        if (b.operand == int32_t(i)) slice = b.slice;
      stacks.push_back({int32_t(i), slice});
    }
    section::Infeed out = plan_infeed(stacks, nested->limit);
    has_infeed_ = out.chunk > 0;
    return out;
  }

  // An elementwise result may take the memory of an operand whose life ends here.
  std::optional<Place> reuse_input(const Node& n, Value v, const std::vector<Place>& inputs) {
    if (!n.op->in_place || n.types.size() != 1) return std::nullopt;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Place& place = inputs[i];
      if (!input_in_place(n, i) || !(g_.type(n.inputs[i]) == g_.type(v)) || out_.storages[size_t(place.storage)].kind != StorageKind::arena)
        continue;
      if (place.offset != 0 || out_.storages[size_t(place.storage)].bytes != byte_size(g_.type(v)) || !is_contiguous(place.view)) continue;
      if (!dies_here(place.storage, n)) continue;
      Place reused = place;
      // With the view under which it was written, it is the same slot of the program. Another view of the old value must not be taken for
      // the new one.
      if (!(written_as_[place.storage] == g_.type(v))) reused.life = ++lives_;
      return reused;
    }
    return std::nullopt;
  }
  // Whether no value in this storage is used after this position, nor by another operand of the node.
  bool dies_here(int storage, const Node& n) const {
    auto it = values_in_.find(storage);
    if (it == values_in_.end()) return false;
    for (size_t value : it->second)
      if (last_use_[value] > position_) return false;
    int uses = 0;
    for (Value v : n.inputs) uses += places_[index(v)].storage == storage;
    return uses == 1;
  }

  void lower_read(Value self) {
    int r = ir::resource_of(g_[self]);
    Place place{variable_storage_[size_t(r)], 0, contiguous_view(nullptr, g_.type(self))};
    // A later write while the value is still needed: keep a copy.
    int next = next_write(r), last = last_use_[index(self)];
    bool overwritten = next < last || (next == last && !in_step_at(next, self, r));
    places_[index(self)] = overwritten ? copied(place, g_.type(self), variable_device(r)) : place;
    note_value(self);
  }
  // The next position that writes the variable: an assignment, or a node whose result is in the variable's memory.
  int next_write(int resource) {
    if (write_positions_.empty()) {
      write_positions_.resize(g_.resources.size());
      for (int p = 0; p < int(order_.size()); ++p) {
        int node = order_[size_t(p)];
        bool copies = g_[node].op->effect == Effect::write && std::find(stays_home_.begin(), stays_home_.end(), node) == stays_home_.end();
        if (copies) write_positions_[size_t(ir::resource_of(g_[node]))].push_back(p);
        for (size_t i = 0; i < g_[node].types.size(); ++i)
          if (int r = home_[index({node, int(i)})]; r >= 0) write_positions_[size_t(r)].push_back(p);
      }
    }
    const auto& list = write_positions_[size_t(resource)];
    auto next = std::upper_bound(list.begin(), list.end(), position_);
    return next == list.end() ? kEnd + 1 : *next;
  }
  bool in_step_at(int position, Value old, int resource) const {
    int node = order_[size_t(position)];
    for (size_t i = 0; i < g_[node].types.size(); ++i)
      if (home_[index({node, int(i)})] == resource) return reads_elementwise(g_[node], old, g_[node].types[i]);
    return false;
  }

  void lower_assign(int node) {
    Value v = g_[node].inputs[0];
    int r = ir::resource_of(g_[node]);
    if (home_[index(v)] == r && places_[index(v)].storage == variable_storage_[size_t(r)]) return;  // already there
    Place to{variable_storage_[size_t(r)], 0, contiguous_view(nullptr, g_.type(v))};
    Place from = ready(v, variable_device(r), true);
    if (from.storage != to.storage || from.offset != to.offset) emit_copy(from, to, g_.type(v), variable_device(r), g_[node].line);
  }

  void lower_alias(Value self, Device device) {
    const Node& n = g_[self];
    Place place = ready(n.inputs[0], device, true);
    int64_t offset = 0;
    View view;
    if (!n.op->alias(*n.attrs, place.view, n.types[0], view, offset)) {
      place = copied(place, g_.type(n.inputs[0]), device);
      if (!n.op->alias(*n.attrs, place.view, n.types[0], view, offset))
        internal_error(cat(n.op->name, " gives no view of a contiguous input"));
    }
    place.offset += offset * int64_t(size_of(view.dtype));
    place.view = view;
    place.view.data = nullptr;
    places_[index(self)] = place;
    note_value(self);
  }

  Place input(Value self) {
    int number = int(ir::attrs_of<ir::InputAttrs>(*g_[self].attrs).index);
    auto it = input_storage_.find(number);
    Device device = size_t(number) < options_.input_devices.size() ? options_.input_devices[size_t(number)] : options_.device;
    if (it == input_storage_.end())
      it = input_storage_.emplace(number, new_storage(StorageKind::input, number, byte_size(g_.type(self)), device)).first;
    return {it->second, 0, contiguous_view(nullptr, g_.type(self))};
  }

  Place constant(const ir::Literal& value, Device device) {
    BufferRef buffer;
    size_t bytes = size_t(byte_size(value.type));
    if (!value.bytes)
      buffer = copy_from_host(device, std::vector<std::byte>(bytes).data(), bytes);
    else if (device.kind == DeviceKind::cpu && bytes > 0)  // shared with the graph
      buffer = std::make_shared<Buffer>(device, const_cast<std::byte*>(value.bytes->data()), bytes,
                                        std::const_pointer_cast<std::vector<std::byte>>(value.bytes));
    else
      buffer = copy_from_host(device, value.bytes->data(), bytes);
    out_.constants.push_back(std::move(buffer));
    return {new_storage(StorageKind::constant, int(out_.constants.size()) - 1, int64_t(bytes), device), 0,
            contiguous_view(nullptr, value.type)};
  }

  // The value's place on a device: copied there if it is elsewhere, and made contiguous unless any strides will do.
  Place ready(Value v, Device device, bool any_strides) {
    Place place = places_[index(v)];
    if (out_.storage_devices[size_t(place.storage)] != device) {
      auto [it, is_new] = arrived_.try_emplace({index(v), device});
      if (is_new) it->second = own_copy(place, v, device);
      return it->second;
    }
    if (any_strides || is_contiguous(place.view)) return place;
    auto [it, is_new] = contiguous_.try_emplace(index(v));
    if (is_new) it->second = own_copy(place, v, device);
    return it->second;
  }
  // A copy shared by all later users of v on that device; it lives as long as v.
  Place own_copy(Place from, Value v, Device device) {
    const Place place = copied(from, g_.type(v), device);
    values_in_[place.storage].push_back(index(v));
    return place;
  }
  Place copied(Place from, const TensorType& type, Device device) {
    Device source = out_.storage_devices[size_t(from.storage)];
    if (source != device && !is_contiguous(from.view)) from = copied(from, type, source);
    Place to = new_place(type, device);
    emit_copy(from, to, type, device, {});
    return to;
  }
  void emit_copy(const Place& from, const Place& to, const TensorType& type, Device device, SourceLine line) {
    if (byte_size(type) == 0) return;
    copies_.push_back(std::make_unique<ir::SectionStep>(copy_step(type)));
    bool crosses = out_.storage_devices[size_t(from.storage)] != device;
    if (crosses && !is_contiguous(from.view))
      return emit_copy(copied(from, type, out_.storage_devices[size_t(from.storage)]), to, type, device, line);
    emit({.name = "copy",
          .node = -1,
          .device = device,
          .kernel = crosses ? Kernel{} : copy_kernel(device, type),
          .step = crosses ? nullptr : copies_.back().get(),
          .nested = {},
          .why_no_step = {},
          .inputs = {from},
          .outputs = {to},
          .line = line});
  }

  void note_value(Value v) { values_in_[places_[index(v)].storage].push_back(index(v)); }

  void emit(Work work) {
    int now = int(out_.work.size());
    for (auto* places : {&work.inputs, &work.outputs})
      for (const Place& place : *places) {
        int& first = out_.first_use[size_t(place.storage)];
        first = std::min(first, now);
        out_.last_use[size_t(place.storage)] = now;
      }
    if (work.node >= 0)
      for (size_t r = 0; r < g_[work.node].types.size(); ++r) note_value({work.node, int(r)});
    out_.work.push_back(std::move(work));
  }

  void finish_outputs() {
    position_ = int(order_.size());
    for (size_t o = 0; o < g_.outputs.size(); ++o) {
      Value v = g_.outputs[o];
      const TensorType& type = g_.type(v);
      Place place = places_[index(v)];
      exec::Storage& storage = out_.storages[size_t(place.storage)];
      bool whole = place.offset == 0 && is_contiguous(place.view) && storage.bytes == byte_size(type);
      bool written = storage.kind == StorageKind::variable && out_.variables[size_t(storage.index)].written;
      if (whole && storage.kind == StorageKind::arena) {
        storage.kind = StorageKind::output;
        storage.index = int(o);
      } else if (!whole || written || (options_.own_outputs && (storage.kind != StorageKind::output || storage.index != int(o)))) {
        Device device = out_.storage_devices[size_t(place.storage)];
        Place to{new_storage(StorageKind::output, int(o), byte_size(type), device), 0, contiguous_view(nullptr, type)};
        emit_copy(place, to, type, device, {});
        place = to;
      }
      out_.outputs.push_back(place);
      out_.output_types.push_back(type);
      out_.output_devices.push_back(out_.storage_devices[size_t(place.storage)]);
    }
  }

  void place_storages() {
    for (Device device : out_.storage_devices)
      if (std::find(out_.devices.begin(), out_.devices.end(), device) == out_.devices.end()) out_.devices.push_back(device);
    if (out_.devices.empty()) out_.devices.push_back(options_.device);
    const std::vector<int> owners = owners_of_storages();
    const int last_owner = owners.empty() ? -1 : *std::max_element(owners.begin(), owners.end());
    for (size_t d = 0; d < out_.devices.size(); ++d) {
      if (std::count(out_.streams.begin(), out_.streams.end(), out_.devices[d]) > 1) {
        out_.arena_bytes.push_back(plan_beside(d));
        continue;
      }
      int64_t arena = 0;
      for (int owner = -1; owner <= last_owner; ++owner) {  // threads do not wait for each other before reusing memory
        std::vector<Lifetime> lifetimes;
        std::vector<size_t> which;
        for (size_t s = 0; s < out_.storages.size(); ++s) {
          exec::Storage& storage = out_.storages[s];
          if (storage.kind != StorageKind::arena || out_.storage_devices[s] != out_.devices[d] || out_.last_use[s] < 0 ||
              owners[s] != owner)
            continue;
          lifetimes.push_back({storage.bytes, out_.first_use[s], out_.last_use[s], -1});
          which.push_back(s);
        }
        if (which.empty()) continue;
        arena = (arena + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
        int64_t bytes = plan_memory(lifetimes);
        if (out_.devices[d].kind != DeviceKind::cpu && options_.memory_budget <= 0)
          bytes = plan_apart(lifetimes, bytes, room_for_arena(out_, out_.devices[d], options_) - arena);
        for (size_t i = 0; i < which.size(); ++i)
          out_.storages[which[i]].index = int(d), out_.storages[which[i]].offset = arena + lifetimes[i].offset;
        arena += bytes;
      }
      out_.arena_bytes.push_back(arena);
    }
  }
  // The arena of a device with several streams. Reusing memory would mean waiting for its last users, so only memory whose users have
  // surely ended is reused.
  int64_t plan_beside(size_t d) {
    std::vector<int> group_of(out_.work.size());
    for (size_t g = 0; g < out_.groups.size(); ++g)
      for (size_t w = out_.groups[g].begin; w < out_.groups[g].end; ++w) group_of[w] = int(g);
    std::vector<std::vector<int>> last_on(out_.storages.size(),
                                          std::vector<int>(out_.streams.size(), -1));  // per storage and stream: its last group
    for (size_t w = 0; w < out_.work.size(); ++w)
      for (auto* places : {&out_.work[w].inputs, &out_.work[w].outputs})
        for (const Place& place : *places) last_on[size_t(place.storage)][size_t(out_.groups[size_t(group_of[w])].stream)] = group_of[w];
    std::vector<Lifetime> lifetimes;
    std::vector<size_t> which;
    int64_t small_bytes = 0;
    for (size_t s = 0; s < out_.storages.size(); ++s) {
      const exec::Storage& storage = out_.storages[s];
      if (storage.kind != StorageKind::arena || out_.storage_devices[s] != out_.devices[d] || out_.last_use[s] < 0) continue;
      lifetimes.push_back({storage.bytes, out_.first_use[s], out_.last_use[s], -1});
      which.push_back(s);
      if (storage.bytes <= kSmall) small_bytes += storage.bytes;
    }
    bool apart = small_bytes <= kMuch;
    const auto is_over = [&](size_t earlier, size_t later) {
      if (lifetimes[earlier].last >= lifetimes[later].first || (apart && lifetimes[earlier].bytes <= kSmall)) return false;
      const int first = group_of[size_t(lifetimes[later].first)];
      const std::vector<int>& done = out_.groups[size_t(first)].done;
      for (size_t t = 0; t < out_.streams.size(); ++t)
        if (const int last = last_on[which[earlier]][t]; last > done[t] && last != first) return false;
      return true;
    };
    int64_t bytes = plan_memory(lifetimes, is_over);
    if (apart && bytes > room_for_arena(out_, out_.devices[d], options_)) apart = false, bytes = plan_memory(lifetimes, is_over);
    for (size_t i = 0; i < which.size(); ++i) out_.storages[which[i]].index = int(d), out_.storages[which[i]].offset = lifetimes[i].offset;
    return bytes;
  }
  // On a GPU, reusing memory waits for all blocks that used it: batch rows would wait for the updates of earlier layers, and an ensemble's
  // updates could not move behind its products. Small temporaries therefore get memory of their own, unless it adds up to too much: 100
  // models' temporaries of 20 rows of 64 have half a megabyte each, those of 400 layers of 1,000 rows 200 MB in all.
  static constexpr int64_t kSmall = int64_t{1} << 20, kMuch = int64_t{256} << 20;
  static int64_t plan_apart(std::vector<Lifetime>& lifetimes, int64_t shared_bytes, int64_t room) {
    int64_t sum = 0;
    std::vector<Lifetime> apart = lifetimes;
    for (Lifetime& l : apart)
      if (l.bytes <= kSmall) l.last = kEnd, sum += l.bytes;
    if (sum > kMuch) return shared_bytes;
    const int64_t bytes = plan_memory(apart);
    if (bytes > room) return shared_bytes;
    for (size_t i = 0; i < lifetimes.size(); ++i) lifetimes[i].offset = apart[i].offset;
    return bytes;
  }
  // Per storage: the only thread whose steps touch it, or -1.
  std::vector<int> owners_of_storages() const {
    std::vector<int> out(out_.storages.size(), -2);
    for (const Work& work : out_.work)
      for (auto* places : {&work.inputs, &work.outputs})
        for (const Place& place : *places) {
          int& owner = out[size_t(place.storage)];
          owner = owner == -2 || owner == work.owner ? work.owner : -1;
        }
    for (int& owner : out) owner = std::max(owner, -1);
    return out;
  }

  const Selection& selection_;
  const ir::Graph& g_;
  const std::vector<int>& order_;
  const Options& options_;
  const int threads_;
  Lowered out_;
  int position_ = 0;
  std::vector<int> first_value_, position_of_, last_use_;
  std::vector<Place> places_;                      // per value
  std::vector<int> home_;                          // per value: the variable whose memory holds it, or -1
  std::vector<char> assigned_;                     // per node: whether a result is assigned to a variable
  std::vector<int> stays_home_;                    // assignments that copy nothing
  std::vector<int> variable_storage_;              // per resource
  std::vector<std::vector<int>> write_positions_;  // per resource
  std::unordered_map<int, int> input_storage_;
  std::unordered_map<int, std::vector<size_t>> values_in_;  // per storage
  std::unordered_map<int, TensorType> written_as_;          // per storage that a node has written: its result
  bool has_infeed_ = false;
  int lives_ = 0;  // number of results that reuse an operand's memory with another shape
  std::map<std::pair<size_t, Device>, Place> arrived_;
  std::unordered_map<size_t, Place> contiguous_;
  std::vector<std::unique_ptr<ir::SectionStep>>& copies_ = out_.copies;
};

}  // namespace

std::shared_ptr<const exec::Program> lower(const Selection& selection, const std::vector<int>& order, const Options& options, int threads) {
  return emit_program(Lowering(selection, order, options, threads).run(), selection.graph, options, threads);
}

}  // namespace lamina::compile
