//===- LargePages.h - Memory for large graphs --------------------*- C++
//-*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TOOLS_FUSIONOPT_LARGEPAGES_H
#define TANDEM_TOOLS_FUSIONOPT_LARGEPAGES_H

#include <cstddef>

namespace mlir::tandem {

/// Tells the C library that about `bytes` of memory will be allocated and not
/// given back, and asks the system to use large pages for them: a large graph
/// takes tens of thousands of small ones, each with an interrupt. Only advice;
/// where the system doesn't take it, nothing changes.
void expectAllocations(size_t bytes);

} // namespace mlir::tandem

#endif // TANDEM_TOOLS_FUSIONOPT_LARGEPAGES_H
