//===- WireScan.cpp - Takes raw tensor data out of an ONNX file -----------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "WireScan.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/LEB128.h"

using namespace mlir::tandem::onnx;
using llvm::StringRef;
using llvm::Twine;

namespace {
/// The messages that can hold a TensorProto, and those that are only counted.
enum class Message : uint8_t {
  None,
  Leaf,
  Model,
  Graph,
  Node,
  Attribute,
  Tensor,
  SparseTensor,
  Function,
  Training,
};
} // namespace

constexpr uint32_t kRawDataField = 9;

/// Protobuf's own default limit.
constexpr unsigned kMaxDepth = 100;

/// Messages below this average size are refused when there are this many of
/// them: each costs the parser about a hundred bytes, so a file of empty
/// messages would need many times its own size in memory.
constexpr uint64_t kMinBytesPerMessage = 8;
constexpr uint64_t kManyMessages = 1 << 20;

static StringRef nameOf(Message message) {
  switch (message) {
  case Message::Model:
    return "model";
  case Message::Graph:
    return "graph";
  case Message::Node:
    return "node";
  case Message::Attribute:
    return "attribute";
  case Message::Tensor:
    return "tensor";
  case Message::SparseTensor:
    return "sparse tensor";
  case Message::Function:
    return "function";
  case Message::Training:
    return "training info";
  case Message::Leaf:
  case Message::None:
    break;
  }
  return "message";
}

/// The message that the length-delimited `field` of `parent` holds.
static Message childOf(Message parent, uint32_t field) {
  switch (parent) {
  case Message::Model:
    switch (field) {
    case 7:
      return Message::Graph;
    case 20:
      return Message::Training;
    case 25:
      return Message::Function;
    case 8:
    case 14:
    case 26:
      return Message::Leaf;
    default:
      return Message::None;
    }
  case Message::Graph:
    switch (field) {
    case 1:
      return Message::Node;
    case 5:
      return Message::Tensor;
    case 15:
      return Message::SparseTensor;
    case 11:
    case 12:
    case 13:
    case 14:
    case 16:
      return Message::Leaf;
    default:
      return Message::None;
    }
  case Message::Node:
    switch (field) {
    case 5:
      return Message::Attribute;
    case 9:
    case 10:
      return Message::Leaf;
    default:
      return Message::None;
    }
  case Message::Attribute:
    switch (field) {
    case 5:
    case 10:
      return Message::Tensor;
    case 6:
    case 11:
      return Message::Graph;
    case 22:
    case 23:
      return Message::SparseTensor;
    case 14:
    case 15:
      return Message::Leaf;
    default:
      return Message::None;
    }
  case Message::Tensor:
    return field == 3 || field == 13 || field == 16 ? Message::Leaf
                                                    : Message::None;
  case Message::SparseTensor:
    return field == 1 || field == 2 ? Message::Tensor : Message::None;
  case Message::Function:
    switch (field) {
    case 7:
      return Message::Node;
    case 11:
      return Message::Attribute;
    case 9:
    case 12:
    case 14:
      return Message::Leaf;
    default:
      return Message::None;
    }
  case Message::Training:
    switch (field) {
    case 1:
    case 2:
      return Message::Graph;
    case 3:
    case 4:
      return Message::Leaf;
    default:
      return Message::None;
    }
  case Message::Leaf:
  case Message::None:
    break;
  }
  return Message::None;
}

constexpr uint32_t kNodeDocField = 6;

/// Fields of a node that are kept as bytes: documentation, metadata, device
/// configurations.
static bool isNodeExtra(uint64_t field) {
  return field == kNodeDocField || field == 9 || field == 10;
}

/// Fields that are not parsed: the above, which can be most of a file, and
/// those of functions, which are kept as they stand.
static bool isDropped(Message parent, uint32_t field) {
  switch (parent) {
  case Message::Node:
    return isNodeExtra(field);
  case Message::Function:
    return field == 8 || field == 14;
  default:
    return false;
  }
}

/// Reads a varint in [position, end) of `bytes`. Returns false when it is cut
/// off or longer than ten bytes.
static bool readVarint(const uint8_t *bytes, uint64_t &position, uint64_t end,
                       uint64_t &value) {
  // Nearly all have one byte.
  if (LLVM_LIKELY(position < end && bytes[position] < 0x80)) {
    value = bytes[position++];
    return true;
  }
  value = 0;
  for (unsigned shift = 0; shift < 70; shift += 7) {
    if (position == end)
      return false;
    uint8_t byte = bytes[position++];
    if (shift < 64)
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80)
      return true;
  }
  return false;
}

namespace {
class Scanner {
public:
  Scanner(StringRef file, std::string &error, KeptRanges *kept)
      : begin(reinterpret_cast<const uint8_t *>(file.data())),
        size(file.size()), error(error), kept(kept) {}

  bool run(std::string &skeleton) {
    int64_t delta = 0;
    if (!scan(0, size, Message::Model, 0, delta))
      return false;
    if (numMessages > kManyMessages &&
        numMessages * kMinBytesPerMessage > size) {
      error =
          ("the file holds " + Twine(numMessages) + " messages in " +
           Twine(size) +
           " bytes, nearly all of them empty; refusing to spend memory on them")
              .str();
      return false;
    }
    skeleton.clear();
    skeleton.reserve(static_cast<uint64_t>(static_cast<int64_t>(size) + delta));
    write(0, size, edits, skeleton);
    return true;
  }

private:
  /// A place in the file where the skeleton differs: `skip` bytes at `position`
  /// give way to something else.
  struct Edit {
    enum Kind : uint8_t {
      /// Nothing.
      Drop,
      /// The varint `length`.
      Length,
      /// The descriptor of `length` bytes that end where the skipped ones end,
      /// with its size in front.
      Raw,
      /// A doc_string that is the descriptor of the node of `length` bytes at
      /// `start`.
      Node
    };
    uint64_t position;
    uint64_t skip;
    uint64_t length;
    Kind kind;
    uint64_t start = 0;
  };

  /// The path from the model to the message that is being read, for errors.
  struct Frame {
    Message message;
    uint32_t field;
    uint64_t index;
  };

  bool fail(uint64_t position, const Twine &what) {
    std::string path;
    for (const Frame &frame : frames)
      path += (", " + nameOf(frame.message) + " " + Twine(frame.index)).str();
    error = (what + " at byte " + Twine(position) + " of " + Twine(size) + path)
                .str();
    return false;
  }

  /// Reads a varint in [position, end). Returns false when it is cut off or
  /// longer than ten bytes.
  bool readVarint(uint64_t &position, uint64_t end, uint64_t &value) {
    return ::readVarint(begin, position, end, value);
  }

  /// Scans the message of kind `message` in [position, end). Adds to `delta` by
  /// how many bytes its skeleton is longer.
  bool scan(uint64_t position, uint64_t end, Message message, unsigned depth,
            int64_t &delta) {
    if (depth > kMaxDepth)
      return fail(position, "messages are nested more than " +
                                Twine(kMaxDepth) + " deep");
    // How many children of each kind came before; kept for errors.
    uint64_t counts[10] = {};
    const uint64_t first = position;
    bool hasExtras = false, hasEmptyDoc = false;
    while (position < end) {
      uint64_t start = position;
      uint64_t tag = 0;
      if (!readVarint(position, end, tag))
        return fail(
            start,
            "the file is truncated or damaged: a field's tag is cut off");
      uint64_t field = tag >> 3;
      if (field == 0 || field > 0x1fffffff)
        return fail(
            start,
            "the file is damaged or not an ONNX model: bad field number " +
                Twine(field));
      uint64_t value = 0;
      switch (tag & 7) {
      case 0:
        if (!readVarint(position, end, value))
          return fail(start,
                      "the file is truncated or damaged: a number is cut off");
        continue;
      case 1:
      case 5: {
        uint64_t width = (tag & 7) == 1 ? 8 : 4;
        if (end - position < width)
          return fail(start,
                      "the file is truncated or damaged: a number is cut off");
        position += width;
        continue;
      }
      case 2:
        break;
      default:
        return fail(
            start,
            "the file is damaged or not an ONNX model: unknown wire type " +
                Twine(tag & 7));
      }

      uint64_t lengthAt = position;
      uint64_t length = 0;
      if (!readVarint(position, end, length))
        return fail(
            start,
            "the file is truncated or damaged: a field's length is cut off");
      if (length > end - position)
        return fail(start, "the file is truncated or damaged: a field of " +
                               Twine(length) + " bytes has only " +
                               Twine(end - position) + " left");
      if (message == Message::Tensor && field == kRawDataField) {
        edits.push_back(
            {lengthAt, position - lengthAt + length, length, Edit::Raw});
        delta += static_cast<int64_t>(1 + kRawDescriptorSize) -
                 static_cast<int64_t>(position - lengthAt + length);
        position += length;
        continue;
      }
      // Many exporters give every node an empty doc_string, which can stay.
      bool isEmptyDoc = message == Message::Node && field == kNodeDocField &&
                        length == 0 && !hasExtras;
      if (isEmptyDoc) {
        hasEmptyDoc = true;
        continue;
      }
      if (isDropped(message, static_cast<uint32_t>(field))) {
        position += length;
        delta -= static_cast<int64_t>(position - start);
        if (message == Message::Node && !hasExtras) {
          hasExtras = true;
          edits.push_back(
              {start, position - start, end - first, Edit::Node, first});
          delta += static_cast<int64_t>(2 + kRawDescriptorSize);
        } else {
          drop(start, position);
        }
        continue;
      }
      if (message == Message::Model && kept) {
        if (field == 25)
          kept->functions.push_back({position, length});
        else if (field == 20 || field == 26)
          kept->fields.push_back({start, position + length - start});
      }
      Message child = childOf(message, static_cast<uint32_t>(field));
      if (child == Message::None) {
        position += length;
        continue;
      }
      ++numMessages;
      uint64_t index = counts[static_cast<unsigned>(child)]++;
      if (child == Message::Leaf) {
        position += length;
        continue;
      }

      size_t editIndex = edits.size();
      if (kept && message == Message::Graph && depth == 1 &&
          child == Message::Node) {
        // Of the main graph.
        int64_t nodeDelta = 0;
        frames.push_back({child, static_cast<uint32_t>(field), index});
        if (!scan(position, position + length, child, depth + 1, nodeDelta))
          return false;
        frames.pop_back();
        keepNode(position, position + length, editIndex);
        position += length;
        drop(start, position);
        delta -= static_cast<int64_t>(position - start);
        continue;
      }
      edits.push_back({lengthAt, position - lengthAt, length, Edit::Length});
      frames.push_back({child, static_cast<uint32_t>(field), index});
      int64_t childDelta = 0;
      if (!scan(position, position + length, child, depth + 1, childDelta))
        return false;
      frames.pop_back();
      if (edits.size() == editIndex + 1) {
        edits.pop_back();
      } else {
        uint64_t newLength = length + static_cast<uint64_t>(childDelta);
        edits[editIndex].length = newLength;
        delta += childDelta +
                 static_cast<int64_t>(llvm::getULEB128Size(newLength)) -
                 static_cast<int64_t>(position - lengthAt);
      }
      position += length;
    }
    if (kept && hasEmptyDoc && !hasExtras && depth == 2 &&
        frames.front().message == Message::Graph)
      ++kept->numEmptyDocStrings;
    return true;
  }

  /// Appends the bytes in [position, end) to `out`, with `edits` made.
  void write(uint64_t position, uint64_t end, llvm::ArrayRef<Edit> edits,
             std::string &out) {
    const char *bytes = reinterpret_cast<const char *>(begin);
    for (const Edit &edit : edits) {
      out.append(bytes + position, edit.position - position);
      position = edit.position + edit.skip;
      if (edit.kind == Edit::Length) {
        uint8_t length[10];
        out.append(reinterpret_cast<const char *>(length),
                   llvm::encodeULEB128(edit.length, length));
      } else if (edit.kind != Edit::Drop) {
        bool isNode = edit.kind == Edit::Node;
        if (isNode)
          out.push_back(static_cast<char>(kNodeDocField << 3 | 2));
        char descriptor[kRawDescriptorSize];
        llvm::support::endian::write64le(
            descriptor, isNode ? edit.start : position - edit.length);
        llvm::support::endian::write64le(descriptor + 8, edit.length);
        out.push_back(static_cast<char>(kRawDescriptorSize));
        out.append(descriptor, sizeof(descriptor));
      }
    }
    out.append(bytes + position, end - position);
  }

  /// Moves the node in [position, end), whose edits are those from `firstEdit`
  /// on, from the skeleton to `kept`.
  void keepNode(uint64_t position, uint64_t end, size_t firstEdit) {
    if (edits.size() == firstEdit) {
      kept->nodes.push_back({{position, end - position}, /*isInFile=*/true});
      return;
    }
    uint64_t start = kept->nodeText.size();
    write(position, end, llvm::ArrayRef<Edit>(edits).drop_front(firstEdit),
          kept->nodeText);
    kept->nodes.push_back(
        {{start, kept->nodeText.size() - start}, /*isInFile=*/false});
    edits.erase(edits.begin() + static_cast<ptrdiff_t>(firstEdit), edits.end());
  }

  /// Leaves [position, end) out of the skeleton.
  void drop(uint64_t position, uint64_t end) {
    if (!edits.empty() && edits.back().kind == Edit::Drop &&
        edits.back().position + edits.back().skip == position)
      edits.back().skip += end - position;
    else
      edits.push_back({position, end - position, 0, Edit::Drop});
  }

  const uint8_t *begin;
  uint64_t size;
  std::string &error;
  KeptRanges *kept;
  uint64_t numMessages = 0;
  llvm::SmallVector<Frame, 16> frames;
  std::vector<Edit> edits;
};

} // namespace

std::optional<RawRange>
mlir::tandem::onnx::decodeRawDescriptor(StringRef bytes) {
  if (bytes.size() != kRawDescriptorSize)
    return std::nullopt;
  return RawRange{llvm::support::endian::read64le(bytes.data()),
                  llvm::support::endian::read64le(bytes.data() + 8)};
}

bool mlir::tandem::onnx::scanModel(StringRef file, std::string &skeleton,
                                   std::string &error, KeptRanges *kept) {
  return Scanner(file, error, kept).run(skeleton);
}

std::string mlir::tandem::onnx::readNodeExtras(StringRef node) {
  auto *bytes = reinterpret_cast<const uint8_t *>(node.data());
  std::string extras;
  uint64_t position = 0, end = node.size();
  // The scan has read this before; a mistake there must not read elsewhere.
  while (position < end) {
    uint64_t start = position, tag = 0, value = 0;
    if (!readVarint(bytes, position, end, tag))
      break;
    if ((tag & 7) == 0) {
      if (!readVarint(bytes, position, end, value))
        break;
    } else if ((tag & 7) == 2) {
      if (!readVarint(bytes, position, end, value) || value > end - position)
        break;
      position += value;
    } else {
      position += (tag & 7) == 1 ? 8 : 4;
    }
    if (position <= end && isNodeExtra(tag >> 3))
      extras.append(node.data() + start, position - start);
  }
  return extras;
}
