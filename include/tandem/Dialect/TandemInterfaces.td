//===- TandemInterfaces.td - Interfaces of the tandem dialect - -*- tablegen -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_TANDEMINTERFACES_TD
#define TANDEM_DIALECT_TANDEMINTERFACES_TD

include "mlir/IR/OpBase.td"

def AllReduceOpInterface : OpInterface<"AllReduceOpInterface"> {
  let cppNamespace = "::mlir::tandem";
  let description = [{
    An op that combines a tensor over the ranks of a group, every rank getting
    the result. `tandem-fuse` starts its chains at ops of this interface, so a
    dialect that has an all-reduce of its own joins in by implementing it.
  }];
  let methods = [
    InterfaceMethod<"The tensor that this rank contributes.",
      "::mlir::OpOperand &", "getReducedOperand">,
    InterfaceMethod<"The combined tensor, of the operand's type.",
      "::mlir::Value", "getReducedResult">,
    InterfaceMethod<"How values are combined.",
      "::mlir::tandem::ReductionKind", "getReductionKind">,
    InterfaceMethod<"The ranks that take part.",
      "::mlir::tandem::GroupAttr", "getReductionGroup">,
    InterfaceMethod<[{
        True where the op is the other branch of a fusion that has been made;
        such an op is left alone.
      }], "bool", "isFusionFallback", (ins), [{}], [{ return false; }]>,
    InterfaceMethod<[{
        Marks the op as the other branch of a fusion. `batchInvariant` asks for
        a sum whose order does not depend on the batch.
      }], "void", "markFusionFallback", (ins "bool":$batchInvariant)>,
  ];
}

def RMSNormOpInterface : OpInterface<"RMSNormOpInterface"> {
  let cppNamespace = "::mlir::tandem";
  let description = [{
    An op that divides each row (along the last dimension) of its input by the
    root of the mean of its squares plus epsilon, and scales it by gamma, as
    `tandem.rms_norm` does. `tandem-fuse` ends its chains at ops of this
    interface.
  }];
  let methods = [
    InterfaceMethod<"The tensor to normalise.",
      "::mlir::OpOperand &", "getNormOperand">,
    InterfaceMethod<"The scale, of shape [hidden].",
      "::mlir::Value", "getNormGamma">,
    InterfaceMethod<"The normalised tensor, of the input's type.",
      "::mlir::Value", "getNormResult">,
    InterfaceMethod<"Epsilon, as an f64 attribute.",
      "::mlir::FloatAttr", "getNormEpsilon">,
    InterfaceMethod<"When the op rounds to the element type.",
      "::mlir::tandem::NormRounding", "getNormRounding">,
  ];
}

#endif // TANDEM_DIALECT_TANDEMINTERFACES_TD
