//===-- FakeNccl.cpp - A library with NCCL's functions --------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// Of whatever version FAKE_NCCL_VERSION says; does nothing.

#include <cstdlib>
#include <string>

extern "C" {
int ncclGetVersion(int *version) {
  const char *text = getenv("FAKE_NCCL_VERSION");
  *version = text ? atoi(text) : 0;
  return 0;
}
const char *ncclGetErrorString(int code) {
  static std::string text;
  text = "code " + std::to_string(code);
  return text.c_str();
}
const char *ncclGetLastError(void *) { return "the fake's reason"; }
int ncclGetUniqueId(void *) { return 0; }
int ncclCommInitRank() { return 0; }
int ncclCommDestroy(void *) { return 0; }
int ncclCommAbort(void *) { return 0; }
int ncclCommGetAsyncError() { return 0; }
int ncclCommCount() { return 0; }
int ncclCommUserRank() { return 0; }
int ncclCommCuDevice() { return 0; }
int ncclAllReduce() { return 0; }
int ncclAllGather() { return 0; }
}
