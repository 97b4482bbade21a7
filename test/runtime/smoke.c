/*===-- smoke.c - The C ABI from C, with one rank -----------------*- C -*-===*\
|*                                                                            *|
|* Part of the Tandem project, under the Apache License v2.0 with LLVM        *|
|* Exceptions. See LICENSE for license information.                           *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                    *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

#include "tandem/Runtime/tandem.h"

#include <stdio.h>

static int failed(const char *what, const tandem_error *error) {
  fprintf(stderr, "%s: %s: %s\n", what, tandem_status_name(error->status),
          error->message);
  return 1;
}

int main(void) {
  tandem_error error = TANDEM_ERROR_INIT;
  tandem_context *context = NULL;
  tandem_comm *comm = NULL;
  tandem_workspace *workspace = NULL;
  /* NOLINTBEGIN(readability-identifier-naming): as C programs name things. */
  tandem_comm_desc comm_desc = TANDEM_COMM_DESC_INIT;
  tandem_workspace_desc workspace_desc = TANDEM_WORKSPACE_DESC_INIT;
  /* NOLINTEND(readability-identifier-naming) */
  tandem_norm_args args = TANDEM_NORM_ARGS_INIT;
  tandem_counters counters = TANDEM_COUNTERS_INIT;
  float input[8] = {3, 4, 0, 0, 3, 4, 0, 0};
  float residual[8] = {0}, gamma[4] = {1, 1, 1, 1}, norm[8];

  if (tandem_abi_version() >> 16 != TANDEM_ABI_MAJOR)
    return 1;
  if (tandem_context_create(NULL, &context, &error))
    return failed("context", &error);
  if (tandem_comm_create(context, &comm_desc, &comm, &error))
    return failed("communicator", &error);
  workspace_desc.max_tokens = 16;
  workspace_desc.hidden = 4;
  workspace_desc.dtype = TANDEM_DTYPE_F32;
  if (tandem_workspace_create(comm, &workspace_desc, &workspace, &error))
    return failed("workspace", &error);
  args.tokens = 2;
  args.hidden = 4;
  args.input.data = input;
  args.residual.data = residual;
  args.norm.gamma = gamma;
  args.norm_out.data = norm;
  args.residual_out.data = residual;
  if (tandem_fused_all_reduce_norm(workspace, &args)) {
    tandem_workspace_get_failure(workspace, &error);
    return failed("call", &error);
  }
  /* The root of the mean square of (3, 4, 0, 0) is 2.5. */
  if (residual[1] != 4 || norm[0] != 1.2f || norm[5] != 1.6f || norm[7] != 0) {
    fprintf(stderr, "wrong numbers: %g %g %g\n", residual[1], norm[0], norm[5]);
    return 1;
  }
  tandem_workspace_get_counters(workspace, &counters);
  if (counters.fused != 1)
    return 1;
  tandem_workspace_destroy(workspace);
  tandem_comm_destroy(comm);
  tandem_context_destroy(context);
  return 0;
}
