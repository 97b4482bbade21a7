/*===-- Module.c - What fusion-translate --compile makes, by hand ---*- C
-*-===*\
|*                                                                            *|
|* Part of the Tandem project, under the Apache License v2.0 with LLVM        *|
|* Exceptions. See LICENSE for license information.                           *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                    *|
|*                                                                            *|
|*===----------------------------------------------------------------------===*|
|*                                                                            *|
|* So that fusion-run is tested where there is no compiler. One function:     *|
|* all-reduce, add and norm of rows of 8 floats.                              *|
\*===----------------------------------------------------------------------===*/

#include "tandem/Runtime/tandem.h"

typedef struct {
  void *allocated, *aligned;
  int64_t offset, sizes[2], strides[2];
} matrix;
typedef struct {
  void *allocated, *aligned;
  int64_t offset, sizes[1], strides[1];
} vector;

#define MATRIX(name)                                                           \
  "{\"name\": \"" name "\", \"dtype\": \"f32\", \"shape\": [null, 8], "        \
  "\"dims\": [\"n\", null], \"writable\": false}"

/* NOLINTBEGIN(readability-identifier-naming): names that modules export. */
const char tandem_module_info[] =
    "{\"version\": 1, \"abi\": 65536, \"signature\": [\"one\", \"two\"],"
    " \"functions\": [{\"name\": \"main\", \"symbol\": \"none\","
    " \"shapes\": \"none\","
    " \"arguments\": [" MATRIX("x") ", " MATRIX(
        "r") ","
             "   {\"name\": \"g\", \"dtype\": \"f32\", \"shape\": [8],"
             "    \"dims\": [null], \"writable\": false}],"
             " \"results\": [" MATRIX("y") ", " MATRIX(
                 "s") "],"
                      " \"groups\": [{\"name\": \"world\", \"size\": 0, "
                      "\"ranks\": [],"
                      "   \"hidden\": 8, \"dtypes\": [\"f32\"], "
                      "\"reductions\": [\"sum\"],"
                      "   \"fused\": true, \"batch_invariant\": false}], "
                      "\"stream\": true}]}";

const char *tandem_module_last_message(void) { return "said by the module"; }

int32_t tandem_packed_main(void **arguments) {
  matrix *x = *(matrix **)arguments[0], *r = *(matrix **)arguments[1];
  vector *g = *(vector **)arguments[2];
  matrix *y = *(matrix **)arguments[3], *s = *(matrix **)arguments[4];
  tandem_workspace *workspace = *(tandem_workspace **)arguments[5];
  tandem_norm_args args = TANDEM_NORM_ARGS_INIT;
  if (x->sizes[0] == 13) /* what a failed check does */
    return TANDEM_STATUS_INVALID_ARGUMENT;
  args.tokens = x->sizes[0];
  args.hidden = 8;
  args.stream = *(void **)arguments[6];
  args.input.data = x->aligned;
  args.residual.data = r->aligned;
  args.norm.gamma = g->aligned;
  args.norm.epsilon = 1e-5;
  args.norm_out.data = y->aligned;
  args.residual_out.data = s->aligned;
  return tandem_fused_all_reduce_norm(workspace, &args);
}

int32_t tandem_packed_main_result_shapes(void **arguments) {
  matrix *x = *(matrix **)arguments[0];
  int64_t *dims = (*(vector **)arguments[3])->aligned;
  dims[0] = dims[2] = x->sizes[0];
  dims[1] = dims[3] = 8;
  return 0;
}
/* NOLINTEND(readability-identifier-naming) */
