# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

# Installs the runtime of BUILD into a folder of its own under WORK, and builds and
# runs SMOKE against what lies there: by find_package and, if there is pkg-config,
# with a plain compiler call. CC is the C compiler, GENERATOR what CMake builds with.
function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE failed
                  OUTPUT_VARIABLE out ERROR_VARIABLE out)
  if(failed)
    message(FATAL_ERROR "${ARGV}:\n${out}")
  endif()
endfunction()

file(REMOVE_RECURSE ${WORK})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix
    --component TandemRuntime)
run(${CMAKE_COMMAND} -G ${GENERATOR} -S ${CMAKE_CURRENT_LIST_DIR}/install
    -B ${WORK}/build
    -DCMAKE_PREFIX_PATH=${WORK}/prefix -DSMOKE=${SMOKE}
    -DCMAKE_C_COMPILER=${CC})
run(${CMAKE_COMMAND} --build ${WORK}/build)
run(${WORK}/build/user-Runtime)
run(${WORK}/build/user-RuntimeStatic)

find_program(PKG_CONFIG pkg-config)
if(PKG_CONFIG)
  file(GLOB_RECURSE pc ${WORK}/prefix/*/tandem-runtime.pc)
  get_filename_component(folder "${pc}" DIRECTORY)
  set(ENV{PKG_CONFIG_PATH} ${folder})
  execute_process(COMMAND ${PKG_CONFIG} --cflags --libs "tandem-runtime >= 1.1"
    OUTPUT_VARIABLE flags RESULT_VARIABLE failed
    OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(failed)
    message(FATAL_ERROR "pkg-config doesn't find tandem-runtime in ${folder}")
  endif()
  separate_arguments(flags UNIX_COMMAND "${flags}")
  get_filename_component(libdir ${folder} DIRECTORY)
  run(${CC} ${SMOKE} ${flags} -Wl,-rpath,${libdir} -o ${WORK}/plain)
  run(${WORK}/plain)
endif()
