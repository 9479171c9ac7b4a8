#include "python_bindings/src/dlpack.h"

#include <cstring>
#include <vector>

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include "runtime/core/bools.h"
#include "runtime/device/buffer.h"
#include "runtime/device/virtual_gpus.h"

namespace lamina::python {
namespace {

using Array = nb::ndarray<nb::ro>;

nb::dlpack::dtype to_dlpack(DType d) {
  using Code = nb::dlpack::dtype_code;
  const Code code = d == DType::boolean ? Code::Bool
                    : d == DType::bf16  ? Code::Bfloat
                    : is_floating(d)    ? Code::Float
                    : is_complex(d)     ? Code::Complex
                    : is_signed(d)      ? Code::Int
                                        : Code::UInt;
  return {uint8_t(code), uint8_t(8 * size_of(d)), 1};
}

DType from_dlpack(nb::dlpack::dtype d) {
  for (const DType one : kDTypes) {
    if (to_dlpack(one) == d) return one;
  }
  throw_type_error(cat("from_dlpack: there are no tensors of DLPack type code ", int(d.code), " with ", int(d.bits), " bits"), "",
                   "convert the array to a dtype of Lamina first");
}

// The elements of an array with any strides, in row-major order.
Tensor copy_of(const Array& array, const TensorType& type) {
  const size_t bytes = size_of(type.dtype);
  auto buffer = std::make_shared<Buffer>(Device{}, size_t(byte_size(type)));
  auto* to = static_cast<char*>(buffer->data());
  const char* from = static_cast<const char*>(array.data());
  std::vector<int64_t> index(array.ndim());
  for (size_t left = array.size(); left > 0; --left) {
    int64_t offset = 0;
    for (size_t i = 0; i < index.size(); ++i) offset += index[i] * array.stride(i);
    std::memcpy(to, from + offset * int64_t(bytes), bytes);
    to += bytes;
    for (size_t i = index.size(); i-- > 0 && ++index[i] == int64_t(array.shape(i));) index[i] = 0;
  }
  if (type.dtype == DType::boolean) make_bools({static_cast<std::byte*>(buffer->data()), buffer->bytes()});
  return Tensor(std::move(buffer), type);
}

[[noreturn]] void throw_refused(std::string why, nb::handle object, bool to_copy) {
  throw Error(ErrorKind::invalid_argument,
              {.what = to_copy ? cat(a_type(object.ptr()), " of another library does not become a tensor")
                               : "from_dlpack: the array cannot be shared",
               .where = "",
               .why = std::move(why),
               .fix = to_copy ? "let its library convert it first, as PyTorch's detach(), to_dense() and resolve_conj() do"
                              : "use lm.constant, which copies"});
}

// Called here rather than by nanobind, which falls back to older protocols. Some libraries support those although they refused (a PyTorch
// parameter), and the reason would be lost.
nb::object capsule_of(const nb::object& object, bool to_copy) {
  const nb::object give = object.attr("__dlpack__");
  try {
    return give(nb::arg("max_version") = nb::make_tuple(1, 0));
  } catch (nb::python_error& e) {
    if (!e.matches(PyExc_TypeError)) throw_refused(cat("its library says: ", nb::str(e.value()).c_str()), object, to_copy);
  }
  try {
    return give();  // an object older than max_version
  } catch (nb::python_error& e) {
    throw_refused(cat("its library says: ", nb::str(e.value()).c_str()), object, to_copy);
  }
}

}  // namespace

Tensor tensor_from_dlpack(const nb::object& object, bool to_copy) {
  if (is_tensor(object.ptr())) return as_tensor(object.ptr());
  if (!nb::hasattr(object, "__dlpack__"))
    throw_type_error(cat("from_dlpack: ", a_type(object.ptr()), " has no __dlpack__"), "", "use lm.constant");
  auto array = std::make_shared<Array>();
  if (!nb::try_cast(capsule_of(object, to_copy), *array))
    throw_refused("what its __dlpack__ returned is no DLPack capsule", object, to_copy);
  TensorType type{from_dlpack(array->dtype()), {}};
  bool contiguous = true;
  int64_t stride = 1;
  for (size_t i = array->ndim(); i-- > 0;) {
    contiguous &= array->shape(i) == 1 || array->stride(i) == stride;
    stride *= int64_t(array->shape(i));
  }
  for (size_t i = 0; i < array->ndim(); ++i) type.shape.emplace_back(int64_t(array->shape(i)));
  if (array->device_type() != nb::device::cpu::value) {
    throw Error(ErrorKind::device,
                {.what = "from_dlpack: the array is not in host memory", .where = "", .why = "", .fix = "copy it to the host first"});
  }
  const bool usable =
      type.dtype != DType::boolean || !contiguous || are_bools({static_cast<const std::byte*>(array->data()), array->size()});
  if (!(contiguous && usable) && array->size() > 0) return copy_of(*array, type);
  // The last reference may be dropped on a thread without the GIL.
  std::shared_ptr<void> owner(array.get(), [array](void*) mutable {
    if (!Py_IsInitialized()) {
      new std::shared_ptr<Array>(std::move(array));  // the interpreter has ended: leaks deliberately
      return;
    }
    HeldGil gil;
    array.reset();
  });
  void* data = const_cast<void*>(array->data());
  return Tensor(std::make_shared<Buffer>(Device{}, data, size_t(byte_size(type)), std::move(owner)), type);
}

// --- export: https://dmlc.github.io/dlpack/latest/python_spec.html ---
namespace {

// A capsule's content in DLPack's layout: unversioned, and from version 1 on, which has a read-only flag.
struct ManagedTensor {
  nb::dlpack::dltensor tensor;
  void* context;
  void (*deleter)(ManagedTensor*);
};
struct VersionedTensor {
  uint32_t major, minor;
  void* context;
  void (*deleter)(VersionedTensor*);
  uint64_t flags;
  nb::dlpack::dltensor tensor;
};
constexpr uint64_t kReadOnly = 1, kCopied = 2;

template <class M>
struct Given {
  M managed{};
  Tensor tensor;
  std::vector<int64_t> shape, strides;
};

template <class M>
nb::object capsule_of(const char* name, const char* used_name, const Tensor& t, uint64_t flags) {
  auto given = std::make_unique<Given<M>>();
  given->tensor = t;
  given->shape = numbers(t.shape());
  given->strides.resize(given->shape.size());
  int64_t stride = 1;
  for (size_t i = given->shape.size(); i-- > 0;) {
    given->strides[i] = stride;
    stride *= given->shape[i];
  }
  nb::dlpack::dltensor& d = given->managed.tensor;
  d.data = const_cast<void*>(t.data());
  d.device = {nb::device::cpu::value, 0};
  d.ndim = int32_t(given->shape.size());
  d.dtype = to_dlpack(t.dtype());
  d.shape = given->shape.data();
  d.strides = given->strides.data();
  given->managed.context = given.get();
  given->managed.deleter = [](M* m) { delete static_cast<Given<M>*>(m->context); };
  if constexpr (std::is_same_v<M, VersionedTensor>) {
    given->managed.major = 1;
    given->managed.minor = 0;
    given->managed.flags = flags;
  }
  static const char *unused = name, *used = used_name;
  nb::object capsule = nb::steal(PyCapsule_New(&given->managed, unused, [](PyObject* c) {
    if (PyCapsule_IsValid(c, used)) return;  // its consumer deletes it
    if (M* m = static_cast<M*>(PyCapsule_GetPointer(c, unused))) m->deleter(m);
  }));
  if (!capsule.is_valid()) throw_python_error();
  given.release();
  return capsule;
}

[[noreturn]] void refuse(const char* text) {
  PyErr_SetString(PyExc_BufferError, text);
  throw_python_error();
}

}  // namespace

nb::object dlpack_capsule(const Tensor& given, nb::handle max_version, nb::handle device, nb::handle copy) {
  Tensor t = given;
  t.concrete("__dlpack__()");
  if (t.device().kind != DeviceKind::cpu) refuse("the tensor is not in host memory; copy it with .to(\"cpu:0\") first");
  if (!device.is_none() && nb::cast<int>(device[0]) != nb::device::cpu::value)
    refuse("the tensor is in host memory; dl_device must be the CPU");
  const bool copied = !copy.is_none() && nb::cast<bool>(copy);
  if (copied) t = Tensor(copy_to(t.device(), t.buffer(), size_t(byte_size(t.type()))), t.type_ref());
  if (!max_version.is_none() && nb::cast<int>(max_version[0]) >= 1) {
    return capsule_of<VersionedTensor>("dltensor_versioned", "used_dltensor_versioned", t, copied ? kCopied : kReadOnly);
  }
  return capsule_of<ManagedTensor>("dltensor", "used_dltensor", t, 0);
}

nb::tuple dlpack_device(const Tensor& t) {
  return t.device().kind == DeviceKind::gpu ? nb::make_tuple(2, gpu_number(t.device())) : nb::make_tuple(1, int(t.device().index));
}

}  // namespace lamina::python
