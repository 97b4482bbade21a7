//===- OutputFile.h - An output file written whole or not at all *- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TOOLS_COMMON_OUTPUTFILE_H
#define TANDEM_TOOLS_COMMON_OUTPUTFILE_H

#include "mlir/Support/LLVM.h"
#include "llvm/Support/FileSystem.h"

#include <memory>
#include <optional>
#include <string>

namespace llvm {
class raw_fd_ostream;
} // namespace llvm

namespace mlir::tandem {

/// An output file that appears, whole, when it is committed. Until then the
/// text goes to a file of another name in the same folder, which is removed
/// when the process fails: a run that fails leaves nothing behind, and leaves
/// an earlier output alone. It also lets the output replace the (mapped) input.
/// "-" is standard output; devices and pipes are written directly.
class OutputFile {
public:
  OutputFile() = default;
  ~OutputFile();
  OutputFile(const OutputFile &) = delete;
  OutputFile &operator=(const OutputFile &) = delete;

  /// Opens `path` for writing; on failure `error` says why, naming the path.
  LogicalResult open(StringRef path, std::string &error);

  /// The stream to write to, after a successful `open`.
  llvm::raw_fd_ostream &os() { return *stream; }

  /// Puts the file in its place. On failure (a full disk, say) `error` says
  /// why, naming the path.
  LogicalResult commit(std::string &error);

private:
  std::string path;
  std::optional<llvm::sys::fs::TempFile> temporary;
  std::unique_ptr<llvm::raw_fd_ostream> owned;
  llvm::raw_fd_ostream *stream = nullptr;
};

} // namespace mlir::tandem

#endif // TANDEM_TOOLS_COMMON_OUTPUTFILE_H
