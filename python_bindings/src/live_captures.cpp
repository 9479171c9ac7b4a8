#include "python_bindings/src/live_captures.h"

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include <nanobind/stl/string.h>

#include "python_bindings/src/containers.h"
#include "python_bindings/src/convert.h"
#include "python_bindings/src/function.h"
#include "python_bindings/src/trainable.h"

namespace lamina::python {
namespace {

constexpr size_t kMostObjects = 5000, kLongestWay = 24;

// An object's own attributes, a module's names, or what a class itself has: a dict, or none.
nb::object attributes_of(PyObject* o) {
  if (PyType_Check(o)) return nb::borrow(reinterpret_cast<PyTypeObject*>(o)->tp_dict);  // none of built-in classes, from Python 3.12 on
  if (PyModule_Check(o)) return nb::borrow(PyModule_GetDict(o));
  PyObject** dict = _PyObject_GetDictPtr(o);
  return dict && *dict ? nb::borrow(*dict) : nb::object();
}
// What an object has in a slot of its class, such as those of __slots__, or what a partial function or a property is made of.
nb::object slot_of(PyObject* o, PyObject* name) {
  PyObject* descriptor = _PyType_Lookup(Py_TYPE(o), name);
  if (!descriptor || Py_TYPE(descriptor) != &PyMemberDescr_Type) return {};
  PyObject* found = Py_TYPE(descriptor)->tp_descr_get(descriptor, o, reinterpret_cast<PyObject*>(Py_TYPE(o)));
  if (!found) PyErr_Clear();
  return nb::steal(found);
}
// Held, since other threads may change the dict meanwhile.
std::vector<std::pair<nb::object, nb::object>> items_of(PyObject* dict) {
  std::vector<std::pair<nb::object, nb::object>> out;
  PyObject *name, *value;
  for (Py_ssize_t next = 0; dict && PyDict_Check(dict) && PyDict_Next(dict, &next, &name, &value);)
    out.emplace_back(nb::borrow(name), nb::borrow(value));
  return out;
}
bool is_sequence_of_parts(PyObject* o) { return PyList_Check(o) || PyTuple_Check(o) || is_deque(o); }
Py_ssize_t parts_in(PyObject* o) { return PyDict_Check(o) ? PyDict_Size(o) : is_sequence_of_parts(o) ? PySequence_Size(o) : -1; }
// Whether a module, class or function is the user's own: what lies in others is not replaced between calls.
bool is_users(PyObject* o) {
  static PyObject* const asks = nb::object(nb::module_::import_("lamina.autograph.reach").attr("is_users")).release().ptr();
  const nb::object dict = PyFunction_Check(o) ? nb::borrow(PyFunction_GET_GLOBALS(o)) : attributes_of(o);
  PyObject* name = dict.is_valid() ? PyDict_GetItemString(dict.ptr(), PyType_Check(o) ? "__module__" : "__name__") : nullptr;
  return name && PyUnicode_Check(name) && nb::cast<bool>(nb::handle(asks)(nb::handle(name)));
}

// The names of globals and attributes in a code object and in nested ones.
void add_names(PyObject* code, std::vector<PyObject*>& names, int depth = 0) {
  nb::object own = nb::handle(code).attr("co_names"), constants = nb::handle(code).attr("co_consts");
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(own.ptr()); ++i) names.push_back(PyTuple_GET_ITEM(own.ptr(), i));
  for (Py_ssize_t i = 0; depth < 8 && i < PyTuple_GET_SIZE(constants.ptr()); ++i)
    if (PyCode_Check(PyTuple_GET_ITEM(constants.ptr(), i))) add_names(PyTuple_GET_ITEM(constants.ptr(), i), names, depth + 1);
}

// What tells a part from another one in its place. Graphs keep what they captured, so no other has its address.
const void* identity(PyObject* part) {
  if (part && is_tensor(part)) return as_tensor(part).handle().get();
  if (part && is_variable(part)) return as_variable(part).handle().get();
  return part;
}

}  // namespace

// One step of a path; invalid when it leads nowhere any more.
nb::object LiveCaptures::at(const Step& step, nb::handle from, const Call& call) {
  PyObject* o = from.ptr();
  PyObject* found = nullptr;
  switch (step.kind) {
    case Step::Kind::function: found = call.function; break;
    case Step::Kind::argument: found = size_t(step.index) < call.arguments.size() ? call.arguments[size_t(step.index)] : nullptr; break;
    case Step::Kind::object:  // the object of a method or of a lm.Function
      if (PyMethod_Check(o)) found = step.index ? PyMethod_GET_SELF(o) : PyMethod_GET_FUNCTION(o);
      if (is_function(o)) return nb::getattr(from, "python_function", nb::object());
      break;
    case Step::Kind::type: {
      PyObject* classes = Py_TYPE(o)->tp_mro;
      if (classes && step.index < PyTuple_GET_SIZE(classes)) found = PyTuple_GET_ITEM(classes, step.index);
      break;
    }
    case Step::Kind::defaults:
      if (PyFunction_Check(o)) found = step.index ? PyFunction_GET_KW_DEFAULTS(o) : PyFunction_GET_DEFAULTS(o);
      break;
    case Step::Kind::cell: {
      PyObject* closure = PyFunction_Check(o) ? PyFunction_GET_CLOSURE(o) : nullptr;
      if (closure && step.index < PyTuple_GET_SIZE(closure)) found = PyCell_Get(PyTuple_GET_ITEM(closure, step.index));
      return found ? nb::steal(found) : nb::object();
    }
    case Step::Kind::global:
      if (PyFunction_Check(o)) found = PyDict_GetItemWithError(PyFunction_GET_GLOBALS(o), step.name.ptr());
      break;
    case Step::Kind::attribute:
      if (nb::object dict = attributes_of(o); dict.is_valid()) found = PyDict_GetItemWithError(dict.ptr(), step.name.ptr());
      if (!found) return slot_of(o, step.name.ptr());
      break;
    case Step::Kind::item:
      if (PyDict_Check(o)) found = PyDict_GetItemWithError(o, step.name.ptr());
      if (is_sequence_of_parts(o)) {
        const Py_ssize_t size = PySequence_Size(o), i = step.index < 0 ? step.index + size : step.index;
        if (is_deque(o)) return 0 <= i && i < size ? nb::steal(PySequence_GetItem(o, i)) : nb::object();
        if (0 <= i && i < size) found = PySequence_Fast_GET_ITEM(o, i);
      }
      break;
  }
  return found ? nb::borrow(found) : nb::object();
}

template <class T>
size_t LiveCaptures::Place::number_of(const std::shared_ptr<T>& found) {
  for (auto& [known, number] : met)
    if (!known.owner_before(found) && !found.owner_before(known)) return number;
  std::erase_if(met, [](auto& one) { return one.first.expired(); });
  met.emplace_back(found, ++last);
  return last;
}

std::optional<size_t> LiveCaptures::changed_to(Place& place, PyObject* now) {
  if (!now && place.of_argument) return {};  // an object of other parts: it has graphs of its own
  if (place.parts) {
    if (!place.of_all) return {};
    const Py_ssize_t parts = now ? parts_in(now) : -1;
    return parts == *place.parts ? std::nullopt : std::optional(size_t(parts + 2));
  }
  const auto unless_first = [](size_t number) { return number == 0 ? std::nullopt : std::optional(number); };
  if (now && is_tensor(now)) return unless_first(place.number_of(as_tensor(now).handle()));
  if (now && is_variable(now)) return unless_first(place.number_of(as_variable(now).handle()));
  return 0;  // it holds neither
}

LiveCaptures::Inside LiveCaptures::parts_inside(const std::deque<Node>& nodes, const std::vector<nb::object>& values) {
  std::vector<char> walked(values.size()), is_part(values.size());
  for (size_t n = values.size(); n-- > 0;) {  // a node's parts come behind it
    if (!nodes[n].step.in_layer) continue;
    const nb::handle holder = values[size_t(nodes[n].from)];
    is_part[n] = holder.is_valid() && !is_layer(holder.ptr());
    walked[n] |= is_part[n];
    if (walked[n]) walked[size_t(nodes[n].from)] = true;
  }
  Inside inside;
  for (size_t n = 0; n < values.size(); ++n)
    if (walked[n] && nodes[n].step.in_layer)
      inside.parts.emplace_back(n, is_part[n] ? std::optional(identity(values[n].ptr())) : std::nullopt);
  return inside;
}

std::string LiveCaptures::key(const Call& call) {
  std::vector<nb::object> values(nodes_.size());
  const size_t count = places_.size();  // another thread may call or add while a step runs Python
  const auto step_to = [&](size_t n) {
    const nb::handle from = nodes_[n].from < 0 ? nb::handle(Py_None) : values[size_t(nodes_[n].from)];
    values[n] = from.is_valid() ? at(nodes_[n].step, from, call) : nb::object();
  };
  const auto walk = [&](bool in_layers) {
    std::vector<std::pair<size_t, size_t>> changed;
    for (size_t n = 0; n < values.size(); ++n)
      if (nodes_[n].step.in_layer == in_layers) step_to(n);
    if (PyErr_Occurred()) PyErr_Clear();
    for (size_t p = 0; p < count; ++p)
      if (Place& place = places_[p]; nodes_[size_t(place.node)].step.in_layer == in_layers)
        if (const auto number = changed_to(place, values[size_t(place.node)].ptr())) changed.emplace_back(p, *number);
    return changed;
  };
  const auto has_these_parts = [&](const Inside& inside) {
    return std::all_of(inside.parts.begin(), inside.parts.end(), [&](const auto& part) {
      step_to(part.first);
      return !part.second || identity(values[part.first].ptr()) == *part.second;
    });
  };
  std::vector<std::pair<size_t, size_t>> changed = walk(false);
  if (!layers_.empty()) {
    const int64_t changes = layer_changes();
    std::vector<PyObject*> layers;
    for (int n : layers_)
      if (size_t(n) < values.size()) layers.push_back(values[size_t(n)].ptr());
    std::shared_ptr<const Inside> inside = inside_;
    if (inside->changes != changes || inside->nodes != values.size() || inside->layers != layers || !has_these_parts(*inside)) {
      auto found = walk(true);
      Inside now = parts_inside(nodes_, values);
      now.changes = changes;
      now.nodes = values.size();
      now.layers = std::move(layers);
      now.changed = std::move(found);
      inside_ = inside = std::make_shared<Inside>(std::move(now));
    }
    changed.insert(changed.end(), inside->changed.begin(), inside->changed.end());
  }
  changed_ = std::move(changed);
  std::string key;
  for (const auto& [place, number] : changed_) key += cat(key.empty() ? "\2" : ",", place, ':', number);
  return key.empty() ? key : key + '\2';
}

std::string LiveCaptures::in_words() const {
  std::string words;
  for (const auto& [place, number] : changed_)
    words += cat(words.empty() ? "with " : ", ",
                 places_[place].parts && number > 1 ? cat(number - 2, " parts")
                 : number > 1                       ? cat("value ", number + 1)
                                                    : "another value",
                 " in ", places_[place].words);
  return words.empty() ? "as at first" : words;
}

// A breadth-first search from the function to the tensors and Variables that a graph captured.
struct LiveCaptures::Search {
  struct Reached {
    nb::object value;
    std::vector<Step> way;
    std::string words;
  };
  bool from_the_end = false;             // some function has an index such as -1
  std::unordered_set<std::string> used;  // that functions use: of a module, no others are looked at
  std::unordered_set<const void*> wanted;
  std::unordered_map<PyTypeObject*, std::vector<nb::object>> slots;  // of classes whose objects are kept
  std::deque<Reached> queue;
  std::unordered_set<PyObject*> seen;
  std::vector<nb::object> kept;  // keeps addresses in `seen` from being reused

  void reach(const Reached& from, Step step, nb::handle value, std::string words) {
    if (!value.ptr() || value.is_none() || from.way.size() >= kLongestWay || seen.size() >= kMostObjects) return;
    if (PyUnicode_Check(value.ptr()) || PyLong_Check(value.ptr()) || PyFloat_Check(value.ptr()) || PyCFunction_Check(value.ptr())) return;
    if ((PyType_Check(value.ptr()) || PyModule_Check(value.ptr())) && !is_users(value.ptr())) return;
    if (!seen.insert(value.ptr()).second) return;
    kept.push_back(nb::borrow(value));
    step.in_layer = from.value.is_valid() && (is_layer(from.value.ptr()) || from.way.back().in_layer);
    Reached next{nb::borrow(value), from.way, std::move(words)};
    next.way.push_back(std::move(step));
    queue.push_back(std::move(next));
  }

  void look_inside(const Reached& r) {
    PyObject* o = r.value.ptr();
    using Kind = Step::Kind;
    if (PyFunction_Check(o)) {
      PyObject* closure = PyFunction_GET_CLOSURE(o);
      nb::object names = nb::handle(PyFunction_GET_CODE(o)).attr("co_freevars");
      for (Py_ssize_t i = 0; closure && i < PyTuple_GET_SIZE(closure); ++i) {
        const nb::object content = nb::steal(PyCell_Get(PyTuple_GET_ITEM(closure, i)));
        if (content.is_valid()) reach(r, {Kind::cell, i, {}}, content, nb::cast<std::string>(nb::handle(PyTuple_GET_ITEM(names.ptr(), i))));
      }
      if (!is_users(o)) return;
      from_the_end |=
          nb::cast<bool>(nb::module_::import_("lamina.autograph.places").attr("counts_from_the_end")(nb::handle(PyFunction_GET_CODE(o))));
      std::vector<PyObject*> globals;
      add_names(PyFunction_GET_CODE(o), globals);
      for (PyObject* name : globals) used.insert(nb::cast<std::string>(nb::handle(name)));
      for (PyObject* name : globals)
        reach(r, {Kind::global, 0, nb::borrow(name)}, PyDict_GetItemWithError(PyFunction_GET_GLOBALS(o), name),
              nb::cast<std::string>(nb::handle(name)));
      reach(r, {Kind::defaults, 0, {}}, PyFunction_GET_DEFAULTS(o), cat("a default of ", r.words));
      reach(r, {Kind::defaults, 1, {}}, PyFunction_GET_KW_DEFAULTS(o), cat("a default of ", r.words));
      look_at_attributes(r);
    } else if (PyMethod_Check(o)) {
      reach(r, {Kind::object, 1, {}}, PyMethod_GET_SELF(o), "self");
      reach(r, {Kind::object, 0, {}}, PyMethod_GET_FUNCTION(o), r.words);
    } else if (is_function(o)) {
      reach(r, {Kind::object, 0, {}}, nb::getattr(r.value, "python_function"), r.words);
    } else if (PyDict_Check(o)) {
      for (const auto& [name, value] : items_of(o))
        if (PyUnicode_CheckExact(name.ptr()) || PyLong_CheckExact(name.ptr()))
          reach(r, {Kind::item, 0, name}, value, cat(r.words, '[', nb::cast<std::string>(nb::repr(name)), ']'));
    } else if (is_sequence_of_parts(o)) {
      const std::vector<nb::object> parts = elements_of(r.value);
      for (size_t i = 0; i < parts.size(); ++i)
        reach(r, {Kind::item, Py_ssize_t(i), {}, PyTuple_Check(o) ? 0 : Py_ssize_t(parts.size())}, parts[i], cat(r.words, '[', i, ']'));
    }
    if (!PyFunction_Check(o)) look_at_attributes(r);
    if (PyType_Check(o) || PyModule_Check(o)) return;
    PyObject* classes = Py_TYPE(o)->tp_mro;
    for (Py_ssize_t i = 0; classes && i < PyTuple_GET_SIZE(classes); ++i)
      reach(r, {Kind::type, i, {}}, PyTuple_GET_ITEM(classes, i), r.words);
  }

  void look_at_attributes(const Reached& r) {
    PyObject* o = r.value.ptr();
    const auto reach_attribute = [&](const nb::object& name, nb::handle value) {
      reach(r, {Step::Kind::attribute, 0, name}, value, cat(r.words, '.', nb::cast<std::string>(name)));
    };
    for (const auto& [name, value] : items_of(attributes_of(o).ptr())) {
      if (!PyUnicode_CheckExact(name.ptr())) continue;
      const std::string text = nb::cast<std::string>(name);
      if (PyModule_Check(o) && !used.contains(text)) continue;
      if (PyType_Check(o) && text.starts_with("__") && !PyFunction_Check(value.ptr())) continue;
      if (text.starts_with("_lamina")) continue;
      reach_attribute(name, value);
    }
    if (PyType_Check(o)) return;
    for (const nb::object& name : slots_of(Py_TYPE(o))) reach_attribute(name, slot_of(o, name.ptr()));
  }
  // The names of the slots of a class.
  const std::vector<nb::object>& slots_of(PyTypeObject* type) {
    const auto [known, is_new] = slots.try_emplace(type);
    PyObject* classes = is_new ? type->tp_mro : nullptr;
    for (Py_ssize_t i = 0; classes && i < PyTuple_GET_SIZE(classes); ++i)
      for (const auto& [name, value] : items_of(attributes_of(PyTuple_GET_ITEM(classes, i)).ptr()))
        if (Py_TYPE(value.ptr()) == &PyMemberDescr_Type && PyUnicode_CheckExact(name.ptr()) &&
            !nb::cast<std::string>(name).starts_with("__"))
          known->second.push_back(name);
    return known->second;
  }
};

std::vector<int> LiveCaptures::nodes_of(const std::vector<Step>& way) {
  std::vector<int> out;
  for (const Step& step : way) {
    const int from = out.empty() ? -1 : out.back();
    const auto [known, is_new] = known_nodes_.try_emplace({from, int(step.kind), step.index, step.name.ptr()}, int(nodes_.size()));
    out.push_back(known->second);
    if (is_new) nodes_.push_back({from, step});
    if (step.in_layer && !nodes_[size_t(from)].step.in_layer && std::find(layers_.begin(), layers_.end(), from) == layers_.end())
      layers_.push_back(from);
  }
  return out;
}

std::vector<int> LiveCaptures::watch(const std::vector<Step>& way, const std::string& words, const std::shared_ptr<const void>& found) {
  const std::vector<int> nodes = nodes_of(way);
  if (place_of_.try_emplace(nodes.back(), places_.size()).second)
    places_.push_back({nodes.back(), way[0].kind == Step::Kind::argument, words, {{found, 0}}});
  return nodes;
}

// The containers on a way: those that it leaves by an item.
struct LiveCaptures::Containers {
  struct Taken {
    std::string words;
    std::set<int> items;  // nodes
  };
  std::map<int, Taken> all;  // by node
  void add(const std::vector<Step>& way, const std::vector<int>& nodes, std::string words) {
    for (size_t i = way.size() - 1; i > 0; --i) {
      const bool is_item = way[i].kind == Step::Kind::item;
      if (is_item || way[i].kind == Step::Kind::attribute) words.resize(std::min(words.size(), words.rfind(is_item ? '[' : '.')));
      if (!is_item) continue;
      Taken& taken = all[nodes[i - 1]];
      taken.words = words;
      taken.items.insert(nodes[i]);
    }
  }
};
// Those of which a graph takes all parts have as many from now on.
void LiveCaptures::watch_parts(const Call& call, const Containers& containers) {
  for (const auto& [node, taken] : containers.all) {
    std::vector<int> way;
    for (int n = node; n >= 0; n = nodes_[size_t(n)].from) way.push_back(n);
    nb::object container;
    for (size_t i = way.size(); i-- > 0;) container = at(nodes_[size_t(way[i])].step, container, call);
    const Py_ssize_t parts = container.is_valid() && !PyTuple_Check(container.ptr()) ? parts_in(container.ptr()) : -1;
    const auto known = place_of_.find(node);
    if (known != place_of_.end()) {
      Place& place = places_[known->second];
      place.of_all = place.of_all && !(place.parts && Py_ssize_t(taken.items.size()) == *place.parts && parts > *place.parts);
    } else if (parts == Py_ssize_t(taken.items.size())) {
      place_of_.emplace(node, places_.size());
      places_.push_back({node, nodes_[size_t(way.back())].step.kind == Step::Kind::argument, taken.words, {}, parts});
    }
  }
}

void LiveCaptures::add(const Call& call, const ConcreteFunction& graph) {
  Search search;
  for (const Tensor& t : graph.captures())
    if (!t.is_symbolic()) search.wanted.insert(t.handle().get());
  for (const Variable& v : graph.variables())
    if (!v.handle()->stand_in) search.wanted.insert(v.handle().get());
  if (search.wanted.empty()) return;
  const Search::Reached start;
  search.reach(start, {Step::Kind::function}, call.function, "");
  for (size_t i = 0; i < call.arguments.size(); ++i)
    search.reach(start, {Step::Kind::argument, Py_ssize_t(i)}, call.arguments[i], i ? cat("argument ", i) : "the first argument");
  std::vector<std::pair<Search::Reached, std::shared_ptr<const void>>> all;
  while (!search.queue.empty()) {
    Search::Reached next = std::move(search.queue.front());
    search.queue.pop_front();
    PyObject* o = next.value.ptr();
    std::shared_ptr<const void> found;
    if (is_tensor(o)) {
      found = as_tensor(o).handle();
    } else if (is_variable(o)) {
      found = as_variable(o).handle();
    } else {
      search.look_inside(next);
      continue;
    }
    if (search.wanted.contains(found.get())) all.emplace_back(std::move(next), std::move(found));
  }
  Containers containers;
  for (auto& [place, found] : all) {
    containers.add(place.way, watch(place.way, place.words, found), place.words);
    if (!search.from_the_end) continue;
    for (Step& step : place.way)
      if (step.length) step.index -= step.length;
    watch(place.way, place.words, found);
  }
  watch_parts(call, containers);
  if (PyErr_Occurred()) PyErr_Clear();
}

}  // namespace lamina::python
