// Iterates over views that are not contiguous. Not for *_isa.cpp: these functions must exist only once.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "runtime/core/view.h"

namespace lamina::kernels::cpu {

// A position in a row-major index space.
struct Cursor {
  int rank = 0;
  const int64_t* shape = nullptr;
  int64_t inner = 1, in_row = 0;  // length of the last axis, and the position in it
  int64_t index[kMaxRank] = {};   // of the other axes

  Cursor() = default;
  Cursor(int r, const int64_t* s, int64_t at) : rank(r), shape(s), inner(r ? s[r - 1] : 1) {
    in_row = inner ? at % inner : 0;
    int64_t row = inner ? at / inner : 0;
    for (int a = rank - 2; a >= 0; --a) index[a] = row % shape[a], row /= shape[a];
  }
  void advance(int64_t n) {
    in_row += n;
    while (in_row >= inner) in_row -= inner, next_row();
  }
  void next_row() {
    for (int a = rank - 2; a >= 0 && ++index[a] == shape[a]; --a) index[a] = 0;
  }
  int64_t row_offset(const int64_t* strides) const {
    int64_t offset = 0;
    for (int a = 0; a + 1 < rank; ++a) offset += index[a] * strides[a];
    return offset;
  }
};

// Calls f(offset of the first element, elements) for each part of a row within the next n elements.
template <class F>
void each_row(Cursor cursor, const int64_t* strides, int64_t n, F&& f) {
  const int64_t step = cursor.rank ? strides[cursor.rank - 1] : 0;
  while (n > 0) {
    int64_t m = std::min(n, cursor.inner - cursor.in_row);
    f(cursor.row_offset(strides) + cursor.in_row * step, m);
    n -= m, cursor.in_row = 0, cursor.next_row();
  }
}

template <class T>
void gather_elements(T* to, const T* from, const int64_t* strides, int64_t n, const Cursor& cursor) {
  const int64_t step = cursor.rank ? strides[cursor.rank - 1] : 0;
  each_row(cursor, strides, n, [&](int64_t offset, int64_t m) {
    const T* row = from + offset;
    if (step == 1)
      std::memcpy(to, row, size_t(m) * sizeof(T));
    else if (step == 0) {
      const T value = *row;
      for (int64_t i = 0; i < m; ++i) to[i] = value;
    } else {
      for (int64_t i = 0; i < m; ++i) to[i] = row[i * step];
    }
    to += m;
  });
}
template <class T>
void scatter_elements(T* to, const T* from, const int64_t* strides, int64_t n, const Cursor& cursor) {
  const int64_t step = cursor.rank ? strides[cursor.rank - 1] : 0;
  each_row(cursor, strides, n, [&](int64_t offset, int64_t m) {
    T* row = to + offset;
    if (step == 1)
      std::memcpy(row, from, size_t(m) * sizeof(T));
    else
      for (int64_t i = 0; i < m; ++i) row[i * step] = from[i];
    from += m;
  });
}

// Copies the next n elements from the cursor on, of `bytes` each, to contiguous memory; and back.
inline void gather(void* to, const void* from, size_t bytes, const int64_t* strides, int64_t n, const Cursor& cursor) {
  switch (bytes) {
    case 1: return gather_elements(static_cast<uint8_t*>(to), static_cast<const uint8_t*>(from), strides, n, cursor);
    case 2: return gather_elements(static_cast<uint16_t*>(to), static_cast<const uint16_t*>(from), strides, n, cursor);
    case 4: return gather_elements(static_cast<uint32_t*>(to), static_cast<const uint32_t*>(from), strides, n, cursor);
    default: return gather_elements(static_cast<uint64_t*>(to), static_cast<const uint64_t*>(from), strides, n, cursor);
  }
}
inline void scatter(void* to, const void* from, size_t bytes, const int64_t* strides, int64_t n, const Cursor& cursor) {
  switch (bytes) {
    case 1: return scatter_elements(static_cast<uint8_t*>(to), static_cast<const uint8_t*>(from), strides, n, cursor);
    case 2: return scatter_elements(static_cast<uint16_t*>(to), static_cast<const uint16_t*>(from), strides, n, cursor);
    case 4: return scatter_elements(static_cast<uint32_t*>(to), static_cast<const uint32_t*>(from), strides, n, cursor);
    default: return scatter_elements(static_cast<uint64_t*>(to), static_cast<const uint64_t*>(from), strides, n, cursor);
  }
}

}  // namespace lamina::kernels::cpu
