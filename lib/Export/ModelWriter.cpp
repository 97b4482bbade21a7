//===- ModelWriter.cpp - A model to a stream -===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ModelWriter.h"

#include "llvm/Support/LEB128.h"
#include "llvm/Support/raw_ostream.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <limits>

using namespace mlir::tandem::onnx;
using ::tandem_onnx::GraphProto;
using ::tandem_onnx::ModelProto;
using ::tandem_onnx::TensorProto;

// Fields come in the order of their numbers, as protobuf writes them, so that a
// model that did not change is the same file.

/// Where in the serialized message `bytes` the fields with higher numbers than
/// `field` begin.
static size_t findFieldAfter(llvm::StringRef bytes, int field) {
  using google::protobuf::internal::WireFormatLite;
  google::protobuf::io::CodedInputStream input(
      reinterpret_cast<const uint8_t *>(bytes.data()),
      static_cast<int>(bytes.size()));
  while (true) {
    int at = input.CurrentPosition();
    uint32_t tag = input.ReadTag();
    if (tag == 0)
      return bytes.size();
    if (WireFormatLite::GetTagFieldNumber(tag) > field)
      return static_cast<size_t>(at);
    WireFormatLite::SkipField(&input, tag);
  }
}

/// The head of a field that holds `size` bytes.
static std::string fieldHead(unsigned field, uint64_t size) {
  std::string head;
  llvm::raw_string_ostream os(head);
  llvm::encodeULEB128((field << 3) | 2, os);
  llvm::encodeULEB128(size, os);
  return head;
}

bool mlir::tandem::onnx::writeModel(ModelProto &model,
                                    std::deque<Initializer> &initializers,
                                    llvm::raw_ostream &os, std::string &error) {
  struct Part {
    std::string head; ///< what of the initializer comes before its bytes
    llvm::ArrayRef<char> bytes;
    std::string rest; ///< and after them
  };
  constexpr uint64_t limit = std::numeric_limits<int32_t>::max();
  std::vector<Part> parts;
  uint64_t graphSize = model.graph().ByteSizeLong();
  uint64_t numInline = 0;
  for (Initializer &initializer : initializers) {
    std::string body = initializer.proto.SerializeAsString();
    std::string rest =
        body.substr(findFieldAfter(body, TensorProto::kRawDataFieldNumber));
    body.resize(body.size() - rest.size());
    bool hasBytes =
        initializer.proto.data_location() != TensorProto::EXTERNAL &&
        initializer.proto.data_type() != TensorProto::STRING;
    uint64_t size = body.size() + rest.size();
    if (hasBytes) {
      body += fieldHead(TensorProto::kRawDataFieldNumber,
                        initializer.data.bytes.size());
      size = body.size() + initializer.data.bytes.size() + rest.size();
      numInline += initializer.data.bytes.size();
    }
    Part part{fieldHead(GraphProto::kInitializerFieldNumber, size) + body,
              hasBytes ? initializer.data.bytes : llvm::ArrayRef<char>(),
              std::move(rest)};
    graphSize += part.head.size() + part.bytes.size() + part.rest.size();
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
  std::string graphText = graph->SerializeAsString();
  model.set_allocated_graph(graph.release());
  auto head = [](llvm::StringRef text, int field) {
    return text.take_front(findFieldAfter(text, field));
  };
  llvm::StringRef modelHead = head(text, ModelProto::kGraphFieldNumber),
                  graphHead =
                      head(graphText, GraphProto::kInitializerFieldNumber);
  os << modelHead << fieldHead(ModelProto::kGraphFieldNumber, graphSize)
     << graphHead;
  for (const Part &part : parts) {
    os << part.head;
    os.write(part.bytes.data(), part.bytes.size());
    os << part.rest;
  }
  os << llvm::StringRef(graphText).drop_front(graphHead.size())
     << llvm::StringRef(text).drop_front(modelHead.size());
  return true;
}
