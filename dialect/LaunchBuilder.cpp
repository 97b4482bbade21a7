//===- LaunchBuilder.cpp - From the dialect's ops to launches -------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/LaunchBuilder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

using namespace mlir;
using namespace mlir::tandem;

template <typename T>
Value mlir::tandem::findHandle(Operation *op) {
  auto function = op->getParentOfType<FunctionOpInterface>();
  if (!function || function.isExternal())
    return Value();
  for (BlockArgument argument : function.getArguments())
    if (isa<T>(argument.getType()))
      return argument;
  return Value();
}
template Value mlir::tandem::findHandle<WorkspaceType>(Operation *);
template Value mlir::tandem::findHandle<StreamType>(Operation *);

LaunchBuilder::LaunchBuilder(LaunchOp op)
    : call(op.getCall()), input(op.getInput()), residual(op.getResidual()),
      bias(op.getBias()), preGamma(op.getPreGamma()), gamma(op.getGamma()),
      workspace(op.getWorkspace()), stream(op.getStream()),
      inits(op.getInits()), reduction(op.getReduction()),
      epsilon(op.getEpsilonAttr()), preEpsilon(op.getPreEpsilonAttr()),
      rounding(op.getRounding()), preRounding(op.getPreRounding()),
      returnsResidual(op.getReturnsResidual()), returnsSum(op.getReturnsSum()),
      fallback(op.getFallback()), batchInvariant(op.getBatchInvariant()) {}

LaunchBuilder::LaunchBuilder(FusedAllReduceNormOp op)
    : call(RuntimeCall::FusedAllReduceNorm), input(op.getInput()),
      residual(op.getResidual()), bias(op.getBias()),
      preGamma(op.getPreGamma()), gamma(op.getGamma()),
      workspace(op.getWorkspace()), stream(op.getStream()),
      inits(op.getInits()), epsilon(op.getEpsilonAttr()),
      preEpsilon(op.getPreEpsilonAttr()), rounding(op.getRounding()),
      preRounding(op.getPreRounding()),
      returnsResidual(op.getReturnsResidual()), returnsSum(op.getReturnsSum()),
      batchInvariant(op.getBatchInvariant()) {}

LaunchBuilder::LaunchBuilder(AllReduceOp op)
    : call(RuntimeCall::AllReduce), input(op.getInput()),
      workspace(op.getWorkspace()), stream(op.getStream()),
      reduction(op.getReduction()), fallback(op.getFallback()),
      batchInvariant(op.getBatchInvariant()) {}

LaunchBuilder::LaunchBuilder(RMSNormOp op)
    : call(RuntimeCall::RMSNorm), input(op.getInput()), gamma(op.getGamma()),
      workspace(findHandle<WorkspaceType>(op)),
      stream(findHandle<StreamType>(op)), epsilon(op.getEpsilonAttr()),
      rounding(op.getRounding()) {}

LaunchOp LaunchBuilder::create(OpBuilder &builder, Location loc) const {
  SmallVector<Type> types;
  if (isa<TensorType>(input.getType()))
    types = llvm::to_vector(ValueRange(inits).getTypes());
  else
    types = {builder.getI32Type()};
  MLIRContext *context = builder.getContext();
  auto unitIf = [&](bool set) {
    return set ? builder.getUnitAttr() : UnitAttr();
  };
  return LaunchOp::create(
      builder, loc, types, RuntimeCallAttr::get(context, call), input, residual,
      bias, preGamma, gamma, workspace, stream, inits,
      ReductionKindAttr::get(context, reduction), epsilon,
      NormRoundingAttr::get(context, rounding), preEpsilon,
      NormRoundingAttr::get(context, preRounding), unitIf(returnsResidual),
      unitIf(returnsSum), unitIf(fallback), unitIf(batchInvariant));
}

Operation *mlir::tandem::createAdd(OpBuilder &builder, Location loc,
                                   TypeRange results, ValueRange inputs,
                                   Value init) {
  int64_t rank = cast<ShapedType>(init.getType()).getRank();
  SmallVector<AffineMap> maps(3, builder.getMultiDimIdentityMap(rank));
  SmallVector<utils::IteratorType> iterators(rank,
                                             utils::IteratorType::parallel);
  return linalg::GenericOp::create(
      builder, loc, results, inputs, init, maps, iterators,
      [](OpBuilder &nested, Location nestedLoc, ValueRange elements) {
        Value sum =
            arith::AddFOp::create(nested, nestedLoc, elements[0], elements[1]);
        linalg::YieldOp::create(nested, nestedLoc, sum);
      });
}
