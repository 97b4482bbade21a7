//===- ModelFile.h - An ONNX model in memory -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_IMPORT_MODELFILE_H
#define TANDEM_LIB_IMPORT_MODELFILE_H

#include "WireScan.h"

#include "tandem_onnx/onnx.pb.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/MemoryBuffer.h"

#include <memory>
#include <optional>
#include <string>

namespace mlir::tandem::onnx {

/// A parsed model together with the bytes it came from. Raw tensor data is
/// never copied: the message's raw_data fields hold descriptors, which
/// `rawData` turns into the bytes of the buffer. Nodes of the main graph are
/// not in the message; a NodeReader parses them.
class ModelFile {
public:
  /// Parses `buffer`. Returns null and sets `error` to one sentence on
  /// malformed input.
  static std::unique_ptr<ModelFile>
  parse(std::unique_ptr<llvm::MemoryBuffer> buffer, std::string &error);

  const ::tandem_onnx::ModelProto &model() const { return *proto; }

  /// The raw data of `tensor`; no value when it has none. Valid while
  /// `buffer()` is held.
  std::optional<llvm::ArrayRef<char>>
  rawData(const ::tandem_onnx::TensorProto &tensor) const;

  /// Puts back into `graph`, which is part of the model, or copied from it,
  /// what the message does not have.
  void restore(::tandem_onnx::GraphProto &graph) const;

  /// Documentation, metadata and device configurations of a node, as serialized
  /// fields of it; empty if it has none.
  std::string nodeExtras(const ::tandem_onnx::NodeProto &node) const;

  int64_t numNodes() const { return static_cast<int64_t>(kept.nodes.size()); }

  /// The node `index` of the main graph, serialized. Valid while the ModelFile
  /// is.
  llvm::StringRef nodeBytes(int64_t index) const;

  /// How many nodes of the main graph have an empty doc_string and no other
  /// documentation.
  int64_t numEmptyDocStrings() const {
    return static_cast<int64_t>(kept.numEmptyDocStrings);
  }

  /// The serialized function `index` of the model. Valid while `buffer()` is
  /// held.
  llvm::ArrayRef<char> functionBytes(size_t index) const;

  /// Training information and device configurations of the model, as
  /// serialized fields of it; empty if it has none.
  std::string modelExtras() const;

  /// The file's bytes. A holder of the pointer keeps them alive after the
  /// ModelFile is gone.
  std::shared_ptr<llvm::MemoryBuffer> buffer() const { return bytes; }

private:
  explicit ModelFile(std::unique_ptr<llvm::MemoryBuffer> buffer);

  llvm::StringRef text(const RawRange &range) const;

  std::shared_ptr<llvm::MemoryBuffer> bytes;
  KeptRanges kept;
  google::protobuf::Arena arena;
  ::tandem_onnx::ModelProto *proto;
};

} // namespace mlir::tandem::onnx

#endif // TANDEM_LIB_IMPORT_MODELFILE_H
