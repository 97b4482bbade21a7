# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

# Runs fusion-bench on the CPU backend and looks at what it writes; then what it
# must refuse, each with its reason.
cmake_minimum_required(VERSION 3.20)
file(MAKE_DIRECTORY ${WORK})

execute_process(COMMAND ${BENCH} --device=cpu --ranks=2 --hidden=64
    --tokens=1,8 --dtype=f32,bf16 --samples=3
    --json=${WORK}/bench.json --tune=${WORK}/profile.json
  RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE error)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "fusion-bench: ${result}: ${error}")
endif()
if(NOT output MATCHES "hidden 64, bf16, timing: chain")
  message(FATAL_ERROR "no table: ${output}")
endif()

file(READ ${WORK}/bench.json json)
string(JSON count LENGTH "${json}" results)
# 2 types, 2 token counts, 5 subjects.
if(NOT count EQUAL 20)
  message(FATAL_ERROR "bench.json has ${count} results: ${json}")
endif()
foreach(i RANGE 19)
  string(JSON subject GET "${json}" results ${i} subject)
  string(JSON median GET "${json}" results ${i} median)
  string(JSON least GET "${json}" results ${i} min)
  string(JSON most GET "${json}" results ${i} max)
  if(subject STREQUAL "link")
    # Nothing to measure on a CPU.
    if(median)
      message(FATAL_ERROR "a link on the CPU: ${median}")
    endif()
  elseif(NOT median GREATER 0 OR median LESS least OR median GREATER most)
    message(FATAL_ERROR "result ${i}: ${least}, ${median}, ${most}")
  endif()
endforeach()

file(READ ${WORK}/profile.json profile)
string(JSON limits LENGTH "${profile}" limits)
string(JSON hidden GET "${profile}" limits 1 hidden)
string(JSON dtype GET "${profile}" limits 1 dtype)
string(JSON world GET "${profile}" limits 1 world_size)
if(NOT limits EQUAL 2 OR NOT hidden EQUAL 64 OR NOT dtype STREQUAL "bf16" OR
   NOT world EQUAL 2)
  message(FATAL_ERROR "profile.json: ${profile}")
endif()

file(READ ${WORK}/bench.json text)
if(NOT text MATCHES "\"defaults\": \"limit: [0-9]+ tokens, [^\"]*defaults: ")
  message(FATAL_ERROR "the results don't say which defaults were used")
endif()

function(refuses reason)
  execute_process(COMMAND ${BENCH} ${ARGN} RESULT_VARIABLE result
                  OUTPUT_QUIET ERROR_VARIABLE error)
  if(NOT result EQUAL 1 OR NOT error MATCHES "^fusion-bench: [^\n]*${reason}[^\n]*\n$")
    message(FATAL_ERROR "'${ARGN}': exit ${result}, '${error}', not '${reason}'")
  endif()
endfunction()
refuses("ranks are a number from 1 to 8" --ranks=9)
refuses("token counts must ascend" --tokens=8,1)
refuses("numbers from 1 to" --hidden=0)
refuses("types are f32" --dtype=f8)
refuses("patterns are" --pattern=x)
refuses("timings are" --timing=x)
refuses("samples are" --samples=x)
refuses("the device is" --device=gpu)
refuses("unknown option '--x'" --x)
refuses("timed by --timing=chain alone" --device=cpu --timing=cold)
refuses("can't write" --device=cpu --ranks=1 --hidden=8 --tokens=1 --samples=1
        --json=${WORK}/not/there.json)

# Every world that the kernels have; what is tuned says for which.
foreach(ranks 3 8)
  execute_process(COMMAND ${BENCH} --device=cpu --ranks=${ranks} --hidden=8
                          --tokens=1 --samples=1 --tune=${WORK}/tuned.json
                  RESULT_VARIABLE result OUTPUT_QUIET ERROR_VARIABLE error)
  file(READ ${WORK}/tuned.json text)
  if(NOT result EQUAL 0 OR NOT text MATCHES "\"world_size\": ${ranks}, \"hidden\": 8")
    message(FATAL_ERROR "${ranks} ranks: ${result}, '${text}', ${error}")
  endif()
endforeach()
