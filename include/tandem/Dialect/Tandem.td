//===- Tandem.td - All of the tandem dialect ------------- -*- tablegen -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_TANDEM_TD
#define TANDEM_DIALECT_TANDEM_TD

include "tandem/Dialect/TandemAttrs.td"
include "tandem/Dialect/TandemDialect.td"
include "tandem/Dialect/TandemInterfaces.td"
include "tandem/Dialect/TandemOps.td"
include "tandem/Dialect/TandemTypes.td"

#endif // TANDEM_DIALECT_TANDEM_TD
