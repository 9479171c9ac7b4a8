# lamina_emulated: the sources of kernels/cuda compiled for the host, every GPU thread a fiber, and tested against the CPU kernels.
# lamina_emulated_checked: the same tests, where each read and write of a kernel is looked at for races and red zones. The compiler's
# -fsanitize=thread puts the calls there; tests/emulated/races.cpp answers them, so it is not linked with the sanitizer's library.
file(GLOB_RECURSE LAMINA_EMULATED_SOURCES CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/emulated/*.cpp")
set(LAMINA_EMULATOR_SOURCES tests/emulated/context.cpp tests/emulated/emulator.cpp tests/emulated/races.cpp tests/emulated/red_zones.cpp tests/emulated/together.cpp)
list(TRANSFORM LAMINA_EMULATOR_SOURCES PREPEND "${PROJECT_SOURCE_DIR}/" OUTPUT_VARIABLE LAMINA_EMULATOR_PATHS)
list(REMOVE_ITEM LAMINA_EMULATED_SOURCES ${LAMINA_EMULATOR_PATHS})
set(LAMINA_EMULATED_TOOLS hundred_layers.cpp random_graph.cpp random_graph_tools.cpp compile/run.cpp)  # of other tests
list(TRANSFORM LAMINA_EMULATED_TOOLS PREPEND "${PROJECT_SOURCE_DIR}/tests/graph/")
list(APPEND LAMINA_EMULATED_SOURCES ${LAMINA_EMULATED_TOOLS})

add_library(lamina_emulator OBJECT ${LAMINA_EMULATOR_SOURCES})
lamina_library_settings(lamina_emulator)

# A kernel whose test does not include its source gets a file that does.
foreach(source IN LISTS LAMINA_GPU_KERNEL_SOURCES)
  get_filename_component(kernel "${source}" NAME_WE)
  if(NOT EXISTS "${PROJECT_SOURCE_DIR}/tests/emulated/${kernel}_test.cpp")
    file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/emulated/${kernel}.cpp" CONTENT "#include \"kernels/cuda/${kernel}.cu\"\n")
    list(APPEND LAMINA_EMULATED_SOURCES "${PROJECT_BINARY_DIR}/emulated/${kernel}.cpp")
  endif()
endforeach()

set_source_files_properties("${PROJECT_SOURCE_DIR}/tests/emulated/order_test.cpp" PROPERTIES COMPILE_OPTIONS "-isystem;${LAMINA_THRUST_INCLUDE}")

function(lamina_emulated_tests name)
  add_executable(${name} ${LAMINA_EMULATED_SOURCES})
  lamina_library_settings(${name})
  target_compile_options(${name} PRIVATE "$<$<CONFIG:Release>:-O1>" -g1 -Wno-subobject-linkage)  # a file that includes a .cu is its only user
  target_link_libraries(${name} PRIVATE lamina_emulator lamina_op_cases ${LAMINA_OBJECT_LIBRARIES} GTest::gtest GTest::gtest_main)
  target_precompile_headers(${name} PRIVATE <gtest/gtest.h> <cmath> <functional> <map> <random> <sstream> <string> <vector>)
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}" TEST_PREFIX "${name}." PROPERTIES LABELS emulated)
endfunction()

lamina_emulated_tests(lamina_emulated)
if(NOT LAMINA_SANITIZE)
  lamina_emulated_tests(lamina_emulated_checked)
  target_compile_options(lamina_emulated_checked PRIVATE -fsanitize=thread -Wno-tsan)
  target_compile_definitions(lamina_emulated_checked PRIVATE LAMINA_EMULATION_CHECKED=1)
endif()
