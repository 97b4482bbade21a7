//===- TandemToLLVM.cpp - Conversion to the LLVM dialect ------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/TandemToLLVM.h"

#include "mlir/Conversion/ConvertToLLVM/ToLLVMInterface.h"
#include "mlir/Conversion/LLVMCommon/Pattern.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace mlir::tandem;

namespace {
struct ConvertLaunch : public ConvertOpToLLVMPattern<LaunchOp> {
  using ConvertOpToLLVMPattern::ConvertOpToLLVMPattern;

  LogicalResult
  matchAndRewrite(LaunchOp op, OpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    if (failed(verifyRuntimeCall(op)))
      return failure();
    FailureOr<Value> status = emitRuntimeCall(
        rewriter, op, adaptor.getWorkspace(), adaptor.getStream());
    if (failed(status))
      return failure();
    rewriter.replaceOp(op, *status);
    return success();
  }
};

struct ConvertTokenLimit : public ConvertOpToLLVMPattern<TokenLimitOp> {
  using ConvertOpToLLVMPattern::ConvertOpToLLVMPattern;

  LogicalResult
  matchAndRewrite(TokenLimitOp op, OpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    FailureOr<Value> limit =
        emitTokenLimitCall(rewriter, op, adaptor.getWorkspace());
    if (failed(limit))
      return failure();
    rewriter.replaceOp(op, *limit);
    return success();
  }
};

struct TandemToLLVMInterface : public ConvertToLLVMPatternInterface {
  using ConvertToLLVMPatternInterface::ConvertToLLVMPatternInterface;

  void loadDependentDialects(MLIRContext *context) const final {
    context->loadDialect<arith::ArithDialect, LLVM::LLVMDialect,
                         memref::MemRefDialect>();
  }
  void populateConvertToLLVMConversionPatterns(
      ConversionTarget &, LLVMTypeConverter &converter,
      RewritePatternSet &patterns) const final {
    populateTandemToLLVMConversionPatterns(converter, patterns);
  }
};
} // namespace

void mlir::tandem::populateTandemToLLVMConversionPatterns(
    LLVMTypeConverter &converter, RewritePatternSet &patterns) {
  auto toPointer = [](Type type) -> Type {
    return LLVM::LLVMPointerType::get(type.getContext());
  };
  converter.addConversion(
      [toPointer](WorkspaceType type) { return toPointer(type); });
  converter.addConversion(
      [toPointer](StreamType type) { return toPointer(type); });
  patterns.add<ConvertLaunch, ConvertTokenLimit>(converter);
}

void mlir::tandem::registerConvertTandemToLLVMInterface(
    DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *, TandemDialect *dialect) {
    dialect->addInterfaces<TandemToLLVMInterface>();
  });
}
