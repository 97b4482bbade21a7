//===- TandemDialect.td - The tandem dialect ------------- -*- tablegen -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_TANDEMDIALECT_TD
#define TANDEM_DIALECT_TANDEMDIALECT_TD

include "mlir/IR/OpBase.td"

def Tandem_Dialect : Dialect {
  let name = "tandem";
  let cppNamespace = "::mlir::tandem";
  let summary = "All-reduce, residual add and RMSNorm, apart and fused.";
  let description = [{
    In tensor-parallel inference each transformer layer twice sums partial
    results over the ranks of a group, adds the residual and normalises. This
    dialect names the three steps (`tandem.all_reduce`, `tandem.add`,
    `tandem.rms_norm`), the one op that does them together
    (`tandem.fused_all_reduce_norm`), and the question of up to how many
    tokens that op pays off (`tandem.token_limit`).

    Ops that communicate read and write one communication resource. So no pass
    may delete, duplicate, merge, reorder or speculate them, and all ranks
    execute them in the same order.

    A raised op may hold the ops that it was raised from in a `source` region;
    `tandem-restore` puts them back where they stood if the op did not fuse.

    The number of tokens of a tensor is the product of all its dimensions but
    the last; the last is the hidden size.

    Version log:
      1.0: first version.
  }];

  let dependentDialects = ["::mlir::tensor::TensorDialect"];

  let extraClassDeclaration = [{
    void registerAttributes();
    void registerTypes();

  public:
    /// Called with the report of every run of `tandem-fuse` in this context.
    using FusionReportHandler = ::std::function<void(const FusionReport &)>;

    /// Sets the handler; it must be safe to call from any thread that runs
    /// passes, and must not be changed while they run.
    void setFusionReportHandler(FusionReportHandler handler) {
      fusionReportHandler = ::std::move(handler);
    }
    const FusionReportHandler &getFusionReportHandler() const {
      return fusionReportHandler;
    }

  private:
    FusionReportHandler fusionReportHandler;
  }];

  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
}

#endif // TANDEM_DIALECT_TANDEMDIALECT_TD
