//===- HostCheck.h - Is the host's MLIR ours? -------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_PLUGIN_HOSTCHECK_H
#define TANDEM_LIB_PLUGIN_HOSTCHECK_H

#include <string>

namespace mlir::tandem {

/// Says why a plugin must not hand MLIR objects to its caller; the empty
/// string where it may. `caller` is an address in the code that loads the
/// plugin, `mlirSymbol` that of a function of MLIR's as the plugin sees it,
/// `library` the file name of the MLIR library that the plugin was linked to.
///
/// MLIR itself compares only the version of the plugin interface, which has
/// not changed for years. A host of another version, or one that holds a
/// private copy of MLIR, would crash at the first object that crosses over.
/// Uses nothing of MLIR's or LLVM's, so it also runs in such a host.
std::string findHostMismatch(const void *caller, const void *mlirSymbol,
                             const char *library);

} // namespace mlir::tandem

#endif // TANDEM_LIB_PLUGIN_HOSTCHECK_H
