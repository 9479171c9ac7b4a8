// The model axis of stacked Variables. Inside of a vmap call that maps them, they are seen without it.
#pragma once
#include <optional>

#include "graph/frontend/variable.h"

namespace lamina {

// One running call of vmap; the innermost is last. A stacked Variable belongs to the outermost call with the same number of models. A call
// whose number is still open takes the Variable's.
class LAMINA_API ModelAxis {
 public:
  explicit ModelAxis(std::optional<Dim> size);
  ~ModelAxis();
  ModelAxis(const ModelAxis&) = delete;
  ModelAxis& operator=(const ModelAxis&) = delete;

  std::optional<Dim> size;

  // The call that maps the Variable; null if the Variable is not stacked, this thread traces nothing, or no call fits.
  static ModelAxis* of(const VariableData& v);
  // Called before a traced read or assignment: fixes an open number of models. Throws invalid_argument when no running call of vmap has v's
  // number of models.
  static void use(const VariableData& v);
  // A key of this thread's running vmap calls, part of a traced function's signature; 0 outside of all.
  static uint64_t signature();
};

}  // namespace lamina
