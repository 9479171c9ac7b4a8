#include "graph/nn/initializer.h"

#include <algorithm>
#include <cmath>
#include <new>
#include <numbers>
#include <random>
#include <stdexcept>

#include "runtime/core/error.h"

namespace lamina::nn {
namespace {

using Shape64 = std::span<const int64_t>;

// The standard fixes the engine's output, but not its distributions, so these are our own.
class Draws {
 public:
  explicit Draws(uint64_t seed) : engine_(seed) {}
  double uniform() { return double(engine_() >> 11) * 0x1p-53; }  // in [0, 1)
  double normal() {                                               // Box and Muller
    if (has_spare_) {
      has_spare_ = false;
      return spare_;
    }
    const double radius = std::sqrt(-2 * std::log(1 - uniform())), angle = 2 * std::numbers::pi * uniform();
    spare_ = radius * std::sin(angle);
    has_spare_ = true;
    return radius * std::cos(angle);
  }

 private:
  std::mt19937_64 engine_;
  double spare_ = 0;
  bool has_spare_ = false;
};

int64_t product(Shape64 shape) {
  int64_t n = 1;
  for (const int64_t d : shape) {
    if (d < 0 || __builtin_mul_overflow(n, d, &n)) {
      throw Error(ErrorKind::invalid_argument,
                  {.what = "initializer: the shape is negative or too large to be addressed", .fix = "pass a smaller shape"});
    }
  }
  return n;
}

std::string shape_text(Shape64 shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += cat(i ? "," : "", shape[i]);
  return text + "]";
}

struct Fans {
  double in = 1, out = 1;
};
Fans fans_of(Shape64 shape) {
  if (shape.empty()) return {};
  if (shape.size() == 1) return {double(shape[0]), double(shape[0])};
  const double field = double(product(shape.first(shape.size() - 2)));
  return {field * double(shape[shape.size() - 2]), field * double(shape.back())};
}

Initializer filled(const char* name, double value) {
  return {name, [value](std::span<double> values, Shape64, uint64_t) { std::fill(values.begin(), values.end(), value); }};
}

using FanScale = double (*)(Fans);
double glorot_scale(Fans f) { return std::max(1.0, (f.in + f.out) / 2); }
double he_scale(Fans f) { return std::max(1.0, f.in) / 2; }

// Variance 1 / scale for both distributions.
Initializer uniform_by(const char* name, FanScale scale) {
  return {name, [scale](std::span<double> values, Shape64 shape, uint64_t seed) {
            const double limit = std::sqrt(3 / scale(fans_of(shape)));
            Draws draws(seed);
            for (double& v : values) v = limit * (2 * draws.uniform() - 1);
          }};
}
Initializer normal_by(const char* name, FanScale scale) {
  return {name, [scale](std::span<double> values, Shape64 shape, uint64_t seed) {
            constexpr double kCut = 0.87962566103423978;  // standard deviation of a standard normal truncated at +-2
            const double deviation = std::sqrt(1 / scale(fans_of(shape))) / kCut;
            Draws draws(seed);
            for (double& v : values) {
              double z = draws.normal();
              while (std::abs(z) > 2) z = draws.normal();
              v = deviation * z;
            }
          }};
}

// A matrix with orthonormal columns, [rows][columns], rows >= columns: normal draws, orthogonalised by modified Gram-Schmidt twice, because
// once loses digits. The factor R has a positive diagonal by construction, so the result is uniform over all such matrices.
std::vector<double> orthonormal_columns(int64_t rows, int64_t columns, uint64_t seed) {
  Draws draws(seed);
  std::vector<std::vector<double>> q(static_cast<size_t>(columns), std::vector<double>(static_cast<size_t>(rows)));
  const auto dot = [](const std::vector<double>& a, const std::vector<double>& b) {
    double s = 0;
    for (size_t i = 0; i < a.size(); ++i) s += a[i] * b[i];
    return s;
  };
  for (size_t c = 0; c < q.size(); ++c) {
    double length = 0;
    do {  // repeats in the improbable case that the draw depends on the columns before it
      for (double& v : q[c]) v = draws.normal();
      const double drawn = std::sqrt(dot(q[c], q[c]));
      for (int round = 0; round < 2; ++round) {
        for (size_t before = 0; before < c; ++before) {
          const double along = dot(q[before], q[c]);
          for (size_t i = 0; i < q[c].size(); ++i) q[c][i] -= along * q[before][i];
        }
      }
      length = std::sqrt(dot(q[c], q[c]));
      if (length < 1e-8 * drawn) length = 0;
    } while (length == 0);
    for (double& v : q[c]) v /= length;
  }
  std::vector<double> out(static_cast<size_t>(rows * columns));
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) out[static_cast<size_t>(r * columns + c)] = q[static_cast<size_t>(c)][static_cast<size_t>(r)];
  }
  return out;
}

// Orthonormal columns, or rows when there are fewer of them.
std::vector<double> orthogonal_matrix(int64_t rows, int64_t columns, uint64_t seed) {
  if (rows >= columns) return orthonormal_columns(rows, columns, seed);
  const std::vector<double> q = orthonormal_columns(columns, rows, seed);
  std::vector<double> out(q.size());
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) out[static_cast<size_t>(r * columns + c)] = q[static_cast<size_t>(c * rows + r)];
  }
  return out;
}

[[noreturn]] void bad_shape(const char* name, Shape64 shape, const std::string& why, const std::string& fix) {
  throw Error(ErrorKind::invalid_argument,
              {.what = cat(name, ": cannot fill a weight of shape ", shape_text(shape)), .why = why, .fix = fix});
}

[[noreturn]] void no_memory(const std::string& name, Shape64 shape, int64_t size) {
  throw Error(ErrorKind::out_of_memory, {.what = cat(name, ": no memory for a weight of shape ", shape_text(shape)),
                                         .why = cat(size, " values are made in double precision first"),
                                         .fix = "use fewer units"});
}

void fill_looks_linear(std::span<double> values, Shape64 shape, uint64_t seed, bool mirror_in, bool mirror_out) {
  if (shape.size() != 2) bad_shape("looks_linear", shape, "it makes matrices [inputs, outputs]", "use \"orthogonal\" for this weight");
  const int64_t rows = shape[0], columns = shape[1];
  if (mirror_in && rows % 2) {
    bad_shape("looks_linear", shape, cat("a mirrored input has two equal halves, ", rows, " is odd"),
              "for the first layer pass mirror_in=false");
  }
  if (mirror_out && columns % 2) {
    bad_shape("looks_linear", shape, cat("a mirrored output has two equal halves, ", columns, " is odd"),
              "use an even number of units, or mirror_out=false for the last layer");
  }
  const int64_t q_rows = mirror_in ? rows / 2 : rows, q_columns = mirror_out ? columns / 2 : columns;
  const std::vector<double> q = orthogonal_matrix(q_rows, q_columns, seed);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      const bool negative = (r >= q_rows) != (c >= q_columns);
      const double v = q[static_cast<size_t>((r % q_rows) * q_columns + c % q_columns)];
      values[static_cast<size_t>(r * columns + c)] = negative ? -v : v;
    }
  }
}

const std::vector<Initializer (*)()>& named_initializers() {
  static const std::vector<Initializer (*)()>& all = *new std::vector<Initializer (*)()>{
      [] { return filled("zeros", 0); },
      [] { return filled("ones", 1); },
      glorot_uniform,
      glorot_normal,
      he_uniform,
      he_normal,
      [] { return orthogonal(); },
      [] { return looks_linear(); },
      [] { return random_uniform(); },
      [] { return random_normal(); },
  };
  return all;
}

Initializer find_initializer(const std::string& name) {
  std::vector<std::string> names;
  for (auto make : named_initializers()) {
    Initializer found = make();
    if (found.name() == name) return found;
    names.push_back(found.name());
  }
  throw unknown_name("initializer", name, names);
}

}  // namespace

Initializer::Initializer(const char* name) : Initializer(find_initializer(name ? name : "")) {}
Initializer::Initializer(const std::string& name) : Initializer(find_initializer(name)) {}
Initializer::Initializer(std::string name, Fill fill, std::map<std::string, double> parameters)
    : name_(std::move(name)), fill_(std::move(fill)), parameters_(std::move(parameters)) {}

std::vector<double> Initializer::operator()(std::span<const int64_t> shape, uint64_t seed) const {
  const int64_t size = product(shape);
  std::vector<double> values;
  try {
    values.resize(static_cast<size_t>(size));
    if (size > 0) given(fill_, "Initializer")(values, shape, seed);
  } catch (const std::bad_alloc&) {
    no_memory(name_, shape, size);
  } catch (const std::length_error&) {
    no_memory(name_, shape, size);
  }
  return values;
}

Initializer Initializer::seeded(uint64_t seed) const {
  Initializer made{
      name_, [fill = given(fill_, "Initializer"), seed](std::span<double> values, Shape64 shape, uint64_t) { fill(values, shape, seed); },
      parameters_};
  made.seed_ = seed;
  return made;
}

Initializer constant_value(double value) {
  return {"constant",
          [value](std::span<double> values, Shape64, uint64_t) { std::fill(values.begin(), values.end(), value); },
          {{"value", value}}};
}
Initializer glorot_uniform() { return uniform_by("glorot_uniform", glorot_scale); }
Initializer glorot_normal() { return normal_by("glorot_normal", glorot_scale); }
Initializer he_uniform() { return uniform_by("he_uniform", he_scale); }
Initializer he_normal() { return normal_by("he_normal", he_scale); }

Initializer random_uniform(double low, double high) {
  return {"random_uniform",
          [low, high](std::span<double> values, Shape64, uint64_t seed) {
            Draws draws(seed);
            for (double& v : values) v = low + (high - low) * draws.uniform();
          },
          {{"low", low}, {"high", high}}};
}
Initializer random_normal(double mean, double deviation) {
  return {"random_normal",
          [mean, deviation](std::span<double> values, Shape64, uint64_t seed) {
            Draws draws(seed);
            for (double& v : values) v = mean + deviation * draws.normal();
          },
          {{"mean", mean}, {"stddev", deviation}}};
}

Initializer orthogonal(double gain) {
  return {"orthogonal",
          [gain](std::span<double> values, Shape64 shape, uint64_t seed) {
            if (shape.size() < 2)
              bad_shape("orthogonal", shape, "it makes matrices, at least two dimensions", "use \"glorot_uniform\" for this weight");
            const int64_t columns = shape.back();
            const std::vector<double> q = orthogonal_matrix(static_cast<int64_t>(values.size()) / columns, columns, seed);
            std::transform(q.begin(), q.end(), values.begin(), [gain](double v) { return gain * v; });
          },
          {{"gain", gain}}};
}

Initializer looks_linear(bool mirror_in, bool mirror_out) {
  return {"looks_linear",
          [mirror_in, mirror_out](std::span<double> values, Shape64 shape, uint64_t seed) {
            fill_looks_linear(values, shape, seed, mirror_in, mirror_out);
          },
          {{"mirror_in", mirror_in}, {"mirror_out", mirror_out}}};
}

}  // namespace lamina::nn
