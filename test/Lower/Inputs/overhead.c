/*===-- overhead.c - What a lowered guarded call costs its caller ---------===*\
|*                                                                            *|
|* Part of the Tandem project, under the Apache License v2.0 with LLVM        *|
|* Exceptions. See LICENSE for license information.                           *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                    *|
|*                                                                            *|
|*===----------------------------------------------------------------------===*|
|*                                                                            *|
|* usage: overhead MODEL.so; the model is the chain of execute.py, in f32     *|
|* with a hidden size of 96. One rank, so that there is nobody to wait for.   *|
|* Prints processor time of the calling thread, in ns a call: the least of    *|
|* ten runs.                                                                  *|
\*===----------------------------------------------------------------------===*/

#define _GNU_SOURCE
#include "tandem/Runtime/tandem.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { hidden = 96, limit = 8, most = 16, calls = 20000 };

typedef struct {
  void *allocated, *aligned;
  int64_t offset, sizes[2], strides[2];
} matrix;
typedef struct {
  void *allocated, *aligned;
  int64_t offset, sizes[1], strides[1];
} vector;

typedef int32_t (*model)(matrix *x, matrix *h, vector *g, vector *p, matrix *y,
                         matrix *r, void *workspace, void *stream);

static float x[most * hidden], h[most * hidden], y[most * hidden],
    r[most * hidden], g[hidden];
static tandem_workspace *workspace;
static model run;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return 1e9 * t.tv_sec + t.tv_nsec;
}

static matrix rows(float *data, int64_t tokens) {
  matrix m = {data, data, 0, {tokens, hidden}, {hidden, 1}};
  return m;
}

static tandem_status lowered(int64_t tokens) {
  matrix mx = rows(x, tokens), mh = rows(h, tokens), my = rows(y, tokens),
         mr = rows(r, tokens);
  vector mg = {g, g, 0, {hidden}, {1}};
  return run(&mx, &mh, &mg, &mg, &my, &mr, workspace, NULL);
}

static tandem_norm_args arguments(int64_t tokens) {
  tandem_norm_args args = TANDEM_NORM_ARGS_INIT;
  args.tokens = tokens;
  args.hidden = hidden;
  args.input.data = x;
  args.residual.data = h;
  args.norm.gamma = g;
  args.norm.epsilon = 1e-5;
  args.norm_out.data = y;
  args.residual_out.data = r;
  return args;
}

/* The same by hand: guard and fused call, or the other branch's two calls. */
static tandem_status direct(int64_t tokens) {
  tandem_norm_args args = arguments(tokens);
  if (0 < tokens &&
      tokens <= tandem_token_limit(workspace, hidden, TANDEM_DTYPE_F32))
    return tandem_fused_all_reduce_norm(workspace, &args);
  tandem_all_reduce_args reduce = TANDEM_ALL_REDUCE_ARGS_INIT;
  reduce.tokens = tokens;
  reduce.hidden = hidden;
  reduce.flags = TANDEM_CALL_FALLBACK;
  reduce.input.data = x;
  reduce.output.data = y;
  tandem_status status = tandem_all_reduce(workspace, &reduce);
  args.input.data = y;
  tandem_status norm = tandem_add_rms_norm(workspace, &args);
  return status ? status : norm;
}

static double best(tandem_status (*call)(int64_t), int64_t tokens) {
  double least = 1e30;
  for (int i = 0; i < 10; ++i) {
    double begin = now();
    for (int j = 0; j < calls; ++j)
      if (call(tokens))
        exit((fprintf(stderr, "a call failed\n"), 1));
    double each = (now() - begin) / calls;
    if (each < least)
      least = each;
  }
  return least;
}

int main(int argc, char **argv) {
  void *library = argc == 2 ? dlopen(argv[1], RTLD_NOW) : NULL;
  if (!library)
    return fprintf(stderr, "usage: overhead MODEL.so\n%s\n",
                   argc == 2 ? dlerror() : ""),
           1;
  *(void **)&run = dlsym(library, "_mlir_ciface_main");
  tandem_context *context;
  tandem_comm *comm;
  tandem_error error = TANDEM_ERROR_INIT;
  tandem_comm_desc comm_desc = TANDEM_COMM_DESC_INIT;
  tandem_workspace_desc desc = TANDEM_WORKSPACE_DESC_INIT;
  comm_desc.name = "overhead";
  desc.max_tokens = limit;
  desc.hidden = hidden;
  if (!run || tandem_context_create(NULL, &context, &error) ||
      tandem_comm_create(context, &comm_desc, &comm, &error) ||
      tandem_workspace_create(comm, &desc, &workspace, &error))
    return fprintf(stderr, "%s\n", error.message), 1;
  for (int i = 0; i < most * hidden; ++i)
    x[i] = h[i] = g[i % hidden] = 1.0f;
  printf("tokens  lowered  by hand\n");
  static const int64_t tokens[] = {0, 1, limit + 1};
  for (int i = 0; i < 3; ++i)
    printf("%6d %8.0f %8.0f\n", (int)tokens[i], best(lowered, tokens[i]),
           best(direct, tokens[i]));
  tandem_workspace_destroy(workspace);
  tandem_comm_destroy(comm);
  tandem_context_destroy(context);
  return 0;
}
