// A directory or file is replaced as a whole: when a call fails, when the process is killed, and when the machine stops and loses unsynced
// data.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "runtime/core/error.h"
#include "runtime/io/files.h"
#include "tests/runtime/io/scratch.h"

namespace lamina::io {
namespace {

constexpr const char* kFiles[] = {"program.txt", "weights"};

// Both files contain their version.
void save_version(const std::string& path, int version, FileSystem& files = FileSystem::real(), size_t size = 100) {
  Replacement made(path, true, files);
  for (const char* name : kFiles) {
    OutputFile& file = made.file(name);
    file.write(std::string(size / 2, char('0' + version)));
    const std::string rest(size - size / 2, char('0' + version));
    file.write(size / 2, std::as_bytes(std::span(rest)));
  }
  made.commit();
}

std::string text_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// The version found: 0 for nothing, -1 for mixed or truncated.
int version_at(const std::string& path, size_t size = 100) {
  const std::string directory = replaced_directory(path);
  if (!std::filesystem::exists(directory)) return 0;
  std::set<std::string> found;
  for (const char* name : kFiles) found.insert(text_of(directory + "/" + name));
  const std::string& text = *found.begin();
  return found.size() == 1 && text.size() == size && text.find_first_not_of(text[0]) == std::string::npos ? text[0] - '0' : -1;
}

size_t entries_in(const std::string& path) {
  return size_t(std::distance(std::filesystem::directory_iterator(path), std::filesystem::directory_iterator()));
}

// Runs `work` in a new process, which ends with 0 if it threw nothing.
template <class Work>
pid_t in_a_process(Work&& work) {
  const pid_t child = fork();
  if (child != 0) return child;
  try {
    work();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    _exit(1);
  }
  _exit(0);
}

TEST(Replacement, LeavesOnlyTheNewDirectory) {
  const Scratch scratch;
  const std::string path = scratch.path() + "/model";
  for (int version = 1; version < 4; ++version) {
    save_version(path + (version == 2 ? "/" : ""), version);
    EXPECT_EQ(version_at(path), version);
    EXPECT_EQ(entries_in(scratch.path()), 1u);
  }
}

TEST(Replacement, WithoutCommitNothingChanges) {
  const Scratch scratch;
  const std::string path = scratch.path() + "/model";
  save_version(path, 1);
  {
    Replacement made(path, true);
    made.file("weights").write("half");
  }
  EXPECT_EQ(version_at(path), 1);
  EXPECT_EQ(entries_in(scratch.path()), 1u);
}

TEST(Replacement, PathsThatCannotBeReplacedAreErrors) {
  const Scratch scratch;
  const std::string file = scratch.path() + "/file";
  std::ofstream(file) << "x";
  std::filesystem::create_symlink(file, scratch.path() + "/link");
  EXPECT_THROW(Replacement(file, true), Error);
  EXPECT_THROW(Replacement(scratch.path(), false), Error);
  EXPECT_THROW(Replacement(scratch.path() + "/link", false), Error);
  for (const char* path : {"", ".", "..", "/", "no such folder/model"}) EXPECT_THROW(Replacement(path, true), Error) << path;
  EXPECT_EQ(entries_in(scratch.path()), 2u);
}

// The real file system, but call number `failing` fails; write() writes one byte less each time.
class FailingFileSystem final : public FileSystem {
 public:
  FailingFileSystem(int failing, int error, bool exchanges = true) : failing_(failing), error_(error), exchanges_(exchanges) {}
  int create(const std::string& path, int& descriptor) override {
    return next([&] { return real().create(path, descriptor); });
  }
  int write(int descriptor, uint64_t offset, std::span<const std::byte> bytes, size_t& written) override {
    return next([&] { return real().write(descriptor, offset, bytes.first((bytes.size() + 1) / 2), written); });
  }
  int sync(int descriptor) override {
    return next([&] { return real().sync(descriptor); });
  }
  int close(int descriptor) override {
    const int failed = real().close(descriptor);  // the descriptor is closed in any case
    return next([&] { return failed; });
  }
  int make_directory(const std::string& path) override {
    return next([&] { return real().make_directory(path); });
  }
  int sync_directory(const std::string& path) override {
    return next([&] { return real().sync_directory(path); });
  }
  int rename(const std::string& from, const std::string& to) override {
    return next([&] { return real().rename(from, to); });
  }
  int exchange(const std::string& one, const std::string& two) override {
    return exchanges_ ? next([&] { return real().exchange(one, two); }) : ENOTSUP;
  }
  int remove(const std::string& path) override { return real().remove(path); }
  int calls() const { return calls_; }

 private:
  template <class F>
  int next(F&& call) {
    return ++calls_ == failing_ ? error_ : call();
  }
  int failing_, error_, calls_ = 0;
  bool exchanges_;
};

TEST(Replacement, AFailedCallKeepsTheOldOne) {
  for (bool exchanges : {true, false}) {
    FailingFileSystem counting(0, 0, exchanges);
    {
      const Scratch scratch;
      save_version(scratch.path() + "/model", 1);
      save_version(scratch.path() + "/model", 2, counting);
    }
    ASSERT_GT(counting.calls(), 20);
    for (int error : {ENOSPC, EIO}) {
      for (int failing = 1; failing <= counting.calls(); ++failing) {
        const Scratch scratch;
        const std::string path = scratch.path() + "/model";
        save_version(path, 1);
        FailingFileSystem files(failing, error, exchanges);
        try {
          save_version(path, 2, files);
          ADD_FAILURE() << "call " << failing << " failed unseen";
        } catch (const Error& e) {
          EXPECT_EQ(e.kind, ErrorKind::file);
        }
        // The last call syncs the parent: the new version is there, but may not survive a power failure.
        EXPECT_EQ(version_at(path), failing == counting.calls() ? 2 : 1) << "call " << failing << ", exchanges " << exchanges;
        save_version(path, 3);
        EXPECT_EQ(version_at(path), 3);
        EXPECT_EQ(entries_in(scratch.path()), 1u + (failing == counting.calls() && !exchanges)) << "call " << failing;
      }
    }
  }
}

TEST(Replacement, KilledAtAnyMomentLeavesTheOldOrTheNewOne) {
  const int kills = std::getenv("LAMINA_TEST_LONG") ? 10'000 : 1'000;
  const Scratch scratch;
  const std::string path = scratch.path() + "/model";
  constexpr size_t kSize = 20'000;
  save_version(path, 1, FileSystem::real(), kSize);
  int before = 1;
  for (int i = 0; i < kills; ++i) {
    int acknowledged[2];
    ASSERT_EQ(pipe(acknowledged), 0);
    const pid_t child = in_a_process([&] {
      for (int version = before % 9 + 1;; version = version % 9 + 1) {
        save_version(path, version, FileSystem::real(), kSize);
        const char saved = char(version);
        if (::write(acknowledged[1], &saved, 1) != 1) return;
      }
    });
    close(acknowledged[1]);
    char last = char(before);
    ASSERT_EQ(::read(acknowledged[0], &last, 1), 1);  // saves in a loop
    usleep(useconds_t(i * 7919 % 3000));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    for (char c; ::read(acknowledged[0], &c, 1) == 1;) last = c;
    close(acknowledged[0]);
    const int found = version_at(path, kSize);
    ASSERT_TRUE(found == last || found == last % 9 + 1) << "kill " << i << ": acknowledged " << int(last) << ", found " << found;
    before = found;
  }
  save_version(path, 1);
  EXPECT_EQ(entries_in(scratch.path()), 1u) << "what killed processes left is still there";
}

// A file system in memory that tracks what was synced, and can stop at any call.
class ForgetfulFileSystem final : public FileSystem {
 public:
  struct Inode {
    bool is_directory = false;
    std::string text, synced_text;
  };
  // One change of a directory: names that then point to inodes (0: removed).
  struct Change {
    int directory;
    std::vector<std::pair<std::string, int>> names;
    bool synced = false;
  };
  struct Stopped {};

  explicit ForgetfulFileSystem(bool exchanges) : exchanges_(exchanges) {
    inodes_.push_back({true, "", ""}), inodes_.push_back({true, "", ""});
  }

  int stop_after = -1;  // calls
  int create(const std::string& path, int& descriptor) override {
    step();
    if (lookup(path)) return EEXIST;
    descriptor = int(inodes_.size());
    inodes_.push_back({});
    change(path, {{name(path), descriptor}});
    return 0;
  }
  int write(int descriptor, uint64_t offset, std::span<const std::byte> bytes, size_t& written) override {
    step();
    written = bytes.size();
    std::string& text = inodes_[size_t(descriptor)].text;
    text.resize(std::max(text.size(), size_t(offset) + bytes.size()));
    text.replace(size_t(offset), bytes.size(), reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return 0;
  }
  int sync(int descriptor) override {
    step();
    inodes_[size_t(descriptor)].synced_text = inodes_[size_t(descriptor)].text;
    return 0;
  }
  int close(int) override { return 0; }
  int make_directory(const std::string& path) override {
    step();
    inodes_.push_back({true, "", ""});
    change(path, {{name(path), int(inodes_.size()) - 1}});
    return 0;
  }
  int sync_directory(const std::string& path) override {
    step();
    const int directory = is_root(path) ? kRoot : lookup(path);
    for (Change& c : changes_) c.synced |= c.directory == directory;
    return 0;
  }
  int rename(const std::string& from, const std::string& to) override {
    step();
    change(from, {{name(from), 0}, {name(to), lookup(from)}});
    return 0;
  }
  int exchange(const std::string& one, const std::string& two) override {
    if (!exchanges_) return ENOTSUP;
    step();
    change(one, {{name(one), lookup(two)}, {name(two), lookup(one)}});
    return 0;
  }
  int remove(const std::string& path) override {
    if (stop_after == 0) return EIO;  // called by destructors
    --stop_after;
    if (lookup(path)) change(path, {{name(path), 0}});
    return 0;
  }

  // Every state that the disk may have after the machine stopped: unsynced changes and parts of texts may or may not be there. Calls `see`
  // once for each, with a function that returns the text of root/directory/file, or nothing if it does not exist.
  template <class See>
  void after_a_stop(See&& see) const {
    std::vector<size_t> open;
    for (size_t i = 0; i < changes_.size(); ++i)
      if (!changes_[i].synced) open.push_back(i);
    ASSERT_LT(open.size(), 16u);
    for (size_t subset = 0; subset < size_t{1} << open.size(); ++subset) {
      std::map<int, std::map<std::string, int>> directories;
      for (size_t i = 0, bit = 0; i < changes_.size(); ++i) {
        if (!changes_[i].synced && !(subset >> bit++ & 1)) continue;
        for (const auto& [entry, inode] : changes_[i].names) directories[changes_[i].directory][entry] = inode;
      }
      for (int part = 0; part < 3; ++part)  // of unsynced text: none, half, all
        see([&, part](const std::string& directory, const std::string& file) -> const std::string* {
          const int at = directories[kRoot][directory];
          if (!at) return nullptr;
          if (file.empty()) return &found_;
          const int inode = directories[at][file];
          if (!inode) return nullptr;
          const Inode& node = inodes_[size_t(inode)];
          const size_t more = node.text.size() - node.synced_text.size();
          found_ = node.text.substr(0, node.synced_text.size() + more * size_t(part) / 2);
          return &found_;
        });
    }
  }

 private:
  static constexpr int kRoot = 1;
  void step() {
    if (stop_after == 0) throw Stopped();
    --stop_after;
  }
  static std::string name(const std::string& path) { return path.substr(path.rfind('/') + 1); }
  bool is_root(const std::string& path) const {
    return path.find("/lamina-io-") != std::string::npos && name(path).starts_with("lamina-io-");
  }
  int lookup(const std::string& path) const { return lookup_in(directory_of(path), name(path)); }
  int directory_of(const std::string& path) const {
    const std::string parent = path.substr(0, path.rfind('/'));
    return is_root(parent) ? kRoot : lookup_in(kRoot, name(parent));
  }
  int lookup_in(int directory, const std::string& entry) const {
    int out = 0;
    for (const Change& c : changes_)
      for (const auto& [n, inode] : c.names)
        if (c.directory == directory && n == entry) out = inode;
    return out;
  }
  void change(const std::string& path, std::vector<std::pair<std::string, int>> names) {
    changes_.push_back({directory_of(path), std::move(names)});
  }

  std::vector<Inode> inodes_;
  std::vector<Change> changes_;
  bool exchanges_;
  mutable std::string found_;
};

TEST(Replacement, APowerFailureLeavesTheOldOrTheNewOne) {
  size_t states = 0;
  for (bool exchanges : {true, false}) {
    for (int stop = 0;; ++stop) {
      const Scratch scratch;  // paths start with its name, and Replacement checks whether the target exists
      const std::string path = scratch.path() + "/model";
      ForgetfulFileSystem files(exchanges);
      save_version(path, 1, files);
      std::filesystem::create_directory(path);
      files.stop_after = stop;
      bool ended = false;
      try {
        save_version(path, 2, files);
        ended = true;
      } catch (const ForgetfulFileSystem::Stopped&) {
      }
      files.stop_after = -1;
      files.after_a_stop([&](auto&& text) {
        ++states;
        const std::string directory = text("model", "") ? "model" : ".lamina-before-model";
        std::set<std::string> found;
        for (const char* file : kFiles) {
          const std::string* t = text(directory, file);
          found.insert(t ? *t : "nothing");
        }
        EXPECT_TRUE(found == std::set<std::string>{std::string(100, '2')} ||
                    (!ended && found == std::set<std::string>{std::string(100, '1')}))
            << "stopped after " << stop << " calls, exchanges " << exchanges << ": " << *found.begin() << " and " << *found.rbegin();
      });
      if (ended) break;
    }
  }
  EXPECT_GT(states, 300u);
}

TEST(Replacement, ManyProcessesAtOnceLeaveOneVersion) {
  for (bool exchanges : {true, false}) {
    for (int round = 0; round < 25; ++round) {  // each begins without a model
      const Scratch scratch;
      const std::string path = scratch.path() + "/model";
      int gate[2];  // closed when all may begin
      ASSERT_EQ(pipe(gate), 0);
      std::vector<pid_t> children;
      for (int version = 1; version <= 4; ++version)
        children.push_back(in_a_process([&] {
          FailingFileSystem files(0, 0, exchanges);
          close(gate[1]);
          char end;
          while (::read(gate[0], &end, 1) != 0) {
          }
          for (int i = 0; i < 3; ++i) save_version(path, version, files);
        }));
      close(gate[0]), close(gate[1]);
      for (pid_t child : children) {
        int status = 0;
        waitpid(child, &status, 0);
        EXPECT_EQ(status, 0);
      }
      EXPECT_GT(version_at(path), 0);
      EXPECT_EQ(entries_in(scratch.path()), 1u);
    }
  }
}

}  // namespace
}  // namespace lamina::io
