#include "python_bindings/src/trainable.h"

#include <utility>

#include "python_bindings/src/convert.h"
#include "python_bindings/src/training_flag.h"

namespace lamina::python {
namespace {

// Guarded by the GIL.
uint64_t changes = 0;
int64_t layers_changed = 0;
PyObject* layer_type = nullptr;
thread_local TrainableReads* reading = nullptr;

// The layer, or none if it was freed.
nb::object layer_of(nb::handle reference) {
  nb::object layer = nb::steal(PyObject_CallNoArgs(reference.ptr()));
  if (!layer.is_valid()) throw_python_error();
  return layer;
}

}  // namespace

TrainableReads::Scope::Scope(TrainableReads& reads) : before_(std::exchange(reading, &reads)) {}
TrainableReads::Scope::~Scope() { reading = before_; }

void TrainableReads::add(nb::handle layer, bool value) {
  const auto place = places_.find(layer.ptr());
  if (place != places_.end() && layer_of(reads_[place->second].layer).is(layer)) return;
  nb::object reference = nb::steal(PyWeakref_NewRef(layer.ptr(), nullptr));
  if (!reference.is_valid()) throw_python_error();
  places_[layer.ptr()] = reads_.size();
  reads_.push_back({std::move(reference), value});
}

bool TrainableReads::changed(Read read) const {
  const nb::object layer = layer_of(read.layer);
  return !layer.is_none() && nb::cast<bool>(nb::bool_(layer.attr("trainable"))) != read.first;
}

const std::string& TrainableReads::key() {
  if (reads_.empty() || checked_ == changes) return key_;
  std::string key;
  const uint64_t seen = changes;
  for (size_t i = 0; i < reads_.size(); ++i)
    if (changed(reads_[i])) key += cat(key.empty() ? "\1" : ",", i);
  key_ = key.empty() ? key : key + "\1";
  checked_ = seen;
  return key_;
}

std::string TrainableReads::in_words() {
  std::string words;
  for (size_t i = 0; i < reads_.size(); ++i)
    if (const Read read = reads_[i]; changed(read))
      words += cat(words.empty() ? "with " : ", ", nb::str(layer_of(read.layer).attr("name")).c_str(), ".trainable ",
                   read.first ? "False" : "True");
  return words.empty() ? "as at first" : words;
}

void TrainableReads::pass_on() const {
  if (!reading || reading == this) return;
  for (size_t i = 0; i < reads_.size(); ++i)
    if (const nb::object layer = layer_of(reads_[i].layer); !layer.is_none())
      reading->add(layer, nb::cast<bool>(nb::bool_(layer.attr("trainable"))));
}

int64_t layer_changes() { return layers_changed; }
bool is_layer(PyObject* o) { return layer_type && PyObject_TypeCheck(o, reinterpret_cast<PyTypeObject*>(layer_type)); }

void bind_trainable(nb::module_& m) {
  m.def(
      "trainable_read", [](nb::handle layer, bool value) { return reading ? reading->add(layer, value) : void(); }, nb::arg("layer"),
      nb::arg("value"), "The function that is being traced depends on a layer's trainable.");
  m.def("trainable_changed", [] { ++changes; }, "Some layer's trainable is another one now.");
  m.def("trainable_changes", [] { return changes; }, "How often layers' trainable was changed.");
  m.def("_layers_are", [](nb::handle type) { layer_type = type.inc_ref().ptr(); }, nb::arg("type"), "The class that all layers have.");
  m.def("_layer_changed", [] { ++layers_changed; }, "Some layer was made, or holds another part now.");
  m.def("_is_symbolic", [](nb::handle value) { return is_tensor(value.ptr()) && as_tensor(value.ptr()).is_symbolic(); }, nb::arg("value"));
  m.def("training", [] { return training_flag; }, "Whether the layers that run now were called to train.");
  m.def("set_training", [](bool on) { return std::exchange(training_flag, on); }, nb::arg("on"), "Sets it; returns what it was.");
}

}  // namespace lamina::python
