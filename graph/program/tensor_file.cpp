#include "graph/program/tensor_file.h"

#include "graph/frontend/device.h"
#include "graph/frontend/factories.h"
#include "runtime/io/safetensors.h"

namespace lamina {

void write_tensors(io::OutputFile& file, const TensorFile& content) {
  std::vector<Tensor> on_host;  // kept alive while their bytes are written
  std::vector<io::NamedBytes> tensors;
  for (const auto& [name, tensor] : content.tensors) {
    tensor.concrete("the file");
    on_host.push_back(tensor.to(Device{}));
    const size_t size = size_t(byte_size(tensor.type()));
    tensors.push_back({name, tensor.type(), {size ? static_cast<const std::byte*>(on_host.back().data()) : nullptr, size}});
  }
  io::write_safetensors(file, std::move(tensors), content.metadata);
}

void save_tensors(const std::string& path, const TensorFile& content) {
  io::Replacement made(path, false);
  write_tensors(made.file(), content);
  made.commit();
}

std::map<std::string, std::string> load_metadata(const std::string& path) {
  return io::Safetensors(io::InputFile::open(path, "load", true)).metadata();
}

TensorFile load_tensors(const std::string& path) { return read_tensors(io::InputFile::open(path, "load", true)); }

TensorFile read_tensors(io::InputFile input) {
  const io::Safetensors file(std::move(input));
  TensorFile out{{}, file.metadata()};
  for (const io::Safetensors::Entry& entry : file.entries())
    out.tensors.emplace(entry.name, made_on_host(entry.type, [&](std::span<std::byte> to) { file.read(entry, to); }));
  return out;
}

}  // namespace lamina
