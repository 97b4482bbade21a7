//===- ResultArguments.cpp - Results become arguments ---------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SetDestinations.h"

#include "mlir/Dialect/Bufferization/IR/BufferizableOpInterface.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/SymbolTable.h"
#include "tandem/Dialect/Tandem.h"
#include "tandem/Passes/Lowering.h"

using namespace mlir;
using namespace mlir::bufferization;
using namespace mlir::tandem;

static MemRefType getBufferType(RankedTensorType type) {
  return MemRefType::get(type.getShape(), type.getElementType());
}

/// Where the arguments for results go: behind the inputs, before the handles.
static unsigned getFirstHandle(func::FuncOp function) {
  unsigned first = function.getNumArguments();
  while (first > 0 && isa<WorkspaceType, StreamType>(
                          function.getArgument(first - 1).getType()))
    --first;
  return first;
}

namespace {
/// How a function was before.
struct Converted {
  unsigned firstPlace;
  SmallVector<Type> results;
};
} // namespace

static LogicalResult convertFunction(IRRewriter &rewriter,
                                     func::FuncOp function,
                                     Converted &converted) {
  converted.firstPlace = getFirstHandle(function);
  converted.results = llvm::to_vector(function.getResultTypes());
  SmallVector<Type> kept;
  SmallVector<Attribute> keptAttrs;
  SmallVector<std::pair<unsigned, Value>> places;
  unsigned place = converted.firstPlace;
  for (auto [i, type] : llvm::enumerate(converted.results)) {
    DictionaryAttr attributes = function.getResultAttrDict(i);
    if (!isa<TensorType>(type)) {
      if (function.isPublic())
        return function.emitOpError("result #")
               << i << " has type " << type
               << "; only tensors can be results of a public function";
      kept.push_back(type);
      keptAttrs.push_back(attributes ? attributes
                                     : rewriter.getDictionaryAttr({}));
      continue;
    }
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor)
      return function.emitOpError("result #")
             << i << " has type " << type
             << "; tensors without a rank can't be lowered";
    NamedAttrList list(attributes);
    list.set(resultArgAttrName, rewriter.getI64IntegerAttr(i));
    if (failed(function.insertArgument(
            place, getBufferType(tensor),
            list.getDictionary(function.getContext()), function.getLoc())))
      return failure();
    places.emplace_back(i, function.getArgument(place++));
  }

  function.walk([&](func::ReturnOp ret) {
    rewriter.setInsertionPoint(ret);
    SmallVector<Value> rest;
    auto *next = places.begin();
    for (auto [i, value] : llvm::enumerate(ret.getOperands())) {
      if (next == places.end() || next->first != i) {
        rest.push_back(value);
        continue;
      }
      auto op = MaterializeInDestinationOp::create(
          rewriter, ret.getLoc(), /*result=*/Type(), value, next->second);
      op.setRestrict(true);
      op.setWritable(true);
      ++next;
    }
    ret.getOperandsMutable().assign(rest);
  });
  function.setFunctionType(
      rewriter.getFunctionType(function.getArgumentTypes(), kept));
  function.setResAttrsAttr(
      keptAttrs.empty() ? ArrayAttr() : rewriter.getArrayAttr(keptAttrs));

  // What a caller passes is the caller's.
  if (function.isPublic())
    for (BlockArgument argument : function.getArguments()) {
      unsigned i = argument.getArgNumber();
      if (isa<TensorType>(argument.getType()) &&
          !function.getArgAttr(i, BufferizationDialect::kWritableAttrName))
        function.setArgAttr(i, BufferizationDialect::kWritableAttrName,
                            rewriter.getBoolAttr(false));
    }
  return success();
}

static LogicalResult convertCall(IRRewriter &rewriter, func::CallOp call,
                                 func::FuncOp callee,
                                 const Converted &converted) {
  rewriter.setInsertionPoint(call);
  SmallVector<Value> operands(call.getOperands());
  SmallVector<Value> buffers;
  SmallVector<Type> kept;
  for (auto [i, type] : llvm::enumerate(converted.results)) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor) {
      buffers.push_back(Value());
      kept.push_back(type);
      continue;
    }
    if (!tensor.hasStaticShape())
      return call.emitOpError("to a function that can't be inlined: result #")
             << i << " has type " << type
             << ", and only static sizes are known here";
    buffers.push_back(memref::AllocOp::create(rewriter, call.getLoc(),
                                              getBufferType(tensor)));
  }
  SmallVector<Value> added;
  for (Value buffer : buffers)
    if (buffer)
      added.push_back(buffer);
  operands.insert(operands.begin() + converted.firstPlace, added.begin(),
                  added.end());
  OperationState state(call.getLoc(), func::CallOp::getOperationName());
  state.addOperands(operands);
  state.addTypes(kept);
  state.addAttributes(call->getAttrs());
  state.attributes.erase(call.getResAttrsAttrName());
  state.attributes.erase(call.getArgAttrsAttrName());
  Operation *replacement = rewriter.create(state);
  SmallVector<Value> results;
  unsigned next = 0;
  for (auto [type, buffer] : llvm::zip_equal(converted.results, buffers))
    results.push_back(
        buffer ? Value(ToTensorOp::create(rewriter, call.getLoc(), type, buffer,
                                          /*restrict=*/true, /*writable=*/true))
               : replacement->getResult(next++));
  rewriter.replaceOp(call, results);
  return success();
}

LogicalResult mlir::tandem::moveResultsToArguments(IRRewriter &rewriter,
                                                   ModuleOp module) {
  llvm::MapVector<func::FuncOp, Converted> functions;
  WalkResult result = module.walk([&](func::FuncOp function) {
    if (function.isExternal() || function->hasAttr(shapeFunctionAttrName))
      return WalkResult::advance();
    return failed(convertFunction(rewriter, function, functions[function]))
               ? WalkResult::interrupt()
               : WalkResult::advance();
  });
  if (result.wasInterrupted())
    return failure();
  SymbolTableCollection symbols;
  SmallVector<func::CallOp> calls;
  module.walk([&](func::CallOp call) { calls.push_back(call); });
  for (func::CallOp call : calls) {
    auto callee = symbols.lookupNearestSymbolFrom<func::FuncOp>(
        call, call.getCalleeAttr());
    auto *it = callee ? functions.find(callee) : functions.end();
    if (it != functions.end() &&
        failed(convertCall(rewriter, call, callee, it->second)))
      return failure();
  }
  return success();
}
