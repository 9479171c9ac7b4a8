#include "kernels/cpu/lapack.h"

#include <dlfcn.h>
#include <link.h>

#include "runtime/core/error.h"

namespace lamina::kernels::cpu {
namespace {

template <class F>
bool find(void* library, char precision, const char* name, F& function) {
  function = reinterpret_cast<F>(dlsym(library, cat(precision, name, '_').c_str()));
  return function != nullptr;
}
template <class T>
bool find_all(void* library, char precision, Lapack<T>& out) {
  const bool complex = precision == 'c' || precision == 'z';
  return find(library, precision, "potrf", out.potrf) && find(library, precision, "trsm", out.trsm) &&
         find(library, precision, "getrf", out.getrf) && find(library, precision, "getrs", out.getrs) &&
         find(library, precision, "geqrf", out.geqrf) && find(library, precision, complex ? "ungqr" : "orgqr", out.orgqr) &&
         find(library, precision, complex ? "heevd" : "syevd", out.syevd) && find(library, precision, "gesdd", out.gesdd);
}

std::string path_of(void* library, const char* name) {
  link_map* map = nullptr;
  return dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && map && map->l_name && *map->l_name ? map->l_name : name;
}

}  // namespace

LapackLibrary open_lapack(std::span<const char* const> names) {
  LapackLibrary out;
  for (const char* name : names) {
    void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL);  // never closed
    if (!library) {
      const char* why = dlerror();
      out.why += cat(out.why.empty() ? "" : "; ", why ? why : name);
    } else if (find_all(library, 's', out.f32) && find_all(library, 'd', out.f64) && find_all(library, 'c', out.c64) &&
               find_all(library, 'z', out.c128)) {
      out.path = path_of(library, name), out.why.clear();
      return out;
    } else {
      out.why += cat(out.why.empty() ? "" : "; ", name, " has not all of LAPACK's functions");
    }
  }
  return out;
}

const LapackLibrary& lapack_library() {
  static constexpr const char* names[] = {"liblapack.so.3", "libopenblas.so.0"};
  static const LapackLibrary* found = new LapackLibrary(open_lapack(names));
  return *found;
}

template <class T>
const Lapack<T>& lapack() {
  const LapackLibrary& library = lapack_library();
  if (library.path.empty())
    throw Error(
        ErrorKind::device,
        {.what = "linalg: there is no LAPACK library", .where = "", .why = library.why, .fix = "install it: apt-get install liblapack3"});
  if constexpr (std::is_same_v<T, float>)
    return library.f32;
  else if constexpr (std::is_same_v<T, double>)
    return library.f64;
  else if constexpr (std::is_same_v<T, std::complex<float>>)
    return library.c64;
  else
    return library.c128;
}
template const Lapack<float>& lapack<float>();
template const Lapack<double>& lapack<double>();
template const Lapack<std::complex<float>>& lapack<std::complex<float>>();
template const Lapack<std::complex<double>>& lapack<std::complex<double>>();

}  // namespace lamina::kernels::cpu
