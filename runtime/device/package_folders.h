// The site-packages folders of the Python in this process, where pip installs NVIDIA's libraries.
#pragma once
#include <string>
#include <vector>

#include "runtime/core/export.h"

namespace lamina {

LAMINA_API void set_package_folders(std::vector<std::string> folders);
LAMINA_API std::vector<std::string> package_folders();

}  // namespace lamina
