# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

# Installs the build, moves the result elsewhere, builds the consumer against it with no way to the source or build
# tree, and runs it.

function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "'${ARGV}' failed (${result}):\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${WORK_DIR}/first ${WORK_DIR}/moved ${WORK_DIR}/consumer)
run(${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${WORK_DIR}/first)
file(RENAME ${WORK_DIR}/first ${WORK_DIR}/moved)

file(GLOB_RECURSE config_files ${WORK_DIR}/moved/*.cmake)
foreach(file ${config_files})
  file(READ ${file} text)
  string(FIND "${text}" "${BUILD_DIR}/" position)
  if(NOT position EQUAL -1)
    message(FATAL_ERROR "${file} names the build tree ${BUILD_DIR}")
  endif()
endforeach()

run(${CMAKE_COMMAND} -G ${GENERATOR} -S ${CONSUMER_DIR} -B ${WORK_DIR}/consumer -DCMAKE_BUILD_TYPE=Release
    -DCMAKE_PREFIX_PATH=${WORK_DIR}/moved -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_C_COMPILER=${CC}
    -DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER})
run(${CMAKE_COMMAND} --build ${WORK_DIR}/consumer)
run(${WORK_DIR}/consumer/consumer ${MODEL})
if(NOT output MATCHES "fused 4 of 4\n")
  message(FATAL_ERROR "the consumer printed: ${output}")
endif()
