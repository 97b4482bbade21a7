/* Asks the installed C library for its version.
 *
 * Part of the Tandem project, under the Apache License v2.0 with LLVM
 * Exceptions.
 * See LICENSE for license information.
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include <stdio.h>
#include <tandem-c/Tandem.h>

int main(void) {
  TandemContext context;
  TandemError error = tandemContextCreate(NULL, &context);
  if (error)
    return 1;
  tandemContextDestroy(context);
  puts(tandemGetVersion());
  return 0;
}
