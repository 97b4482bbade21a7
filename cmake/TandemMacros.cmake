# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

# Reading MLIR's headers is most of the time that a source takes. These are read once for all that call
# tandem_precompile_headers. -DTANDEM_PRECOMPILE_HEADERS=OFF shows includes that a source lacks.
option(TANDEM_PRECOMPILE_HEADERS "Precompile MLIR's most used headers" ${TANDEM_IS_TOP_LEVEL})
if(TANDEM_PRECOMPILE_HEADERS)
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/CMakeFiles/TandemPrecompiled.cpp CONTENT "")
  add_library(TandemPrecompiled OBJECT ${PROJECT_BINARY_DIR}/CMakeFiles/TandemPrecompiled.cpp)
  target_link_libraries(TandemPrecompiled PRIVATE TandemCompileOptions)
  target_precompile_headers(TandemPrecompiled PRIVATE
    <mlir/Dialect/Arith/IR/Arith.h>
    <mlir/Dialect/Bufferization/IR/BufferizableOpInterface.h>
    <mlir/Dialect/Func/IR/FuncOps.h>
    <mlir/Dialect/LLVMIR/LLVMDialect.h>
    <mlir/Dialect/Linalg/IR/Linalg.h>
    <mlir/Dialect/MemRef/IR/MemRef.h>
    <mlir/Dialect/SCF/IR/SCF.h>
    <mlir/Dialect/Tensor/IR/Tensor.h>
    <mlir/IR/PatternMatch.h>
    <mlir/Pass/Pass.h>
    <mlir/Pass/PassManager.h>
    <llvm/ADT/StringSet.h>
    <llvm/Support/JSON.h>)
  llvm_update_compile_flags(TandemPrecompiled)
  if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
    # Or ccache never finds a source that uses them.
    target_compile_options(TandemPrecompiled PRIVATE "SHELL:-Xclang -fno-pch-timestamp")
  endif()
endif()

# tandem_precompile_headers(<target>), for sources that use MLIR.
function(tandem_precompile_headers target)
  if(TANDEM_PRECOMPILE_HEADERS)
    # LLVM's flags hold -fPIC; -fPIE of an executable would not fit the headers.
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_precompile_headers(${target} REUSE_FROM TandemPrecompiled)
  endif()
endfunction()

# tandem_add_library(<name> <source>... [DEPENDS <target>...] [LINK_LIBS <lib>...])
# Adds the static library <name> with the alias Tandem::<name>, linked to the shared MLIR and LLVM, and puts it into
# the export set.
function(tandem_add_library name)
  cmake_parse_arguments(ARG "" "" "DEPENDS;LINK_LIBS" ${ARGN})
  add_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  add_library(Tandem::${name} ALIAS ${name})
  target_link_libraries(${name} PUBLIC TandemCompileOptions MLIR LLVM ${ARG_LINK_LIBS})
  if(ARG_DEPENDS)
    add_dependencies(${name} ${ARG_DEPENDS})
  endif()
  llvm_update_compile_flags(${name})
  tandem_precompile_headers(${name})
  set_property(GLOBAL APPEND PROPERTY TANDEM_EXPORTED_LIBS ${name})
endfunction()

# tandem_set_sanitizer_defaults(<name>): in a build with the address sanitizer, what AsanDefaults.cpp says.
function(tandem_set_sanitizer_defaults name)
  if(CMAKE_CXX_FLAGS MATCHES "-fsanitize=[a-z,]*address")
    target_sources(${name} PRIVATE ${PROJECT_SOURCE_DIR}/cmake/AsanDefaults.cpp)
  endif()
endfunction()

# tandem_add_tool(<name> <source>... [LINK_LIBS <lib>...])
# Adds the executable <name>, installed into the binary folder, which knows its name and version.
function(tandem_add_tool name)
  cmake_parse_arguments(ARG "" "" "LINK_LIBS" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  tandem_set_sanitizer_defaults(${name})
  target_link_libraries(${name} PRIVATE TandemCompileOptions ${ARG_LINK_LIBS} MLIR LLVM)
  target_compile_definitions(${name} PRIVATE
    TANDEM_TOOL_NAME="${name}" TANDEM_VERSION="${PROJECT_VERSION}")
  llvm_update_compile_flags(${name})
  tandem_precompile_headers(${name})
  set_property(GLOBAL APPEND PROPERTY TANDEM_TOOLS ${name})
endfunction()

# tandem_tablegen_begin(<td>), then tandem_tablegen(<output> <mlir-tblgen arguments>...) for each generated file, then
# add_public_tablegen_target(<target>).
macro(tandem_tablegen_begin td)
  set(LLVM_TARGET_DEFINITIONS ${td})
endmacro()
macro(tandem_tablegen output)
  mlir_tablegen(${output} ${ARGN} EXTRA_INCLUDES ${PROJECT_SOURCE_DIR}/include ${MLIR_INCLUDE_DIRS})
endmacro()

# tandem_add_unittest(<name> <source>... [LINK_LIBS <lib>...]): a GoogleTest program, known to ctest.
function(tandem_add_unittest name)
  cmake_parse_arguments(ARG "" "" "LINK_LIBS" ${ARGN})
  find_package(GTest REQUIRED)
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  tandem_set_sanitizer_defaults(${name})
  target_link_libraries(${name} PRIVATE TandemCompileOptions ${ARG_LINK_LIBS} MLIR LLVM GTest::gtest GTest::gtest_main)
  llvm_update_compile_flags(${name})
  tandem_precompile_headers(${name})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/test/unit)
  add_test(NAME ${name} COMMAND ${name})
  set_property(GLOBAL APPEND PROPERTY TANDEM_UNITTESTS ${name})
endfunction()
