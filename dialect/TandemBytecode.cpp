//===- TandemBytecode.cpp - Bytecode version of the tandem dialect --------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TandemBytecode.h"

#include "tandem/Dialect/Tandem.h"

#include "mlir/Bytecode/BytecodeImplementation.h"

using namespace mlir;
using namespace mlir::tandem;

namespace {
/// Version of the dialect in bytecode. A minor step can be read by older
/// releases of the same major version; a major one can't.
struct TandemVersion : public DialectVersion {
  TandemVersion(uint64_t major, uint64_t minor) : major(major), minor(minor) {}
  uint64_t major, minor;
};

constexpr uint64_t currentMajor = 1, currentMinor = 0;

/// Writes and checks the version; attributes and types use their text form.
struct TandemBytecodeInterface : public BytecodeDialectInterface {
  explicit TandemBytecodeInterface(Dialect *dialect)
      : BytecodeDialectInterface(dialect) {}

  void writeVersion(DialectBytecodeWriter &writer) const final {
    writer.writeVarInt(currentMajor);
    writer.writeVarInt(currentMinor);
  }

  std::unique_ptr<DialectVersion>
  readVersion(DialectBytecodeReader &reader) const final {
    uint64_t major, minor;
    if (failed(reader.readVarInt(major)) || failed(reader.readVarInt(minor)))
      return nullptr;
    if (major > currentMajor) {
      reader.emitError() << "bytecode has version " << major << '.' << minor
                         << " of the tandem dialect; this program reads up to "
                         << currentMajor << ".x";
      return nullptr;
    }
    return std::make_unique<TandemVersion>(major, minor);
  }
};
} // namespace

void mlir::tandem::addBytecodeInterface(TandemDialect *dialect) {
  dialect->addInterfaces<TandemBytecodeInterface>();
}
