//===- Tandem.h - The tandem dialect -------------------------- -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_TANDEM_H
#define TANDEM_DIALECT_TANDEM_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/DestinationStyleOpInterface.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include <functional>
#include <optional>

namespace mlir::tandem {
struct FusionReport;
} // namespace mlir::tandem

#include "tandem/Dialect/TandemDialect.h.inc"
#include "tandem/Dialect/TandemEnums.h.inc"

namespace mlir::tandem {

/// The resource that every communicating op reads and writes. It keeps passes
/// from deleting, merging or reordering collectives.
struct CommunicationResource
    : public SideEffects::Resource::Base<CommunicationResource> {
  StringRef getName() final { return "Communication"; }
};

} // namespace mlir::tandem

#define GET_ATTRDEF_CLASSES
#include "tandem/Dialect/TandemAttrs.h.inc"
#define GET_TYPEDEF_CLASSES
#include "tandem/Dialect/TandemTypes.h.inc"

#include "tandem/Dialect/TandemInterfaces.h.inc"

#define GET_OP_CLASSES
#include "tandem/Dialect/TandemOps.h.inc"

namespace mlir::tandem {

/// The number of tokens of a static shape: the product of all dimensions but
/// the last. Returns std::nullopt for rank 0, where a leading dimension is
/// dynamic, or where the product does not fit 64 bits.
std::optional<int64_t> getStaticTokenCount(ArrayRef<int64_t> shape);

/// Attribute of a module in which ops were fused: the ONNX nodes that the
/// source had for an all-reduce, by group and reduction, for the exporter.
inline constexpr StringLiteral
    allReduceNodesAttrName("tandem.all_reduce_nodes");

} // namespace mlir::tandem

#endif // TANDEM_DIALECT_TANDEM_H
