# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

# Decides whether the CUDA backend is built: sets TANDEM_HAVE_CUDA and, where it
# is on, enables the language and sets TANDEM_CUDA_FLAGS, the options that name
# the architectures. Included at the top of the whole, because languages and
# imported targets are seen from the folder that asks for them on down.

set(TANDEM_CUDA AUTO CACHE STRING
    "Build the CUDA backend: AUTO (where there is nvcc), ON or OFF")
set_property(CACHE TANDEM_CUDA PROPERTY STRINGS AUTO ON OFF)
# -virtual: as PTX, which the driver compiles when it is loaded. The last one is
# there as PTX, too, for what comes after it.
set(TANDEM_CUDA_ARCHITECTURES "80-virtual;90a;100" CACHE STRING
    "Compute capabilities to build CUDA kernels for")

set(TANDEM_HAVE_CUDA OFF)
if(TANDEM_CUDA)
  # We name the architectures ourselves: this CMake need not know them.
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES OFF)
  endif()
  include(CheckLanguage)
  # nvcc is often not on the PATH.
  if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
    find_program(TANDEM_NVCC nvcc PATHS /usr/local/cuda/bin)
    if(TANDEM_NVCC)
      set(CMAKE_CUDA_COMPILER ${TANDEM_NVCC})
    endif()
  endif()
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    find_package(CUDAToolkit 12.4 QUIET)
  endif()
  if(CMAKE_CUDA_COMPILER AND CUDAToolkit_FOUND)
    set(TANDEM_HAVE_CUDA ON)
    set(TANDEM_CUDA_FLAGS "")
    foreach(arch IN LISTS TANDEM_CUDA_ARCHITECTURES)
      if(arch MATCHES "^(.*)-virtual$")
        list(APPEND TANDEM_CUDA_FLAGS
             "-gencode=arch=compute_${CMAKE_MATCH_1},code=compute_${CMAKE_MATCH_1}")
      else()
        list(APPEND TANDEM_CUDA_FLAGS
             "-gencode=arch=compute_${arch},code=sm_${arch}")
      endif()
      set(last ${arch})
    endforeach()
    if(NOT last MATCHES "[afl]$")
      list(APPEND TANDEM_CUDA_FLAGS
           "-gencode=arch=compute_${last},code=compute_${last}")
    endif()
    message(STATUS "Tandem runtime: CUDA backend for ${TANDEM_CUDA_ARCHITECTURES}"
                   " (${CUDAToolkit_VERSION})")
  elseif(TANDEM_CUDA STREQUAL "AUTO")
    message(STATUS "Tandem runtime: no CUDA backend (no nvcc of CUDA 12.4 or "
                   "later was found; TANDEM_CUDA=ON makes that an error)")
  else()
    message(FATAL_ERROR "TANDEM_CUDA is ON, but there is no CUDA compiler of "
                        "CUDA 12.4 or later: set CMAKE_CUDA_COMPILER")
  endif()
endif()
