//===- TandemToLLVM.h - From the dialect to the C ABI ---------- -*- C++
//-*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_TANDEMTOLLVM_H
#define TANDEM_DIALECT_TANDEMTOLLVM_H

#include "mlir/Dialect/LLVMIR/LLVMTypes.h"
#include "mlir/IR/PatternMatch.h"
#include "tandem/Dialect/Tandem.h"

namespace mlir {
class DialectRegistry;
class LLVMTypeConverter;

namespace tandem {

/// `tandem_norm_args` and `tandem_all_reduce_args` of tandem.h as LLVM types:
/// the same fields in the same order, with the same layout on 64-bit targets.
LLVM::LLVMStructType getNormArgsType(MLIRContext *context);
LLVM::LLVMStructType getAllReduceArgsType(MLIRContext *context);

/// Checks that the runtime can carry `op` out: element types, reduction, and
/// rows of contiguous elements at one stride. Emits one error otherwise.
LogicalResult verifyRuntimeCall(LaunchOp op);

/// Writes the call of the C ABI that `op`, which is on buffers and has been
/// verified, stands for, before `op`, and returns its status, an i32.
/// `workspace` and `stream` are of type !llvm.ptr; null values stand for null
/// pointers. The arguments lie in the entry block's stack frame. Fails if the
/// module has a symbol of another type under the function's name.
FailureOr<Value> emitRuntimeCall(RewriterBase &rewriter, LaunchOp op,
                                 Value workspace, Value stream);

/// The same for a question of the limit; returns an i64.
FailureOr<Value> emitTokenLimitCall(RewriterBase &rewriter, TokenLimitOp op,
                                    Value workspace);

/// Adds conversions of the handle types to !llvm.ptr to `converter`, and
/// patterns for `tandem.launch` on buffers and `tandem.token_limit`.
void populateTandemToLLVMConversionPatterns(LLVMTypeConverter &converter,
                                            RewritePatternSet &patterns);

/// Lets `convert-to-llvm` convert the dialect.
void registerConvertTandemToLLVMInterface(DialectRegistry &registry);

} // namespace tandem
} // namespace mlir

#endif // TANDEM_DIALECT_TANDEMTOLLVM_H
