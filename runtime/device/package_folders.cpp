#include "runtime/device/package_folders.h"

#include <mutex>
#include <utility>

#include "runtime/core/mutex.h"

namespace lamina {
namespace {

struct Folders {
  Mutex mutex;
  std::vector<std::string> list;
};
Folders& folders() {
  static auto* kept = new Folders;  // never destroyed: used at process exit
  return *kept;
}

}  // namespace

void set_package_folders(std::vector<std::string> list) {
  const std::lock_guard lock(folders().mutex);
  folders().list = std::move(list);
}
std::vector<std::string> package_folders() {
  const std::lock_guard lock(folders().mutex);
  return folders().list;
}

}  // namespace lamina
