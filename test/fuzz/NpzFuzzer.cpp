//===- NpzFuzzer.cpp - Fuzz target for the npz reader ---------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Npz.h"

using namespace tandem::run;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string error;
  NpzReader reader;
  if (!reader.open(openMemory(data, size), error))
    return 0;
  for (const std::string &name : reader.getNames()) {
    Array array;
    if (!reader.load(name, array, error))
      continue;
    for (uint64_t i = 0, e = array.getNumElements(); i < e && i < 64; ++i)
      (void)getElement(array, i);
  }
  return 0;
}
