//===- ModuleInfo.cpp - The module's description --------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Describe.h"

#include "mlir/Dialect/Bufferization/IR/BufferizableOpInterface.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/IR/SymbolTable.h"
#include "tandem/Dialect/Tandem.h"
#include "tandem/Passes/Lowering.h"
#include "tandem/Runtime/tandem.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/JSON.h"

using namespace mlir;
using namespace mlir::tandem;

namespace {
/// What a group's calls ask of its workspace.
struct GroupInfo {
  int64_t hidden = 0;
  llvm::SetVector<Type> types;
  llvm::SetVector<ReductionKind> reductions;
  bool fused = false;

  void add(ShapedType type, ReductionKind kind, bool isFused) {
    if (type.hasRank() && type.getRank() > 0 &&
        !type.isDynamicDim(type.getRank() - 1))
      hidden = std::max(hidden, type.getShape().back());
    types.insert(type.getElementType());
    reductions.insert(kind);
    fused |= isFused;
  }
  void add(const GroupInfo &other) {
    hidden = std::max(hidden, other.hidden);
    types.insert_range(other.types);
    reductions.insert_range(other.reductions);
    fused |= other.fused;
  }
};

using GroupInfos = llvm::MapVector<GroupAttr, GroupInfo>;

class Describer {
public:
  explicit Describer(ModuleOp module) : module(module) {}
  std::string run();

private:
  GroupInfos collectGroups(func::FuncOp function);
  llvm::json::Object describe(func::FuncOp function);
  llvm::json::Object describeValue(Type type, DictionaryAttr attributes,
                                   const std::string &otherName);

  ModuleOp module;
  SymbolTableCollection symbols;
  llvm::SetVector<GroupAttr> batchInvariant;
};
} // namespace

/// "0:batch,1:seq" as one name or null for each dim.
static llvm::json::Array getDimNames(int64_t rank, DictionaryAttr attributes) {
  SmallVector<llvm::json::Value> names(rank, nullptr);
  auto text = attributes ? attributes.getAs<StringAttr>("onnx.dim_params")
                         : StringAttr();
  SmallVector<StringRef> parts;
  if (text)
    text.getValue().split(parts, ',', /*MaxSplit=*/-1, /*KeepEmpty=*/false);
  for (StringRef part : parts) {
    auto [place, name] = part.split(':');
    int64_t dim;
    if (!place.getAsInteger(10, dim) && dim >= 0 && dim < rank && !name.empty())
      names[dim] = llvm::json::fixUTF8(name);
  }
  llvm::json::Array array;
  for (llvm::json::Value &name : names)
    array.push_back(std::move(name));
  return array;
}

llvm::json::Object Describer::describeValue(Type type,
                                            DictionaryAttr attributes,
                                            const std::string &otherName) {
  llvm::json::Object object;
  auto name =
      attributes ? attributes.getAs<StringAttr>("onnx.name") : StringAttr();
  object["name"] = llvm::json::fixUTF8(name ? name.getValue() : otherName);
  std::string dtype;
  llvm::raw_string_ostream(dtype) << getElementTypeOrSelf(type);
  object["dtype"] = dtype;
  auto shaped = dyn_cast<ShapedType>(type);
  if (!shaped || !shaped.hasRank()) {
    object["shape"] = nullptr;
    object["dims"] = nullptr;
    return object;
  }
  llvm::json::Array shape;
  for (int64_t size : shaped.getShape())
    shape.push_back(ShapedType::isDynamic(size) ? llvm::json::Value(nullptr)
                                                : llvm::json::Value(size));
  object["shape"] = std::move(shape);
  object["dims"] = getDimNames(shaped.getRank(), attributes);
  return object;
}

/// Of the function and all that it calls.
GroupInfos Describer::collectGroups(func::FuncOp function) {
  GroupInfos infos;
  // In the order of the arguments.
  for (unsigned i = 0, e = function.getNumArguments(); i != e; ++i)
    if (auto group = function.getArgAttrOfType<GroupAttr>(i, groupArgAttrName))
      infos[group];
  llvm::SetVector<func::FuncOp> functions;
  functions.insert(function);
  for (size_t i = 0; i < functions.size(); ++i) {
    func::FuncOp current = functions[i];
    current.walk([&](Operation *op) {
      if (auto allReduce = dyn_cast<AllReduceOp>(op)) {
        infos[allReduce.getGroupAttr()].add(
            cast<ShapedType>(allReduce.getInput().getType()),
            allReduce.getReduction(), /*isFused=*/false);
      } else if (auto fused = dyn_cast<FusedAllReduceNormOp>(op)) {
        infos[fused.getGroupAttr()].add(
            cast<ShapedType>(fused.getInput().getType()), ReductionKind::Sum,
            /*isFused=*/true);
      } else if (auto call = dyn_cast<func::CallOp>(op)) {
        if (auto callee = symbols.lookupNearestSymbolFrom<func::FuncOp>(
                call, call.getCalleeAttr()))
          functions.insert(callee);
      }
    });
  }
  return infos;
}

llvm::json::Object Describer::describe(func::FuncOp function) {
  llvm::json::Object object;
  std::string name = function.getSymName().str();
  object["name"] = name;
  object["symbol"] = "_mlir_ciface_" + name;
  object["shapes"] = nullptr;
  if (function.getNumResults() == 0 ||
      symbols.getSymbolTable(module).lookup(getShapeFunctionName(function)))
    object["shapes"] = function.getNumResults() == 0
                           ? llvm::json::Value(nullptr)
                           : llvm::json::Value("_mlir_ciface_" +
                                               getShapeFunctionName(function));

  auto reason = function->getAttrOfType<StringAttr>(noSizesAttrName);
  object["shapes_reason"] =
      reason ? llvm::json::Value(llvm::json::fixUTF8(reason.getValue()))
             : llvm::json::Value(nullptr);

  llvm::json::Array arguments, results, groups;
  bool stream = false;
  for (BlockArgument argument : function.getArguments()) {
    Type type = argument.getType();
    unsigned i = argument.getArgNumber();
    stream |= isa<StreamType>(type);
    if (isa<WorkspaceType, StreamType>(type))
      continue;
    llvm::json::Object value = describeValue(type, function.getArgAttrDict(i),
                                             "arg" + std::to_string(i));
    auto writable = function.getArgAttrOfType<BoolAttr>(
        i, bufferization::BufferizationDialect::kWritableAttrName);
    value["writable"] = writable && writable.getValue();
    arguments.push_back(std::move(value));
  }
  for (auto [i, type] : llvm::enumerate(function.getResultTypes()))
    results.push_back(describeValue(type, function.getResultAttrDict(i),
                                    "result" + std::to_string(i)));
  for (auto &[group, info] : collectGroups(function)) {
    llvm::json::Array ranks, dtypes, reductions;
    for (int64_t rank : group.getRanks())
      ranks.push_back(rank);
    for (Type type : info.types) {
      std::string dtype;
      llvm::raw_string_ostream(dtype) << type;
      dtypes.push_back(dtype);
    }
    for (ReductionKind kind : info.reductions)
      reductions.push_back(stringifyReductionKind(kind));
    groups.push_back(llvm::json::Object{
        {"name", llvm::json::fixUTF8(group.getName())},
        {"size", group.getSize()},
        {"ranks", std::move(ranks)},
        {"hidden", info.hidden},
        {"dtypes", std::move(dtypes)},
        {"reductions", std::move(reductions)},
        {"fused", info.fused},
        {"batch_invariant", batchInvariant.contains(group)}});
  }
  object["arguments"] = std::move(arguments);
  object["results"] = std::move(results);
  object["groups"] = std::move(groups);
  object["stream"] = stream;
  return object;
}

std::string Describer::run() {
  module.walk([&](Operation *op) {
    if (auto allReduce = dyn_cast<AllReduceOp>(op);
        allReduce && allReduce.getBatchInvariant())
      batchInvariant.insert(allReduce.getGroupAttr());
    if (auto fused = dyn_cast<FusedAllReduceNormOp>(op);
        fused && fused.getBatchInvariant())
      batchInvariant.insert(fused.getGroupAttr());
  });
  llvm::json::Array functions, signature;
  for (auto function : module.getOps<func::FuncOp>())
    if (function.isPublic() && !function.isExternal() &&
        !function->hasAttr(shapeFunctionAttrName))
      functions.push_back(describe(function));
  if (auto lines = module->getAttrOfType<ArrayAttr>("tandem.signature"))
    for (auto line : lines.getAsRange<StringAttr>())
      signature.push_back(llvm::json::fixUTF8(line.getValue()));
  llvm::json::Object object{{"version", 1},
                            {"abi", int64_t(TANDEM_ABI_VERSION)},
                            {"signature", std::move(signature)},
                            {"functions", std::move(functions)}};
  std::string text;
  llvm::raw_string_ostream(text) << llvm::json::Value(std::move(object));
  return text;
}

std::string mlir::tandem::describeModule(ModuleOp module) {
  return Describer(module).run();
}
