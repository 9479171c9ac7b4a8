// The site-packages of the Python that runs in this process, in which pip puts NVIDIA's libraries.
#pragma once
#include <string>
#include <vector>

#include "runtime/core/export.h"

namespace lamina {

LAMINA_API void set_package_folders(std::vector<std::string> folders);
LAMINA_API std::vector<std::string> package_folders();

}  // namespace lamina
