#include "runtime/io/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "runtime/core/bools.h"
#include "runtime/core/error.h"
#include "runtime/io/checksum.h"

namespace lamina::io {

namespace {

std::string hexadecimal(uint32_t checksum) {
  std::string out(8, '0');
  for (size_t i = 0; i < 8; ++i) out[7 - i] = "0123456789abcdef"[checksum >> (4 * i) & 15];
  return out;
}

static_assert(std::endian::native == std::endian::little, "the format is little endian");

constexpr const char* kMetadata = "__metadata__";
constexpr const char* kChecked = "lamina";      // metadata key of files with checksums; its value is the checksum of the other metadata
constexpr const char* kChecksum = "checksum:";  // key prefix of tensors' checksums
constexpr size_t kMostRank = 16;
constexpr size_t kMostName = 4096;

struct DTypeName {
  DType dtype;
  const char* name;
};
constexpr DTypeName kNames[] = {{DType::boolean, "BOOL"}, {DType::u8, "U8"},   {DType::i8, "I8"},    {DType::i16, "I16"},
                                {DType::i32, "I32"},      {DType::i64, "I64"}, {DType::f16, "F16"},  {DType::bf16, "BF16"},
                                {DType::f32, "F32"},      {DType::f64, "F64"}, {DType::u16, "U16"},  {DType::u32, "U32"},
                                {DType::u64, "U64"},      {DType::c64, "C64"}, {DType::c128, "C128"}};

const char* stored_name(DType d) {
  return std::find_if(std::begin(kNames), std::end(kNames), [&](const DTypeName& n) { return n.dtype == d; })->name;
}

// The checksum of a tensor whose bytes have the CRC-32 `bytes`.
uint32_t checksum_of(const std::string& name, const TensorType& type, uint32_t bytes) {
  const std::string before = cat(name, '\0', text(type), '\0');
  return joined_crc32(crc32(std::as_bytes(std::span(before))), bytes, uint64_t(byte_size(type)));
}

// Checksum of all metadata (including tensors' checksums) except the key kChecked itself.
uint32_t checksum_of(const Metadata& metadata) {
  std::string all;
  for (const auto& [key, value] : metadata)
    if (key != kChecked) all += cat(key, '\0', value, '\0');
  return crc32(std::as_bytes(std::span(all)));
}

// The accepted JSON: one level of names and one below it. Everything else is discarded.
class HeaderReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  struct Tensor {
    std::string name, dtype;
    std::vector<uint64_t> shape, offsets;
    bool has_dtype = false, has_shape = false, has_offsets = false;
  };
  std::vector<Tensor> tensors;
  Metadata metadata;
  std::string wrong;  // why parsing stopped
  size_t at = 0;      // position in the header, if nlohmann reported it

  bool start_object(size_t) override {
    if (++depth_ == 1 && place_ == Place::nowhere) return go(Place::names);
    if (depth_ == 2 && place_ == Place::value) {
      if (key_ == kMetadata) return go(Place::metadata);
      tensors.push_back({});
      tensors.back().name = key_;
      return go(Place::tensor);
    }
    return give_up("an object stands where none belongs");
  }
  bool end_object() override {
    --depth_;
    if (place_ == Place::tensor) {
      const Tensor& t = tensors.back();
      if (!t.has_dtype || !t.has_shape || !t.has_offsets)
        return give_up(cat("the tensor '", t.name, "' lacks its ", !t.has_dtype ? "dtype" : !t.has_shape ? "shape" : "data_offsets"));
    }
    return go(depth_ == 1 ? Place::names : Place::nowhere);
  }
  bool key(std::string& name) override {
    if (name.size() > kMostName) return give_up(cat("a name has ", name.size(), " bytes; the most are ", kMostName));
    key_ = name;
    if (place_ == Place::names || place_ == Place::value) {
      if (!names_.insert(name).second) return give_up(cat("the name '", name, "' stands twice"));
      return go(Place::value);
    }
    if (place_ == Place::metadata) {
      if (metadata.contains(name)) return give_up(cat("the metadata has '", name, "' twice"));
      return true;
    }
    Tensor& t = tensors.back();
    bool& has = name == "dtype" ? t.has_dtype : name == "shape" ? t.has_shape : t.has_offsets;
    if (name != "dtype" && name != "shape" && name != "data_offsets")
      return give_up(cat("the tensor '", t.name, "' has an unknown key '", name, "'"));
    if (std::exchange(has, true)) return give_up(cat("the tensor '", t.name, "' has '", name, "' twice"));
    return true;
  }
  bool string(std::string& value) override {
    if (place_ == Place::metadata) return metadata.emplace(key_, value), true;
    if (place_ == Place::tensor && key_ == "dtype") return tensors.back().dtype = value, true;
    return give_up("a text stands where none belongs");
  }
  bool start_array(size_t) override {
    ++depth_;
    if (place_ != Place::tensor || key_ == "dtype" || depth_ != 3) return give_up("an array stands where none belongs");
    return go(Place::numbers);
  }
  bool end_array() override {
    --depth_;
    return go(Place::tensor);
  }
  bool number_unsigned(uint64_t value) override {
    if (place_ != Place::numbers) return give_up("a number stands where none belongs");
    std::vector<uint64_t>& list = key_ == "shape" ? tensors.back().shape : tensors.back().offsets;
    if (list.size() >= kMostRank) return give_up(cat("the tensor '", tensors.back().name, "' has more than ", kMostRank, " dimensions"));
    list.push_back(value);
    return true;
  }
  bool null() override { return give_up("null stands in it"); }
  bool boolean(bool) override { return give_up("a bool stands in it"); }
  bool number_integer(int64_t) override { return give_up("a negative number stands in it"); }
  bool number_float(double, const std::string&) override { return give_up("a number that is not whole, or too large, stands in it"); }
  bool binary(nlohmann::json::binary_t&) override { return give_up("it is not JSON"); }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception&) override {
    at = position;
    return give_up("it is not JSON");
  }

 private:
  enum class Place { nowhere, names, value, metadata, tensor, numbers };
  bool go(Place place) {
    place_ = place;
    return true;
  }
  bool give_up(const std::string& why) {
    if (wrong.empty()) wrong = why;
    return false;
  }
  Place place_ = Place::nowhere;
  std::set<std::string> names_;
  std::string key_;
  size_t depth_ = 0;
};

std::optional<uint32_t> parse_checksum(const std::string& text) {
  if (text.size() != 8 || text.find_first_not_of("0123456789abcdef") != std::string::npos) return std::nullopt;
  return uint32_t(std::stoul(text, nullptr, 16));
}

}  // namespace

void write_safetensors(OutputFile& out, std::vector<NamedBytes> tensors, const Metadata& given) {
  // Wide elements first, so that every tensor is aligned.
  std::sort(tensors.begin(), tensors.end(), [](const NamedBytes& a, const NamedBytes& b) {
    return size_of(a.type.dtype) != size_of(b.type.dtype) ? size_of(a.type.dtype) > size_of(b.type.dtype) : a.name < b.name;
  });
  auto refuse = [](const std::string& name, const std::string& why, const std::string& fix) {
    throw Error(ErrorKind::invalid_argument,
                {.what = cat("the tensor '", name, "' cannot be saved under this name"), .where = "", .why = why, .fix = fix});
  };
  Metadata metadata;
  for (const auto& [key, value] : given)
    if (key == kChecked || key.starts_with(kChecksum))
      refuse(key, "the metadata has checksums under it", "use another key");
    else
      metadata.emplace(key, value);
  nlohmann::ordered_json header;
  header[kMetadata] = {};
  uint64_t offset = 0;
  std::set<std::string> names;
  for (const NamedBytes& t : tensors) {
    if (t.name == kMetadata || t.name.size() > kMostName)
      refuse(t.name, "the format has another use for it, or it is too long", "rename the tensor");
    if (!names.insert(t.name).second) refuse(t.name, "another tensor has it", "give each its own name");
    metadata.emplace(kChecksum + t.name, hexadecimal(0));
    header[t.name] = {
        {"dtype", stored_name(t.type.dtype)}, {"shape", numbers(t.type.shape)}, {"data_offsets", {offset, offset + t.bytes.size()}}};
    offset += t.bytes.size();
  }
  metadata.emplace(kChecked, hexadecimal(0));
  const auto text_of_header = [&] {
    header[kMetadata] = metadata;
    try {
      std::string text = header.dump();
      text.resize((text.size() + 7) / 8 * 8, ' ');
      return text;
    } catch (const nlohmann::json::exception&) {
      throw Error(ErrorKind::invalid_argument, {.what = "a name of a tensor, or the metadata, is not UTF-8",
                                                .where = "",
                                                .why = "the header of the file is JSON",
                                                .fix = "rename it"});
    }
  };
  // All checksums have the same length, so the place of the tensors is known before them: they are found while the tensors are written.
  const uint64_t length = text_of_header().size();
  offset = sizeof(length) + length;
  for (const NamedBytes& t : tensors) {
    metadata[kChecksum + t.name] = hexadecimal(checksum_of(t.name, t.type, out.write_with_crc(offset, t.bytes)));
    offset += t.bytes.size();
  }
  metadata[kChecked] = hexadecimal(checksum_of(metadata));
  const std::string text = text_of_header();
  out.write(0, std::as_bytes(std::span(&length, 1)));
  out.write(sizeof(length), std::as_bytes(std::span(text)));
}

Safetensors::Safetensors(InputFile file) : file_(std::move(file)) {
  const char* copy_again = "copy or save the file again";
  uint64_t length = 0;
  if (file_.size() < 8)
    file_.bad(0, "this is no safetensors file", cat("it has ", file_.size(), " bytes, the length of the header alone takes 8"), copy_again);
  file_.read(0, std::as_writable_bytes(std::span(&length, 1)));
  if (length > file_.size() - 8 || length > kMostHeader)
    file_.bad(0, "this is no safetensors file",
              cat("its header would take ", length, " bytes of ", file_.size() - 8, "; the most are ", kMostHeader), copy_again);
  std::string text(length, '\0');
  file_.read(8, std::as_writable_bytes(std::span(text)));
  if (text.empty() || text[0] != '{') file_.bad(8, "the header is damaged", "it does not begin with {", copy_again);
  if (text.find('\0') != std::string::npos)
    file_.bad(8 + text.find('\0'), "the header is damaged", "it has a zero byte", copy_again);  // which ends JSON for nlohmann
  HeaderReader reader;
  if (!nlohmann::json::sax_parse(text, &reader) || !reader.wrong.empty())
    file_.bad(8 + reader.at, "the header is damaged", reader.wrong, copy_again);

  metadata_ = std::move(reader.metadata);
  if (auto found = metadata_.find(kChecked); found != metadata_.end()) {
    if (parse_checksum(found->second) != checksum_of(metadata_))
      file_.bad(8, "the header is damaged", "the metadata differ from their checksum", copy_again);
    metadata_.erase(found);
    checked_ = true;
  }
  const uint64_t data = 8 + length, end = file_.size() - data;
  for (HeaderReader::Tensor& t : reader.tensors) {
    auto bad = [&](const std::string& why, const std::string& fix) {
      file_.bad(8, cat("the tensor '", t.name, "' cannot be read"), why, fix);
    };
    const DTypeName* dtype = std::find_if(std::begin(kNames), std::end(kNames), [&](const DTypeName& n) { return n.name == t.dtype; });
    if (dtype == std::end(kNames)) bad(cat("there are no tensors of dtype ", t.dtype), "save it with a dtype that Lamina has");
    if (t.offsets.size() != 2 || t.offsets[0] > t.offsets[1] || t.offsets[1] > end)
      bad("its data_offsets are not within the file", copy_again);
    Entry entry{t.name, {dtype->dtype, {}}, data + t.offsets[0], t.offsets[1] - t.offsets[0], 0};
    uint64_t size = size_of(dtype->dtype);
    for (uint64_t d : t.shape) {
      if (d > uint64_t(std::numeric_limits<int64_t>::max()) || __builtin_mul_overflow(size, d, &size))
        bad("its shape has more elements than can be counted", copy_again);
      entry.type.shape.emplace_back(int64_t(d));
    }
    if (size != entry.size) bad(cat("its shape and dtype make ", size, " bytes, its data_offsets ", entry.size), copy_again);
    if (auto found = metadata_.find(kChecksum + t.name); checked_ && found != metadata_.end()) {
      entry.checksum = parse_checksum(found->second).value_or(0);
      metadata_.erase(found);
    } else if (checked_) {
      bad("it has no checksum", copy_again);
    }
    entries_.push_back(std::move(entry));
  }
  for (const auto& [key, value] : metadata_)
    if (key.starts_with(kChecksum))
      file_.bad(8, "the header is damaged", "it has a checksum of no tensor, or checksums without their mark", copy_again);
  std::stable_sort(entries_.begin(), entries_.end(),
                   [](const Entry& a, const Entry& b) { return a.begin != b.begin ? a.begin < b.begin : a.size < b.size; });
  uint64_t next = data;
  for (const Entry& e : entries_) {
    if (e.begin != next)
      file_.bad(std::min(next, e.begin), cat("the tensor '", e.name, "' does not begin where the one before ends"),
                e.begin < next ? "they overlap" : "there is a gap", copy_again);
    next += e.size;
  }
  if (next != file_.size())
    file_.bad(next, "there are bytes behind the last tensor", cat("the file has ", file_.size(), " bytes, the header speaks of ", next),
              copy_again);
}

void Safetensors::read(const Entry& entry, std::span<std::byte> to) const {
  if (to.size() != entry.size) internal_error(cat("the tensor '", entry.name, "' is read into ", to.size(), " bytes"));
  if (!checked_)
    file_.read(entry.begin, to);
  else if (checksum_of(entry.name, entry.type, file_.read_with_crc(entry.begin, to)) != entry.checksum)
    file_.bad(entry.begin, cat("the tensor '", entry.name, "' is damaged"), "its bytes differ from their checksum",
              "copy or save the file again");
  if (entry.type.dtype == DType::boolean && !are_bools(to))
    file_.bad(entry.begin, cat("the tensor '", entry.name, "' is damaged"), "a bool is 0 or 1, and a byte of it is neither",
              "copy or save the file again");
}

}  // namespace lamina::io
