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

set(common -G ${GENERATOR} -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_C_COMPILER=${CC}
    -DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER})
run(${CMAKE_COMMAND} ${common} -S ${CONSUMER_DIR} -B ${WORK_DIR}/consumer -DCMAKE_PREFIX_PATH=${WORK_DIR}/moved)
run(${CMAKE_COMMAND} --build ${WORK_DIR}/consumer)
run(${WORK_DIR}/consumer/cuser)
if(NOT output MATCHES "^Tandem .*MLIR 22")
  message(FATAL_ERROR "cuser printed: ${output}")
endif()
run(${WORK_DIR}/consumer/acme)
foreach(text "tandem.signature = [\"all_reduce_rms_norm group=acme type=4x?x8xf32 guard=tokens <= 1024\"]"
        "scf.if" "tandem.fused_all_reduce_norm" "acme.exchange %arg0 {plain}" "acme.row_scale")
  string(FIND "${output}" "${text}" position)
  if(position EQUAL -1)
    message(FATAL_ERROR "acme printed no '${text}':\n${output}")
  endif()
endforeach()
run(${WORK_DIR}/moved/bin/fusion-opt --version)

# Against the build tree.
file(REMOVE_RECURSE ${WORK_DIR}/build-tree)
run(${CMAKE_COMMAND} ${common} -S ${CONSUMER_DIR} -B ${WORK_DIR}/build-tree -DTandem_DIR=${BUILD_DIR}/lib/cmake/tandem)
run(${CMAKE_COMMAND} --build ${WORK_DIR}/build-tree --target acme)
run(${WORK_DIR}/build-tree/acme)

# As a part of another project: none of our tools, tests, install rules and packages; headers are generated before
# the parent's own sources need them.
file(REMOVE_RECURSE ${WORK_DIR}/parent)
run(${CMAKE_COMMAND} ${common} -S ${CONSUMER_DIR}/../parent -B ${WORK_DIR}/parent -DTANDEM_SOURCE_DIR=${SOURCE_DIR})
run(${CMAKE_COMMAND} --build ${WORK_DIR}/parent --target help)
foreach(target fusion-opt check-tandem TandemFuseTests mini-compiler package)
  if(output MATCHES "\n(bin/)?${target}: ")
    message(FATAL_ERROR "a parent project gets our target ${target}")
  endif()
endforeach()
if(NOT output MATCHES "\nTandemPasses: ")
  message(FATAL_ERROR "a parent project does not get our target TandemPasses: ${output}")
endif()
run(${CMAKE_COMMAND} --build ${WORK_DIR}/parent --target CMakeFiles/parent.dir/parent.cpp.o)
if(EXISTS ${WORK_DIR}/parent/compile_commands.json)
  message(FATAL_ERROR "a parent project gets our settings")
endif()
run(${WORK_DIR}/consumer/consumer ${MODEL})
if(NOT output MATCHES "fused 4 of 4\n")
  message(FATAL_ERROR "the consumer printed: ${output}")
endif()
# Bad use fails in words; what doesn't, it prints.
run(${WORK_DIR}/consumer/consumer ${MODEL} --misuse)
