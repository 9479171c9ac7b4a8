// The safetensors format: named tensors in one file, shared with other programs.
//
//   8 bytes: the header's length; the header: JSON, {"name": {"dtype": "F32", "shape": [2,3], "data_offsets": [0,24]}, ...,
//   "__metadata__": {text: text}}; then the tensors' bytes without gaps, little endian, in C order
//
// A file written by Lamina has a checksum of each tensor in its metadata. Format: https://huggingface.co/docs/safetensors.
#pragma once
#include <map>
#include <span>
#include <string>
#include <vector>

#include "runtime/core/type.h"
#include "runtime/io/files.h"

namespace lamina::io {

using Metadata = std::map<std::string, std::string>;

struct NamedBytes {
  std::string name;
  TensorType type;  // of a known shape
  std::span<const std::byte> bytes;
};

// The same tensors and metadata give the same bytes, in any order. Throws invalid_argument for duplicate names.
LAMINA_API void write_safetensors(OutputFile& out, std::vector<NamedBytes> tensors, const Metadata& metadata = {});

// An open file with a checked header: no gaps or overlaps, sizes that match dtype and shape, no duplicate names. Throws file with the
// position of the faulty byte.
class LAMINA_API Safetensors {
 public:
  explicit Safetensors(InputFile file);

  struct Entry {
    std::string name;
    TensorType type;
    uint64_t begin = 0, size = 0;  // in the file
    uint32_t checksum = 0;         // if the file has checksums
  };
  const std::vector<Entry>& entries() const { return entries_; }  // in file order
  const Metadata& metadata() const { return metadata_; }          // without checksums
  // Reads the tensor's bytes and verifies the checksum. `to` has the entry's size.
  void read(const Entry& entry, std::span<std::byte> to) const;
  const InputFile& file() const { return file_; }

 private:
  InputFile file_;
  std::vector<Entry> entries_;
  Metadata metadata_;
  bool checked_ = false;
};

// The largest accepted header.
inline constexpr uint64_t kMostHeader = uint64_t{16} << 20;

}  // namespace lamina::io
