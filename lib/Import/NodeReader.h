//===- NodeReader.h - Parses the nodes of a model ------------------*- C++
//-*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_IMPORT_NODEREADER_H
#define TANDEM_LIB_IMPORT_NODEREADER_H

#include "ModelFile.h"

#include "tandem_onnx/onnx.pb.h"

#include <cstdint>
#include <vector>

namespace mlir::tandem::onnx {

/// Parses the nodes of a model's main graph one by one, mostly into the same
/// message: a graph of them all would take ten times its file in memory, and
/// each would be out of the processor's caches again when its turn comes.
class NodeReader {
public:
  /// `file` must outlive the reader.
  explicit NodeReader(const ModelFile &file) : file(file) {}

  int64_t size() const { return file.numNodes(); }

  /// The node `index`; null where protobuf cannot parse it. It is there until
  /// the next call; as long as the reader if it holds tensors or graphs, to
  /// which what is known of values may refer.
  const ::tandem_onnx::NodeProto *read(int64_t index);

  /// Like `read`, for a node that stays as long as the reader.
  const ::tandem_onnx::NodeProto *readToStay(int64_t index);

private:
  ::tandem_onnx::NodeProto *parse(int64_t index);

  const ModelFile &file;
  google::protobuf::Arena arena;
  ::tandem_onnx::NodeProto *spare = nullptr;
};

} // namespace mlir::tandem::onnx

#endif // TANDEM_LIB_IMPORT_NODEREADER_H
