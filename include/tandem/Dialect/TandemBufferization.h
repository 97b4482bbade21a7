//===- TandemBufferization.h - From tensors to buffers --------- -*- C++
//-*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_TANDEMBUFFERIZATION_H
#define TANDEM_DIALECT_TANDEMBUFFERIZATION_H

namespace mlir {
class DialectRegistry;

namespace tandem {

/// Gives the ops of the dialect implementations of BufferizableOpInterface, so
/// that `one-shot-bufferize` takes them to `tandem.launch` on buffers.
/// `tandem.launch` and `tandem.fused_all_reduce_norm` write to their
/// destinations; the other ops allocate their results, because only
/// `tandem-set-destinations` finds better places for them.
void registerTandemBufferizationModels(DialectRegistry &registry);

} // namespace tandem
} // namespace mlir

#endif // TANDEM_DIALECT_TANDEMBUFFERIZATION_H
