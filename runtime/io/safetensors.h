// The safetensors format: named tensors in one file, which other programs read and write too.
//
//   8 bytes: how long the header is; the header: JSON, {"name": {"dtype": "F32", "shape": [2,3], "data_offsets": [0,24]}, ...,
//   "__metadata__": {text: text}}; then the tensors' bytes, without a gap, little endian, in C order
//
// A file that Lamina wrote has a checksum of each tensor in its metadata. Format: https://huggingface.co/docs/safetensors.
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

// The same tensors and metadata give the same bytes, in whatever order they come. Throws invalid_argument for two of one name.
LAMINA_API void write_safetensors(OutputFile& out, std::vector<NamedBytes> tensors, const Metadata& metadata = {});

// A file that was opened and whose header was checked: offsets without gap or overlap, sizes that follow from dtype and shape, no name
// twice. Throws kind file with the byte at which it is wrong.
class LAMINA_API Safetensors {
 public:
  explicit Safetensors(InputFile file);

  struct Entry {
    std::string name;
    TensorType type;
    uint64_t begin = 0, size = 0;  // in the file
    uint32_t checksum = 0;         // when the file has them
  };
  const std::vector<Entry>& entries() const { return entries_; }  // as they lie in the file
  const Metadata& metadata() const { return metadata_; }          // without checksums
  // The tensor's bytes, which are checked. `to` has the entry's size.
  void read(const Entry& entry, std::span<std::byte> to) const;
  const InputFile& file() const { return file_; }

 private:
  InputFile file_;
  std::vector<Entry> entries_;
  Metadata metadata_;
  bool checked_ = false;
};

// The largest header that is read.
inline constexpr uint64_t kMostHeader = uint64_t{16} << 20;

}  // namespace lamina::io
