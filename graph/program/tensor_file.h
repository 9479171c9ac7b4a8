// Tensors by name in a file: the safetensors format, which PyTorch's, JAX's and Keras's users have too.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "graph/frontend/tensor.h"

namespace lamina {

struct TensorFile {
  std::map<std::string, Tensor> tensors;
  std::map<std::string, std::string> metadata;
};

// Writes the tensors to a file that takes the place of the one at `path` at one instant: when the process or the machine ends, the old or
// the new one is there as a whole. Waits for devices. Throws file where it cannot be written, invalid_argument for a name that the format
// cannot hold.
LAMINA_API void save_tensors(const std::string& path, const TensorFile& content);

// Reads the file, which may be hostile: nothing runs, no other file is opened, no more memory is taken than it has bytes. The tensors lie
// on the current device. Throws file, with the byte where it is wrong.
LAMINA_API TensorFile load_tensors(const std::string& path);
// Its metadata alone: only the file's header is read.
LAMINA_API std::map<std::string, std::string> load_metadata(const std::string& path);

}  // namespace lamina
