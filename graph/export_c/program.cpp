#include "graph/export_c/program.h"

#include <algorithm>
#include <cstring>

#include "graph/compile/plan_memory.h"
#include "graph/export_c/rules.h"
#include "graph/ops/ops.h"
#include "runtime/exec/control_flow.h"

namespace lamina::c_text {
namespace {

using exec::Instruction;
using exec::Program;
using exec::StorageKind;

void never_run(const KernelCall&) { internal_error("a kernel that stands for source text was run"); }

const NodeText* node_of(const Instruction& instruction) {
  return instruction.kernel.run == never_run ? static_cast<const NodeText*>(instruction.kernel.args.get()) : nullptr;
}

// The programs inside of an instruction that is a loop or branch.
const std::vector<exec::SubProgram>* programs_of(const Instruction& instruction) {
  const void* args = instruction.kernel.args.get();
  if (instruction.kernel.run == exec::run_cond) return &static_cast<const exec::CondArgs*>(args)->programs;
  if (instruction.kernel.run == exec::run_while_loop) return &static_cast<const exec::LoopArgs*>(args)->programs;
  if (instruction.kernel.run == exec::run_scan) return &static_cast<const exec::ScanArgs*>(args)->programs;
  return nullptr;
}

// How many of its outputs are results; temporary memory may follow them.
size_t results_of(const Instruction& instruction) {
  if (const NodeText* text = node_of(instruction)) return text->node.types.size();
  const auto* programs = programs_of(instruction);
  if (!programs) return instruction.outputs.size();
  const void* args = instruction.kernel.args.get();
  if (instruction.kernel.run == exec::run_while_loop) return static_cast<const exec::LoopArgs*>(args)->carried + 1;
  const size_t carried = instruction.kernel.run == exec::run_scan ? static_cast<const exec::ScanArgs*>(args)->carried : 0;
  return carried + (*programs)[0].program().outputs.size();
}

// Where a program's temporary storages lie: a plan for each type, since C's arrays have one.
struct Layout {
  std::map<int, Pointer> storages;
  std::map<DType, int64_t> elements;
  std::map<size_t, Layout> inner;                     // per instruction with programs of its own: one plan for all of them
  std::map<size_t, std::map<DType, int64_t>> places;  // and where in this plan it begins
};

Layout layout_of(const std::vector<const Program*>& programs);

Layout layout_of(const Program& p) {
  struct Use {
    DType dtype;
    int64_t bytes;
    int first, last;
  };
  std::map<int, Use> uses;
  for (size_t i = 0; i < p.instructions.size(); ++i) {
    const Instruction& instruction = p.instructions[i];
    const bool nests = programs_of(instruction) != nullptr;
    const size_t results = results_of(instruction);
    for (const auto* list : {&instruction.inputs, &instruction.outputs})
      for (size_t o = 0; o < list->size(); ++o) {
        const exec::Slot& slot = p.slots[size_t((*list)[o])];
        const exec::Storage& storage = p.storages[size_t(slot.storage)];
        if (storage.kind != StorageKind::arena) continue;
        const bool is_output = list == &instruction.outputs;
        if (is_output && nests && o >= results) continue;  // its programs' memory, which is planned below
        const DType dtype = is_output && o >= results ? node_of(instruction)->scratch : slot.view.dtype;
        auto [it, is_new] = uses.try_emplace(slot.storage, Use{dtype, storage.bytes, int(i), int(i)});
        it->second.last = int(i);
      }
  }
  Layout out;
  std::map<DType, std::vector<compile::Lifetime>> lifetimes;
  std::map<DType, std::vector<int>> which;  // the storage, or -1 - instruction
  for (const auto& [storage, use] : uses) {
    lifetimes[use.dtype].push_back({use.bytes, use.first, use.last, -1});
    which[use.dtype].push_back(storage);
  }
  for (size_t i = 0; i < p.instructions.size(); ++i) {
    const auto* inner = programs_of(p.instructions[i]);
    if (!inner) continue;
    std::vector<const Program*> all;
    for (const exec::SubProgram& program : *inner) all.push_back(&program.program());
    Layout& own = out.inner[i] = layout_of(all);
    if (p.instructions[i].kernel.run == exec::run_while_loop) ++own.elements[DType::boolean];  // its condition, the last one
    for (const auto& [dtype, elements] : own.elements) {
      lifetimes[dtype].push_back({elements * int64_t(size_of(dtype)), int(i), int(i), -1});
      which[dtype].push_back(-1 - int(i));
    }
  }
  for (auto& [dtype, list] : lifetimes) {
    const int64_t width = int64_t(size_of(dtype));
    out.elements[dtype] = (compile::plan_memory(list) + width - 1) / width;
    for (size_t i = 0; i < list.size(); ++i) {
      const int64_t place = list[i].offset / width;
      if (const int storage = which[dtype][i]; storage >= 0)
        out.storages[storage] = {.dtype = dtype, .offset = place, .terms = {}};
      else
        out.places[size_t(-1 - storage)][dtype] = place;
    }
  }
  return out;
}

// Of several programs of one instruction: each from the beginning, told apart by the storages' numbers.
constexpr int kApart = 1 << 24;
Layout layout_of(const std::vector<const Program*>& programs) {
  Layout out;
  for (size_t n = 0; n < programs.size(); ++n) {
    Layout one = layout_of(*programs[n]);
    for (auto& [storage, place] : one.storages) out.storages[storage + int(n) * kApart] = place;
    for (auto& [dtype, elements] : one.elements) out.elements[dtype] = std::max(out.elements[dtype], elements);
    for (auto& [i, inner] : one.inner) out.inner[i + n * size_t(kApart)] = std::move(inner);
    for (auto& [i, place] : one.places) out.places[i + n * size_t(kApart)] = std::move(place);
  }
  return out;
}

class Items {
 public:
  Items(const Program& p, const Binding& binding, Shared& shared, const Layout& layout, size_t number,
        const std::map<DType, int64_t>& begin, int depth)
      : p_(p), binding_(binding), shared_(shared), layout_(layout), number_(number), begin_(begin), depth_(depth) {}

  std::vector<Item> run() {
    for (size_t i = 0; i < p_.instructions.size(); ++i) {
      const Instruction& instruction = p_.instructions[i];
      if (const NodeText* node = node_of(instruction))
        call(*node, instruction);
      else if (programs_of(instruction))
        nest(instruction, i + number_ * size_t(kApart));
      else if (instruction.name == "copy")
        copy(instruction);
      else
        internal_error(cat("export_c: ", instruction.name, " has no C form"));
    }
    return std::move(items_);
  }

 private:
  Pointer at(int slot_number) const {
    const exec::Slot& slot = p_.slots[size_t(slot_number)];
    const exec::Storage& storage = p_.storages[size_t(slot.storage)];
    Pointer out;
    if (storage.kind == StorageKind::arena) {
      const auto found = layout_.storages.find(slot.storage + int(number_) * kApart);
      if (found == layout_.storages.end()) internal_error("export_c: a storage has no place");
      out = found->second;
      out.offset += begin_.count(out.dtype) ? begin_.at(out.dtype) : 0;
      out.offset += shared_.state[out.dtype];
    } else if (storage.kind == StorageKind::constant) {
      const BufferRef& buffer = p_.constants[size_t(storage.index)];
      out = shared_.constant(slot.view.dtype, buffer->data(), storage.bytes);
    } else {
      out = binding_.at({storage.kind, storage.index});
    }
    out.offset += slot.offset / int64_t(size_of(out.dtype));
    return out;
  }
  Operand operand(int slot) const { return {"", p_.slots[size_t(slot)].view}; }

  // The function of this text, with a name that begins so.
  std::string function(const std::string& name, const std::string& head, const std::string& body) {
    auto [it, is_new] = shared_.named.try_emplace(head + "\n" + body);
    if (is_new) {
      it->second = cat(name, "_", shared_.named.size());
      shared_.functions.push_back(
          cat("static ", head.substr(0, head.find('(')), it->second, head.substr(head.find('(')), " {\n", body, "}\n"));
    }
    return it->second;
  }

  void call(const NodeText& text, const Instruction& instruction) {
    Writer w;
    std::vector<Pointer> out, pointers;
    std::vector<std::string> parameters, words;
    for (size_t o = 0; o < instruction.outputs.size(); ++o) {
      Operand operand = this->operand(instruction.outputs[o]);
      const Pointer pointer = at(instruction.outputs[o]);
      const bool scratch = o >= text.node.types.size();
      operand.name = scratch ? "t" : cat("y", o);
      out.push_back(pointer);
      pointers.push_back(pointer);
      words.push_back(operand.name);
      parameters.push_back(cat(c_type(pointer.dtype), " *restrict ", operand.name));
      if (scratch)
        w.scratch = operand.name;
      else
        w.out.push_back(operand);
    }
    for (size_t i = 0; i < instruction.inputs.size(); ++i) {
      Operand operand = this->operand(instruction.inputs[i]);
      const Pointer pointer = at(instruction.inputs[i]);
      const auto same = std::find(out.begin(), out.end(), pointer);
      if (same != out.end()) {  // made in place
        operand.name = words[size_t(same - out.begin())];
      } else {
        operand.name = cat("a", i);
        pointers.push_back(pointer);
        words.push_back(operand.name);
        parameters.push_back(cat("const ", c_type(pointer.dtype), " *restrict ", operand.name));
      }
      w.in.push_back(operand);
    }
    try {
      rule_of(*text.node.op)->write(w, text.node);
    } catch (const Error& e) {
      throw instruction.line.known() ? e.at(lamina::text(instruction.line)) : e;
    }
    if (w.fails) w("return bad;");
    Item item;
    std::string list;
    for (size_t i = 0; i < words.size(); ++i) {
      if (!has_word(w.text, words[i])) continue;
      list += (list.empty() ? "" : ", ") + parameters[i];
      item.arguments.push_back(pointers[i]);
    }
    item.function = function(text.node.op->name, cat(w.fails ? "int " : "void ", "(", list.empty() ? "void" : list, ")"), w.text);
    if (w.fails) {
      std::string what = cat(text.node.op->name, ": an index or label is out of range");
      if (text.node.op == &ops::def::check) what = ir::attrs_of<ops::CheckAttrs>(*text.node.attrs).message;
      if (text.node.op == &ops::def::check_numerics) what = ir::attrs_of<ops::NumericsAttrs>(*text.node.attrs).message;
      item.error = shared_.error(cat(what, instruction.line.known() ? cat(" (", lamina::text(instruction.line), ")") : ""));
    }
    items_.push_back(std::move(item));
  }

  void copy(const Instruction& instruction) {
    Operand from = operand(instruction.inputs[0]), to = operand(instruction.outputs[0]);
    if (is_contiguous(from.view) && is_contiguous(to.view)) return copy(at(instruction.inputs[0]), at(instruction.outputs[0]), from.size());
    Writer w;
    from.name = "a0", to.name = "y0";
    write_copy(w, from, to);
    Item item;
    item.arguments = {at(instruction.inputs[0]), at(instruction.outputs[0])};
    const char* type = c_type(from.dtype());
    item.function = function("copy", cat("void (const ", type, " *restrict a0, ", type, " *restrict y0)"), w.text);
    items_.push_back(std::move(item));
  }
  void copy(const Pointer& from, const Pointer& to, int64_t elements) {
    if (from == to || elements == 0) return;
    Item item;
    item.kind = Item::Kind::copy, item.function = c_type(to.dtype), item.arguments = {to, from}, item.count = elements;
    items_.push_back(std::move(item));
  }

  void nest(const Instruction& instruction, size_t place) {
    const Layout& inner = layout_.inner.at(place);
    std::map<DType, int64_t> begin = begin_;
    if (const auto found = layout_.places.find(place); found != layout_.places.end())
      for (const auto& [dtype, offset] : found->second) begin[dtype] += offset;
    std::vector<Pointer> in, out;
    for (int slot : instruction.inputs) in.push_back(at(slot));
    const auto& programs = *programs_of(instruction);
    Item item;
    const size_t results = results_of(instruction);
    const size_t carried = instruction.kernel.run == exec::run_cond ? 0
                           : instruction.kernel.run == exec::run_while_loop
                               ? results - 1
                               : static_cast<const exec::ScanArgs*>(instruction.kernel.args.get())->carried;
    for (size_t o = 0; o < results; ++o) out.push_back(at(instruction.outputs[o]));
    for (size_t i = 0; i < carried; ++i) copy(in[i], out[i], operand(instruction.inputs[i]).size());
    auto add = [&](size_t number, const Binding& binding) {
      item.parts.push_back(Items(programs[number].program(), binding, shared_, inner, number, begin, depth_ + 1).run());
    };
    Binding binding;
    for (size_t i = 0; i < carried; ++i) binding[{StorageKind::variable, int(i)}] = out[i];
    if (instruction.kernel.run == exec::run_cond) {
      item.kind = Item::Kind::branch;
      item.arguments = {in[0]};
      for (size_t i = 1; i < in.size(); ++i) binding[{StorageKind::input, int(i) - 1}] = in[i];
      for (size_t o = 0; o < out.size(); ++o) binding[{StorageKind::output, int(o)}] = out[o];
      add(0, binding);
      add(1, binding);
    } else if (instruction.kernel.run == exec::run_while_loop) {
      item.kind = Item::Kind::while_loop;
      item.count = static_cast<const exec::LoopArgs*>(instruction.kernel.args.get())->maximum;
      const Pointer condition{.dtype = DType::boolean,
                              .offset = shared_.state[DType::boolean] + begin[DType::boolean] + inner.elements.at(DType::boolean) - 1,
                              .terms = {}};
      item.arguments = {condition, out[carried]};
      for (size_t i = carried; i < in.size(); ++i) binding[{StorageKind::input, int(i - carried)}] = in[i];
      binding[{StorageKind::output, 0}] = condition;
      item.variable = cat("n", depth_);
      add(0, binding);
      binding.erase({StorageKind::output, 0});
      add(1, binding);
    } else {
      const auto& args = *static_cast<const exec::ScanArgs*>(instruction.kernel.args.get());
      item.kind = Item::Kind::scan;
      item.count = args.length, item.reverse = args.reverse;
      item.variable = cat("n", depth_);
      auto slice = [&](Pointer p, size_t number) {
        p.terms.emplace_back(item.variable, args.slice_bytes[number] / int64_t(size_of(p.dtype)));
        return p;
      };
      if (args.counted) item.arguments.push_back(in[carried + args.stacked + args.captures]);
      for (size_t i = 0; i < args.stacked; ++i) binding[{StorageKind::input, int(i)}] = slice(in[carried + i], i);
      for (size_t i = 0; i < args.captures; ++i) binding[{StorageKind::input, int(args.stacked + i)}] = in[carried + args.stacked + i];
      for (size_t i = 0; carried + i < out.size(); ++i) {
        binding[{StorageKind::output, int(i)}] = slice(out[carried + i], args.stacked + i);
        if (args.counted) {
          item.arguments.push_back(out[carried + i]);
          item.slices.push_back(args.slice_bytes[args.stacked + i] / int64_t(size_of(out[carried + i].dtype)));
        }
      }
      add(0, binding);
    }
    items_.push_back(std::move(item));
  }

  const Program& p_;
  const Binding& binding_;
  Shared& shared_;
  const Layout& layout_;
  const size_t number_;  // of several programs of one instruction
  const std::map<DType, int64_t> begin_;
  const int depth_;
  std::vector<Item> items_;
};

}  // namespace

compile::TextKernel text_kernel(const ir::Node& node, const ir::KernelRequest& request) {
  auto refuse = [&](const std::string& why, const std::string& fix) {
    throw Error(ErrorKind::invalid_argument,
                {.what = cat("export_c: the program has ", node.op->name), .where = text(node.line), .why = why, .fix = fix});
  };
  if (const char* why = why_refused(*node.op)) refuse(why, "leave it out of what is exported");
  if (ops::owns_programs(node)) return {};
  const Rule* rule = rule_of(*node.op);
  if (!rule && node.op->decompose) return {};
  if (!rule) refuse("there is no C form of this op", "leave it out of what is exported");
  for (const auto* types : {&request.in, &request.out})
    for (const TensorType& t : *types)
      if (is_half(t.dtype)) refuse(cat("C99 has no ", numpy_name(t.dtype)), "use float32 in what is exported");
  NodeText out{node, DType::f32};
  int64_t bytes = 0;
  if (rule->scratch) {
    const Scratch scratch = rule->scratch(node, request);
    out.scratch = scratch.dtype, bytes = scratch.elements * int64_t(size_of(scratch.dtype));
  }
  return {{never_run, std::make_shared<const NodeText>(std::move(out))}, bytes};
}

Pointer Shared::constant(DType dtype, const void* data, int64_t bytes) {
  std::vector<std::byte> own(static_cast<const std::byte*>(data), static_cast<const std::byte*>(data) + bytes);
  std::vector<std::byte>& all = constants[dtype];
  auto [it, is_new] = constant_places.try_emplace({dtype, own}, int64_t(all.size() / size_of(dtype)));
  if (is_new) all.insert(all.end(), own.begin(), own.end());
  return {.base = Pointer::Base::constant, .dtype = dtype, .offset = it->second, .terms = {}};
}

int Shared::error(const std::string& text) {
  auto found = std::find(errors.begin(), errors.end(), text);
  if (found == errors.end()) found = errors.insert(found, text);
  return int(found - errors.begin()) + 1;
}

std::vector<Item> items_of(const exec::Program& program, const Binding& binding, Shared& shared) {
  const Layout layout = layout_of(program);
  for (const auto& [dtype, elements] : layout.elements) shared.scratch[dtype] = std::max(shared.scratch[dtype], elements);
  return Items(program, binding, shared, layout, 0, {}, 0).run();
}

}  // namespace lamina::c_text
