#include "graph/frontend/model_axis.h"

#include "graph/frontend/trace.h"
#include "runtime/core/per_thread.h"

namespace lamina {
namespace {

std::vector<ModelAxis*>& running() { return PerThread<std::vector<ModelAxis*>>::get(); }

}  // namespace

ModelAxis::ModelAxis(std::optional<Dim> size) : size(size) { running().push_back(this); }
ModelAxis::~ModelAxis() { running().pop_back(); }

ModelAxis* ModelAxis::of(const VariableData& v) {
  if (v.models == 0 || executing_eagerly()) return nullptr;
  for (ModelAxis* call : running())
    if (!call->size || *call->size == Dim(v.models)) return call;
  return nullptr;
}

void ModelAxis::use(const VariableData& v) {
  if (v.models == 0 || running().empty() || executing_eagerly()) return;
  if (ModelAxis* call = of(v)) {
    call->size = Dim(v.models);
    return;
  }
  throw Error(ErrorKind::invalid_argument,
              {.what = cat("vmap: the variable '", v.state.name, "' is stacked for ", v.models, " models, the call is about ",
                           *running().back()->size),
               .where = "",
               .why = "the models of stacked variables are what vmap maps: there must be as many as in the other mapped inputs",
               .fix = "pass inputs with an entry per model, or in_axes=None for those that all models share"});
}

uint64_t ModelAxis::signature() {
  if (running().empty() || executing_eagerly()) return 0;
  uint64_t h = 1;
  for (const ModelAxis* call : running()) h = (h ^ uint64_t(call->size ? call->size->code() : -1)) * 0x9e3779b97f4a7c15u + (h >> 29);
  return h;
}

const TensorType& Variable::seen_type() const { return ModelAxis::of(*data_) ? *data_->one_model : *data_->type; }
const TypeRef& Variable::type_ref() const { return ModelAxis::of(*data_) ? data_->one_model : data_->type; }

}  // namespace lamina
