//===- MiniOnnx.td - An onnx dialect of a host -------------*- tablegen -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a compiler like onnx-mlir has: registered ops whose attributes are
// properties, which verify, fold, and are Pure, custom ops among them.
//
//===----------------------------------------------------------------------===//

#ifndef MINI_ONNX_TD
#define MINI_ONNX_TD

include "mlir/IR/OpBase.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Onnx_Dialect : Dialect {
  let name = "onnx";
  let cppNamespace = "::mini";
}

class Onnx_Op<string mnemonic, list<Trait> traits = []>
    : Op<Onnx_Dialect, mnemonic, !listconcat([Pure], traits)>;

class Onnx_Binary<string mnemonic> : Onnx_Op<mnemonic> {
  let arguments = (ins AnyTensor:$A, AnyTensor:$B);
  let results = (outs AnyTensor:$C);
}
def AddOp : Onnx_Binary<"Add">;
def DivOp : Onnx_Binary<"Div">;
def MulOp : Onnx_Binary<"Mul">;
def PowOp : Onnx_Binary<"Pow">;

class Onnx_Unary<string mnemonic, list<Trait> traits = []>
    : Onnx_Op<mnemonic, traits> {
  let arguments = (ins AnyTensor:$X);
  let results = (outs AnyTensor:$Y);
}
def SqrtOp : Onnx_Unary<"Sqrt", [SameOperandsAndResultType]>;

/// The axes as an attribute, in the version that had them there.
def ReduceMeanV13Op : Onnx_Op<"ReduceMeanV13"> {
  let arguments = (ins AnyTensor:$data, OptionalAttr<I64ArrayAttr>:$axes,
    DefaultValuedAttr<SI64Attr, "1">:$keepdims);
  let results = (outs AnyTensor:$reduced);
}

def ConstantOp : Onnx_Op<"Constant", [ConstantLike]> {
  let arguments = (ins ElementsAttr:$value);
  let results = (outs AnyTensor:$output);
  let hasFolder = 1;
}

def NoValueOp : Onnx_Op<"NoValue"> {
  let arguments = (ins UnitAttr:$value);
  let results = (outs NoneType:$none_val);
}

def RMSNormalizationOp : Onnx_Op<"RMSNormalization"> {
  let arguments = (ins AnyTensor:$X, AnyTensor:$scale,
    DefaultValuedAttr<SI64Attr, "-1">:$axis,
    DefaultValuedAttr<F32Attr, "1e-05">:$epsilon,
    DefaultValuedAttr<SI64Attr, "1">:$stash_type);
  let results = (outs AnyTensor:$Y);
}

/// An op of another domain. As in onnx-mlir it is Pure, even a collective.
def CustomOp : Onnx_Op<"Custom"> {
  let arguments = (ins Variadic<AnyTypeOf<[AnyTensor, NoneType]>>:$inputs,
    StrAttr:$function_name, OptionalAttr<StrAttr>:$domain_name);
  let results = (outs Variadic<AnyTypeOf<[AnyTensor, NoneType]>>:$outputs);
  let hasVerifier = 1;
}

#endif // MINI_ONNX_TD
