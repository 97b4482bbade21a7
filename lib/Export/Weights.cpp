//===- Weights.cpp - Files of external data beside the output -===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Weights.h"

#include "../Import/ExternalData.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace mlir::tandem;
using namespace mlir::tandem::onnx;
using ::tandem_onnx::GraphProto;
using ::tandem_onnx::NodeProto;
using ::tandem_onnx::SparseTensorProto;
using ::tandem_onnx::TensorProto;
namespace fs = llvm::sys::fs;
namespace path = llvm::sys::path;

using Locations = llvm::MapVector<StringRef, SmallVector<std::string *, 4>,
                                  llvm::StringMap<unsigned>>;

static void collect(TensorProto &tensor, Locations &locations) {
  if (tensor.data_location() != TensorProto::EXTERNAL)
    return;
  for (auto &entry : *tensor.mutable_external_data())
    if (entry.key() == "location")
      locations[entry.value()].push_back(entry.mutable_value());
}

static void collect(SparseTensorProto &tensor, Locations &locations) {
  if (tensor.has_values())
    collect(*tensor.mutable_values(), locations);
  if (tensor.has_indices())
    collect(*tensor.mutable_indices(), locations);
}

static void collect(GraphProto &graph, Locations &locations);

static void collect(google::protobuf::RepeatedPtrField<NodeProto> &nodes,
                    Locations &locations) {
  for (NodeProto &node : nodes)
    for (auto &attribute : *node.mutable_attribute()) {
      if (attribute.has_t())
        collect(*attribute.mutable_t(), locations);
      for (TensorProto &tensor : *attribute.mutable_tensors())
        collect(tensor, locations);
      if (attribute.has_sparse_tensor())
        collect(*attribute.mutable_sparse_tensor(), locations);
      for (SparseTensorProto &tensor : *attribute.mutable_sparse_tensors())
        collect(tensor, locations);
      if (attribute.has_g())
        collect(*attribute.mutable_g(), locations);
      for (GraphProto &inner : *attribute.mutable_graphs())
        collect(inner, locations);
    }
}

static void collect(GraphProto &graph, Locations &locations) {
  for (TensorProto &tensor : *graph.mutable_initializer())
    collect(tensor, locations);
  for (SparseTensorProto &tensor : *graph.mutable_sparse_initializer())
    collect(tensor, locations);
  collect(*graph.mutable_node(), locations);
}

/// The folder of `file`, in full and without links; "" if it isn't there.
static std::string realFolder(StringRef folder) {
  SmallString<256> real;
  if (fs::real_path(folder.empty() ? "." : folder, real))
    return {};
  return std::string(real);
}

static bool haveSameBytes(StringRef a, StringRef b) {
  auto first = llvm::MemoryBuffer::getFile(a, false, false),
       second = llvm::MemoryBuffer::getFile(b, false, false);
  return first && second && (*first)->getBuffer() == (*second)->getBuffer();
}

/// Puts `source` at `target`, which appears whole or not at all.
static std::error_code place(StringRef source, StringRef target, bool isLink) {
  if (std::error_code code = fs::create_directories(path::parent_path(target)))
    return code;
  if (isLink)
    return fs::create_hard_link(source, target);
  SmallString<256> temporary;
  if (std::error_code code =
          fs::createUniqueFile(target + ".tmp-%%%%%%%%", temporary))
    return code;
  std::error_code code = fs::copy_file(source, temporary);
  if (!code)
    code = fs::rename(temporary, target);
  if (code)
    (void)fs::remove(temporary);
  return code;
}

LogicalResult mlir::tandem::onnx::placeWeights(
    ::tandem_onnx::ModelProto &model, std::deque<Initializer> &initializers,
    const OnnxExportOptions &options, Location location) {
  Locations locations;
  for (Initializer &initializer : initializers)
    collect(initializer.proto, locations);
  collect(*model.mutable_graph(), locations);
  for (auto &function : *model.mutable_functions())
    collect(*function.mutable_node(), locations);
  if (locations.empty() || options.outputPath.empty() ||
      options.outputPath == "-")
    return success();

  std::string outputFolder = realFolder(path::parent_path(options.outputPath));
  std::string folder;
  if (!options.externalDataDir.empty()) {
    folder = realFolder(options.externalDataDir);
    if (folder.empty())
      return emitError(location) << "the folder '" << options.externalDataDir
                                 << "' of the weights isn't there";
  } else if (auto file = location->findInstanceOf<FileLineColLoc>();
             file && file.getFilename().getValue().ends_with(".onnx")) {
    folder = realFolder(path::parent_path(file.getFilename().getValue()));
  }
  if (folder.empty() || folder == outputFolder)
    return success();

  for (auto &[name, references] : locations) {
    std::string given = name.str(), why;
    if (!checkExternalLocation(given, why))
      return emitError(location) << "a tensor " << why;
    SmallString<256> source(folder), target(outputFolder);
    path::append(source, given);
    path::append(target, given);
    if (options.weights == ExternalWeights::Keep) {
      StringRef rest = source;
      if (rest.consume_front(outputFolder) && rest.consume_front("/")) {
        std::string rewritten = rest.str();
        for (std::string *reference : references)
          *reference = rewritten;
      } else if (!fs::exists(target)) {
        emitWarning(location)
            << "the weights '" << given << "' are in '" << folder
            << "', which the output cannot refer to: ONNX wants them below its "
               "own folder. Put them there, or use --weights=link or "
               "--weights=copy";
      }
      continue;
    }
    bool isLink = options.weights == ExternalWeights::Link;
    auto refuse = [&](const Twine &why) {
      return emitError(location) << "the weights '" << source << "' can't be "
                                 << (isLink ? "linked" : "copied") << " to '"
                                 << target << "': " << why;
    };
    if (!fs::exists(source))
      return refuse("there is no such file");
    if (fs::exists(target)) {
      bool isSame = false;
      if (!fs::equivalent(source, target, isSame) && isSame)
        continue;
      uint64_t sourceSize = 0, targetSize = 0;
      if (fs::file_size(source, sourceSize) ||
          fs::file_size(target, targetSize) || sourceSize != targetSize ||
          !haveSameBytes(source, target))
        return refuse("another file is there already");
      continue;
    }
    if (std::error_code code = place(source, target, isLink))
      return refuse(code.message() +
                    (isLink ? " (a hard link stays within one file system; "
                              "--weights=copy does not)"
                            : ""));
  }
  return success();
}
