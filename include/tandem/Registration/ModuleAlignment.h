//===- ModuleAlignment.h - How modules lie in memory ------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_REGISTRATION_MODULEALIGNMENT_H
#define TANDEM_REGISTRATION_MODULEALIGNMENT_H

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Alignment.h"
#include "llvm/Support/MemoryBuffer.h"

#include <memory>

namespace mlir::tandem {

/// The alignment of every buffer that a module is read from. Bytecode aligns
/// the data of its resources relative to the buffer's begin, and its reader
/// refuses a buffer that is aligned to less than they are; what LLVM allocates
/// is aligned to 16 unless told otherwise, so that it would be left to chance
/// whether a module reads back. A page is what mapped files have.
inline constexpr llvm::Align moduleAlignment = llvm::Align::Constant<4096>();

/// A copy of a module's text or bytecode, called `name`.
inline std::unique_ptr<llvm::MemoryBuffer> copyModule(llvm::StringRef contents,
                                                      const llvm::Twine &name) {
  auto copy = llvm::WritableMemoryBuffer::getNewUninitMemBuffer(
      contents.size(), name, moduleAlignment);
  llvm::copy(contents, copy->getBufferStart());
  return copy;
}

/// For what was opened with that alignment: LLVM doesn't heed it for standard
/// input, pipes and other streams.
inline std::unique_ptr<llvm::MemoryBuffer>
alignModule(std::unique_ptr<llvm::MemoryBuffer> buffer) {
  if (!buffer || llvm::isAddrAligned(moduleAlignment, buffer->getBufferStart()))
    return buffer;
  return copyModule(buffer->getBuffer(), buffer->getBufferIdentifier());
}

} // namespace mlir::tandem

#endif // TANDEM_REGISTRATION_MODULEALIGNMENT_H
