//===- TandemAttrs.td - Attributes of the tandem dialect - -*- tablegen -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_TANDEMATTRS_TD
#define TANDEM_DIALECT_TANDEMATTRS_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "tandem/Dialect/TandemDialect.td"

//===----------------------------------------------------------------------===//
// Enums
//===----------------------------------------------------------------------===//

def Tandem_ReductionKind : I32EnumAttr<"ReductionKind",
    "how an all-reduce combines the ranks' values", [
      I32EnumAttrCase<"Sum", 0, "sum">,
      I32EnumAttrCase<"Product", 1, "product">,
      I32EnumAttrCase<"Min", 2, "min">,
      I32EnumAttrCase<"Max", 3, "max">,
      I32EnumAttrCase<"Average", 4, "average">]> {
  let cppNamespace = "::mlir::tandem";
  let genSpecializedAttr = 0;
}

def Tandem_ReductionKindAttr
    : EnumAttr<Tandem_Dialect, Tandem_ReductionKind, "reduction">;

def Tandem_NormRounding : I32EnumAttr<"NormRounding",
    "when a norm rounds to the element type", [
      I32EnumAttrCase<"BeforeGamma", 0, "before_gamma">,
      I32EnumAttrCase<"AfterGamma", 1, "after_gamma">]> {
  let cppNamespace = "::mlir::tandem";
  let genSpecializedAttr = 0;
  let description = [{
    `before_gamma`: the normalised value is rounded to the element type, then
    multiplied by gamma, and the product is rounded (Hugging Face,
    RMSNormalization). `after_gamma`: the normalised value is multiplied by
    gamma in f32, and that product is rounded (SimplifiedLayerNormalization, and
    norms written in f32 with a cast at their end). The two differ by up to one
    rounding to the element type.
  }];
}

def Tandem_NormRoundingAttr
    : EnumAttr<Tandem_Dialect, Tandem_NormRounding, "rounding">;

def Tandem_RuntimeCall : I32EnumAttr<"RuntimeCall",
    "an execute call of the runtime", [
      I32EnumAttrCase<"AllReduce", 0, "all_reduce">,
      I32EnumAttrCase<"FusedAllReduceNorm", 1, "fused_all_reduce_norm">,
      I32EnumAttrCase<"AddRMSNorm", 2, "add_rms_norm">,
      I32EnumAttrCase<"RMSNorm", 3, "rms_norm">]> {
  let cppNamespace = "::mlir::tandem";
}

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

class Tandem_Attr<string name, string attrMnemonic>
    : AttrDef<Tandem_Dialect, name> {
  let mnemonic = attrMnemonic;
}

def Tandem_GroupAttr : Tandem_Attr<"Group", "group"> {
  let summary = "the ranks that a collective spans";
  let description = [{
    A group is known by its name. `size` is the number of ranks in it, 0 where
    the source does not say. `ranks`, where given, lists global ranks; each run
    of `size` of them is one group. Two collectives are of one group when their
    attributes are equal.

    ```mlir
    #tandem.group<"world">
    #tandem.group<"tp", size = 2>
    #tandem.group<"tp", size = 2, ranks = [0, 1, 2, 3]>
    ```
  }];
  let parameters = (ins
    StringRefParameter<"the group's name">:$name,
    DefaultValuedParameter<"int64_t", "0", "ranks in a group">:$size,
    OptionalArrayRefParameter<"int64_t", "global ranks">:$ranks);
  let constBuilderCall =
      "::mlir::tandem::GroupAttr::get($_builder.getContext(), \"$0\", "
      "/*size=*/0, /*ranks=*/::llvm::ArrayRef<int64_t>())";
  let extraClassDeclaration = [{
    /// The group of all ranks, whose size is not known.
    static GroupAttr getWorld(::mlir::MLIRContext *context);
  }];
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def Tandem_ExternalDataAttr : Tandem_Attr<"ExternalData", "external"> {
  let summary = "a tensor's bytes in a file that has not been read";
  let description = [{
    `location` is a path relative to the model's folder, `offset` and `length`
    are in bytes; `length` is -1 where the model does not give it.

    ```mlir
    #tandem.external<"model.data", offset = 4096, length = 8192>
    ```
  }];
  let parameters = (ins
    StringRefParameter<"path relative to the model's folder">:$location,
    DefaultValuedParameter<"int64_t", "0", "first byte">:$offset,
    DefaultValuedParameter<"int64_t", "-1", "number of bytes">:$length);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

#endif // TANDEM_DIALECT_TANDEMATTRS_TD
