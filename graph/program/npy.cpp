#include "graph/program/npy.h"

#include <cstring>
#include <limits>

#include "graph/frontend/device.h"
#include "graph/frontend/factories.h"
#include "graph/functions/op_functions.h"
#include "graph/functions/shape_functions.h"
#include "runtime/core/bools.h"
#include "runtime/io/files.h"

namespace lamina {
namespace {

constexpr char kMagic[] = "\x93NUMPY";
constexpr uint64_t kMostNpyHeader = 64 << 10;
constexpr const char* kWrongFile = "save it with numpy.save";

struct NpyName {
  const char* name;
  DType dtype;
};
constexpr NpyName kNpyNames[] = {{"|b1", DType::boolean}, {"|u1", DType::u8},   {"|i1", DType::i8},  {"<i2", DType::i16},
                                 {"<i4", DType::i32},     {"<i8", DType::i64},  {"<f2", DType::f16}, {"<f4", DType::f32},
                                 {"<f8", DType::f64},     {"<u2", DType::u16},  {"<u4", DType::u32}, {"<u8", DType::u64},
                                 {"<c8", DType::c64},     {"<c16", DType::c128}};

// The header is a Python dict of three entries: 'descr': text, 'fortran_order': bool, 'shape': tuple of numbers.
class NpyHeader {
 public:
  NpyHeader(const io::InputFile& file, uint64_t at, const std::string& text) : file_(file), at_(at), text_(text) {
    expect('{');
    while (!take('}')) {
      const std::string key = quoted();
      expect(':');
      if (key == "descr")
        descr = quoted();
      else if (key == "fortran_order")
        fortran_order = boolean();
      else if (key == "shape")
        numbers();
      else
        bad(lamina::cat("it has the unknown key '", key, "'"));
      if (!take(',')) {
        expect('}');
        break;
      }
    }
    if (descr.empty() || !has_shape_) bad("it lacks descr or shape");
  }
  std::string descr;
  bool fortran_order = false;
  Shape shape;

 private:
  [[noreturn]] void bad(const std::string& why) const { file_.bad(at_ + pos_, "the header is damaged", why, kWrongFile); }
  char peek() {
    while (pos_ < text_.size() && (text_[pos_] == ' ' || text_[pos_] == '\n')) ++pos_;
    return pos_ < text_.size() ? text_[pos_] : '\0';
  }
  bool take(char c) { return peek() == c && ++pos_; }
  void expect(char c) {
    if (!take(c)) bad(lamina::cat('\'', c, "' is expected"));
  }
  std::string quoted() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') bad("a text is expected");
    const size_t end = text_.find(quote, pos_ + 1);
    if (end == std::string::npos) bad("a text has no end");
    const std::string out = text_.substr(pos_ + 1, end - pos_ - 1);
    pos_ = end + 1;
    return out;
  }
  bool boolean() {
    peek();
    const bool yes = text_.compare(pos_, 4, "True") == 0;
    if (!yes && text_.compare(pos_, 5, "False") != 0) bad("True or False is expected");
    pos_ += yes ? 4 : 5;
    return yes;
  }
  void numbers() {
    has_shape_ = true;
    expect('(');
    while (!take(')')) {
      int64_t n = 0;
      if (peek() < '0' || peek() > '9') bad("a number is expected");
      for (; pos_ < text_.size() && text_[pos_] >= '0' && text_[pos_] <= '9'; ++pos_)
        if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, text_[pos_] - '0', &n)) bad("a length is too large");
      shape.emplace_back(n);
      if (shape.size() > 16) bad("it has more than 16 axes");
      if (!take(',')) {
        expect(')');
        break;
      }
    }
  }
  const io::InputFile& file_;
  uint64_t at_;
  const std::string& text_;
  size_t pos_ = 0;
  bool has_shape_ = false;
};

}  // namespace

Tensor load_npy(const std::string& path) {
  const io::InputFile file = io::InputFile::open(path, "load", true);
  unsigned char begin[12] = {};
  const size_t some = size_t(std::min<uint64_t>(file.size(), sizeof(begin)));
  file.read(0, std::as_writable_bytes(std::span(begin, some)));
  if (some < 10 || std::memcmp(begin, kMagic, 6) != 0 || begin[6] < 1 || begin[6] > 3)
    file.bad(0, "this is no .npy file", "it does not begin as one", kWrongFile);
  const uint64_t at = begin[6] == 1 ? 10 : 12;
  const uint64_t length = begin[8] | begin[9] << 8 | (begin[6] == 1 ? 0 : uint64_t(begin[10]) << 16 | uint64_t(begin[11]) << 24);
  if (length > kMostNpyHeader || file.size() < at || length > file.size() - at)
    file.bad(8, "the header is damaged", lamina::cat("it would take ", length, " bytes of ", file.size()), kWrongFile);
  std::string text(length, '\0');
  file.read(at, std::as_writable_bytes(std::span(text)));
  NpyHeader header(file, at, text);
  const NpyName* found = std::find_if(std::begin(kNpyNames), std::end(kNpyNames), [&](const NpyName& n) { return n.name == header.descr; });
  if (found == std::end(kNpyNames))
    file.bad(at, lamina::cat("there are no tensors of NumPy's type ", header.descr),
             "it is none of bool, integers and floats, little endian", "convert the array with astype before numpy.save");
  Shape stored = header.shape;
  if (header.fortran_order) std::reverse(stored.begin(), stored.end());
  int64_t bytes = int64_t(size_of(found->dtype));
  for (const Dim d : stored)
    if (__builtin_mul_overflow(bytes, d.number(), &bytes)) file.bad(at, "the header is damaged", "its shape is too large", kWrongFile);
  if (uint64_t(bytes) != file.size() - at - length)
    file.bad(at + length, "the file is damaged", lamina::cat("its shape makes ", bytes, " bytes, there are ", file.size() - at - length),
             kWrongFile);
  const Tensor out = made_on_host({found->dtype, stored}, [&](std::span<std::byte> to) {
    file.read(at + length, to);
    if (found->dtype == DType::boolean) make_bools(to);
  });
  return header.fortran_order && stored.size() > 1 ? transpose(out) : out;
}

void save_npy(const std::string& path, const Tensor& value) {
  const NpyName* found =
      std::find_if(std::begin(kNpyNames), std::end(kNpyNames), [&](const NpyName& n) { return n.dtype == value.dtype(); });
  if (found == std::end(kNpyNames))
    throw Error(ErrorKind::type,
                {.what = lamina::cat("save_npy: NumPy has no ", value.dtype()), .where = "", .why = "", .fix = "convert it with astype"});
  std::string shape;
  for (const Dim d : value.shape()) shape += lamina::cat(d.number(), ",");
  std::string header = lamina::cat("{'descr': '", found->name, "', 'fortran_order': False, 'shape': (", shape, "), }");
  header.resize((10 + header.size() + 1 + 63) / 64 * 64 - 11, ' ');
  header += '\n';
  const Tensor on_host = value.to(Device{});
  const size_t bytes = size_t(byte_size(value.type()));
  io::Replacement made(path, false);
  io::OutputFile& file = made.file();
  const std::string all = lamina::cat(std::string(kMagic, 6), '\1', '\0', char(header.size() & 255), char(header.size() >> 8), header);
  file.write(all);
  file.write(all.size(), std::span(static_cast<const std::byte*>(bytes ? on_host.data() : nullptr), bytes));
  made.commit();
}

}  // namespace lamina
