# _core, the Python module, and <build>/python/lamina: links to python_bindings/lamina/* beside _core and liblamina.so.
file(GLOB LAMINA_PYTHON_SOURCES CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/python_bindings/src/*.cpp")
set(LAMINA_HAS_PYTHON OFF)
if(NOT LAMINA_SANITIZE)
  if(NOT Python_EXECUTABLE AND EXISTS "${PROJECT_SOURCE_DIR}/.venv/bin/python")
    set(Python_EXECUTABLE "${PROJECT_SOURCE_DIR}/.venv/bin/python")
  endif()
  find_package(Python 3.10 COMPONENTS Interpreter Development.Module)
  if(Python_FOUND)
    execute_process(COMMAND "${Python_EXECUTABLE}" -m nanobind --cmake_dir OUTPUT_VARIABLE nanobind_ROOT
                    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    find_package(nanobind CONFIG QUIET)
  endif()
  if(nanobind_FOUND)
    set(LAMINA_HAS_PYTHON ON)
  else()
    message(STATUS "no Python module: it needs Python 3.10 with its headers and nanobind; ./dev setup brings them")
  endif()
endif()

if(LAMINA_HAS_PYTHON)
  lamina_group(LAMINA_PYTHON_GROUPS ${LAMINA_PYTHON_SOURCES})
  nanobind_add_module(_core NB_STATIC NOMINSIZE ${LAMINA_PYTHON_GROUPS})
  set_target_properties(nanobind-static PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)
  target_precompile_headers(_core PRIVATE <nanobind/nanobind.h> <nanobind/stl/optional.h> <nanobind/stl/string.h> <nanobind/stl/vector.h> <algorithm> <functional>
                             <map> <memory> <mutex> <unordered_map> <variant>)
  target_include_directories(_core PRIVATE "${PROJECT_SOURCE_DIR}")
  target_link_libraries(_core PRIVATE lamina)
  target_compile_definitions(_core PRIVATE LAMINA_VERSION="${PROJECT_VERSION}")
  set_target_properties(_core PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/python/lamina"
                                         BUILD_RPATH "$ORIGIN" INSTALL_RPATH "$ORIGIN" BUILD_WITH_INSTALL_RPATH ON)

  add_custom_target(lamina_links
    COMMAND "${CMAKE_COMMAND}" -DFROM=${PROJECT_SOURCE_DIR}/python_bindings/lamina -DTO=${PROJECT_BINARY_DIR}/python/lamina
            -P "${PROJECT_SOURCE_DIR}/cmake/link_package.cmake"
    COMMENT "" VERBATIM)

  # Types for editors and checkers, read off the built module: lamina/_core/*.pyi, one for each of its submodules.
  nanobind_add_stub(lamina_stub MODULE lamina._core RECURSIVE OUTPUT "${PROJECT_BINARY_DIR}/python/lamina/_core/__init__.pyi"
                    OUTPUT_PATH "${PROJECT_BINARY_DIR}/python/lamina" PYTHON_PATH "${PROJECT_BINARY_DIR}/python" DEPENDS _core lamina_links)
  add_custom_target(lamina_package ALL)
  add_dependencies(lamina_package _core lamina_links lamina_stub)
  if(TARGET lamina_cuda)
    add_dependencies(lamina_package lamina_cuda)
  endif()
  if(TARGET lamina_mpi)
    add_dependencies(lamina_package lamina_mpi)
  endif()
endif()
