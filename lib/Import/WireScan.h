//===- WireScan.h - Takes raw tensor data out of an ONNX file --*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Protobuf copies every `bytes` field and cannot read messages over 2 GiB. This
// pass over the wire format puts a 16-byte descriptor (offset and size in the
// file) in the place of each TensorProto.raw_data, so that the parser sees a
// small message and the weights stay where they are, in the mapped file. It
// also finds truncated input, and says where.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_IMPORT_WIRESCAN_H
#define TANDEM_LIB_IMPORT_WIRESCAN_H

#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mlir::tandem::onnx {

/// A range of bytes in the model file.
struct RawRange {
  uint64_t offset = 0;
  uint64_t size = 0;
};

/// Size of the descriptor that stands in raw_data after the scan.
constexpr size_t kRawDescriptorSize = 16;

/// Reads a descriptor back. No value if `bytes` is not one.
std::optional<RawRange> decodeRawDescriptor(llvm::StringRef bytes);

/// A node of the main graph without what the skeleton lacks: bytes of the file
/// where that is nothing, of `KeptRanges::nodeText` elsewhere.
struct NodeRange {
  RawRange range;
  bool isInFile = true;
};

/// What of a model is kept as bytes.
struct KeptRanges {
  /// The nodes of the main graph, which are read one by one.
  std::vector<NodeRange> nodes;
  std::string nodeText;
  /// How many of them have an empty doc_string and no other documentation.
  uint64_t numEmptyDocStrings = 0;
  /// Each FunctionProto, in order.
  std::vector<RawRange> functions;
  /// Fields of the ModelProto that the importer does not read, whole:
  /// training information and device configurations.
  std::vector<RawRange> fields;
};

/// Scans the serialized ModelProto in `file` and writes the same message into
/// `skeleton`, with every raw_data replaced by a descriptor. Documentation,
/// metadata and device configurations of a node, which can be most of a file,
/// are left out, too: its doc_string becomes a descriptor of the whole node,
/// from which `readNodeExtras` gets them, unless an empty doc_string, which
/// stays, is all there is. With `kept`, the skeleton has no nodes in the main
/// graph, either; they are there. Returns false on malformed input and then
/// sets `error` to one sentence that names the message, its index and the byte.
bool scanModel(llvm::StringRef file, std::string &skeleton, std::string &error,
               KeptRanges *kept = nullptr);

/// An empty doc_string as a serialized field of a NodeProto.
constexpr auto kEmptyDocString = llvm::StringLiteral::withInnerNUL("2\0");

/// The fields of the serialized NodeProto `node` that the skeleton lacks, one
/// behind the other, as they stand there.
std::string readNodeExtras(llvm::StringRef node);

} // namespace mlir::tandem::onnx

#endif // TANDEM_LIB_IMPORT_WIRESCAN_H
