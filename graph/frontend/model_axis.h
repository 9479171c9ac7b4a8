// The model axis of stacked Variables: which calls of vmap on this thread map them. Inside of such a call they are seen without it.
#pragma once
#include <optional>

#include "graph/frontend/variable.h"

namespace lamina {

// One running call of vmap, innermost last. A stacked Variable belongs to the outermost call that has as many models, or whose number of
// models is still open: it then becomes the Variable's.
class LAMINA_API ModelAxis {
 public:
  explicit ModelAxis(std::optional<Dim> size);
  ~ModelAxis();
  ModelAxis(const ModelAxis&) = delete;
  ModelAxis& operator=(const ModelAxis&) = delete;

  std::optional<Dim> size;

  // The call that maps the Variable, or null: it is not stacked, this thread traces nothing, or no call fits.
  static ModelAxis* of(const VariableData& v);
  // Before a Variable is read or assigned while tracing: settles an open number of models. Throws invalid_argument when v is stacked for
  // another number of models than every running call of vmap has.
  static void use(const VariableData& v);
  // What of this thread's calls of vmap a traced function depends on; 0 outside of all.
  static uint64_t signature();
};

}  // namespace lamina
