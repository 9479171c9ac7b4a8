# The section kernel's headers as text, for NVRTC, which has no standard headers: those of kernels that are written for it as they are, and of the
# host's headers the definitions that the kernel shares with the host, so that they are written once.
set(LAMINA_SECTION_HEADER_FILES
    kernels/cuda/activate.h kernels/cuda/clock.h kernels/cuda/device.h kernels/cuda/device_gpu.h kernels/cuda/scratch.h kernels/cuda/section_block.h kernels/cuda/section_clock.h
    kernels/cuda/section_cluster.h kernels/cuda/section_dense.h kernels/cuda/section_elementwise.h kernels/cuda/section_kernel.h kernels/cuda/section_mma.h kernels/cuda/section_reduce.h
    kernels/cuda/section_rows.h kernels/cuda/section_turn.h kernels/cuda/section_update.h kernels/section/block_table.h ${LAMINA_SHARED_HEADER_FILES})
set(LAMINA_SECTION_HEADERS "")
foreach(header IN LISTS LAMINA_SECTION_HEADER_FILES)
  file(READ "${PROJECT_SOURCE_DIR}/${header}" text)
  string(APPEND LAMINA_SECTION_HEADERS "      {\"${header}\", R\"lamina(${text})lamina\"},\n")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/${header}")
endforeach()

# lamina_section_part(header namespace regex...): the text that each regex matches.
function(lamina_section_part header namespace)
  file(READ "${PROJECT_SOURCE_DIR}/${header}" text)
  set(parts "")
  foreach(regex IN LISTS ARGN)
    string(REGEX MATCH "${regex}" part "${text}")
    if(part STREQUAL "")
      message(FATAL_ERROR "${header} has no ${regex}; cmake/section_headers.cmake takes it from there")
    endif()
    string(APPEND parts "${part}\n")
  endforeach()
  set(LAMINA_SECTION_HEADERS "${LAMINA_SECTION_HEADERS}      {\"${header}\", R\"lamina(#pragma once\n#include <cstdint>\nnamespace ${namespace} {\n${parts}}\n)lamina\"},\n" PARENT_SCOPE)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/${header}")
endfunction()
lamina_section_part(runtime/core/dtype.h lamina "enum class DType [^}]*}.")
lamina_section_part(runtime/core/precision.h lamina "enum class Precision [^}]*}.")
lamina_section_part(runtime/core/view.h lamina "inline constexpr int kMaxRank[^\n]*")
lamina_section_part(runtime/device/fault.h lamina "struct Fault {[^}]*}." "struct FaultSite {[^}]*}.")
lamina_section_part(kernels/section/table.h lamina::section "enum class StepKind [^}]*}." "enum class Activation [^}]*}." "enum class Reduction [^}]*}."
                    "enum class Broadcast [^}]*}." "enum class Partition [^}]*}.")
string(APPEND LAMINA_SECTION_HEADERS
       "      {\"cstdint\", \"#pragma once\\nusing int8_t = signed char; using int16_t = short; using int32_t = int; using int64_t = long;\\n\"\n"
       "                  \"using uint8_t = unsigned char; using uint16_t = unsigned short; using uint32_t = unsigned; using uint64_t = unsigned long;\\n\"},\n")
configure_file(cmake/section_headers.cpp.in "${PROJECT_BINARY_DIR}/section_headers.cpp" @ONLY)
