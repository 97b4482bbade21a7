//===- NodeReader.cpp - Parses the nodes of a model -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "NodeReader.h"

#include "llvm/ADT/STLExtras.h"

#include <limits>

using namespace mlir::tandem::onnx;
using ::tandem_onnx::AttributeProto;
using ::tandem_onnx::NodeProto;

static bool holdsTensorOrGraph(const NodeProto &node) {
  return llvm::any_of(node.attribute(), [](const AttributeProto &attribute) {
    return attribute.has_t() || attribute.has_g() ||
           attribute.has_sparse_tensor() || !attribute.tensors().empty() ||
           !attribute.graphs().empty() || !attribute.sparse_tensors().empty();
  });
}

NodeProto *NodeReader::parse(int64_t index) {
  if (!spare)
    spare = google::protobuf::Arena::CreateMessage<NodeProto>(&arena);
  llvm::StringRef bytes = file.nodeBytes(index);
  if (bytes.size() > static_cast<size_t>(std::numeric_limits<int>::max()) ||
      !spare->ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    return nullptr;
  return spare;
}

const NodeProto *NodeReader::read(int64_t index) {
  const NodeProto *node = parse(index);
  if (node && holdsTensorOrGraph(*node))
    spare = nullptr;
  return node;
}

const NodeProto *NodeReader::readToStay(int64_t index) {
  const NodeProto *node = parse(index);
  if (node)
    spare = nullptr;
  return node;
}
