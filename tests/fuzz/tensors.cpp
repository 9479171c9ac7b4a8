// lamina_fuzz_tensors: the input is a safetensors file. What is read from an accepted one is written, and read back as the same.
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "runtime/io/safetensors.h"
#include "tests/damaged_text.h"
#include "tests/fuzz/harness.h"

namespace lamina::fuzz {
namespace {

using Json = nlohmann::ordered_json;

// What a file holds.
struct Content {
  std::vector<io::Safetensors::Entry> entries;
  std::vector<std::vector<std::byte>> bytes;
  io::Metadata metadata;

  explicit Content(const std::string& path) {
    const io::Safetensors file(io::InputFile::open(path, "load", true));
    entries = file.entries();
    metadata = file.metadata();
    for (const io::Safetensors::Entry& entry : entries) file.read(entry, bytes.emplace_back(entry.size));
  }
  void save(const std::string& path) const {
    std::vector<io::NamedBytes> tensors;
    for (size_t i = 0; i < entries.size(); ++i) tensors.push_back({entries[i].name, entries[i].type, bytes[i]});
    io::Replacement made(path, false);
    io::write_safetensors(made.file(), std::move(tensors), metadata);
    made.commit();
  }
  std::map<std::string, std::pair<std::string, std::vector<std::byte>>> by_name() const {
    std::map<std::string, std::pair<std::string, std::vector<std::byte>>> out;
    for (size_t i = 0; i < entries.size(); ++i) out[entries[i].name] = {text(entries[i].type), bytes[i]};
    return out;
  }
};

// The parts of a file: what its header's length says is its header, as far as it is there.
struct Parts {
  std::string header, data;
  explicit Parts(const std::string& file) {
    uint64_t length = 0;
    if (file.size() >= sizeof length) {
      std::memcpy(&length, file.data(), sizeof length);
      length = std::min<uint64_t>(length, file.size() - sizeof length);
      header = file.substr(sizeof length, length), data = file.substr(sizeof length + length);
    }
  }
  std::string file() const {
    const uint64_t length = header.size();
    return std::string(reinterpret_cast<const char*>(&length), sizeof length) + header + data;
  }
};

std::optional<int64_t> bytes_of(const Json& tensor) {
  if (!tensor.is_object() || !tensor.contains("dtype") || !tensor.contains("shape") || !tensor["shape"].is_array()) return {};
  int64_t bytes = 4;
  const Json& dtype = tensor["dtype"];
  for (const auto& [name, size] : std::initializer_list<std::pair<const char*, int64_t>>{
           {"BOOL", 1}, {"U8", 1}, {"I8", 1}, {"I16", 2}, {"F16", 2}, {"BF16", 2}, {"I64", 8}, {"F64", 8}})
    if (dtype == name) bytes = size;
  for (const Json& length : tensor["shape"]) {
    if (!length.is_number_unsigned() || length.get<uint64_t>() > 4096) return {};
    if ((bytes *= length.get<int64_t>()) > 4096) return {};
  }
  return bytes;
}

// Offsets and data that fit the header's shapes, without checksums: damage that the file keeps comes behind these checks.
void fit(Parts& parts) {
  Json header = Json::parse(parts.header, nullptr, false);
  if (!header.is_object()) return;
  int64_t end = 0;
  for (auto& [name, tensor] : header.items()) {
    if (name == "__metadata__" && tensor.is_object()) {
      Json kept = Json::object();
      for (const auto& [key, value] : tensor.items())
        if (key != "lamina" && !key.starts_with("checksum:")) kept[key] = value;
      tensor = kept;
    } else if (const std::optional<int64_t> bytes = bytes_of(tensor)) {
      tensor["data_offsets"] = {end, end + *bytes};
      end += *bytes;
    }
  }
  if (end > 4096) return;
  parts.data.resize(size_t(end), '\1');
  parts.header = header.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace
}  // namespace lamina::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lamina;
  const std::string first = fuzz::scratch("first"), second = fuzz::scratch("second"), third = fuzz::scratch("third");
  fuzz::write(first, {reinterpret_cast<const char*>(data), size});
  std::optional<fuzz::Content> content, again;
  if (!fuzz::succeeds([&] { content.emplace(first); })) return 0;
  fuzz::count("inputs accepted");
  if (!fuzz::succeeds([&] { content->save(second); })) fuzz::finding("what was read cannot be written");
  if (!fuzz::succeeds([&] { again.emplace(second); })) fuzz::finding("a file written from a file is refused");
  if (content->metadata != again->metadata || content->by_name() != again->by_name())
    fuzz::finding("a file written from a file has other tensors");
  again->save(third);
  if (fuzz::read(second) != fuzz::read(third)) fuzz::finding("a file written from a file is written with other bytes");
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
  using namespace lamina;
  tests::Random random(seed);
  if (tests::below(random, 4) == 0) return LLVMFuzzerMutate(data, size, most);
  fuzz::Parts parts(std::string(reinterpret_cast<const char*>(data), size));
  if (tests::below(random, 2) == 0) {
    parts.header = tests::with_one_token_changed(parts.header, random);
  } else {
    const size_t before = parts.header.size();
    parts.header.resize(std::max<size_t>(before + 64, most > 8 ? std::min(most - 8, before + 256) : 0));
    parts.header.resize(LLVMFuzzerMutate(reinterpret_cast<uint8_t*>(parts.header.data()), before, parts.header.size()));
  }
  if (tests::below(random, 2) == 0) fuzz::fit(parts);
  const std::string out = parts.file();
  if (out.size() > most) return LLVMFuzzerMutate(data, size, most);
  std::memcpy(data, out.data(), out.size());
  return out.size();
}
