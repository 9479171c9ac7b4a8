#include "kernels/section/compiled_source.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "kernels/elementwise_source.h"
#include "runtime/core/error.h"

namespace lamina::section {
namespace {

using kernels::ElementwiseCode;
using kernels::ScalarOp;

template <class T>
const T* table_at(const BlockPlan& plan, int32_t bytes) {
  return reinterpret_cast<const T*>(plan.bytes.data() + bytes);
}
const BlockOperand& operand_at(const BlockPlan& plan, int i) { return table_at<BlockOperand>(plan, plan.program.operands_at)[i]; }

// The code whose words (block_table.h) begin there.
ElementwiseCode code_at(const BlockPlan& plan, int place) {
  const int32_t* w = table_at<int32_t>(plan, plan.program.codes_at) + place;
  const int inputs = w[0], constants = w[1], instructions = w[2], outputs = w[3];
  w += kCodeHeader;
  ElementwiseCode code;
  for (int i = 0; i < inputs; ++i) code.inputs.push_back(DType(*w++));
  for (int i = 0; i < constants; ++i, w += kCodeConstant) {
    const uint64_t bits = uint32_t(w[1]) | uint64_t(uint32_t(w[2])) << 32;
    const DType type = DType(w[0]);
    double value = type == DType::boolean ? double(bits != 0) : double(int64_t(bits));
    if (type == DType::f32) {
      float narrow = 0;
      std::memcpy(&narrow, &bits, sizeof narrow);
      value = narrow;
    }
    if (type == DType::f64) std::memcpy(&value, &bits, sizeof value);
    code.constants.push_back({type, value});
  }
  for (int i = 0; i < instructions; ++i, w += kCodeInstruction)
    code.instructions.push_back({.op = ScalarOp(w[0] & 0xff),
                                 .type = DType(w[0] >> 8 & 0xff),
                                 .result = DType(w[0] >> 16 & 0xff),
                                 .a = int16_t(w[1]),
                                 .b = int16_t(w[2]),
                                 .c = int16_t(w[3])});
  for (int i = 0; i < outputs; ++i, w += kCodeOutput) code.outputs.push_back(int16_t(w[0]));
  return code;
}

// The struct of a code whose operands from `first_in` are given, without its name. `given`: input 0 comes as an argument.
std::string code_text(const BlockPlan& plan, const ElementwiseCode& code, int first_in, bool given) {
  using kernels::computed_type, kernels::constant_text, kernels::expression_text;
  const int inputs = int(code.inputs.size());
  std::string text = cat("  static constexpr int inputs = ", inputs, ", results = ", code.outputs.size(), ";\n");
  text +=
      "  LAMINA_DEVICE static void run([[maybe_unused]] const char* const* in, char* const* out, [[maybe_unused]] float given, long long "
      "i, [[maybe_unused]] int row, [[maybe_unused]] int column) {\n";
  for (int k = 0; k < inputs; ++k) {
    const char* type = computed_type(code.inputs[size_t(k)]);
    if (given && k == 0) {
      text += cat("    const ", type, " r0 = given;\n");
      continue;
    }
    const Broadcast broadcast = operand_at(plan, first_in + k - given).broadcast;
    const char* place = broadcast == Broadcast::full     ? "i"
                        : broadcast == Broadcast::row    ? "column"
                        : broadcast == Broadcast::column ? "row"
                                                         : "0";
    text += cat("    const ", type, " r", k, " = load_element<", type, ">(in[", k, "], ", place, ");\n");
  }
  int r = inputs;
  for (const auto& [type, value] : code.constants)
    text += cat("    const ", computed_type(type), " r", r++, " = ", constant_text(type, value), ";  // ", value, "\n");
  for (const auto& in : code.instructions)
    text += cat("    const ", computed_type(in.result), " r", r++, " = ", expression_text(in), ";\n");
  for (size_t o = 0; o < code.outputs.size(); ++o)
    text +=
        cat("    reinterpret_cast<", computed_type(code.register_type(code.outputs[o])), "*>(out[", o, "])[i] = r", code.outputs[o], ";\n");
  return text + "  }\n";
}

// What the compiler is told of a step, as text: equal for steps of one form.
class FormText {
 public:
  FormText(const BlockPlan& plan, const BlockStep& step) : plan_(plan), s_(step) {
    fields();
    switch (s_.kind) {
      case StepKind::dense: product("false"); break;
      case StepKind::dense_grad_input: product("true"); break;
      case StepKind::dense_update: {
        const std::string first = code(s_.code, s_.first_in + 2, true);
        call_ = cat("update<", s_.precision == Precision::float32 ? "ColumnSums" : "MmaUpdateSums", ", ", first, ", ",
                    code(s_.has_bias ? s_.code2 : -1, s_.first_in + 2 + s_.extras, true), ">(b, s)");
        break;
      }
      case StepKind::elementwise: call_ = cat("elementwise<", code(s_.code, s_.first_in, false), ">(b, s)"); break;
      case StepKind::reduce: call_ = "reduce(b, s)"; break;
      case StepKind::softmax:
      case StepKind::log_softmax: call_ = "softmax(b, s)"; break;
      case StepKind::sparse_cross_entropy: call_ = "cross_entropy(b, s)"; break;
      case StepKind::dropout: call_ = "dropout(b, s)"; break;
      case StepKind::copy: copied(); break;
      default: internal_error(cat("a section step of the kind ", name(s_.kind), " has no body"));
    }
  }
  const std::vector<std::string>& codes() const { return codes_; }  // structs, as CODE0 and CODE1 in the body
  const std::string& fields_text() const { return fields_; }
  const std::string& call() const { return call_; }
  std::string key() const {
    std::string text = fields_ + call_;
    for (const std::string& c : codes_) text += c;
    return text;
  }

 private:
  // Those that differ from a default BlockStep.
  void fields() {
    static_assert(sizeof(BlockStep) == 112, "a new field is set here, or in set_place() if it is of a place");
    constexpr const char* reductions[] = {"sum", "mean", "max", "min", "prod"};
    constexpr const char* broadcasts[] = {"full", "row", "column", "scalar"};
    constexpr const char* partitions[] = {"rows", "tiles", "one", "models"};
    const BlockStep none;
    std::string line = cat("  s.kind = StepKind::", name(s_.kind), ", s.partition = Partition::", partitions[int(s_.partition)]);
    const auto set = [&](const char* field, int value, int otherwise) {
      if (value != otherwise) line += cat(", s.", field, " = ", value);
    };
    set("blocks", s_.blocks, none.blocks), set("replicas", s_.replicas, none.replicas);
    set("rows", s_.rows, none.rows), set("k", s_.k, none.k), set("n", s_.n, none.n), set("ins", s_.ins, none.ins),
        set("outs", s_.outs, none.outs), set("extras", s_.extras, none.extras);
    set("has_bias", s_.has_bias, none.has_bias), set("has_mask", s_.has_mask, none.has_mask);
    constexpr const char* precisions[] = {"float32", "tf32", "tf32x3", "bf16"};
    if (s_.precision != none.precision) line += cat(", s.precision = Precision::", precisions[int(s_.precision)]);
    if (s_.activation != none.activation) line += cat(", s.activation = Activation::", name(s_.activation));
    uint32_t bits = 0;
    std::memcpy(&bits, &s_.scalar, sizeof bits);
    if (bits != 0) line += cat(", s.scalar = scalar::float_of(int(", bits, "u))");
    if (s_.kind == StepKind::reduce)
      line += cat(", s.reduction = section::Reduction::", reductions[int(s_.reduction)],
                  ", s.reduced = Broadcast::", broadcasts[int(s_.reduced)]);
    set("code", std::min(s_.code, 0), none.code), set("code2", std::min(s_.code2, 0), none.code2),
        set("copy", std::min(s_.copy, 0), none.copy);
    set("descent_w", s_.descent_w, none.descent_w), set("descent_rate", s_.descent_rate, none.descent_rate);
    set("descent_w2", s_.descent_w2, none.descent_w2), set("descent_rate2", s_.descent_rate2, none.descent_rate2);
    fields_ = line + ";\n";
  }
  void product(const char* gradient) {
    const bool alone = s_.partition == Partition::models || s_.partition == Partition::one;
    const int rows = alone ? s_.rows : (s_.rows + s_.blocks - 1) / std::max(1, s_.blocks);
    call_ = cat(s_.precision == Precision::float32 ? "product<" : "product_by_tensor_cores<", gradient, ", OneForm<", std::max(1, rows),
                plan_.program.cluster ? ", true" : "", ">>(b, s)");
  }
  std::string code(int place, int first_in, bool given) {
    if (place < 0) return "NoCode";
    codes_.push_back(code_text(plan_, code_at(plan_, place), first_in, given));
    return cat("WrittenCode<CODE", codes_.size() - 1, ">");
  }
  void copied() {
    const BlockCopy& c = table_at<BlockCopy>(plan_, plan_.program.copies_at)[s_.copy];
    auto list = [&](const int64_t* values) {
      std::string text = "{";
      for (int a = 0; a < c.rank; ++a) text += cat(a ? ", " : "", values[a]);
      return text + "}";
    };
    fields_ += cat("  constexpr section::BlockCopy what{.rank = ", c.rank, ", .element_bytes = ", c.element_bytes,
                   ", .shape = ", list(c.shape), ", .from = ", list(c.from), ", .to = ", list(c.to), "};\n");
    call_ = "copy(b, s, what)";
  }

  const BlockPlan& plan_;
  const BlockStep& s_;
  std::string fields_, call_;
  std::vector<std::string> codes_;
};

// For people: "dense 20 x 64 -> 64, relu".
std::string describe(const BlockStep& s) {
  std::string text = cat(name(s.kind), " of ", s.rows, " rows");
  if (s.kind == StepKind::dense || s.kind == StepKind::dense_grad_input || s.kind == StepKind::dense_update)
    text += s.kind == StepKind::dense_grad_input ? cat(", ", s.n, " -> ", s.k) : cat(", ", s.k, " -> ", s.n);
  else
    text += cat(" x ", s.n);
  if (s.activation != Activation::none) text += cat(", ", name(s.activation));
  if (s.replicas > 1) text += cat(", ", s.replicas, " models");
  return text;
}

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) text.replace(at, from.size(), to);
}

int forms_of(const BlockPlan& plan) {
  int forms = 0;
  for (const BlockStep& s : plan.steps) forms = std::max(forms, s.form + 1);
  return forms;
}

}  // namespace

void number_forms(BlockPlan& plan) {
  std::map<std::string, int> numbers;
  auto* const in_bytes = reinterpret_cast<BlockStep*>(plan.bytes.data());
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    BlockStep& s = plan.steps[i];
    s.form = -1;
    if (s.kind != StepKind::loop)
      s.form = int16_t(std::min(kMostForms, numbers.try_emplace(FormText(plan, s).key(), int(numbers.size())).first->second));
    in_bytes[i].form = s.form;
  }
}

std::string why_not_compiled(const BlockPlan& plan) {
  return forms_of(plan) > kMostForms ? cat("it has more than ", kMostForms, " kinds of steps") : "";
}

std::string compiled_name(const BlockPlan& plan) {
  constexpr size_t longest = 70;
  std::string text = "section";
  std::vector<StepKind> seen;
  for (const BlockStep& s : plan.steps) {
    if (s.kind == StepKind::loop || std::find(seen.begin(), seen.end(), s.kind) != seen.end()) continue;
    seen.push_back(s.kind);
    if (text.size() + std::strlen(name(s.kind)) < longest) text += cat('_', name(s.kind));
  }
  return text;
}

std::string compiled_source(const BlockPlan& plan) {
  std::string codes, bodies, cases;
  std::map<std::string, std::string> code_names;
  for (int form = 0; form < forms_of(plan); ++form) {
    std::string steps;
    const BlockStep* first = nullptr;
    int count = 0;
    constexpr int named = 6;
    for (size_t i = 0; i < plan.steps.size(); ++i) {
      if (plan.steps[i].form != form) continue;
      if (!first) first = &plan.steps[i];
      if (count++ < named) steps += cat(count > 1 ? ", " : "", i);
    }
    const FormText text(plan, *first);
    std::string call = text.call();
    for (size_t c = 0; c < text.codes().size(); ++c) {
      const auto [place, is_new] = code_names.try_emplace(text.codes()[c], cat("Code", code_names.size()));
      if (is_new) codes += cat("struct ", place->second, " {\n", text.codes()[c], "};\n");
      replace_all(call, cat("CODE", c), place->second);
    }
    const std::string body = cat(name(first->kind), "_", form);
    bodies += cat("// ", describe(*first), "; step", count > 1 ? "s " : " ", steps,
                  count > named ? cat(" and ", count - named, " more") : "", "\n");
    bodies += cat("LAMINA_DEVICE bool ", body, "(Block& b, const BlockStep& from) {\n  BlockStep s = placed(from);\n", text.fields_text());
    if (first->kind == StepKind::sparse_cross_entropy)
      bodies += cat("  return for_models(b, s, [&] { return ", call, "; });\n}\n");
    else
      bodies += cat("  return for_models(b, s, [&] { return ", call, ", true; });\n}\n");
    cases += cat("      case ", form, ": return ", body, "(b, s);\n");
  }
  const std::string kernel = compiled_name(plan);
  return cat("// ", plan.steps.size(), " steps on ", plan.program.blocks, " blocks, in ", forms_of(plan),
             " forms. Where operands lie is in the table that the launch brings.\n", "#include \"kernels/cuda/section_kernel.h\"\n",
             plan.tensor_cores ? "#include \"kernels/cuda/section_mma.h\"\n" : "",
             "namespace lamina::kernels::cuda::resident {\nnamespace {\n", codes, bodies,
             "struct Steps {\n  static constexpr bool in_cluster = ", plan.program.cluster ? "true" : "false",
             ";\n  LAMINA_DEVICE static bool run(Block& b, const BlockStep& s) {\n    switch (s.form) {\n", cases,
             "      default: return true;\n    }\n  }\n};\n}  // namespace\nstatic_assert(sizeof(BlockStep) == ", sizeof(BlockStep),
             " && sizeof(BlockOperand) == ", sizeof(BlockOperand), " && sizeof(BlockProgram) == ", sizeof(BlockProgram),
             ");\n}  // namespace lamina::kernels::cuda::resident\n", "extern \"C\" LAMINA_KERNEL(256, 1) ", kernel,
             "(LAMINA_ARGUMENT lamina::kernels::cuda::resident::Arguments a) {\n  "
             "lamina::kernels::cuda::resident::run_block<lamina::kernels::cuda::resident::Steps>(a);\n}\n");
}

}  // namespace lamina::section
