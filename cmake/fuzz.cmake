# lamina_fuzz_X of each tests/fuzz/X.cpp: libFuzzer over the readers of files.
if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang" OR CMAKE_CXX_COMPILER_VERSION VERSION_LESS 16)
  message(FATAL_ERROR "the fuzz targets need clang 16 or newer, not ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}")
endif()
# Its templates take minutes with all instrumentation, and nothing in them depends on more than lengths.
set_source_files_properties("${PROJECT_SOURCE_DIR}/kernels/cpu/dense_isa.cpp" PROPERTIES COMPILE_OPTIONS "-fno-sanitize=undefined,fuzzer-no-link")

# An archive, so that a target holds only what it can reach: libFuzzer looks at the counters of all of it after each input.
set(LAMINA_FUZZ_OBJECTS ${LAMINA_OBJECT_LIBRARIES})
list(TRANSFORM LAMINA_FUZZ_OBJECTS REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>")
add_library(lamina_fuzz_archive STATIC tests/damaged_text.cpp tests/graph/damage.cpp ${LAMINA_FUZZ_OBJECTS})
lamina_library_settings(lamina_fuzz_archive)
foreach(target tensors graphs programs)
  add_executable(lamina_fuzz_${target} tests/fuzz/${target}.cpp)
  lamina_library_settings(lamina_fuzz_${target})
  target_link_options(lamina_fuzz_${target} PRIVATE -fsanitize=fuzzer)
  target_link_libraries(lamina_fuzz_${target} PRIVATE lamina_fuzz_archive)
endforeach()
