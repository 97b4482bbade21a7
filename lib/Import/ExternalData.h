//===- ExternalData.h - Tensors stored beside the model -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_IMPORT_EXTERNALDATA_H
#define TANDEM_LIB_IMPORT_EXTERNALDATA_H

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <string>

namespace tandem_onnx {
class TensorProto;
} // namespace tandem_onnx

namespace mlir::tandem::onnx {

/// Where a tensor's bytes lie: `length` is -1 where the model does not say.
struct ExternalRef {
  std::string location;
  int64_t offset = 0;
  int64_t length = -1;
};

/// Reads the external_data entries of `tensor`. Returns false and sets `error`
/// when an entry is missing or malformed.
bool parseExternalRef(const ::tandem_onnx::TensorProto &tensor,
                      ExternalRef &ref, std::string &error);

/// Returns false and sets `error` when `location` is not a path inside the
/// model's folder: empty, absolute, with `..` or with a NUL. Looks at the text
/// only.
bool checkExternalLocation(llvm::StringRef location, std::string &error);

/// The files beside a model. Opens nothing until a value is read.
class ExternalFiles {
public:
  /// `folder` is what locations are relative to; empty if there is none (a
  /// model from memory). `followsLinks` lets symbolic links lead out of it.
  explicit ExternalFiles(std::string folder, bool followsLinks = false)
      : folder(std::move(folder)), followsLinks(followsLinks) {}

  /// Checks the text of `location` and, where the file exists, that symbolic
  /// links do not lead out of the folder. Each distinct location is looked at
  /// once.
  bool check(llvm::StringRef location, std::string &error);

  /// Reads exactly `size` bytes. Returns false and sets `error` when the file
  /// is missing, too short, not a regular file or outside the folder.
  bool read(const ExternalRef &ref, uint64_t size,
            llvm::SmallVectorImpl<char> &bytes, std::string &error);

private:
  bool isInside(llvm::StringRef realPath);

  std::string folder;
  bool followsLinks;
  std::string realFolder;
  llvm::StringMap<std::string> checked;
};

} // namespace mlir::tandem::onnx

#endif // TANDEM_LIB_IMPORT_EXTERNALDATA_H
