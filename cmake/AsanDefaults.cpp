//===- AsanDefaults.cpp - What AddressSanitizer must not look for ---------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Linked into every program of a build with the address sanitizer.
//
// LLVM's BumpPtrAllocator is compiled into its users. Where it is instrumented
// it poisons each new block, and unpoisons what it hands out. libMLIR is not
// instrumented, and its copy does neither; but the allocator of a context's
// attributes is one object for both. So where storage of ours (#tandem.group,
// #tandem.external) begins a block, what libMLIR puts behind it, such as a
// string, stays poisoned, and its first memcpy looks like a use after poison.
// A dozen lines show it: attributes of our own and StringAttrs, in turns.
//
// Poisoning by hand is what goes wrong, and all that is switched off: heap,
// stack and globals are watched as ever.
//
//===----------------------------------------------------------------------===//

extern "C" const char *__asan_default_options();

extern "C" const char *__asan_default_options() {
  return "allow_user_poisoning=0";
}
