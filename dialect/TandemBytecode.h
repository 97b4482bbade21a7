//===- TandemBytecode.h - Version of the dialect in bytecode -- -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_TANDEMBYTECODE_H
#define TANDEM_DIALECT_TANDEMBYTECODE_H

namespace mlir::tandem {
class TandemDialect;

/// Makes the dialect write its version into bytecode and check it on reading.
void addBytecodeInterface(TandemDialect *dialect);

} // namespace mlir::tandem

#endif // TANDEM_DIALECT_TANDEMBYTECODE_H
