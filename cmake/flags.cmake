# Flags of every target. No -march=native: kernels choose their instruction set when they run.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG" CACHE STRING "" FORCE)
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -g1" CACHE STRING "" FORCE)  # sanitized: at -O2 some files take minutes
set(CMAKE_CXX_FLAGS_DEBUG "-Og -g" CACHE STRING "" FORCE)

# A multiplication and an addition are never fused behind the author's back, so that results do not depend on the compiler's mood.
add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off;-Wall;-Wextra;-Wno-missing-field-initializers>")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # False alarms: inside std::variant and std::vector; unnamed namespaces of sources that are compiled together; a kernel that may be null, but not here.
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-Wno-maybe-uninitialized;-Wno-subobject-linkage;-Wno-address>")
elseif(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # g++'s pragmas; std::stable_sort of libstdc++; a & b ? c : d.
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-Wno-unknown-pragmas;-Wno-deprecated-declarations;-Wno-bitwise-conditional-parentheses>")
endif()
# The same for nvcc, which does not know the pragmas of g++. Line numbers for profilers; constexpr functions of the host's headers may be called by kernels.
add_compile_options("$<$<COMPILE_LANGUAGE:CUDA>:-fmad=false;-lineinfo;--expt-relaxed-constexpr;--diag-suppress=1675>")
if(LAMINA_WERROR)
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-Werror>")
endif()
if(LAMINA_SANITIZE)
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${LAMINA_SANITIZE};-fno-omit-frame-pointer;-fno-sanitize-recover=all>")
  add_link_options("-fsanitize=${LAMINA_SANITIZE}")
endif()

find_program(LAMINA_CCACHE ccache)
if(LAMINA_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # The settings let ccache see through a precompiled header.
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CMAKE_COMMAND};-E;env;CCACHE_SLOPPINESS=pch_defines,time_macros;${LAMINA_CCACHE}")
  set(CMAKE_CUDA_COMPILER_LAUNCHER "${LAMINA_CCACHE}")
endif()
