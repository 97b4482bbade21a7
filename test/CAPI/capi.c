/*===- capi.c - The C interface, used well and badly
-------------------------===*\
|*
|* Part of the Tandem project, under the Apache License v2.0 with LLVM
Exceptions.
|* See LICENSE for license information.
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
|*
\*===----------------------------------------------------------------------===*/

#include "tandem-c/Tandem.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures = 0;

#define EXPECT(condition)                                                      \
  do {                                                                         \
    if (!(condition)) {                                                        \
      printf("line %d: not so: %s\n", __LINE__, #condition);                   \
      ++failures;                                                              \
    }                                                                          \
  } while (0)

/* Succeeds, or says why not. */
static void expectOk(int line, TandemError error) {
  if (error) {
    printf("line %d: error %d: %s\n", line, (int)tandemErrorGetCode(error),
           tandemErrorGetMessage(error));
    ++failures;
  }
  tandemErrorDestroy(error);
}
#define OK(call) expectOk(__LINE__, call)

/* Fails with this code, and a message that holds this text. */
static void expectError(int line, TandemErrorCode code, const char *text,
                        TandemError error) {
  if (tandemErrorGetCode(error) != code ||
      !strstr(tandemErrorGetMessage(error), text)) {
    printf("line %d: error %d: %s\n", line, (int)tandemErrorGetCode(error),
           tandemErrorGetMessage(error));
    ++failures;
  }
  tandemErrorDestroy(error);
}
#define FAILS(code, text, call) expectError(__LINE__, code, text, call)

static const char chain[] =
    "func.func @f(%x: tensor<?x8xf32>, %g: tensor<8xf32>) -> tensor<?x8xf32> "
    "{\n"
    "  %s = tandem.all_reduce %x : tensor<?x8xf32>\n"
    "  %y = tandem.rms_norm %s, %g {epsilon = 1.0e-5 : f64}\n"
    "      : tensor<?x8xf32>, tensor<8xf32>\n"
    "  return %y : tensor<?x8xf32>\n"
    "}\n";
static const char lonely[] =
    "func.func @f(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {\n"
    "  %s = tandem.all_reduce %x : tensor<4x8xf32>\n"
    "  return %s : tensor<4x8xf32>\n"
    "}\n";

/* A norm whose gamma has the type that is put in. */
static const char norm[] =
    "func.func @norm(%%x: tensor<4x8xf32>, %%g: %s) -> tensor<4x8xf32> {\n"
    "  %%y = tandem.rms_norm %%x, %%g {epsilon = 1.0e-5 : f64} :\n"
    "      tensor<4x8xf32>, %s\n"
    "  return %%y : tensor<4x8xf32>\n"
    "}\n";

static char *readFile(const char *path, size_t *size) {
  FILE *file = fopen(path, "rb");
  if (!file)
    exit(2);
  fseek(file, 0, SEEK_END);
  *size = (size_t)ftell(file);
  rewind(file);
  char *bytes = malloc(*size);
  if (fread(bytes, 1, *size, file) != *size)
    exit(2);
  fclose(file);
  return bytes;
}

static TandemModule parse(TandemContext context, const char *text) {
  TandemModule module = NULL;
  OK(tandemModuleParse(context, text, strlen(text), "test.mlir", &module));
  return module;
}

static void testModels(TandemContext context, const char *path) {
  TandemModule fromFile, fromMemory, clone;
  TandemBuffer report, again, text, other;
  OK(tandemModuleImportOnnxFile(context, path, NULL, &fromFile));
  OK(tandemModuleClone(fromFile, &clone));
  OK(tandemModuleVerify(fromFile));

  TandemFuseOptions options = TANDEM_FUSE_OPTIONS_INIT;
  options.maxTokens = 64;
  options.requireAll = 1;
  OK(tandemModuleFuse(fromFile, &options, &report));
  EXPECT(strstr(tandemBufferGetData(report), "\"fused\": 4,"));
  EXPECT(strstr(tandemBufferGetData(report), "tokens <= 64"));
  EXPECT(strlen(tandemBufferGetData(report)) == tandemBufferGetSize(report));
  OK(tandemModuleVerify(fromFile));

  /* The same from memory, by a pipeline's text. (In a context of its own: one
   * context gives each module's weights names of their own.) */
  TandemContext second, third;
  OK(tandemContextCreate(NULL, &second));
  OK(tandemContextCreate(NULL, &third));
  size_t size;
  char *bytes = readFile(path, &size);
  OK(tandemModuleImportOnnx(second, bytes, size, path, NULL, &fromMemory));
  free(bytes);
  OK(tandemModuleRunPipeline(
      fromMemory,
      "builtin.module(tandem-fuse-pipeline{max-tokens=64 require=all})",
      &again));
  EXPECT(!strcmp(tandemBufferGetData(report), tandemBufferGetData(again)));
  OK(tandemModulePrint(fromFile, NULL, &text));
  OK(tandemModulePrint(fromMemory, NULL, &other));
  EXPECT(!strcmp(tandemBufferGetData(text), tandemBufferGetData(other)));
  EXPECT(strstr(tandemBufferGetData(text), "tandem.fused_all_reduce_norm"));
  tandemBufferDestroy(other);

  /* Bytecode keeps everything; the clone was not touched. */
  TandemBuffer bytecode;
  TandemModule back;
  OK(tandemModuleWriteBytecode(fromFile, &bytecode));
  OK(tandemModuleParse(third, tandemBufferGetData(bytecode),
                       tandemBufferGetSize(bytecode), NULL, &back));
  OK(tandemModulePrint(back, NULL, &other));
  EXPECT(!strcmp(tandemBufferGetData(text), tandemBufferGetData(other)));
  tandemBufferDestroy(other);
  OK(tandemModulePrint(clone, NULL, &other));
  EXPECT(!strstr(tandemBufferGetData(other), "tandem.fused_all_reduce_norm"));

  TandemPrintOptions print = TANDEM_PRINT_OPTIONS_INIT;
  print.debugInfo = print.generic = 1;
  print.elideLargerThan = 4;
  TandemBuffer elided;
  OK(tandemModulePrint(clone, &print, &elided));
  EXPECT(strstr(tandemBufferGetData(elided), "\"func.func\""));
  EXPECT(strstr(tandemBufferGetData(elided), "loc("));
  EXPECT(strstr(tandemBufferGetData(elided), "__elided__"));

  TandemBuffer graph;
  OK(tandemModuleGetGraph(clone, &graph));
  EXPECT(strstr(tandemBufferGetData(graph),
                "\"op\":\"com.microsoft::AllReduce\""));
  EXPECT(!strstr(tandemBufferGetData(graph), "\"attributes\""));

  /* Out to ONNX and in again. */
  TandemBuffer model;
  TandemModule imported;
  TandemContext fourth;
  OK(tandemContextCreate(NULL, &fourth));
  OK(tandemModuleExportOnnx(clone, NULL, &model));
  OK(tandemModuleImportOnnx(fourth, tandemBufferGetData(model),
                            tandemBufferGetSize(model), NULL, NULL, &imported));
  OK(tandemModuleFuse(imported, &options, NULL));
  tandemModuleDestroy(imported);
  tandemContextDestroy(fourth);
  tandemBufferDestroy(model);
  TandemExportOptions export = TANDEM_EXPORT_OPTIONS_INIT;
  export.weights = TANDEM_WEIGHTS_COPY;
  FAILS(TANDEM_ERROR_INVALID_ARGUMENT, "in memory",
        tandemModuleExportOnnx(clone, &export, &model));
  FAILS(TANDEM_ERROR_IO, "/none.onnx: error: cannot be written",
        tandemModuleExportOnnxFile(clone, "/no-such-folder/none.onnx", NULL));
  export.weights = 9;
  FAILS(TANDEM_ERROR_INVALID_ARGUMENT, "weights is 9",
        tandemModuleExportOnnxFile(clone, "none.onnx", &export));
  FAILS(TANDEM_ERROR_INVALID_ARGUMENT, "path",
        tandemModuleExportOnnxFile(clone, NULL, NULL));

  tandemBufferDestroy(graph);
  tandemBufferDestroy(elided);
  tandemBufferDestroy(other);
  tandemBufferDestroy(text);
  tandemBufferDestroy(bytecode);
  tandemBufferDestroy(again);
  tandemBufferDestroy(report);
  tandemModuleDestroy(back);
  tandemModuleDestroy(clone);
  tandemModuleDestroy(fromMemory);
  tandemModuleDestroy(fromFile);
  tandemContextDestroy(third);
  tandemContextDestroy(second);
}

struct Seen {
  int remarks, missed, diagnostics, busy;
  TandemContext context;
  char text[512];
};

static void onRemark(const TandemRemark *remark, void *data) {
  struct Seen *seen = data;
  ++seen->remarks;
  seen->missed += remark->kind == TANDEM_REMARK_MISSED;
  EXPECT(!strcmp(remark->category, "tandem-fuse"));
  for (size_t i = 0; i < remark->numArguments; ++i)
    if (!strcmp(remark->keys[i], "Reason"))
      snprintf(seen->text, sizeof(seen->text), "%s: %s", remark->name,
               remark->values[i]);
}

static void onDiagnostic(const TandemDiagnostic *diagnostic, void *data) {
  struct Seen *seen = data;
  ++seen->diagnostics;
  snprintf(seen->text, sizeof(seen->text), "%s:%d:%d: %d %s", diagnostic->file,
           (int)diagnostic->line, (int)diagnostic->column,
           (int)diagnostic->severity, diagnostic->message);
  TandemModule module;
  TandemError error =
      tandemModuleParse(seen->context, chain, strlen(chain), NULL, &module);
  seen->busy += tandemErrorGetCode(error) == TANDEM_ERROR_BUSY;
  tandemErrorDestroy(error);
}

static void testCallbacks(TandemContext context) {
  struct Seen seen = {0, 0, 0, 0, context, ""};
  OK(tandemContextSetRemarkCallback(context, NULL, onRemark, &seen));
  TandemModule fuses = parse(context, chain), misses = parse(context, lonely);
  OK(tandemModuleFuse(fuses, NULL, NULL));
  EXPECT(seen.remarks == 1 && seen.missed == 0);
  OK(tandemModuleFuse(misses, NULL, NULL));
  EXPECT(seen.remarks == 2 && seen.missed == 1);
  EXPECT(strstr(seen.text, "NoNormConsumer: "));
  OK(tandemContextSetRemarkCallback(context, "cse", onRemark, &seen));
  OK(tandemModuleFuse(misses, NULL, NULL));
  OK(tandemContextSetRemarkCallback(context, NULL, NULL, NULL));
  OK(tandemModuleFuse(misses, NULL, NULL));
  EXPECT(seen.remarks == 2);
  FAILS(TANDEM_ERROR_INVALID_ARGUMENT, "no regular expression",
        tandemContextSetRemarkCallback(context, "(", onRemark, &seen));

  OK(tandemContextSetDiagnosticCallback(context, onDiagnostic, &seen));
  TandemModule bad = misses;
  FAILS(TANDEM_ERROR_PARSE, "bad.mlir:1:1: error: ",
        tandemModuleParse(context, "nonsense", 8, "bad.mlir", &bad));
  EXPECT(!bad);
  EXPECT(seen.diagnostics == 1 && seen.busy == 1);
  EXPECT(strstr(seen.text, "bad.mlir:1:1: 2 "));
  OK(tandemContextSetDiagnosticCallback(context, NULL, NULL));
  FAILS(TANDEM_ERROR_PARSE, "error",
        tandemModuleParse(context, "nonsense", 8, NULL, &bad));
  EXPECT(seen.diagnostics == 1);
  tandemModuleDestroy(fuses);
  tandemModuleDestroy(misses);
}

static void testErrors(TandemContext context, const char *folder) {
  TandemModule module;
  FAILS(TANDEM_ERROR_IO, "no-such.onnx: error: cannot be read",
        tandemModuleImportOnnxFile(context, "no-such.onnx", NULL, &module));
  EXPECT(!module);
  FAILS(TANDEM_ERROR_IO, "no-such.mlir: error: cannot be read",
        tandemModuleParseFile(context, "no-such.mlir", &module));
  FAILS(TANDEM_ERROR_IO, "Is a directory",
        tandemModuleParseFile(context, folder, &module));
  FAILS(TANDEM_ERROR_IMPORT, "it is a folder",
        tandemModuleImportOnnxFile(context, folder, NULL, &module));
  FAILS(
      TANDEM_ERROR_IMPORT, "memory: error: ",
      tandemModuleImportOnnx(context, "\x08\x08\xff", 3, NULL, NULL, &module));
  FAILS(TANDEM_ERROR_PARSE, "error",
        tandemModuleParse(context, "ML\xefR\x01", 5, "short.mlirbc", &module));

  /* Ops on wrong shapes and types. */
  char text[sizeof(norm) + 40];
  snprintf(text, sizeof(text), norm, "tensor<4xf32>", "tensor<4xf32>");
  FAILS(TANDEM_ERROR_PARSE, "gamma has length 4, but the last dimension is 8",
        tandemModuleParse(context, text, strlen(text), NULL, &module));
  snprintf(text, sizeof(text), norm, "tensor<8xi8>", "tensor<8xi8>");
  FAILS(TANDEM_ERROR_PARSE, "must be rank-1 tensor of floating-point values",
        tandemModuleParse(context, text, strlen(text), NULL, &module));
  EXPECT(!module);

  module = parse(context, lonely);
  TandemBuffer report;
  FAILS(TANDEM_ERROR_PIPELINE, "no-such-pass",
        tandemModuleRunPipeline(module, "builtin.module(no-such-pass)", NULL));
  FAILS(TANDEM_ERROR_PIPELINE, "error",
        tandemModuleRunPipeline(module, "builtin.module(", NULL));
  /* One line, without MLIR's picture of the text. */
  FAILS(TANDEM_ERROR_PIPELINE, "'nope' does not refer to a registered pass",
        tandemModuleRunPipeline(module, "builtin.module(nope)", NULL));
  TandemError pictured =
      tandemModuleRunPipeline(module, "builtin.module(nope)", NULL);
  EXPECT(!strstr(tandemErrorGetMessage(pictured), "x0A") &&
         !strchr(tandemErrorGetMessage(pictured), '^'));
  tandemErrorDestroy(pictured);
  FAILS(TANDEM_ERROR_PIPELINE, "func.func",
        tandemModuleRunPipeline(module, "func.func(cse)", NULL));
  FAILS(TANDEM_ERROR_PIPELINE, "no such option",
        tandemModuleRunPipeline(module, "builtin.module(tandem-fuse{x=1})",
                                &report));
  EXPECT(!report);
  OK(tandemModuleRunPipeline(module, "builtin.module(canonicalize,cse)",
                             &report));
  EXPECT(!report);

  /* A miss that is not allowed is an error, and reported all the same. */
  TandemFuseOptions options = TANDEM_FUSE_OPTIONS_INIT;
  options.requireAll = 1;
  FAILS(TANDEM_ERROR_PASS,
        "test.mlir:2:", tandemModuleFuse(module, &options, &report));
  EXPECT(report && strstr(tandemBufferGetData(report), "NoNormConsumer"));
  tandemBufferDestroy(report);
  options.maxTokens = 0;
  FAILS(TANDEM_ERROR_PASS, "max-tokens",
        tandemModuleFuse(module, &options, NULL));
  options.maxTokens = -1;
  options.limits = "no-such.json";
  FAILS(TANDEM_ERROR_PASS, "no-such.json",
        tandemModuleFuse(module, &options, NULL));
  options.guard = 7;
  FAILS(TANDEM_ERROR_INVALID_ARGUMENT, "guard is 7",
        tandemModuleFuse(module, &options, NULL));
  TandemFuseOptions unset = {0, 0, NULL, 0, 0, 0, 0, 0};
  FAILS(TANDEM_ERROR_INVALID_ARGUMENT, "structSize",
        tandemModuleFuse(module, &unset, NULL));
  tandemModuleDestroy(module);
}

static void testMisuse(TandemContext context) {
  TandemModule module = parse(context, chain), other = NULL;
  TandemBuffer text;
  FAILS(TANDEM_ERROR_INVALID_HANDLE, "module",
        tandemModuleExportOnnx(NULL, NULL, &text));
  /* Null where something must be. */
  FAILS(TANDEM_ERROR_INVALID_ARGUMENT, "place",
        tandemContextCreate(NULL, NULL));
  FAILS(TANDEM_ERROR_INVALID_ARGUMENT, "text",
        tandemModuleParse(context, NULL, 3, NULL, &other));
  FAILS(TANDEM_ERROR_INVALID_ARGUMENT, "place",
        tandemModuleParse(context, chain, strlen(chain), NULL, NULL));
  FAILS(TANDEM_ERROR_INVALID_ARGUMENT, "path",
        tandemModuleImportOnnxFile(context, NULL, NULL, &other));
  FAILS(TANDEM_ERROR_INVALID_ARGUMENT, "pipeline",
        tandemModuleRunPipeline(module, NULL, NULL));
  FAILS(TANDEM_ERROR_INVALID_ARGUMENT, "place",
        tandemModulePrint(module, NULL, NULL));
  /* Handles that are null, of another kind, or no handles at all. */
  FAILS(TANDEM_ERROR_INVALID_HANDLE, "context",
        tandemModuleParse(NULL, chain, strlen(chain), NULL, &other));
  FAILS(TANDEM_ERROR_INVALID_HANDLE, "module",
        tandemModulePrint(NULL, NULL, &text));
  FAILS(TANDEM_ERROR_INVALID_HANDLE, "module",
        tandemModulePrint((TandemModule)(void *)context, NULL, &text));
  FAILS(TANDEM_ERROR_INVALID_HANDLE, "module",
        tandemModuleFuse((TandemModule)(void *)chain, NULL, NULL));
  EXPECT(!tandemBufferGetData((TandemBuffer)(void *)module));
  EXPECT(!tandemBufferGetSize(NULL));
  EXPECT(tandemErrorGetCode(NULL) == TANDEM_OK);
  EXPECT(!*tandemErrorGetMessage(NULL));
  /* Destroyed ones, twice even. */
  tandemModuleDestroy(module);
  tandemModuleDestroy(module);
  FAILS(TANDEM_ERROR_INVALID_HANDLE, "destroyed", tandemModuleVerify(module));
  FAILS(TANDEM_ERROR_INVALID_HANDLE, "destroyed",
        tandemModuleClone(module, &other));
  tandemModuleDestroy(NULL);
  tandemContextDestroy(NULL);
  tandemBufferDestroy(NULL);
  tandemErrorDestroy(NULL);

  /* A module keeps its context. */
  TandemContext mine;
  OK(tandemContextCreate(NULL, &mine));
  module = parse(mine, chain);
  tandemContextDestroy(mine);
  FAILS(TANDEM_ERROR_INVALID_HANDLE, "destroyed",
        tandemModuleParse(mine, chain, strlen(chain), NULL, &other));
  OK(tandemModuleFuse(module, NULL, NULL));
  OK(tandemModulePrint(module, NULL, &text));
  tandemModuleDestroy(module);
  EXPECT(strstr(tandemBufferGetData(text), "scf.if"));
  tandemBufferDestroy(text);

  /* Unknown dialects, if asked for. */
  static const char unknown[] = "\"acme.op\"() : () -> ()";
  FAILS(TANDEM_ERROR_PARSE, "unregistered dialect",
        tandemModuleParse(context, unknown, strlen(unknown), NULL, &other));
  TandemContextOptions options = TANDEM_CONTEXT_OPTIONS_INIT;
  options.allowUnregisteredDialects = 1;
  options.multithreading = 1;
  OK(tandemContextCreate(&options, &mine));
  OK(tandemModuleParse(mine, unknown, strlen(unknown), NULL, &other));
  tandemModuleDestroy(other);
  tandemContextDestroy(mine);
}

static void *work(void *context) {
  for (int i = 0; i < 20; ++i) {
    TandemModule module = parse(context, chain);
    TandemBuffer report;
    OK(tandemModuleFuse(module, NULL, &report));
    EXPECT(strstr(tandemBufferGetData(report), "\"fused\": 1,"));
    tandemBufferDestroy(report);
    tandemModuleDestroy(module);
  }
  return NULL;
}

static void testThreads(TandemContext context) {
  pthread_t threads[4];
  for (int i = 0; i < 4; ++i)
    pthread_create(&threads[i], NULL, work, context);
  for (int i = 0; i < 4; ++i)
    pthread_join(threads[i], NULL);
}

/* Usage: capi MODEL_WITH_FOUR_ALL_REDUCES FOLDER */
int main(int argc, char **argv) {
  if (argc != 3)
    return 2;
  EXPECT(tandemGetApiVersion() ==
         (TANDEM_C_VERSION_MAJOR << 16 | TANDEM_C_VERSION_MINOR));
  EXPECT(strstr(tandemGetVersion(), "(MLIR 22."));
  TandemContext context;
  OK(tandemContextCreate(NULL, &context));
  testModels(context, argv[1]);
  testCallbacks(context);
  testErrors(context, argv[2]);
  testMisuse(context);
  testThreads(context);
  tandemContextDestroy(context);
  puts(failures ? "failed" : "all is well");
  return failures != 0;
}
