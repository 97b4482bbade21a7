//===- GraphExporter.h - MLIR regions to ONNX graphs -*- C++ -* -===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_EXPORT_GRAPHEXPORTER_H
#define TANDEM_LIB_EXPORT_GRAPHEXPORTER_H

#include "Functions.h"
#include "ProtoConversion.h"
#include "TandemOps.h"

#include "tandem/Export/OnnxExport.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Allocator.h"
#include "llvm/Support/StringSaver.h"

#include <deque>

namespace mlir::tandem::onnx {

/// An initializer of the main graph whose bytes have stayed where they were.
struct Initializer {
  ::tandem_onnx::TensorProto proto;
  TensorBytes data;
};

/// Exports one module. Use once.
class GraphExporter {
public:
  GraphExporter(ModuleOp module, ::tandem_onnx::ModelProto &model,
                const OnnxExportOptions &options);

  /// Fills the model, all but the initializers of its graph. Reports errors.
  LogicalResult run();

  std::deque<Initializer> &getInitializers() { return initializers; }

private:
  using NodeProto = ::tandem_onnx::NodeProto;
  using GraphProto = ::tandem_onnx::GraphProto;

  /// A graph that is being written.
  struct Scope {
    GraphProto *graph;
    /// Which values the source declared: kinds, and names that differ. Null:
    /// all.
    DictionaryAttr declared;
    llvm::StringSet<> exceptions;
    /// Whether names must be made unique: where ops were copied or inlined.
    bool isStrict = false;
    /// Whether constants become initializers of this graph, as in the source's
    /// own bodies, and not of the main graph.
    bool ownsInitializers = false;
    /// For names of new values and nodes.
    std::string site;
  };

  LogicalResult findFunction();
  LogicalResult checkOps();
  LogicalResult writeModelFields();
  void writeOpsets(const ::tandem_onnx::ModelProto &extra);
  bool writeInputs(Scope &scope);
  /// Reports a name that two values of one graph have.
  LogicalResult checkNames();
  /// Reports an all-reduce in a call that is not written again whose function
  /// had it from another opset.
  LogicalResult checkAllReduces();
  Value findArgument(Value value) const;
  bool writeOutputs(Scope &scope, func::ReturnOp terminator);
  Scope makeScope(GraphProto *graph, DictionaryAttr fields);

  bool emitBlock(Block &block, Scope &scope);
  bool emitOp(Operation &op, Scope &scope);
  bool emitNode(Operation &op, Scope &scope);
  /// Writes the call of a function whose ops in `block` are `ops`, if they are
  /// what they were when it was inlined. Else nothing is written.
  bool emitFunctionCall(const SourceFunctions::Call &call, Block &block,
                        ArrayRef<Operation *> ops, Scope &scope);
  StringRef findName(StringRef name, Block *block, bool isGiven);
  bool addExtras(Operation &op, NodeProto &node);
  /// Puts the attributes of `node` in the order that `own`, or else the source
  /// for such nodes, has them in.
  void orderAttributes(NodeProto &node, ArrayAttr own);
  bool emitConstant(Operation &op, Scope &scope);
  /// Writes the attribute that gives a Constant its value.
  bool writeConstant(Operation &op, Attribute value,
                     ::tandem_onnx::AttributeProto &attribute);
  bool emitInitializer(Operation &op, Scope &scope);
  bool emitBody(Operation &op, unsigned index, GraphProto &graph, Scope &outer);
  bool emitBranch(Operation &op, Scope &scope);
  bool emitBranchBody(Block &block, GraphProto &graph,
                      ArrayRef<StringRef> names, Scope &outer);
  bool isTooNarrow(Type type) const;
  void addCast(GraphProto &graph, StringRef input, StringRef output,
               int64_t dataType, Scope &scope);
  bool emitFused(FusedAllReduceNormOp op, std::optional<int64_t> maxTokens,
                 Scope &scope);
  bool emitCall(func::CallOp op, Scope &scope);
  void emitDim(Operation &op, Scope &scope);
  void emitArith(Operation &op, Scope &scope);
  /// The body of a one-node branch whose check the fused op does by itself, and
  /// the limit that the check has beside the runtime's.
  FusedAllReduceNormOp matchOwnGuard(Operation &op,
                                     std::optional<int64_t> &maxTokens);
  /// Finds the helper ops outside ONNX that are read by what is written.
  void findHelpers();
  bool fail(Operation &op, const Twine &message);

  StringRef nameOf(Value value) const { return names.lookup(value); }
  void setName(Value value, const Twine &name) {
    names[value] = saver.save(name);
  }
  /// Names results as the source did, or anew.
  void nameResult(OpResult result, Scope &scope, StringRef hint,
                  bool isGivenName = false);
  void nameResults(Operation &op, Scope &scope, StringRef hint);
  static bool hasGivenNames(Operation *op);
  /// A name that the module has; made unique where it need not be kept.
  std::string claim(StringRef name, Scope &scope, bool isGiven = true);
  std::string claimNode(StringRef name, Scope &scope, bool isGiven = true);
  std::string claimNode(Operation &op, Scope &scope);
  std::string freshValue(StringRef hint, Scope &scope);
  std::string freshNode(StringRef hint, Scope &scope);
  unsigned nextNumber(StringRef base);
  std::string fresh(StringRef hint, llvm::StringSet<> &used, Scope &scope);
  StringRef dimParamsOf(Value value) const;
  /// Writes a value_info if the source had one, or if `isNeeded`: of a node
  /// that onnx's inference does not know, where fused ops are. (It says nothing
  /// of a graph with an unknown op, but the fused ops, which have a body, are
  /// known.)
  void declare(Value value, StringRef kind, Scope &scope,
               bool isNeeded = false);
  bool writeValueInfo(Value value, StringRef dimParams,
                      ::tandem_onnx::ValueInfoProto &info);

  ModuleOp module;
  ::tandem_onnx::ModelProto &model;
  /// What a node has whose op has no tandem.extra.
  std::string usualExtra;
  /// The orders of attributes by op, where they are not by name.
  llvm::StringMap<ArrayAttr> attributeOrders;
  const OnnxExportOptions &options;
  ProtoConverter converter;
  std::unique_ptr<TandemOpWriter> tandemOps;
  SourceFunctions functions;
  func::FuncOp main;
  SymbolTable symbols;
  DictionaryAttr fields;
  int64_t opset = 0;
  bool hasFused = false;

  llvm::BumpPtrAllocator allocator;
  llvm::StringSaver saver;
  llvm::DenseMap<Value, StringRef> names;
  /// Names of the dims of block arguments.
  llvm::DenseMap<Value, StringRef> argumentDims;
  /// Names that values of the main graph must get, as outputs of the model.
  llvm::DenseMap<Value, StringRef> outputNames;
  /// Names of the model's inputs. An output that has such a name is that input,
  /// even if it goes through the two versions of a function.
  llvm::StringSet<> inputNames;
  /// All names in the module, and those that were given already.
  llvm::StringSet<> reserved, reservedNodes, claimed, claimedNodes;
  /// Whether a name was given again.
  bool mayClash = false;
  /// Names of the file's own values and nodes.
  llvm::StringSet<> givenNames, givenNodes;
  /// The last number that was put behind a name.
  llvm::StringMap<unsigned> numbers;
  llvm::DenseSet<Operation *> needed;
  llvm::SmallPtrSet<Operation *, 8> ownGuards;
  SmallVector<func::FuncOp> activeCalls;
  /// How often each call of the source's functions was written, and how often
  /// versions of functions were.
  llvm::DenseMap<int64_t, unsigned> numWritten;
  unsigned numVersions = 0;

  /// The values of a block by the source's names. Made where it is needed.
  struct BlockNames {
    llvm::StringMap<Value> given, others;
    /// The names that the block's arguments have.
    llvm::StringSet<> arguments;
  };
  llvm::DenseMap<Block *, BlockNames> blockNames;

  std::deque<Initializer> initializers;
  /// Initializers of the main graph by name.
  llvm::StringMap<Attribute> initializerValues;
};

} // namespace mlir::tandem::onnx

#endif // TANDEM_LIB_EXPORT_GRAPHEXPORTER_H
