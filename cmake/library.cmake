# lamina_objects: everything, compiled once. lamina: liblamina.so made of it; lamina_cuda: liblamina_cuda.so, what only GPUs need. Tests link the objects, since
# they also test what is not exported.
find_package(Threads REQUIRED)
find_package(ZLIB REQUIRED)
find_package(nlohmann_json REQUIRED)
find_path(LAMINA_KISSFFT kissfft/kissfft.hh REQUIRED DOC "Debian: libkissfft-dev")

# A new source file needs no edit here.
file(GLOB_RECURSE LAMINA_SOURCES CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/runtime/*.cpp" "${PROJECT_SOURCE_DIR}/kernels/*.cpp"
     "${PROJECT_SOURCE_DIR}/graph/*.cpp" "${PROJECT_SOURCE_DIR}/capi/*.cpp")
file(GLOB_RECURSE LAMINA_CUDA_SOURCES CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/runtime/cuda/*.cpp" "${PROJECT_SOURCE_DIR}/runtime/cuda/*.cu")
file(GLOB LAMINA_GPU_KERNEL_SOURCES CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/kernels/cuda/*.cu")
file(GLOB LAMINA_ISA_SOURCES CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/kernels/cpu/*_isa.cpp")
# The MPI plug-in is a library of its own.
list(FILTER LAMINA_SOURCES EXCLUDE REGEX "/(runtime/cuda|kernels/cuda|runtime/dist/mpi)/")
if(LAMINA_FUZZ)
  list(FILTER LAMINA_SOURCES EXCLUDE REGEX "/(capi|runtime/data|graph/(nn|export_c))/")  # what reads programs does not need it
endif()
list(REMOVE_ITEM LAMINA_SOURCES ${LAMINA_ISA_SOURCES})

# lamina_group(OUT SOURCE ...): one file for up to eight sources of a folder, which includes them. The headers that they share cost more to compile than
# they do. The file names no path of this clone, so that ccache knows it in another. -DLAMINA_GROUPS=OFF compiles each source by itself.
option(LAMINA_GROUPS "Compile up to eight sources of a folder together" ON)
function(lamina_group out)
  set(groups ${ARGN})
  if(LAMINA_GROUPS)
    set(groups)
    foreach(source IN LISTS ARGN)
      cmake_path(RELATIVE_PATH source BASE_DIRECTORY "${PROJECT_SOURCE_DIR}")
      cmake_path(GET source PARENT_PATH folder)
      string(REPLACE "/" "_" folder "${folder}")
      math(EXPR count_${folder} "${count_${folder}} + 1")
      math(EXPR number "(${count_${folder}} + 7) / 8")
      string(APPEND ${folder}_${number} "#include \"${source}\"\n")
      list(APPEND groups ${folder}_${number})
    endforeach()
    list(REMOVE_DUPLICATES groups)
    foreach(group IN LISTS groups)
      file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/groups/${group}.cpp" CONTENT "${${group}}" @ONLY)
    endforeach()
    list(TRANSFORM groups REPLACE "(.+)" "${PROJECT_BINARY_DIR}/groups/\\1.cpp")
  endif()
  set(${out} ${groups} PARENT_SCOPE)
endfunction()

function(lamina_library_settings target)
  target_compile_definitions(${target} PRIVATE LAMINA_BUILDING=1)
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}")
  target_include_directories(${target} SYSTEM PRIVATE "${LAMINA_KISSFFT}")
  target_link_libraries(${target} PRIVATE Threads::Threads ZLIB::ZLIB nlohmann_json::nlohmann_json ${CMAKE_DL_LIBS})
endfunction()

lamina_group(LAMINA_GROUPED_SOURCES ${LAMINA_SOURCES})
add_library(lamina_objects OBJECT ${LAMINA_GROUPED_SOURCES})
lamina_library_settings(lamina_objects)
# What nearly every source includes: parsing it once halves the time of a build.
target_precompile_headers(lamina_objects PRIVATE <algorithm> <array> <atomic> <cmath> <cstring> <functional> <map> <memory> <mutex> <optional>
                          <span> <string> <string_view> <tuple> <unordered_map> <utility> <variant> <vector>)

# kernels/cpu/X_isa.cpp is compiled once per instruction set with LAMINA_ISA naming it. Scalar comes first: should an inline function
# be emitted in several of them, the linker keeps the first, which every machine can run.
set(LAMINA_ISAS scalar)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|amd64|AMD64" AND NOT LAMINA_FUZZ)
  list(APPEND LAMINA_ISAS avx2 avx512)
  target_compile_definitions(lamina_objects PRIVATE LAMINA_HAS_AVX=1)
endif()
set(LAMINA_FLAGS_scalar "")
set(LAMINA_FLAGS_avx2 -mavx2 -mfma -mf16c)
set(LAMINA_FLAGS_avx512 -mavx512f -mavx512bw -mavx512vl -mavx512dq ${LAMINA_FLAGS_avx2})
set(LAMINA_OBJECT_LIBRARIES lamina_objects)

# What uses the CUDA toolkit: the backend, and the GPU's kernels by nvcc. The programs of cmake/emulated.cmake have the same kernels as C++ instead.
set(LAMINA_CUDA_LIBRARIES)
if(LAMINA_HAS_CUDA)
  add_library(lamina_cuda_objects OBJECT ${LAMINA_CUDA_SOURCES} ${LAMINA_GPU_KERNEL_SOURCES})
  lamina_library_settings(lamina_cuda_objects)
  target_link_libraries(lamina_cuda_objects PRIVATE lamina_cudart)
  set_source_files_properties("${PROJECT_SOURCE_DIR}/kernels/cuda/order.cu" PROPERTIES COMPILE_OPTIONS "-isystem;${LAMINA_THRUST_INCLUDE}")
  set(LAMINA_CUDA_LIBRARIES lamina_cuda_objects "$<LINK_ONLY:lamina_cudart>")
endif()

set(LAMINA_ISA_OPTIMIZATION -O3)
if(LAMINA_SANITIZE)
  set(LAMINA_ISA_OPTIMIZATION -O1)  # a file takes minutes at -O3, and what is looked for is the same
endif()
foreach(isa IN LISTS LAMINA_ISAS)
  set(optimization ${LAMINA_ISA_OPTIMIZATION})
  if(isa STREQUAL "scalar" AND NOT LAMINA_ISAS STREQUAL "scalar")
    set(optimization -O1)  # no machine of the last ten years runs it, and at -O3 it takes twice as long to compile; the bits are the same
  endif()
  add_library(lamina_isa_${isa} OBJECT ${LAMINA_ISA_SOURCES})
  lamina_library_settings(lamina_isa_${isa})
  target_compile_definitions(lamina_isa_${isa} PRIVATE LAMINA_ISA=${isa})
  # errno and floating-point exceptions are not read anywhere; results stay the same, and loops with selects and square roots are vectorized.
  # Without jump threading: g++ would first compute an activation once per way through its ifs, then all of them for every element (gelu: 2.8 times as long).
  target_compile_options(lamina_isa_${isa} PRIVATE ${LAMINA_FLAGS_${isa}} $<$<CXX_COMPILER_ID:GNU>:-fno-thread-jumps> -fno-math-errno -fno-trapping-math "$<$<NOT:$<CONFIG:Debug>>:${optimization}>")
  list(APPEND LAMINA_OBJECT_LIBRARIES lamina_isa_${isa})
endforeach()

# liblamina.so lies in the importable package, where _core finds it beside itself.
file(WRITE "${PROJECT_BINARY_DIR}/empty.cpp" "")
add_library(lamina SHARED "${PROJECT_BINARY_DIR}/empty.cpp")
add_library(Lamina::Runtime ALIAS lamina)
lamina_library_settings(lamina)
target_link_libraries(lamina PRIVATE ${LAMINA_OBJECT_LIBRARIES})
target_link_options(lamina PRIVATE "LINKER:--exclude-libs,ALL" "LINKER:-z,defs")
if(LAMINA_SANITIZE)
  target_link_options(lamina PRIVATE "LINKER:-z,undefs")
endif()
target_compile_features(lamina PUBLIC cxx_std_20)
target_include_directories(lamina INTERFACE "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR};${PROJECT_SOURCE_DIR}/include>"
                                            "$<INSTALL_INTERFACE:include;include/lamina>")
set_target_properties(lamina PROPERTIES EXPORT_NAME Runtime LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/python/lamina")

# liblamina_cuda.so lies beside it and is opened when a GPU is first asked for. Tests link its objects instead.
if(LAMINA_HAS_CUDA)
  add_library(lamina_cuda MODULE "${PROJECT_BINARY_DIR}/empty.cpp")
  lamina_library_settings(lamina_cuda)
  target_link_libraries(lamina_cuda PRIVATE lamina ${LAMINA_CUDA_LIBRARIES})
  target_link_options(lamina_cuda PRIVATE "LINKER:--exclude-libs,ALL" "LINKER:-z,defs")
  set_target_properties(lamina_cuda PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/python/lamina" BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "$ORIGIN")
endif()
