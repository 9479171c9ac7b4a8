// Containers of Python values, as everything that walks them does: parts are held while they are looked at, whatever other threads do to
// the container meanwhile, and a container inside of itself or too many levels are an error.
#pragma once
#include <vector>

#include "python_bindings/src/bindings.h"

namespace lamina::python {

// none: a leaf. A tuple, list or dict may be of a class derived from Python's.
enum class Container : uint8_t { none, list, tuple, named_tuple, dict, slice, dataclass };
Container container_of(PyObject* value);
// The same without derived lists and tuples, which are values like any other.
Container plain_container_of(PyObject* value);

// What a container holds at one moment. Keys: of a dict, or the names of a dataclass's fields.
struct Parts {
  std::vector<nb::object> keys, values;
  // In which order to look at them: a dict with strings as keys by its keys, whichever way it was filled.
  std::vector<size_t> order() const;
};
Parts parts_of(nb::handle container, Container kind);

class Walk {
 public:
  explicit Walk(const char* what) : what_(what) {}
  Walk(Walk&&) = default;  // between two walks
  Walk& operator=(Walk&&) = default;

  // A container that the walk is inside of, for as long as this lives. Throws invalid_argument when it contains itself.
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

// A container like `original` with these values instead of its own.
nb::object with_parts(nb::handle original, Container kind, const std::vector<nb::object>& keys, const std::vector<nb::object>& values);
// Throws what Inside does for any container in the value.
void check_containers(const char* what, nb::handle value);

// The elements of a list, a tuple or anything that can be looped over.
std::vector<nb::object> elements_of(nb::handle sequence);

}  // namespace lamina::python
