//===- ExpandCopies.cpp - Copies without a library ------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Passes/Passes.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Linalg/Utils/Utils.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/PatternMatch.h"

namespace mlir::tandem {
#define GEN_PASS_DEF_TANDEMEXPANDCOPIES
#include "tandem/Passes/Passes.h.inc"
} // namespace mlir::tandem

using namespace mlir;

namespace {
struct ExpandCopiesPass
    : public tandem::impl::TandemExpandCopiesBase<ExpandCopiesPass> {
  void runOnOperation() override;
};
} // namespace

/// One block of memory, which conversion copies with memcpy.
static bool isContiguous(Value buffer) {
  auto type = dyn_cast<MemRefType>(buffer.getType());
  return type && type.getLayout().isIdentity();
}

void ExpandCopiesPass::runOnOperation() {
  IRRewriter rewriter(&getContext());
  SmallVector<memref::CopyOp> copies;
  getOperation().walk([&](memref::CopyOp copy) {
    if (!isContiguous(copy.getSource()) || !isContiguous(copy.getTarget()))
      copies.push_back(copy);
  });
  for (memref::CopyOp copy : copies) {
    // Of unknown rank: conversion has a function for those.
    if (!isa<MemRefType>(copy.getSource().getType()) ||
        !isa<MemRefType>(copy.getTarget().getType()))
      continue;
    rewriter.setInsertionPoint(copy);
    linalg::makeMemRefCopyOp(rewriter, copy.getLoc(), copy.getSource(),
                             copy.getTarget());
    rewriter.eraseOp(copy);
  }
}
