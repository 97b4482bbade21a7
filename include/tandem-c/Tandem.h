//===- Tandem.h - The C interface of the compiler ----------------*- C -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Import, passes, report and output, from the shared library libTandemC.
// The runtime has a C interface of its own, tandem/Runtime/tandem.h.
//
// Errors. A function that can fail returns a TandemError: null for success,
// else an object with a code and a message, which the caller destroys. Out
// parameters are set to null then, unless a function says otherwise. Nothing
// throws, and nothing aborts on what a caller or an ONNX model holds; only
// running out of memory ends the process, as everywhere in LLVM. MLIR text and
// bytecode are read by libMLIR, which can still crash on damaged bytecode and
// on text that is nested thousands of times: read what you don't trust in a
// process of its own.
//
// Handles. Values that are never used twice in a process: null, a destroyed
// handle or one of another kind gives TANDEM_ERROR_INVALID_HANDLE; such a
// one is never followed. Destroying null or a destroyed handle does nothing.
// Handles may be destroyed in any order: a module keeps its context.
//
// Threads. Any function may be called from any thread. Calls that use the
// same context wait for each other. A callback must not use the context that
// it is called for: that gives TANDEM_ERROR_BUSY.
//
// Text is UTF-8. `const char *` arguments end with NUL and are copied.
//
// Versions. Within a major version functions and fields are only added; a
// struct begins with its size, so a library knows which fields its caller
// has. The library's file name ends with the major version.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_C_TANDEM_H
#define TANDEM_C_TANDEM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TANDEM_C_API __attribute__((visibility("default")))

/*===-- Version -----------------------------------------------------------===*/

#define TANDEM_C_VERSION_MAJOR 1
#define TANDEM_C_VERSION_MINOR 0

/** The interface's version that the library has: major << 16 | minor. Programs
 * built with an older minor version work with it. */
TANDEM_C_API uint32_t tandemGetApiVersion(void);

/** As "Tandem 0.1.0 (MLIR 22.1.8)". Lives forever. */
TANDEM_C_API const char *tandemGetVersion(void);

/*===-- Errors ------------------------------------------------------------===*/

typedef struct TandemErrorObject *TandemError;

typedef enum TandemErrorCode {
  TANDEM_OK = 0,
  TANDEM_ERROR_INVALID_ARGUMENT = 1, /**< a null pointer, a bad value */
  TANDEM_ERROR_INVALID_HANDLE = 2,   /**< null, destroyed, or of another kind */
  TANDEM_ERROR_BUSY = 3,     /**< called from a callback of the same context */
  TANDEM_ERROR_IO = 4,       /**< a file can't be read or written */
  TANDEM_ERROR_PARSE = 5,    /**< not valid MLIR text or bytecode */
  TANDEM_ERROR_IMPORT = 6,   /**< an ONNX model that can't be imported */
  TANDEM_ERROR_EXPORT = 7,   /**< a module that has no ONNX form */
  TANDEM_ERROR_PIPELINE = 8, /**< a pipeline text that names no such pass */
  TANDEM_ERROR_PASS = 9,     /**< a pass failed */
  TANDEM_ERROR_INVALID_IR = 10 /**< a module does not verify */
} TandemErrorCode;

/** TANDEM_OK for null. */
TANDEM_C_API TandemErrorCode tandemErrorGetCode(TandemError error);

/** One line for each error that was found, as "model.onnx:3:1: error: ...". The
 * empty string for null. Lives as long as the error. */
TANDEM_C_API const char *tandemErrorGetMessage(TandemError error);

TANDEM_C_API void tandemErrorDestroy(TandemError error);

/*===-- Buffers -----------------------------------------------------------===*/

/** Bytes that a function gave out. */
typedef struct TandemBufferObject *TandemBuffer;

/** The bytes, followed by a NUL that is not counted. Null for a handle that is
 * not a buffer. They live as long as the buffer. */
TANDEM_C_API const char *tandemBufferGetData(TandemBuffer buffer);
TANDEM_C_API size_t tandemBufferGetSize(TandemBuffer buffer);
TANDEM_C_API void tandemBufferDestroy(TandemBuffer buffer);

/*===-- Contexts ----------------------------------------------------------===*/

/** Holds types, attributes and the settings for modules; knows MLIR's own
 * dialects, tandem, and a thin onnx dialect. */
typedef struct TandemContextObject *TandemContext;

typedef struct TandemContextOptions {
  size_t structSize;
  /** Whether ops and types of unknown dialects are read. Default 0. */
  int32_t allowUnregisteredDialects;
  /** Whether passes may use several threads. Default 0. */
  int32_t multithreading;
} TandemContextOptions;
#define TANDEM_CONTEXT_OPTIONS_INIT {sizeof(TandemContextOptions), 0, 0}

/** `options` may be null. */
TANDEM_C_API TandemError tandemContextCreate(
    const TandemContextOptions *options, TandemContext *context);
TANDEM_C_API void tandemContextDestroy(TandemContext context);

typedef enum TandemSeverity {
  TANDEM_SEVERITY_NOTE = 0,
  TANDEM_SEVERITY_WARNING = 1,
  TANDEM_SEVERITY_ERROR = 2,
  TANDEM_SEVERITY_REMARK = 3
} TandemSeverity;

/** What a diagnostic callback gets; lives during the call. */
typedef struct TandemDiagnostic {
  size_t structSize;
  int32_t severity;    /**< TandemSeverity */
  const char *message; /**< without place and severity */
  const char
      *location;    /**< as reports write it; "unknown" where there is none */
  const char *file; /**< "" where there is none */
  /** From 1; both 0 where there is none, as in errors about a whole file. Of an
   * ONNX model: the node's position in its graph, which is its index (the
   * number in "node #0") plus 1, and column 1. */
  int64_t line, column;
} TandemDiagnostic;

typedef void (*TandemDiagnosticCallback)(const TandemDiagnostic *diagnostic,
                                         void *userData);

/** Calls `callback` for each warning, error and note from now on; null for
 * none, which is the start. It may be called on other threads than the caller's
 * if the context has multithreading. Errors are in the TandemError too. */
TANDEM_C_API TandemError tandemContextSetDiagnosticCallback(
    TandemContext context, TandemDiagnosticCallback callback, void *userData);

typedef enum TandemRemarkKind {
  TANDEM_REMARK_PASSED = 0,
  TANDEM_REMARK_MISSED = 1,
  TANDEM_REMARK_FAILURE = 2,
  TANDEM_REMARK_ANALYSIS = 3
} TandemRemarkKind;

/** What a remark callback gets; lives during the call. */
typedef struct TandemRemark {
  size_t structSize;
  int32_t kind;         /**< TandemRemarkKind */
  const char *name;     /**< as "Fused", or a reason of docs/reasons.md */
  const char *category; /**< as "tandem-fuse" */
  const char *function;
  const char *location; /**< as reports write it */
  size_t
      numArguments; /**< keys and values, as "Reason", "Suggestion", "hidden" */
  const char *const *keys;
  const char *const *values;
} TandemRemark;

typedef void (*TandemRemarkCallback)(const TandemRemark *remark,
                                     void *userData);

/** Calls `callback` for each remark whose category matches the regular
 * expression `filter` (null: all of Tandem's); a null callback ends that. */
TANDEM_C_API TandemError
tandemContextSetRemarkCallback(TandemContext context, const char *filter,
                               TandemRemarkCallback callback, void *userData);

/*===-- Modules -----------------------------------------------------------===*/

/** A module, and the context that it is in. */
typedef struct TandemModuleObject *TandemModule;

/** Reads MLIR text or bytecode. `name`, which may be null, stands for the file
 * in locations and errors. The bytes need not live on. */
TANDEM_C_API TandemError tandemModuleParse(TandemContext context,
                                           const char *data, size_t size,
                                           const char *name,
                                           TandemModule *module);
TANDEM_C_API TandemError tandemModuleParseFile(TandemContext context,
                                               const char *path,
                                               TandemModule *module);

typedef struct TandemImportOptions {
  size_t structSize;
  /** Folder of the files with external weights; null: the model's folder. They
   * are not read, except where a shape depends on them. */
  const char *externalDataDir;
} TandemImportOptions;
#define TANDEM_IMPORT_OPTIONS_INIT {sizeof(TandemImportOptions), NULL}

/** Imports an ONNX model (docs/import.md). `options` may be null. Of a file,
 * large weights stay mapped as long as the context lives: it must not change.
 * Of memory, the bytes are copied; `name`, which may be null, stands for the
 * file. */
TANDEM_C_API TandemError tandemModuleImportOnnxFile(
    TandemContext context, const char *path, const TandemImportOptions *options,
    TandemModule *module);
TANDEM_C_API TandemError tandemModuleImportOnnx(
    TandemContext context, const char *data, size_t size, const char *name,
    const TandemImportOptions *options, TandemModule *module);

TANDEM_C_API TandemError tandemModuleClone(TandemModule module,
                                           TandemModule *clone);
TANDEM_C_API void tandemModuleDestroy(TandemModule module);

/** Success if the module is valid. */
TANDEM_C_API TandemError tandemModuleVerify(TandemModule module);

typedef struct TandemPrintOptions {
  size_t structSize;
  int32_t debugInfo; /**< with locations */
  int32_t generic;   /**< ops in generic form */
  /** Constants of more elements, and resources of more characters, are left
   * out, and the text can't be read back; -1: none. */
  int64_t elideLargerThan;
} TandemPrintOptions;
#define TANDEM_PRINT_OPTIONS_INIT {sizeof(TandemPrintOptions), 0, 0, -1}

/** The module as text. `options` may be null. */
TANDEM_C_API TandemError tandemModulePrint(TandemModule module,
                                           const TandemPrintOptions *options,
                                           TandemBuffer *text);
/** The module as MLIR bytecode, which keeps everything. */
TANDEM_C_API TandemError tandemModuleWriteBytecode(TandemModule module,
                                                   TandemBuffer *bytecode);

typedef enum TandemWeights {
  TANDEM_WEIGHTS_KEEP = 0, /**< external weights stay where they are */
  TANDEM_WEIGHTS_LINK = 1, /**< a hard link of each file beside the output */
  TANDEM_WEIGHTS_COPY = 2  /**< a copy of each file beside the output */
} TandemWeights;

typedef enum TandemExportedGuard {
  TANDEM_EXPORTED_GUARD_IF = 0, /**< an If node: fused op, or the source's */
  TANDEM_EXPORTED_GUARD_OP = 1  /**< the fused op alone, which checks itself */
} TandemExportedGuard;

typedef struct TandemExportOptions {
  size_t structSize;
  int32_t weights; /**< TandemWeights, for a file in another folder */
  int32_t guard;   /**< TandemExportedGuard */
  /** Folder that external weights are relative to now; null: that of the model
   * that was imported. */
  const char *externalDataDir;
} TandemExportOptions;
#define TANDEM_EXPORT_OPTIONS_INIT                                             \
  {sizeof(TandemExportOptions), TANDEM_WEIGHTS_KEEP, TANDEM_EXPORTED_GUARD_IF, \
   NULL}

/** Writes an ONNX model (docs/export.md) to a file, which is there whole at the
 * end, or as it was. `options` may be null. */
TANDEM_C_API TandemError tandemModuleExportOnnxFile(
    TandemModule module, const char *path, const TandemExportOptions *options);
/** The same into memory; external weights must be kept. */
TANDEM_C_API TandemError
tandemModuleExportOnnx(TandemModule module, const TandemExportOptions *options,
                       TandemBuffer *model);

/** The ops and their uses as JSON, for drawing (docs/embedding/c.md). */
TANDEM_C_API TandemError tandemModuleGetGraph(TandemModule module,
                                              TandemBuffer *json);

/*===-- Passes ------------------------------------------------------------===*/

/** Runs a pipeline, as "builtin.module(tandem-raise,canonicalize)": all of
 * MLIR's passes and Tandem's are known. `report`, which may be null, gets the
 * JSON report of the last `tandem-fuse` in it, also if a pass failed, and null
 * where there was none. After TANDEM_ERROR_PASS the module is as the failing
 * pass left it. */
TANDEM_C_API TandemError tandemModuleRunPipeline(TandemModule module,
                                                 const char *pipeline,
                                                 TandemBuffer *report);

typedef enum TandemGuard {
  TANDEM_GUARD_CHAIN = 0,    /**< a check at each chain */
  TANDEM_GUARD_FUNCTION = 1, /**< one for a function, which is versioned */
  TANDEM_GUARD_NONE = 2      /**< the runtime falls back by itself */
} TandemGuard;

/** The options of `tandem-fuse` (docs/fuse.md). */
typedef struct TandemFuseOptions {
  size_t structSize;
  int64_t maxTokens;       /**< fuse up to so many; -1: the runtime's limit */
  const char *limits;      /**< file of a tuning profile, or null */
  int64_t worldSize;       /**< 0: not known */
  int32_t guard;           /**< TandemGuard */
  int32_t batchInvariant;  /**< a token must not depend on its batch */
  int32_t mergeAllReduces; /**< changes bits */
  int32_t requireAll;      /**< fail if any all-reduce is missed */
} TandemFuseOptions;
#define TANDEM_FUSE_OPTIONS_INIT                                               \
  {sizeof(TandemFuseOptions), -1, NULL, 0, TANDEM_GUARD_CHAIN, 0, 0, 0}

/** Runs `tandem-fuse-pipeline`. `options` and `report` may be null; `report`
 * gets the JSON report (docs/report.md), also if `requireAll` made it fail. */
TANDEM_C_API TandemError tandemModuleFuse(TandemModule module,
                                          const TandemFuseOptions *options,
                                          TandemBuffer *report);

#ifdef __cplusplus
}
#endif

#endif /* TANDEM_C_TANDEM_H */
