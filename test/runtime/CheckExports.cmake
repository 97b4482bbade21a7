# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

# Compares the dynamic symbols of LIBRARY with the functions that HEADER declares.
execute_process(COMMAND ${NM} -D --defined-only ${LIBRARY}
                OUTPUT_VARIABLE symbols RESULT_VARIABLE failed)
if(failed)
  message(FATAL_ERROR "${NM} failed on ${LIBRARY}")
endif()
string(REGEX MATCHALL "[^\n]+" symbols "${symbols}")
set(exported)
foreach(symbol IN LISTS symbols)
  # The version's own name is an absolute symbol.
  if(symbol MATCHES " [TWVBDR] ([^@ ]+)")
    list(APPEND exported ${CMAKE_MATCH_1})
  endif()
endforeach()
file(READ ${HEADER} header)
string(REGEX MATCHALL "TANDEM_API[^;(]*[ \n*](tandem_[a-z_]+)\\(" matches "${header}")
set(declared)
foreach(match IN LISTS matches)
  string(REGEX MATCH "(tandem_[a-z_]+)\\($" match "${match}")
  list(APPEND declared ${CMAKE_MATCH_1})
endforeach()
list(SORT exported)
list(SORT declared)
list(LENGTH declared count)
if(count EQUAL 0 OR NOT exported STREQUAL declared)
  message(FATAL_ERROR "exported: ${exported}\ndeclared: ${declared}")
endif()
