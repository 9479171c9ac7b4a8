// One thread per element copies it. The first thread that finds a bad element counts all of them, alone: that is slow, but happens once.
#include <sstream>
#include <vector>

#include "kernels/cuda/element.h"
#include "kernels/cuda/scratch.h"
#include "kernels/gpu_kernel.h"
#include "kernels/report.h"
#include "kernels/shared/scalar_ops.h"

namespace lamina::kernels::cuda {
namespace {

constexpr int kNan = 0, kInfinity = 1, kMinusInfinity = 2;  // Fault::which: the first bad element

template <class T>
LAMINA_DEVICE_CALL void count_bad(const T* x, int64_t size, Fault& fault) {
  int64_t nans = 0, infinities = 0, first = -1;
  for (int64_t i = 0; i < size; ++i) {
    const compute_t<T> v = widen(x[i]);
    if (scalar::isfinite(v)) continue;
    if (first < 0) first = i;
    ++(scalar::isnan(v) ? nans : infinities);
  }
  const compute_t<T> v = widen(x[first]);
  fault.which = scalar::isnan(v) ? kNan : v > 0 ? kInfinity : kMinusInfinity;
  fault.value = nans, fault.limit = infinities, fault.place = first;
}

// y: null where the elements are there already.
template <class T>
LAMINA_KERNEL(256)
checked_elements(const T* x, T* y, int64_t size, FaultSite site) {
  bool told = false;
  for (int64_t i = first_element(); i < size; i += all_threads()) {
    const T v = x[i];
    if (y) y[i] = v;
    if (told || scalar::isfinite(compute_t<T>(widen(v)))) continue;
    told = true;
    report_by(site, [&](Fault& fault) { count_bad(x, size, fault); });
  }
}

// about: the lengths of x and a line end, then the user's message.
Error numerics_error(const Fault& f, const std::string& about) {
  const size_t end = about.find('\n');
  std::istringstream lengths(about.substr(0, end));
  std::vector<int64_t> shape;
  for (int64_t length; lengths >> length;) shape.push_back(length);
  const char* value = f.which == kNan ? "nan" : f.which == kInfinity ? "inf" : "-inf";
  return not_finite(about.substr(end + 1), f.value, f.limit, f.place, value, shape);
}

}  // namespace

template <class T>
void check_numerics(Stream& stream, const View& x, const View& y, std::string message) {
  const int64_t size = x.size();
  if (size == 0) return;
  std::string about;
  for (int a = 0; a < x.rank; ++a) about += std::to_string(x.shape[a]) + ' ';
  const FaultSite site = stream.backend->fault_site(stream, numerics_error, about + '\n' + message);
  launch<checked_elements<T>>(stream, over(size), x.as<const T>(), x.data == y.data ? static_cast<T*>(nullptr) : y.as<T>(), size, site);
}

namespace {
const GpuKernels<LAMINA_FLOATING(check_numerics)> registered;
}

}  // namespace lamina::kernels::cuda
