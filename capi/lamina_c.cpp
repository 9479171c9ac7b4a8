#include "capi/lamina_c.h"

#include <cmath>
#include <new>
#include <string>
#include <vector>

#include "graph/frontend/factories.h"
#include "graph/program/module.h"
#include "runtime/core/limits.h"
#include "runtime/core/per_thread.h"

struct lamina_tensor {
  lamina::Tensor tensor;
  lamina::Tensor on_host;  // once its data was asked for
  lamina::Mutex mutex;
};
struct lamina_results {
  std::vector<std::string> names;
  std::vector<std::unique_ptr<lamina_tensor>> tensors;
};
struct lamina_module {
  struct Value {
    std::string name;
    lamina::DType dtype;
    std::vector<int64_t> shape;
  };
  struct Graph {
    std::string function;
    std::vector<Value> arguments, results;
  };
  lamina::Module module;
  std::string text;
  std::vector<Graph> graphs;
};

namespace {

using lamina::DType;
using lamina::Error;
using lamina::ErrorKind;
using lamina::Limits;

struct LastError {
  std::string text;
};
std::string& last_error() { return lamina::PerThread<LastError>::get().text; }
thread_local Limits::Amounts most;  // of each call

lamina_status status_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::invalid_argument:
    case ErrorKind::index: return LAMINA_INVALID_ARGUMENT;
    case ErrorKind::type: return LAMINA_TYPE_MISMATCH;
    case ErrorKind::signature: return LAMINA_SIGNATURE_MISMATCH;
    case ErrorKind::state: return LAMINA_STATE_ERROR;
    case ErrorKind::not_found: return LAMINA_NOT_FOUND;
    case ErrorKind::out_of_memory: return LAMINA_OUT_OF_MEMORY;
    case ErrorKind::time_limit: return LAMINA_TIME_LIMIT;
    case ErrorKind::device: return LAMINA_DEVICE_UNAVAILABLE;
    case ErrorKind::file: return LAMINA_BAD_FILE;
    case ErrorKind::assertion:
    case ErrorKind::conversion:
    case ErrorKind::retrace:
    case ErrorKind::collective:
    case ErrorKind::internal: return LAMINA_FAILED;
  }
  return LAMINA_FAILED;
}

lamina_status failed(lamina_status status, const char* text) noexcept {
  try {
    last_error() = text;
  } catch (...) {
    last_error().clear();
  }
  return status;
}

// Runs f; whatever it throws becomes a status and a text, which names the function of this interface.
template <class F>
lamina_status guarded(const char* function, F&& f) noexcept {
  try {
    const Limits limits(most);
    f();
    return LAMINA_OK;
  } catch (const Error& error) {
    try {
      return failed(status_of(error.kind), error.at(function).what());
    } catch (const std::bad_alloc&) {
      return failed(status_of(error.kind), error.what());
    }
  } catch (const std::bad_alloc&) {
    return failed(LAMINA_OUT_OF_MEMORY, "there is not enough memory");
  } catch (const std::exception& error) {
    return failed(LAMINA_FAILED, error.what());
  } catch (...) {
    return failed(LAMINA_FAILED, "an unknown error");
  }
}

void require(const void* pointer, const char* what) {
  if (!pointer)
    throw Error(ErrorKind::invalid_argument, {.what = lamina::cat(what, " is NULL"), .where = "", .why = "", .fix = "pass one"});
}
template <class T>
T& given(T* pointer, const char* what) {
  require(pointer, what);
  return *pointer;
}

// The values of lamina_dtype are those of DType.
static_assert(int(DType::boolean) == LAMINA_BOOL && int(DType::i64) == LAMINA_I64 && int(DType::f16) == LAMINA_F16 &&
              int(DType::bf16) == LAMINA_BF16 && int(DType::f32) == LAMINA_F32 && int(DType::f64) == LAMINA_F64);

std::vector<lamina_module::Value> values_of(const std::vector<std::string>& names, const std::vector<lamina::TensorSpec>& specs) {
  std::vector<lamina_module::Value> out;
  for (size_t i = 0; i < specs.size(); ++i) {
    lamina_module::Value value{names[i], specs[i].dtype, {}};
    for (const lamina::Dim d : specs[i].shape) value.shape.push_back(d.known() ? d.number() : -1);
    out.push_back(std::move(value));
  }
  return out;
}
const lamina_module::Graph* graph_of(const lamina_module* module, size_t graph) {
  return module && graph < module->graphs.size() ? &module->graphs[graph] : nullptr;
}
void give_value(const lamina_module* module, size_t graph, std::vector<lamina_module::Value> lamina_module::Graph::* list, size_t index,
                lamina_value* out) {
  given(out, "out") = {};
  given(module, "module");
  const lamina_module::Graph* g = graph_of(module, graph);
  if (!g || index >= (g->*list).size())
    throw Error(ErrorKind::not_found, {.what = g ? lamina::cat("graph ", graph, " of '", g->function, "' has no value ", index)
                                                 : lamina::cat("there is no graph ", graph),
                                       .where = "",
                                       .why = lamina::cat("there are ", g ? (g->*list).size() : module->graphs.size()),
                                       .fix = "count from 0"});
  const lamina_module::Value& value = (g->*list)[index];
  *out = {value.name.c_str(), lamina_dtype(value.dtype), value.shape.size(), value.shape.data()};
}

std::unique_ptr<lamina_tensor> made(lamina::Tensor tensor) {
  auto out = std::make_unique<lamina_tensor>();
  out->tensor = std::move(tensor);
  return out;
}

}  // namespace

extern "C" {

int lamina_c_version(void) { return LAMINA_C_VERSION; }
const char* lamina_last_error(void) { return last_error().c_str(); }

lamina_status lamina_tensor_new(lamina_dtype dtype, size_t rank, const int64_t* shape, const void* data, lamina_tensor** out) {
  return guarded(__func__, [&] {
    given(out, "out") = nullptr;
    if (int(dtype) < LAMINA_BOOL || int(dtype) > LAMINA_C128)
      throw Error(ErrorKind::type,
                  {.what = lamina::cat("there is no dtype ", int(dtype)), .where = "", .why = "", .fix = "pass a lamina_dtype"});
    lamina::TensorType type{DType(dtype), {}};
    constexpr size_t kMostAxes = 16;
    if (rank > kMostAxes)
      throw Error(ErrorKind::invalid_argument, {.what = lamina::cat("a tensor of ", rank, " axes"),
                                                .where = "",
                                                .why = lamina::cat("the most are ", kMostAxes),
                                                .fix = "reshape it"});
    for (size_t i = 0; i < rank; ++i) {
      if ((&given(shape, "shape"))[i] < 0)
        throw Error(ErrorKind::invalid_argument,
                    {.what = lamina::cat("axis ", i, " has the length ", shape[i]), .where = "", .why = "", .fix = "pass 0 or more"});
      type.shape.emplace_back(shape[i]);
    }
    if (lamina::byte_size(type) > 0) require(data, "data");
    *out = made(lamina::constant(data, type)).release();
  });
}
lamina_dtype lamina_tensor_dtype(const lamina_tensor* tensor) { return tensor ? lamina_dtype(tensor->tensor.dtype()) : LAMINA_F32; }
size_t lamina_tensor_rank(const lamina_tensor* tensor) { return tensor ? size_t(tensor->tensor.rank()) : 0; }
int64_t lamina_tensor_length(const lamina_tensor* tensor, size_t axis) {
  return tensor && axis < size_t(tensor->tensor.rank()) ? tensor->tensor.shape()[axis].number() : -1;
}
size_t lamina_tensor_bytes(const lamina_tensor* tensor) { return tensor ? size_t(lamina::byte_size(tensor->tensor.type())) : 0; }
lamina_status lamina_tensor_data(const lamina_tensor* tensor, const void** out) {
  return guarded(__func__, [&] {
    given(out, "out") = nullptr;
    auto& t = const_cast<lamina_tensor&>(given(tensor, "tensor"));
    const std::lock_guard one(t.mutex);
    if (!t.on_host.defined()) t.on_host = t.tensor.to(lamina::Device{});
    *out = t.on_host.data();
  });
}
void lamina_tensor_free(lamina_tensor* tensor) { delete tensor; }

lamina_status lamina_module_load(const char* path, lamina_module** out) {
  return guarded(__func__, [&] {
    given(out, "out") = nullptr;
    auto loaded = std::make_unique<lamina_module>();
    loaded->module = lamina::Module::load(&given(path, "path"));
    loaded->text = loaded->module.str();
    for (const auto& [name, graphs] : loaded->module.functions())
      for (const lamina::Module::Graph& g : graphs)
        loaded->graphs.push_back({name, values_of(g.arguments, g.function->inputs()), values_of(g.outputs, g.function->outputs())});
    *out = loaded.release();
  });
}
lamina_status lamina_module_save(const lamina_module* module, const char* path) {
  return guarded(__func__, [&] { given(module, "module").module.save(&given(path, "path")); });
}
void lamina_module_free(lamina_module* module) { delete module; }
const char* lamina_module_text(const lamina_module* module) { return module ? module->text.c_str() : ""; }

size_t lamina_graph_count(const lamina_module* module) { return module ? module->graphs.size() : 0; }
const char* lamina_graph_function(const lamina_module* module, size_t graph) {
  const auto* g = graph_of(module, graph);
  return g ? g->function.c_str() : nullptr;
}
size_t lamina_graph_arguments(const lamina_module* module, size_t graph) {
  const auto* g = graph_of(module, graph);
  return g ? g->arguments.size() : 0;
}
size_t lamina_graph_results(const lamina_module* module, size_t graph) {
  const auto* g = graph_of(module, graph);
  return g ? g->results.size() : 0;
}
lamina_status lamina_graph_argument(const lamina_module* module, size_t graph, size_t index, lamina_value* out) {
  return guarded(__func__, [&] { give_value(module, graph, &lamina_module::Graph::arguments, index, out); });
}
lamina_status lamina_graph_result(const lamina_module* module, size_t graph, size_t index, lamina_value* out) {
  return guarded(__func__, [&] { give_value(module, graph, &lamina_module::Graph::results, index, out); });
}

lamina_status lamina_set_limits(double seconds, int64_t bytes) {
  if (std::isnan(seconds)) return failed(LAMINA_INVALID_ARGUMENT, "a time limit that is no number");
  most = {};
  if (seconds >= 0) most.seconds = seconds;
  if (bytes >= 0) most.bytes = bytes;
  return LAMINA_OK;
}

lamina_status lamina_call(const lamina_module* module, const char* function, size_t count, const char* const* names,
                          const lamina_tensor* const* tensors, lamina_results** out) {
  return guarded(__func__, [&] {
    given(out, "out") = nullptr;
    lamina::NamedTensors arguments;
    for (size_t i = 0; i < count; ++i) {
      const std::string name = &given((&given(names, "names"))[i], "a name");
      if (!arguments.emplace(name, given((&given(tensors, "tensors"))[i], "a tensor").tensor).second)
        throw Error(ErrorKind::signature,
                    {.what = lamina::cat("'", name, "' is given twice"), .where = "", .why = "", .fix = "give each once"});
    }
    auto results = std::make_unique<lamina_results>();
    for (auto& [name, tensor] : given(module, "module").module.call(&given(function, "function"), arguments)) {
      results->names.push_back(name);
      results->tensors.push_back(made(tensor));
    }
    *out = results.release();
  });
}
size_t lamina_results_count(const lamina_results* results) { return results ? results->names.size() : 0; }
const char* lamina_results_name(const lamina_results* results, size_t index) {
  return index < lamina_results_count(results) ? results->names[index].c_str() : nullptr;
}
const lamina_tensor* lamina_results_tensor(const lamina_results* results, size_t index) {
  return index < lamina_results_count(results) ? results->tensors[index].get() : nullptr;
}
const lamina_tensor* lamina_results_find(const lamina_results* results, const char* name) {
  for (size_t i = 0; name && i < lamina_results_count(results); ++i)
    if (results->names[i] == name) return results->tensors[i].get();
  return nullptr;
}
void lamina_results_free(lamina_results* results) { delete results; }

lamina_status lamina_variable_read(const lamina_module* module, const char* name, lamina_tensor** out) {
  return guarded(__func__, [&] {
    given(out, "out") = nullptr;
    *out = made(given(module, "module").module.variable(&given(name, "name")).read()).release();
  });
}
lamina_status lamina_variable_assign(const lamina_module* module, const char* name, const lamina_tensor* value) {
  return guarded(__func__, [&] { given(module, "module").module.variable(&given(name, "name")).assign(given(value, "value").tensor); });
}

}  // extern "C"
