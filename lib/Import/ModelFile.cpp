//===- ModelFile.cpp - An ONNX model in memory -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ModelFile.h"

#include "WireScan.h"

#include "llvm/Support/MathExtras.h"

#include <limits>

using namespace mlir::tandem::onnx;
using llvm::StringRef;

static google::protobuf::ArenaOptions arenaOptions(size_t fileSize) {
  google::protobuf::ArenaOptions options;
  // Large blocks: a model has tens of thousands of messages. An arena puts
  // nodes of its own at a block's end, so sizes are multiples of their
  // alignment.
  options.start_block_size = llvm::alignTo(
      std::min<size_t>(std::max<size_t>(fileSize, 4096), 1 << 20), 64);
  options.max_block_size = 1 << 20;
  return options;
}

ModelFile::ModelFile(std::unique_ptr<llvm::MemoryBuffer> buffer)
    : bytes(std::move(buffer)), arena(arenaOptions(bytes->getBufferSize())),
      proto(google::protobuf::Arena::CreateMessage<::tandem_onnx::ModelProto>(
          &arena)) {}

std::unique_ptr<ModelFile>
ModelFile::parse(std::unique_ptr<llvm::MemoryBuffer> buffer,
                 std::string &error) {
  StringRef file = buffer->getBuffer();
  if (file.empty()) {
    error = "the file is empty";
    return nullptr;
  }
  if (file.starts_with("version https://git-lfs")) {
    error = "this is a Git LFS pointer, not the model: fetch the file with "
            "'git lfs pull'";
    return nullptr;
  }
  std::string skeleton;
  KeptRanges kept;
  if (!scanModel(file, skeleton, error, &kept))
    return nullptr;
  if (skeleton.size() > static_cast<size_t>(std::numeric_limits<int>::max())) {
    error = "the model without its raw tensor data is larger than 2 GiB, "
            "protobuf's limit; store the weights as raw_data or "
            "external data";
    return nullptr;
  }
  std::unique_ptr<ModelFile> result(new ModelFile(std::move(buffer)));
  result->kept = std::move(kept);
  if (!result->proto->ParseFromArray(skeleton.data(),
                                     static_cast<int>(skeleton.size()))) {
    error =
        "the file is damaged or not an ONNX model: protobuf cannot parse it";
    return nullptr;
  }
  return result;
}

/// Empty where the range is not in the file. The scan makes all ranges itself;
/// the check keeps a mistake there from reading outside the file.
StringRef ModelFile::text(const RawRange &range) const {
  size_t size = bytes->getBufferSize();
  if (range.offset > size || range.size > size - range.offset)
    return {};
  return StringRef(bytes->getBufferStart() + range.offset, range.size);
}

StringRef ModelFile::nodeBytes(int64_t index) const {
  const NodeRange &node = kept.nodes[static_cast<size_t>(index)];
  return node.isInFile ? text(node.range)
                       : StringRef(kept.nodeText)
                             .substr(node.range.offset, node.range.size);
}

std::string ModelFile::nodeExtras(const ::tandem_onnx::NodeProto &node) const {
  if (!node.has_doc_string())
    return {};
  if (node.doc_string().empty())
    return kEmptyDocString.str();
  std::optional<RawRange> range = decodeRawDescriptor(node.doc_string());
  return range ? readNodeExtras(text(*range)) : std::string();
}

llvm::ArrayRef<char> ModelFile::functionBytes(size_t index) const {
  if (index >= kept.functions.size())
    return {};
  StringRef function = text(kept.functions[index]);
  return llvm::ArrayRef<char>(function.data(), function.size());
}

std::string ModelFile::modelExtras() const {
  std::string extras;
  for (const RawRange &range : kept.fields)
    extras += text(range);
  return extras;
}

std::optional<llvm::ArrayRef<char>>
ModelFile::rawData(const ::tandem_onnx::TensorProto &tensor) const {
  if (!tensor.has_raw_data())
    return std::nullopt;
  std::optional<RawRange> range = decodeRawDescriptor(tensor.raw_data());
  size_t size = bytes->getBufferSize();
  // The scan writes every descriptor itself; the check keeps a mistake there
  // from reading outside the file.
  if (!range || range->offset > size || range->size > size - range->offset)
    return std::nullopt;
  return llvm::ArrayRef<char>(bytes->getBufferStart() + range->offset,
                              range->size);
}

void ModelFile::restore(::tandem_onnx::GraphProto &graph) const {
  auto restoreTensor = [&](::tandem_onnx::TensorProto &tensor) {
    if (std::optional<llvm::ArrayRef<char>> raw = rawData(tensor))
      tensor.set_raw_data(raw->data(), raw->size());
  };
  auto restoreSparse = [&](::tandem_onnx::SparseTensorProto &tensor) {
    if (tensor.has_values())
      restoreTensor(*tensor.mutable_values());
    if (tensor.has_indices())
      restoreTensor(*tensor.mutable_indices());
  };
  for (auto &tensor : *graph.mutable_initializer())
    restoreTensor(tensor);
  for (auto &tensor : *graph.mutable_sparse_initializer())
    restoreSparse(tensor);
  for (auto &node : *graph.mutable_node()) {
    std::string extras = nodeExtras(node);
    node.clear_doc_string();
    node.MergeFromString(extras);
    for (auto &attribute : *node.mutable_attribute()) {
      if (attribute.has_t())
        restoreTensor(*attribute.mutable_t());
      for (auto &tensor : *attribute.mutable_tensors())
        restoreTensor(tensor);
      if (attribute.has_sparse_tensor())
        restoreSparse(*attribute.mutable_sparse_tensor());
      for (auto &tensor : *attribute.mutable_sparse_tensors())
        restoreSparse(tensor);
      if (attribute.has_g())
        restore(*attribute.mutable_g());
      for (auto &inner : *attribute.mutable_graphs())
        restore(inner);
    }
  }
}
