// Walks containers of Python values safely: parts stay alive even if other threads change the container; a container inside itself, or
// nested too deeply, is an error.
#pragma once
#include <vector>

#include "python_bindings/src/bindings.h"

namespace lamina::python {

// none: a leaf. sequence: a deque, or a list of a derived class. A tuple or dict may be of one.
enum class Container : uint8_t { none, list, sequence, tuple, named_tuple, dict, slice, dataclass };
Container container_of(PyObject* value);
// The same, but derived tuples are leaves.
Container plain_container_of(PyObject* value);
bool is_deque(PyObject* value);

// A snapshot of a container. Keys: of a dict, or the names of a dataclass's fields.
struct Parts {
  std::vector<nb::object> keys, values;
  // The order of visits: a dict with string keys is sorted by key, so that insertion order does not matter.
  std::vector<size_t> order() const;
};
Parts parts_of(nb::handle container, Container kind);

// What a dataclass's instance holds besides its fields: it stays with the object, and is no part.
std::vector<std::pair<std::string, nb::object>> other_attributes(nb::handle dataclass);

class Walk {
 public:
  explicit Walk(const char* what) : what_(what) {}
  Walk(Walk&&) = default;  // between two walks
  Walk& operator=(Walk&&) = default;

  // Marks a container as being walked while this lives. Throws invalid_argument when it contains itself.
  class Inside {
   public:
    Inside(Walk& walk, nb::handle container, Container kind);
    ~Inside() { walk_.innermost_ = above_; }
    Inside(const Inside&) = delete;
    Parts parts;

   private:
    Walk& walk_;
    const Inside* above_;
    PyObject* container_;
    int depth_;
  };

 private:
  const char* what_;
  const Inside* innermost_ = nullptr;
  size_t seen_ = 0, containers_ = 0;
};

// A container like `original` with these values.
nb::object with_parts(nb::handle original, Container kind, const std::vector<nb::object>& keys, const std::vector<nb::object>& values);
// Throws as Inside does for all containers in the value.
void check_containers(const char* what, nb::handle value);

// A list, a tuple, or another sequence that NumPy takes for one: a range, a deque.
bool is_sequence(PyObject* o);
// What to pass in place of `o`, of which no tensor is made.
const char* what_to_pass(PyObject* o);
// The elements of a list, a tuple or another iterable.
std::vector<nb::object> elements_of(nb::handle sequence);

}  // namespace lamina::python
