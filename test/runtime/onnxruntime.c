/*===-- onnxruntime.c - The C interface of the ops in ONNX Runtime -*- C
-*-===*\
|*                                                                            *|
|* Part of the Tandem project, under the Apache License v2.0 with LLVM        *|
|* Exceptions. See LICENSE for license information.                           *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                    *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

#include "tandem/Runtime/onnxruntime.h"

#include <string.h>

/* Without ONNX Runtime nobody is registered. */
int main(void) {
  tandem_error failure = TANDEM_ERROR_INIT;
  tandem_counters counters = TANDEM_COUNTERS_INIT;
  if (tandem_onnxruntime_counters("nobody", &counters) !=
      TANDEM_ONNXRUNTIME_NO_SESSION)
    return 1;
  if (tandem_onnxruntime_failure("nobody", &failure) !=
          TANDEM_STATUS_INVALID_ARGUMENT ||
      strcmp(failure.message, "there is no session 'nobody'") != 0)
    return 2;
  if (tandem_onnxruntime_close("nobody") != TANDEM_ONNXRUNTIME_NO_SESSION)
    return 3;
  return 0;
}
