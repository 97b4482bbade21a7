//===- Acme.td - A dialect that is not part of Tandem ------*- tablegen -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ACME_TD
#define ACME_TD

include "mlir/IR/OpBase.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "tandem/Dialect/TandemInterfaces.td"

def Acme_Dialect : Dialect {
  let name = "acme";
  let cppNamespace = "::acme";
}

class Acme_Op<string mnemonic, list<Trait> traits = []>
    : Op<Acme_Dialect, mnemonic, traits>;

/// Written with Tandem in mind: it implements the interface itself.
def RowScaleOp : Acme_Op<"row_scale", [Pure,
    DeclareOpInterfaceMethods<RMSNormOpInterface>]> {
  let arguments = (ins AnyRankedTensor:$rows, AnyRankedTensor:$weight,
                       F64Attr:$floor);
  let results = (outs AnyRankedTensor:$scaled);
  let assemblyFormat = "$rows `,` $weight attr-dict `:` type($rows) `,` "
                       "type($weight) `->` type($scaled)";
}

/// Older than Tandem: acme.cpp attaches the interface from outside. It has
/// effects of its own, as a collective must.
def ExchangeOp : Acme_Op<"exchange", [MemoryEffects<[MemRead, MemWrite]>]> {
  let arguments = (ins AnyRankedTensor:$partial, UnitAttr:$plain);
  let results = (outs AnyRankedTensor:$total);
  let assemblyFormat = "$partial attr-dict `:` type($partial) `->` type($total)";
}

#endif // ACME_TD
