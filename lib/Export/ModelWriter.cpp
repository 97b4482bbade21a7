//===- ModelWriter.cpp - A model to a stream -===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ModelWriter.h"

#include "llvm/Support/raw_ostream.h"

#include <limits>

using namespace mlir::tandem::onnx;
using ::tandem_onnx::GraphProto;
using ::tandem_onnx::ModelProto;
using ::tandem_onnx::TensorProto;

// Fields of a message may come in any order, so the parts that protobuf writes
// and those that are written here need not be interleaved.

static void appendVarint(std::string &out, uint64_t value) {
  for (; value >= 0x80; value >>= 7)
    out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

/// The head of a field that holds `size` bytes.
static std::string fieldHead(unsigned field, uint64_t size) {
  std::string head;
  appendVarint(head, (field << 3) | 2);
  appendVarint(head, size);
  return head;
}

bool mlir::tandem::onnx::writeModel(ModelProto &model,
                                    std::deque<Initializer> &initializers,
                                    llvm::raw_ostream &os, std::string &error) {
  struct Part {
    std::string head; ///< of the initializer, and all of it but its bytes
    llvm::ArrayRef<char> bytes;
  };
  constexpr uint64_t limit = std::numeric_limits<int32_t>::max();
  std::vector<Part> parts;
  uint64_t graphSize = model.graph().ByteSizeLong();
  uint64_t numInline = 0;
  for (Initializer &initializer : initializers) {
    std::string body = initializer.proto.SerializeAsString();
    bool hasBytes =
        initializer.proto.data_location() != TensorProto::EXTERNAL &&
        initializer.proto.data_type() != TensorProto::STRING;
    uint64_t size = body.size();
    if (hasBytes) {
      body += fieldHead(TensorProto::kRawDataFieldNumber,
                        initializer.data.bytes.size());
      size = body.size() + initializer.data.bytes.size();
      numInline += initializer.data.bytes.size();
    }
    Part part{fieldHead(GraphProto::kInitializerFieldNumber, size) + body,
              hasBytes ? initializer.data.bytes : llvm::ArrayRef<char>()};
    graphSize += part.head.size() + part.bytes.size();
    parts.push_back(std::move(part));
  }
  // The graph goes by itself, the rest of the model around it.
  std::unique_ptr<GraphProto> graph(model.release_graph());
  uint64_t total = model.ByteSizeLong() + graphSize + 16;
  if (total > limit) {
    error = ("the model would have " + llvm::Twine(total >> 20) +
             " MiB, of which " + llvm::Twine(numInline >> 20) +
             " MiB are weights inside it; protobuf reads at most 2 GiB. Store "
             "the source's weights as external data")
                .str();
    model.set_allocated_graph(graph.release());
    return false;
  }
  std::string text = model.SerializeAsString();
  text += fieldHead(ModelProto::kGraphFieldNumber, graphSize);
  os << text << graph->SerializeAsString();
  for (const Part &part : parts) {
    os << part.head;
    os.write(part.bytes.data(), part.bytes.size());
  }
  model.set_allocated_graph(graph.release());
  return true;
}
