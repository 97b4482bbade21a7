# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

# Install and export rules: headers, .td files, libraries, tools, and a CMake package for the build tree and the
# install tree.

include(CMakePackageConfigHelpers)
get_property(tandem_libs GLOBAL PROPERTY TANDEM_EXPORTED_LIBS)
get_property(tandem_tools GLOBAL PROPERTY TANDEM_TOOLS)

install(TARGETS TandemCompileOptions ${tandem_libs} EXPORT TandemTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
get_property(tandem_modules GLOBAL PROPERTY TANDEM_MODULES)
if(tandem_modules)
  install(TARGETS ${tandem_modules} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
if(tandem_tools)
  install(TARGETS ${tandem_tools} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
foreach(tree ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})
  install(DIRECTORY ${tree}/include/tandem DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
          FILES_MATCHING PATTERN "*.h" PATTERN "*.td" PATTERN "*.inc" PATTERN "*.def" PATTERN "CMakeFiles" EXCLUDE
          PATTERN "Runtime" EXCLUDE)
endforeach()

set(tandem_cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tandem)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/TandemConfig.cmake.in
  ${PROJECT_BINARY_DIR}/lib/cmake/tandem/TandemConfig.cmake INSTALL_DESTINATION ${tandem_cmake_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/lib/cmake/tandem/TandemConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
export(EXPORT TandemTargets NAMESPACE Tandem:: FILE ${PROJECT_BINARY_DIR}/lib/cmake/tandem/TandemTargets.cmake)
install(EXPORT TandemTargets NAMESPACE Tandem:: DESTINATION ${tandem_cmake_dir})
install(FILES ${PROJECT_BINARY_DIR}/lib/cmake/tandem/TandemConfig.cmake
              ${PROJECT_BINARY_DIR}/lib/cmake/tandem/TandemConfigVersion.cmake DESTINATION ${tandem_cmake_dir})
