// Named tensors in a file, in the safetensors format, which PyTorch, JAX and Keras can read too.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "graph/frontend/tensor.h"
#include "runtime/io/files.h"

namespace lamina {

struct TensorFile {
  std::map<std::string, Tensor> tensors;
  std::map<std::string, std::string> metadata;
};

// Writes the tensors to a file that atomically replaces the one at `path`: after a crash either the old or the new file is there, complete.
// Waits for devices. Throws file when it cannot be written, invalid_argument for a name that the format does not allow.
LAMINA_API void save_tensors(const std::string& path, const TensorFile& content);
LAMINA_API void write_tensors(io::OutputFile& file, const TensorFile& content);

// Reads the file safely even if it is hostile: nothing in it is executed, no other file is opened, and memory is bounded by the file's
// size. The tensors are placed on the current device. Throws file with the position of the faulty byte.
LAMINA_API TensorFile load_tensors(const std::string& path);
LAMINA_API TensorFile read_tensors(io::InputFile file);
// Its metadata alone: only the file's header is read.
LAMINA_API std::map<std::string, std::string> load_metadata(const std::string& path);

}  // namespace lamina
