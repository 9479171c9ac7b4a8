// Files of released versions, in tests/data/programs, load, give the results that they gave, and are saved again with the same bytes.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "graph/program/module.h"
#include "graph/program/tensor_file.h"
#include "tests/runtime/io/scratch.h"
#include "tests/source_file.h"

namespace lamina {
namespace {

using Bytes = std::map<std::string, std::string>;

std::vector<std::string> kept_versions() {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(tests::source_file("tests/data/programs")))
    if (std::filesystem::exists(entry.path() / "expected.safetensors")) out.push_back(entry.path());
  return out;
}

std::string bytes_of_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
Bytes bytes_in(const std::string& folder) {
  Bytes out;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) out[entry.path().filename()] = bytes_of_file(entry.path());
  return out;
}

void expect_same(const Tensor& got, const Tensor& wanted, const std::string& name) {
  ASSERT_EQ(text(got.type()), text(wanted.type())) << name;
  std::vector<std::byte> a(size_t(byte_size(got.type()))), b(a.size());
  got.copy_to_host(a.data(), a.size());
  wanted.copy_to_host(b.data(), b.size());
  EXPECT_EQ(a, b) << name;
}

NamedTensors inside(const NamedTensors& all, const std::string& prefix) {
  NamedTensors out;
  for (const auto& [name, t] : all)
    if (name.starts_with(prefix)) out.emplace(name.substr(prefix.size()), t);
  return out;
}

void expect_all(const NamedTensors& got, const NamedTensors& wanted, const std::string& where) {
  EXPECT_EQ(got.size(), wanted.size()) << where;
  for (const auto& [name, t] : wanted) {
    ASSERT_TRUE(got.contains(name)) << where << ' ' << name;
    expect_same(got.at(name), t, where + ' ' + name);
  }
}

TEST(KeptFiles, ProgramsGiveTheirResultsAndEndWithTheSameState) {
  ASSERT_FALSE(kept_versions().empty());
  for (const std::string& folder : kept_versions()) {
    const io::Scratch scratch;
    const NamedTensors expected = load_tensors(folder + "/expected.safetensors").tensors;
    std::map<std::string, Module> loaded;
    for (const char* name : {"function", "policy"}) {
      loaded.emplace(name, Module::load(folder + "/" + name));
      loaded.at(name).save(scratch / name);
      EXPECT_EQ(bytes_in(scratch / name), bytes_in(folder + "/" + name)) << folder;
    }
    int calls = 0;
    std::string before;
    for (const auto& [name, t] : expected) {
      const size_t slash = name.find('/', 3), colon = name.find(':');
      if (!std::isdigit(static_cast<unsigned char>(name[0])) || name.substr(0, slash) == before) continue;
      before = name.substr(0, slash);
      ++calls;
      expect_all(
          loaded.at(name.substr(3, colon - 3)).call(name.substr(colon + 1, slash - colon - 1), inside(expected, before + "/argument/")),
          inside(expected, before + "/result/"), before);
    }
    EXPECT_EQ(calls, 9);
    for (const auto& [name, m] : loaded) {
      m.save(scratch / name);
      expect_all(load_tensors(scratch / (name + "/weights.safetensors")).tensors, inside(expected, "after/" + name + "/"), name);
    }
  }
}

TEST(KeptFiles, WeightsAndCheckpointsAreSavedAgainWithTheSameBytes) {
  for (const std::string& folder : kept_versions()) {
    const io::Scratch scratch;
    int files = 0;
    std::vector<std::string> paths = {folder + "/weights.safetensors", folder + "/expected.safetensors"};
    for (const auto& entry : std::filesystem::directory_iterator(folder + "/checkpoint")) paths.push_back(entry.path());
    for (const std::string& path : paths) {
      save_tensors(scratch / "again", load_tensors(path));
      EXPECT_EQ(bytes_of_file(scratch / "again"), bytes_of_file(path)) << path;
      ++files;
    }
    EXPECT_EQ(files, 3);
  }
}

}  // namespace
}  // namespace lamina
