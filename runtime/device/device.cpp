#include "runtime/device/device.h"

#include <algorithm>
#include <charconv>
#include <cstdint>

#include "runtime/core/error.h"
#include "runtime/device/virtual_gpus.h"

namespace lamina {

const std::vector<DeviceProperties>& null_models() {
  constexpr int64_t kKiB = 1024, kGiB = int64_t(1) << 30;
  static const std::vector<DeviceProperties>& models = *new std::vector<DeviceProperties>{
      {.name = "h100", .memory = 80 * kGiB, .compute_capability = 90, .multiprocessors = 132, .shared_memory_per_block = 227 * kKiB},
      {.name = "h200", .memory = 141 * kGiB, .compute_capability = 90, .multiprocessors = 132, .shared_memory_per_block = 227 * kKiB},
      {.name = "a100", .memory = 80 * kGiB, .compute_capability = 80, .multiprocessors = 108, .shared_memory_per_block = 163 * kKiB},
      {.name = "rtx3090", .memory = 24 * kGiB, .compute_capability = 86, .multiprocessors = 82, .shared_memory_per_block = 99 * kKiB},
      {.name = "rtx4090", .memory = 24 * kGiB, .compute_capability = 89, .multiprocessors = 128, .shared_memory_per_block = 99 * kKiB},
      {.name = "b200", .memory = 180 * kGiB, .compute_capability = 100, .multiprocessors = 148, .shared_memory_per_block = 227 * kKiB},
      {.name = "l40s", .memory = 48 * kGiB, .compute_capability = 89, .multiprocessors = 142, .shared_memory_per_block = 99 * kKiB},
      {.name = "rtx5090", .memory = 32 * kGiB, .compute_capability = 120, .multiprocessors = 170, .shared_memory_per_block = 99 * kKiB},
  };
  return models;
}

std::string text(Device d) {
  if (d == kAutomatic) return "auto";
  switch (d.kind) {
    case DeviceKind::cpu: return cat("cpu:", d.index);
    case DeviceKind::gpu: return gpu_parts() == 1 ? cat("gpu:", d.index) : cat("gpu:", d.index / gpu_parts(), "/", d.index % gpu_parts());
    case DeviceKind::null: break;
  }
  return cat("null:", null_models().at(d.model).name, d.index ? cat(":", d.index) : "");
}

Device parse_device(std::string_view s) {
  auto bad = [&] {
    const bool is_model = std::any_of(null_models().begin(), null_models().end(), [&](const auto& model) { return model.name == s; });
    return Error(ErrorKind::not_found, {.what = cat("'", s, "' is not a device"),
                                        .where = "",
                                        .why = "a device is written cpu:0, gpu:0, null:h100 or, for traced functions, auto",
                                        .fix = s.starts_with("cuda") ? cat("write gpu", s.substr(4))
                                               : is_model ? cat("write null:", s, ", which plans for such a card and runs nothing")
                                                          : "see lm.config.list_devices()"});
  };
  auto number = [&](std::string_view t) {
    int16_t n = 0;
    auto [end, code] = std::from_chars(t.data(), t.data() + t.size(), n);
    if (code != std::errc() || end != t.data() + t.size() || n < 0) throw bad();
    return n;
  };
  if (s == "auto") return kAutomatic;
  size_t colon = s.find(':');
  std::string_view kind = s.substr(0, colon), rest = colon == std::string_view::npos ? std::string_view("0") : s.substr(colon + 1);
  if (kind == "cpu") return {DeviceKind::cpu, 0, number(rest)};
  if (kind == "gpu") {
    const size_t slash = rest.find('/');
    const int card = number(rest.substr(0, slash)), part = slash == std::string_view::npos ? 0 : number(rest.substr(slash + 1));
    if (part >= gpu_parts() || card > INT16_MAX / gpu_parts() - 1)
      throw Error(ErrorKind::not_found,
                  {.what = cat("'", s, "' is not a device"),
                   .where = "",
                   .why = gpu_parts() == 1 ? std::string("GPUs are not split into logical devices")
                                           : cat("each GPU is split into ", gpu_parts(), " logical devices, counted from 0"),
                   .fix = "see lm.config.list_devices(); lm.config.set_virtual_devices(\"gpu\", count) splits GPUs"});
    return {DeviceKind::gpu, 0, int16_t(card * gpu_parts() + part)};
  }
  if (kind == "null" && colon != std::string_view::npos) {
    size_t second = rest.find(':');
    std::string model(rest.substr(0, second));
    std::vector<std::string> names;
    for (size_t i = 0; i < null_models().size(); ++i) {
      names.push_back(null_models()[i].name);
      if (names.back() == model)
        return {DeviceKind::null, uint8_t(i), second == std::string_view::npos ? int16_t(0) : number(rest.substr(second + 1))};
    }
    throw unknown_name("null device model", model, names);
  }
  throw bad();
}

}  // namespace lamina
