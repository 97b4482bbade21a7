/*===-- tandem/Runtime/onnxruntime.h - Tandem in ONNX Runtime -----*- C -*-===*\
|*                                                                            *|
|* Part of the Tandem project, under the Apache License v2.0 with LLVM        *|
|* Exceptions. See LICENSE for license information.                           *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                    *|
|*                                                                            *|
|*===----------------------------------------------------------------------===*|
|*                                                                            *|
|* What libtandem_onnxruntime.so exports besides RegisterCustomOps, which     *|
|* ONNX Runtime calls. Sessions are named by their config entry tandem.id,    *|
|* which is the caller's to choose; without it they can't be asked for. The   *|
|* order, for each session:                                                   *|
|*                                                                            *|
|*  1. Set the session options' entries tandem.* (docs/onnxruntime.md names   *|
|*     them), and register the library with RegisterCustomOpsLibrary: from    *|
|*     here on the id is known.                                               *|
|*  2. Create the session and run it; ask for its counters and failure.       *|
|*  3. Release the session, and then close. The other ranks aren't waited     *|
|*     for; one that runs on gets TANDEM_STATUS_PEER_LEFT. The options may    *|
|*     be released before or after.                                           *|
|*                                                                            *|
|* Ids are copied, structures belong to the caller, and nothing is handed out *|
|* that must be freed. All functions may be called by any thread at any time, *|
|* during a run, too; only nobody may create a session of an id, or run it,   *|
|* while it is being closed.                                                  *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

#ifndef TANDEM_RUNTIME_ONNXRUNTIME_H
#define TANDEM_RUNTIME_ONNXRUNTIME_H

#include "tandem/Runtime/tandem.h"

/* C, in C's ways: NOLINTBEGIN(*) */

#ifdef __cplusplus
extern "C" {
#endif

/// What the functions below that give no tandem_status return.
enum {
  TANDEM_ONNXRUNTIME_OK = 0,
  /// No session has this id: none was registered, or it was closed.
  TANDEM_ONNXRUNTIME_NO_SESSION = 1,
  /// tandem_onnxruntime_counters: no collective has run yet, or the structure
  /// is not as TANDEM_COUNTERS_INIT makes it. tandem_onnxruntime_close: the
  /// session has not ended.
  TANDEM_ONNXRUNTIME_NOT_NOW = 2
};

/// Fills `counters`, which begins as TANDEM_COUNTERS_INIT, with the calls of
/// the session `id`: those of all its runs so far. Returns one of the above; if
/// it is not OK, `counters` stays as it was.
TANDEM_API int tandem_onnxruntime_counters(const char *id,
                                           tandem_counters *counters);

/// Fills `failure`, which begins as TANDEM_ERROR_INIT, with what broke the
/// group of the session `id`, and returns its status. On GPUs a run only
/// launches its collectives, so this is where a failure shows after the run,
/// once the stream has got there. TANDEM_STATUS_OK while the group works or has
/// not been made; TANDEM_STATUS_INVALID_ARGUMENT if no session has this id.
TANDEM_API tandem_status tandem_onnxruntime_failure(const char *id,
                                                    tandem_error *failure);

/// Leaves the group of the session `id` and frees its communicator and its
/// workspace; the id is then free for another session. Returns one of the
/// above; NOT_NOW, with nothing freed, while the session, or anything that
/// holds it, still lives. May wait for a second or two for graphs on a GPU. The
/// session options may be kept: a session that is made of them afterwards is an
/// error, not a crash, for which some ten kilobytes stay until the process
/// ends.
TANDEM_API int tandem_onnxruntime_close(const char *id);

#ifdef __cplusplus
}
#endif

/* NOLINTEND(*) */

#endif
