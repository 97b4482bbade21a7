# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

# `cpack -G DEB` makes three packages, `cpack -G TGZ` one archive of everything, for use in any folder.

set(CPACK_PACKAGE_NAME tandem)
set(CPACK_PACKAGE_VENDOR "the Tandem developers")
set(CPACK_PACKAGE_CONTACT "the Tandem developers <tandem@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_PACKAGE_FILE_NAME tandem-${PROJECT_VERSION}-${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_COMPONENTS_ALL compiler dev)
if(TARGET tandem_runtime)
  list(APPEND CPACK_COMPONENTS_ALL TandemRuntime)
endif()
set(CPACK_STRIP_FILES ON)
set(CPACK_ARCHIVE_COMPONENT_INSTALL OFF)
set(CPACK_THREADS 0)

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION devel)
set(llvm ${LLVM_VERSION_MAJOR})
set(since "(>= 1:${LLVM_VERSION_MAJOR}.${LLVM_VERSION_MINOR})")
set(exactly "(= ${PROJECT_VERSION})")

set(CPACK_DEBIAN_COMPILER_PACKAGE_NAME tandem-compiler)
set(CPACK_COMPONENT_COMPILER_DESCRIPTION "fusion-opt and the other tools, the mlir-opt plugin, and the C library libTandemC")
set(CPACK_DEBIAN_COMPILER_PACKAGE_DEPENDS
    "libmlir-${llvm} ${since}, libllvm${llvm} ${since}, libprotobuf-lite32, libstdc++6, libgcc-s1, libc6")

set(CPACK_DEBIAN_TANDEMRUNTIME_PACKAGE_NAME tandem-runtime)
set(CPACK_COMPONENT_TANDEMRUNTIME_DESCRIPTION "the runtime library with its C header, and fusion-run; needs no LLVM")
set(CPACK_DEBIAN_TANDEMRUNTIME_PACKAGE_DEPENDS "libstdc++6, libgcc-s1, libc6, zlib1g")

set(CPACK_DEBIAN_DEV_PACKAGE_NAME tandem-dev)
set(CPACK_COMPONENT_DEV_DESCRIPTION "headers, .td files, libraries and the CMake package, for programs that embed Tandem")
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS
    "tandem-compiler ${exactly}, tandem-runtime ${exactly}, libmlir-${llvm}-dev ${since}, mlir-${llvm}-tools ${since}, llvm-${llvm}-dev ${since}, libprotobuf-dev")

include(CPack)
