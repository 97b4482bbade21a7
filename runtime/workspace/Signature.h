//===-- Signature.h - Comparison of module signatures -----------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_WORKSPACE_SIGNATURE_H
#define TANDEM_RUNTIME_WORKSPACE_SIGNATURE_H

#include "support/Error.h"

#include <string>

namespace tandem {

/// Compares the signature of `rank` with rank 0's; a difference is a MISMATCH
/// that holds the first differing line of both, counted from 1.
Error compareSignatures(const std::string &first, const std::string &other,
                        int rank);

} // namespace tandem

#endif
