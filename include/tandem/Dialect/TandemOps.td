//===- TandemOps.td - Ops of the tandem dialect ---------- -*- tablegen -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_TANDEMOPS_TD
#define TANDEM_DIALECT_TANDEMOPS_TD

include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/CommonTypeConstraints.td"
include "mlir/IR/OpBase.td"
include "mlir/Interfaces/DestinationStyleOpInterface.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "tandem/Dialect/TandemAttrs.td"
include "tandem/Dialect/TandemDialect.td"
include "tandem/Dialect/TandemInterfaces.td"
include "tandem/Dialect/TandemTypes.td"

def Tandem_CommunicationResource
    : Resource<"::mlir::tandem::CommunicationResource">;

/// Communication is ordered and must happen exactly as often as written.
def Tandem_Communicates : MemoryEffects<[
    MemRead<Tandem_CommunicationResource>,
    MemWrite<Tandem_CommunicationResource>]>;

def Tandem_Number : AnyTypeOf<[AnyFloat, AnyInteger]>;
def Tandem_Tensor : TensorOf<[Tandem_Number]>;
def Tandem_FloatTensor : RankedTensorOf<[AnyFloat]>;
def Tandem_Gamma : RankedTensorOf<[AnyFloat], [HasAnyRankOfPred<[1]>],
                                  "rank-1 tensor">;

class Tandem_Op<string mnemonic, list<Trait> traits = []>
    : Op<Tandem_Dialect, mnemonic, traits>;

/// An op that may hold the ops it was raised from.
class Tandem_RaisedOp<string mnemonic, list<Trait> traits = []>
    : Tandem_Op<mnemonic, traits # [SingleBlock, NoRegionArguments,
        DeclareOpInterfaceMethods<ReifyRankedShapedTypeOpInterface,
                                  ["reifyResultShapes"]>]> {
  let regions = (region MaxSizedRegion<1>:$source);
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// AllReduceOp
//===----------------------------------------------------------------------===//

def Tandem_AllReduceOp : Tandem_RaisedOp<"all_reduce", [
    AttrSizedOperandSegments, Tandem_Communicates,
    AllTypesMatch<["input", "result"]>,
    DeclareOpInterfaceMethods<AllReduceOpInterface,
                              ["isFusionFallback"]>]> {
  let summary = "combine a tensor over the ranks of a group";
  let description = [{
    Every rank of `group` gives `input`, and every rank gets the element-wise
    combination. The input has the same shape on all ranks of the group.

    `fallback` marks the op as the branch not taken by a fused op: the pass
    skips it. `batch_invariant` asks for a sum in rank order, which NCCL's on
    GPUs is not.

    ```mlir
    %s = tandem.all_reduce %x : tensor<?x?x4096xbf16>
    %m = tandem.all_reduce %x {group = #tandem.group<"tp", size = 4>,
                               reduction = #tandem<reduction max>}
           : tensor<?x4096xf32>
    ```
  }];
  let arguments = (ins
    Tandem_Tensor:$input,
    Optional<Tandem_WorkspaceType>:$workspace,
    Optional<Tandem_StreamType>:$stream,
    DefaultValuedAttr<Tandem_ReductionKindAttr,
                      "::mlir::tandem::ReductionKind::Sum">:$reduction,
    DefaultValuedAttr<Tandem_GroupAttr, "world">:$group,
    UnitAttr:$fallback,
    UnitAttr:$batch_invariant,
    OptionalAttr<DenseI64ArrayAttr>:$source_positions);
  let results = (outs Tandem_Tensor:$result);
  let assemblyFormat = [{
    $input (`workspace` $workspace^)? (`stream` $stream^)? attr-dict
    `:` type($input) (`source` $source^)?
  }];
  let builders = [
    OpBuilder<(ins "::mlir::Value":$input,
      CArg<"::mlir::tandem::ReductionKind",
           "::mlir::tandem::ReductionKind::Sum">:$reduction,
      CArg<"::mlir::tandem::GroupAttr", "{}">:$group)>];
}

//===----------------------------------------------------------------------===//
// AddOp
//===----------------------------------------------------------------------===//

def Tandem_AddOp : Tandem_RaisedOp<"add", [
    Pure, Commutative, AllTypesMatch<["lhs", "rhs", "result"]>]> {
  let summary = "element-wise sum of two tensors of one shape";
  let description = [{
    Both operands have the same shape, also where it is not static; there is no
    broadcasting. The sum is rounded once to the element type.

    ```mlir
    %r = tandem.add %s, %residual : tensor<?x?x4096xbf16>
    ```
  }];
  let arguments = (ins Tandem_FloatTensor:$lhs, Tandem_FloatTensor:$rhs,
                       OptionalAttr<DenseI64ArrayAttr>:$source_positions);
  let results = (outs Tandem_FloatTensor:$result);
  let assemblyFormat = [{
    $lhs `,` $rhs attr-dict `:` type($result) (`source` $source^)?
  }];
  let builders = [
    OpBuilder<(ins "::mlir::Value":$lhs, "::mlir::Value":$rhs)>];
  let hasFolder = 1;
}

//===----------------------------------------------------------------------===//
// RMSNormOp
//===----------------------------------------------------------------------===//

def Tandem_RMSNormOp : Tandem_RaisedOp<"rms_norm", [
    Pure, AllTypesMatch<["input", "result"]>,
    DeclareOpInterfaceMethods<RMSNormOpInterface>]> {
  let summary = "root-mean-square normalisation over the last dimension";
  let description = [{
    For each row x of length H:

      n = x / sqrt(mean(x * x) + epsilon)
      y = n * gamma

    computed in f32 (f64 for f64 tensors), the product with gamma included:
    each operation rounds to f32 as IEEE arithmetic does, and the result once
    more to the input's element type. `rounding` says whether n, too, is rounded
    to the element type before it is multiplied by gamma. gamma may have another
    element type than the input.

    Formula: Zhang and Sennrich, Root Mean Square Layer Normalization, 2019.

    ```mlir
    %y = tandem.rms_norm %r, %gamma {epsilon = 1.0e-5 : f64}
           : tensor<?x?x4096xbf16>, tensor<4096xbf16>
    ```
  }];
  let arguments = (ins
    Tandem_FloatTensor:$input,
    Tandem_Gamma:$gamma,
    F64Attr:$epsilon,
    DefaultValuedAttr<Tandem_NormRoundingAttr,
      "::mlir::tandem::NormRounding::BeforeGamma">:$rounding,
    OptionalAttr<DenseI64ArrayAttr>:$source_positions);
  let results = (outs Tandem_FloatTensor:$result);
  let assemblyFormat = [{
    $input `,` $gamma attr-dict `:` type($input) `,` type($gamma)
    (`source` $source^)?
  }];
  let builders = [
    OpBuilder<(ins "::mlir::Value":$input, "::mlir::Value":$gamma,
      "double":$epsilon, "::mlir::tandem::NormRounding":$rounding)>];
}

//===----------------------------------------------------------------------===//
// FusedAllReduceNormOp
//===----------------------------------------------------------------------===//

def Tandem_FusedAllReduceNormOp : Tandem_Op<"fused_all_reduce_norm", [
    AttrSizedOperandSegments, Tandem_Communicates,
    DestinationStyleOpInterface,
    DeclareOpInterfaceMethods<ReifyRankedShapedTypeOpInterface,
                              ["reifyResultShapes"]>]> {
  let summary = "all-reduce, adds and RMSNorm in one";
  let description = [{
    With rn one rounding to the element type:

      s = rn(sum of input over the ranks, in rank order, in f32;
             where the runtime falls back to NCCL: NCCL's sum)
      t = rn(s + bias)         where `bias` is given, else s
      t = rms_norm(t)          with `pre_gamma`, where given
      r = rn(t + residual)     where `residual` is given, else t
      y = rms_norm(r)          with `gamma`

    Results, in this order, each with its destination in `outs`: y; r if
    `returns_residual`; s if `returns_sum`. Residual and destinations have the
    input's shape; their types may say more or less of it.

    ```mlir
    %y, %r = tandem.fused_all_reduce_norm %x
        residual(%h : tensor<?x4096xbf16>) gamma(%g : tensor<4096xbf16>)
        outs(%d0, %d1 : tensor<?x4096xbf16>, tensor<?x4096xbf16>)
        {epsilon = 1.0e-5 : f64, returns_residual}
        : tensor<?x4096xbf16> -> tensor<?x4096xbf16>, tensor<?x4096xbf16>
    ```
  }];
  let arguments = (ins
    Tandem_FloatTensor:$input,
    Optional<Tandem_FloatTensor>:$residual,
    Optional<Tandem_Gamma>:$bias,
    Optional<Tandem_Gamma>:$pre_gamma,
    Tandem_Gamma:$gamma,
    Optional<Tandem_WorkspaceType>:$workspace,
    Optional<Tandem_StreamType>:$stream,
    Variadic<Tandem_FloatTensor>:$inits,
    DefaultValuedAttr<Tandem_GroupAttr, "world">:$group,
    F64Attr:$epsilon,
    DefaultValuedAttr<Tandem_NormRoundingAttr,
      "::mlir::tandem::NormRounding::BeforeGamma">:$rounding,
    OptionalAttr<F64Attr>:$pre_epsilon,
    DefaultValuedAttr<Tandem_NormRoundingAttr,
      "::mlir::tandem::NormRounding::BeforeGamma">:$pre_rounding,
    UnitAttr:$returns_residual,
    UnitAttr:$returns_sum,
    UnitAttr:$batch_invariant);
  let results = (outs Variadic<Tandem_FloatTensor>:$results);
  let assemblyFormat = [{
    $input (`residual` `(` $residual^ `:` type($residual) `)`)?
    (`bias` `(` $bias^ `:` type($bias) `)`)?
    (`pre_gamma` `(` $pre_gamma^ `:` type($pre_gamma) `)`)?
    `gamma` `(` $gamma `:` type($gamma) `)`
    (`workspace` $workspace^)? (`stream` $stream^)?
    `outs` `(` $inits `:` type($inits) `)`
    attr-dict `:` type($input) `->` type($results)
  }];
  let extraClassDeclaration = [{
    ::mlir::MutableOperandRange getDpsInitsMutable() {
      return getInitsMutable();
    }
    /// The normalised tensor y.
    ::mlir::Value getNorm() { return getResults().front(); }
    /// The new residual r, null where it is not returned.
    ::mlir::Value getNewResidual() {
      return getReturnsResidual() ? ::mlir::Value(getResults()[1])
                                  : ::mlir::Value();
    }
    /// The all-reduce's own sum s, null where it is not returned.
    ::mlir::Value getSum() {
      return getReturnsSum() ? ::mlir::Value(getResults().back())
                             : ::mlir::Value();
    }
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// TokenLimitOp
//===----------------------------------------------------------------------===//

def Tandem_TokenLimitOp : Tandem_Op<"token_limit", [Pure]> {
  let summary = "largest token count for which the fused path should run";
  let description = [{
    Asks the runtime up to how many tokens, inclusive, the fused path of a
    group can and should run for rows of `hidden` elements of `element_type`;
    -1 where there is no fused path. All ranks of the group get the same
    answer, and it stays the same for as long as the group's workspace lives.

    ```mlir
    %limit = tandem.token_limit {hidden = 4096 : i64, element_type = bf16}
    ```
  }];
  let arguments = (ins
    Optional<Tandem_WorkspaceType>:$workspace,
    DefaultValuedAttr<Tandem_GroupAttr, "world">:$group,
    ConfinedAttr<I64Attr, [IntPositive]>:$hidden,
    TypeAttrOf<AnyFloat>:$element_type);
  let results = (outs I64:$limit);
  let assemblyFormat = "($workspace^)? attr-dict";
}

//===----------------------------------------------------------------------===//
// LaunchOp
//===----------------------------------------------------------------------===//

def Tandem_FloatMemRef : MemRefOf<[AnyFloat]>;
def Tandem_LaunchData : AnyTypeOf<[Tandem_FloatTensor, Tandem_FloatMemRef]>;
def Tandem_LaunchRow : AnyTypeOf<[
    Tandem_Gamma, MemRefRankOf<[AnyFloat], [1]>]>;

def Tandem_LaunchOp : Tandem_Op<"launch", [
    AttrSizedOperandSegments, DestinationStyleOpInterface,
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>,
    DeclareOpInterfaceMethods<ReifyRankedShapedTypeOpInterface,
                              ["reifyResultShapes"]>]> {
  let summary = "an execute call of the runtime, on tensors or buffers";
  let description = [{
    What the other ops become on the way to the runtime: one call of its C ABI,
    with destinations. On tensors it has a result for each destination, on
    buffers one, the call's status.

    | call | operands | destinations |
    |---|---|---|
    | `all_reduce` | | the reduced tensor |
    | `fused_all_reduce_norm` | as `tandem.fused_all_reduce_norm` | as there |
    | `add_rms_norm` | the same, the input being the sum | norm, new residual |
    | `rms_norm` | gamma | norm |

    A destination may be the same buffer as the input or the residual.
    `fallback` marks an all-reduce as the other branch of a fused call.

    ```mlir
    %s = tandem.launch all_reduce %x workspace %w stream %q
           outs(%y : memref<?x4096xbf16>) {fallback}
           : memref<?x4096xbf16> -> i32
    ```
  }];
  let arguments = (ins
    Tandem_RuntimeCall:$call,
    Tandem_LaunchData:$input,
    Optional<Tandem_LaunchData>:$residual,
    Optional<Tandem_LaunchRow>:$bias,
    Optional<Tandem_LaunchRow>:$pre_gamma,
    Optional<Tandem_LaunchRow>:$gamma,
    Optional<Tandem_WorkspaceType>:$workspace,
    Optional<Tandem_StreamType>:$stream,
    Variadic<Tandem_LaunchData>:$inits,
    DefaultValuedAttr<Tandem_ReductionKindAttr,
                      "::mlir::tandem::ReductionKind::Sum">:$reduction,
    OptionalAttr<F64Attr>:$epsilon,
    DefaultValuedAttr<Tandem_NormRoundingAttr,
      "::mlir::tandem::NormRounding::BeforeGamma">:$rounding,
    OptionalAttr<F64Attr>:$pre_epsilon,
    DefaultValuedAttr<Tandem_NormRoundingAttr,
      "::mlir::tandem::NormRounding::BeforeGamma">:$pre_rounding,
    UnitAttr:$returns_residual,
    UnitAttr:$returns_sum,
    UnitAttr:$fallback,
    UnitAttr:$batch_invariant);
  let results = (outs Variadic<AnyTypeOf<[Tandem_FloatTensor, I32]>>:$results);
  let assemblyFormat = [{
    $call $input (`residual` `(` $residual^ `:` type($residual) `)`)?
    (`bias` `(` $bias^ `:` type($bias) `)`)?
    (`pre_gamma` `(` $pre_gamma^ `:` type($pre_gamma) `)`)?
    (`gamma` `(` $gamma^ `:` type($gamma) `)`)?
    (`workspace` $workspace^)? (`stream` $stream^)?
    `outs` `(` $inits `:` type($inits) `)`
    attr-dict `:` type($input) `->` type($results)
  }];
  let extraClassDeclaration = [{
    ::mlir::MutableOperandRange getDpsInitsMutable() {
      return getInitsMutable();
    }
    /// Whether all ranks of the group take part in the call.
    bool isCollective() {
      return getCall() == RuntimeCall::AllReduce ||
             getCall() == RuntimeCall::FusedAllReduceNorm;
    }
    /// Whether the op works on buffers and so has a status.
    bool isOnBuffers() {
      return ::llvm::isa<::mlir::MemRefType>(getInput().getType());
    }
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// YieldOp
//===----------------------------------------------------------------------===//

def Tandem_YieldOp : Tandem_Op<"yield", [
    Pure, Terminator,
    ParentOneOf<["AllReduceOp", "AddOp", "RMSNormOp"]>]> {
  let summary = "end of a source region";
  let description = [{
    The first value stands for the result of the raised op. A second value, if
    any, stands for its first operand, where the source computed that too (as
    SkipSimplifiedLayerNormalization does).
  }];
  let arguments = (ins Variadic<AnyType>:$values);
  let assemblyFormat = "attr-dict $values `:` type($values)";
}

#endif // TANDEM_DIALECT_TANDEMOPS_TD
