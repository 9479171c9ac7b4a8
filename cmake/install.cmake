# For C++ users: find_package(Lamina), the target Lamina::Runtime, and #include <lamina/lamina.h>. For the wheel: the component python.
include(CMakePackageConfigHelpers)
set(LAMINA_CMAKE_DIR "${CMAKE_INSTALL_LIBDIR}/cmake/Lamina")
install(TARGETS lamina EXPORT LaminaTargets LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT cpp)
if(TARGET lamina_cuda)
  install(TARGETS lamina_cuda LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT cuda)
  install(TARGETS lamina_cuda LIBRARY DESTINATION lamina COMPONENT python)
endif()
if(TARGET lamina_mpi)
  install(TARGETS lamina_mpi LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT mpi)
  install(TARGETS lamina_mpi LIBRARY DESTINATION lamina COMPONENT python)
endif()
install(EXPORT LaminaTargets NAMESPACE Lamina:: DESTINATION "${LAMINA_CMAKE_DIR}" COMPONENT cpp)
configure_package_config_file(cmake/LaminaConfig.cmake.in "${PROJECT_BINARY_DIR}/LaminaConfig.cmake" INSTALL_DESTINATION "${LAMINA_CMAKE_DIR}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/LaminaConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/LaminaConfig.cmake" "${PROJECT_BINARY_DIR}/LaminaConfigVersion.cmake"
        DESTINATION "${LAMINA_CMAKE_DIR}" COMPONENT cpp)

# The tree of headers that lamina/lamina.h reaches. They include each other by their path from the project's root.
install(DIRECTORY include/lamina/ DESTINATION include/lamina COMPONENT cpp FILES_MATCHING PATTERN "*.h")
install(FILES capi/lamina_c.h DESTINATION include/lamina COMPONENT cpp)
foreach(folder runtime/core runtime/device runtime/exec runtime/data runtime/io runtime/dist kernels graph/ir graph/ops graph/autodiff graph/passes
               graph/cost graph/compile graph/frontend graph/functions graph/nn graph/program)
  install(DIRECTORY ${folder}/ DESTINATION include/lamina/${folder} COMPONENT cpp
          FILES_MATCHING PATTERN "*.h" PATTERN "*.inc" PATTERN "cpu" EXCLUDE PATTERN "cuda" EXCLUDE)
endforeach()

if(LAMINA_HAS_PYTHON)
  install(TARGETS _core lamina LIBRARY DESTINATION lamina COMPONENT python)
  install(DIRECTORY "${PROJECT_BINARY_DIR}/python/lamina/_core" DESTINATION lamina COMPONENT python OPTIONAL)
endif()

if(TARGET lamina-run)
  install(TARGETS lamina-run RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT cpp)
endif()
