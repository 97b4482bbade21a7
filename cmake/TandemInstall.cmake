# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

# Install and export rules: headers, .td files, libraries, the plugin, tools, and a CMake package for the build tree and
# the install tree. The components are `compiler` (tools, plugin, the C library), `dev` (what C++ programs are built
# with) and the runtime's own `TandemRuntime`.

include(CMakePackageConfigHelpers)
get_property(tandem_libs GLOBAL PROPERTY TANDEM_EXPORTED_LIBS)
get_property(tandem_shared GLOBAL PROPERTY TANDEM_SHARED_LIBS)
get_property(tandem_modules GLOBAL PROPERTY TANDEM_MODULES)
get_property(tandem_tools GLOBAL PROPERTY TANDEM_TOOLS)

install(TARGETS TandemCompileOptions ${tandem_libs} EXPORT TandemTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dev)
if(tandem_shared)
  install(TARGETS ${tandem_shared} EXPORT TandemTargets
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT compiler NAMELINK_COMPONENT dev)
endif()
if(tandem_modules)
  install(TARGETS ${tandem_modules} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT compiler)
endif()
if(tandem_tools)
  install(TARGETS ${tandem_tools} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT compiler)
endif()

foreach(tree ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})
  install(DIRECTORY ${tree}/include/tandem DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev
          FILES_MATCHING PATTERN "*.h" PATTERN "*.td" PATTERN "*.inc" PATTERN "*.def" PATTERN "CMakeFiles" EXCLUDE
          PATTERN "Runtime" EXCLUDE)
endforeach()
if(EXISTS ${PROJECT_SOURCE_DIR}/include/tandem-c)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/tandem-c DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev)
endif()
foreach(component compiler dev TandemRuntime)
  string(TOLOWER ${component} package)
  string(REPLACE "tandemruntime" "runtime" package ${package})
  install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/tandem-${package}
          COMPONENT ${component} RENAME copyright)
endforeach()
install(FILES ${PROJECT_SOURCE_DIR}/third_party/onnx/LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/tandem-compiler
        COMPONENT compiler RENAME copyright.onnx)

# --- The CMake package ------------------------------------------------------------------------------------------------

# Each tree's own places, relative to its TandemConfig.cmake.
set(tandem_cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tandem)
set(TANDEM_CONFIG_INCLUDE_DIRS ${CMAKE_INSTALL_INCLUDEDIR})
set(TANDEM_CONFIG_TOOLS_DIR ${CMAKE_INSTALL_BINDIR})
set(TANDEM_CONFIG_PLUGIN ${CMAKE_INSTALL_LIBDIR}/TandemPlugin.so)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/TandemConfig.cmake.in
  ${PROJECT_BINARY_DIR}/CMakeFiles/TandemConfig.cmake INSTALL_DESTINATION ${tandem_cmake_dir}
  PATH_VARS TANDEM_CONFIG_INCLUDE_DIRS TANDEM_CONFIG_TOOLS_DIR TANDEM_CONFIG_PLUGIN)

set(TANDEM_CONFIG_INCLUDE_DIRS ${PROJECT_SOURCE_DIR}/include ${PROJECT_BINARY_DIR}/include)
set(TANDEM_CONFIG_TOOLS_DIR ${CMAKE_RUNTIME_OUTPUT_DIRECTORY})
set(TANDEM_CONFIG_PLUGIN ${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/TandemPlugin.so)
foreach(variable TANDEM_CONFIG_INCLUDE_DIRS TANDEM_CONFIG_TOOLS_DIR TANDEM_CONFIG_PLUGIN)
  set(PACKAGE_${variable} "${${variable}}")
endforeach()
set(PACKAGE_INIT "macro(check_required_components)\nendmacro()")
configure_file(${PROJECT_SOURCE_DIR}/cmake/TandemConfig.cmake.in
  ${PROJECT_BINARY_DIR}/lib/cmake/tandem/TandemConfig.cmake @ONLY)

write_basic_package_version_file(${PROJECT_BINARY_DIR}/lib/cmake/tandem/TandemConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
export(EXPORT TandemTargets NAMESPACE Tandem:: FILE ${PROJECT_BINARY_DIR}/lib/cmake/tandem/TandemTargets.cmake)
if(TARGET tandem_runtime)
  export(EXPORT TandemRuntimeTargets NAMESPACE Tandem::
         FILE ${PROJECT_BINARY_DIR}/lib/cmake/tandem/TandemRuntimeTargets.cmake)
endif()
install(EXPORT TandemTargets NAMESPACE Tandem:: DESTINATION ${tandem_cmake_dir} COMPONENT dev)
install(FILES ${PROJECT_BINARY_DIR}/CMakeFiles/TandemConfig.cmake
              ${PROJECT_BINARY_DIR}/lib/cmake/tandem/TandemConfigVersion.cmake
        DESTINATION ${tandem_cmake_dir} COMPONENT dev)
