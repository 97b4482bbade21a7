//===-- UnloadTest.cpp - Who unloads the runtime leaves it there ----------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// ONNX Runtime closes the libraries of custom ops with its last session, as any
// host of plugins may. Threads of the runtime can still be in its code then.

#include <gtest/gtest.h>

#include <dlfcn.h>

TEST(Unload, TheRuntimeStays) {
  void *library = dlopen(TANDEM_TEST_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  ASSERT_EQ(dlclose(library), 0);
  void *there = dlopen(TANDEM_TEST_LIBRARY, RTLD_NOW | RTLD_NOLOAD);
  EXPECT_NE(there, nullptr);
  if (there)
    dlclose(there);
}
