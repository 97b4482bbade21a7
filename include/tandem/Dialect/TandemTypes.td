//===- TandemTypes.td - Types of the tandem dialect ------ -*- tablegen -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_TANDEMTYPES_TD
#define TANDEM_DIALECT_TANDEMTYPES_TD

include "mlir/IR/AttrTypeBase.td"
include "tandem/Dialect/TandemDialect.td"

class Tandem_Type<string name, string typeMnemonic>
    : TypeDef<Tandem_Dialect, name> {
  let mnemonic = typeMnemonic;
}

def Tandem_WorkspaceType : Tandem_Type<"Workspace", "workspace"> {
  let summary = "a group's handle";
  let description = [{
    The handle of one group: its communicator and the buffers that its ranks
    share. Made and destroyed by the caller through the runtime's C ABI.
  }];
}

def Tandem_StreamType : Tandem_Type<"Stream", "stream"> {
  let summary = "the queue that a function's device work is put on";
}

#endif // TANDEM_DIALECT_TANDEMTYPES_TD
