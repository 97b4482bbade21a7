//===- GraphImporter.h - ONNX graphs to MLIR regions -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_IMPORT_GRAPHIMPORTER_H
#define TANDEM_LIB_IMPORT_GRAPHIMPORTER_H

#include "ExternalData.h"
#include "ModelFile.h"
#include "NodeReader.h"
#include "ShapeInference.h"
#include "TensorData.h"

#include "tandem/Import/OnnxImport.h"
#include "tandem/OnnxOps/OnnxOps.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/CachedHashString.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Allocator.h"

#include <deque>
#include <vector>

namespace mlir::tandem::onnx {

/// Bodies in bodies, and functions in functions. Protobuf itself stops at about
/// 33 bodies.
constexpr unsigned kMaxDepth = 64;
/// NumPy's limit. With one, ranks cannot grow with each node of a hostile file.
constexpr int64_t kMaxRank = 64;

/// The key of an op or a function in a map. Its separator is one that no
/// protobuf name of a model is expected to have; names that do only miss the
/// cache.
void kindKey(StringRef domain, StringRef name, StringRef overload,
             SmallVectorImpl<char> &key);

/// The type of an initializer.
ValueInfo infoOf(const ::tandem_onnx::TensorProto &tensor);
ValueInfo infoOf(const ::tandem_onnx::SparseTensorProto &tensor);

/// What an attribute of that type is, for errors: "a list of integers".
const char *kindName(::tandem_onnx::AttributeProto::AttributeType type);

/// Everything about one kind of node that does not change from node to node.
struct OpKind {
  enum Special : uint8_t { Plain, Constant, If, Loop, Scan };

  OperationName name;
  Special special = Plain;
  /// The attribute `to` is an element type.
  bool isCast = false;
  /// For onnx.Custom: the names that it carries.
  StringAttr customName, customDomain;
  InferFn infer = nullptr;
  /// Attribute names that such nodes have had: a few, so a list is the fastest
  /// map.
  mutable SmallVector<StringAttr, 4> attributeNames;
  /// The order that the attributes of such nodes have had.
  mutable SmallVector<StringAttr, 4> attributeOrder;
  const ::tandem_onnx::FunctionProto *function = nullptr;
  /// A function of the domain ai.tandem, whose calls stay nodes.
  const ::tandem_onnx::FunctionProto *ownFunction = nullptr;
  /// "Add" or "com.microsoft::AllReduce", for errors.
  std::string spelling;
  /// The same with the overload, if there is one.
  std::string orderKey() const {
    return overload.empty() ? spelling : spelling + "::" + overload;
  }
  std::string overload;
  /// Why such nodes cannot be imported; empty if they can.
  std::string problem;

  explicit OpKind(OperationName name) : name(name) {}
};

struct Scope;

/// A named value of a graph.
struct Slot {
  enum : int64_t { kUndefined = -3, kInitializer = -2, kInput = -1 };

  Scope *owner = nullptr;
  StringRef name;
  /// The node that computes it, or one of the above.
  int64_t definition = kUndefined;
  const ::tandem_onnx::TypeProto *declared = nullptr;
  /// An optional input of a function that its caller leaves out, or an output
  /// that is one.
  bool isAbsent = false;
  /// An output of the graph, or an input with a value.
  bool isInterface = false;
  /// The name, where there is an attribute of it.
  StringAttr nameAttr;
  Value value;
  ValueInfo info;
};

/// The attributes that a call of a model-local function passes on.
using CallAttributes = llvm::StringMap<const ::tandem_onnx::AttributeProto *>;

/// A block that is being filled.
struct BlockState {
  Block *block = nullptr;
  Value noValue;
};

/// The names of one kind of values, by whether the graph declares their types.
struct ValueNames {
  StringRef kind;
  std::vector<StringAttr> declared, others;

  explicit ValueNames(StringRef kind) : kind(kind) {}
  void add(StringAttr name, bool isDeclared) {
    (isDeclared ? declared : others).push_back(name);
  }
};

/// The names of one graph.
struct Scope {
  /// The graph around this one; null for the main graph and for function
  /// bodies.
  Scope *parent = nullptr;
  /// Within a function body: what the call passes. Bodies of control flow in it
  /// share the pointer.
  const CallAttributes *callAttributes = nullptr;
  /// Within a function body: where the call is, and what its names begin with.
  Location callLocation;
  std::string prefix;
  /// Within a function body, but not in bodies of control flow in it: the
  /// number of the call; -1 if there is none, or none that the exporter could
  /// write again.
  int64_t call = -1;
  /// Where this graph is, for errors: " in body of node #3 'loop'".
  std::string where;
  llvm::DenseMap<llvm::CachedHashStringRef, Slot *> names;
  /// Names that the values of a function body take in the caller.
  llvm::DenseMap<StringRef, StringRef> renamed;
  llvm::SpecificBumpPtrAllocator<Slot> slots;
  ValueNames values{"values"}, constants{"constants"},
      initializers{"initializers"};
  /// The graph's value_info, null in a function; the next of it that is not of
  /// an earlier value, and whether they came in the order of the values.
  const google::protobuf::RepeatedPtrField<::tandem_onnx::ValueInfoProto>
      *infos = nullptr;
  int nextInfo = 0;
  bool hasOrderedInfos = true;
  /// Declared types that are not the ones that the values got.
  llvm::DenseSet<const ::tandem_onnx::TypeProto *> otherTypes;
  BlockState *target = nullptr;
  unsigned depth = 0;

  explicit Scope(Location callLocation) : callLocation(callLocation) {}
  Scope(const Scope &) = delete;
};

/// Imports one model. Use once. One file a concern: the model and its names
/// (GraphImporter.cpp), types, constants, the order of nodes, nodes, their
/// attributes and bodies, and calls of functions.
class GraphImporter {
public:
  GraphImporter(const ModelFile &file, StringRef fileName, std::string folder,
                MLIRContext *context, const OnnxImportOptions &options);

  /// Null after errors.
  OwningOpRef<ModuleOp> run();

private:
  using NodeProto = ::tandem_onnx::NodeProto;
  using GraphProto = ::tandem_onnx::GraphProto;
  using FunctionProto = ::tandem_onnx::FunctionProto;
  using AttributeProto = ::tandem_onnx::AttributeProto;
  using TensorProto = ::tandem_onnx::TensorProto;
  using SparseTensorProto = ::tandem_onnx::SparseTensorProto;
  using TypeProto = ::tandem_onnx::TypeProto;
  using ValueInfoProto = ::tandem_onnx::ValueInfoProto;
  using Nodes = google::protobuf::RepeatedPtrField<NodeProto>;
  using ValueInfos = google::protobuf::RepeatedPtrField<ValueInfoProto>;

  using Attributes = SmallVector<NamedAttribute, 8>;

  /// A node that is being imported.
  struct NodeState {
    const NodeProto &proto;
    int64_t index;
    const OpKind &kind;
    Scope &scope;
    Location location;
    ArrayRef<Slot *> inputs;
    ArrayRef<Slot *> outputs;
    SmallVector<const AttributeProto *, 4> attributes;
    SmallVector<ValueInfo, 2> infos;
    /// What to keep of each of its graphs, in the order of the regions.
    SmallVector<Attribute, 2> bodies;
    /// The types of attributes whose values don't show them.
    SmallVector<NamedAttribute, 1> kinds;
  };

  //===--------------------------------------------------------------------===//
  // Errors and budget
  //===--------------------------------------------------------------------===//

  bool mayReport();
  void modelError(const Twine &message);
  void graphError(const Scope &scope, const Twine &message);
  void nodeError(const NodeState &node, const Twine &message);
  std::string describe(const NodeProto &proto, int64_t index,
                       StringRef spelling, const Scope &scope) const;
  /// Accounts for memory that the result needs. Returns false, after one error,
  /// when it is out of proportion to the file.
  bool charge(uint64_t bytes);

  //===--------------------------------------------------------------------===//
  // Model
  //===--------------------------------------------------------------------===//

  bool checkVersions();
  bool addOpsets(const google::protobuf::RepeatedPtrField<
                     ::tandem_onnx::OperatorSetIdProto> &imports,
                 const Twine &owner);
  bool collectFunctions();
  DictionaryAttr modelAttributes();
  DictionaryAttr declaredValues(Scope &scope, const GraphProto &graph);
  void keepValues(Scope &scope, const GraphProto &graph, bool isBody,
                  NamedAttrList &attributes);
  /// Whether most nodes of the model have an empty doc_string and no other
  /// documentation.
  bool hasEmptyDocStrings() const;
  /// Whether the first node of ai.onnx has a domain, an empty one.
  bool hasEmptyDomains() const;
  void importMain(func::FuncOp function);
  const OpKind &kindOf(const NodeProto &node);

  //===--------------------------------------------------------------------===//
  // Types
  //===--------------------------------------------------------------------===//

  bool convertType(const TypeProto &proto, ValueInfo &info, std::string &error);
  bool convertShape(const ::tandem_onnx::TensorShapeProto &shape,
                    ValueInfo &info, std::string &error);
  Type typeOf(const ValueInfo &info);
  bool checkSize(const ValueInfo &info, std::string &error);
  void appendDimParams(const ValueInfo &info, std::string &text);
  /// The value of tandem.dim_params; null if no result has a symbol.
  ArrayAttr dimParamsOf(ArrayRef<ValueInfo> infos);
  std::string print(const ValueInfo &info);

  //===--------------------------------------------------------------------===//
  // Graphs
  //===--------------------------------------------------------------------===//

  Slot *slotFor(Scope &scope, StringRef name);
  /// Gives `name` its definition. Null, after an error, if it has one.
  Slot *define(Scope &scope, StringRef name, int64_t definition);
  Slot *lookup(const Scope &scope, StringRef name) const;
  void declare(Scope &scope, const ValueInfos &infos);
  void declare(Scope &scope, const GraphProto &graph);
  /// Notes the name of a value of the graph, in the order of the ops.
  void noteValue(Scope &scope, ValueNames &names, StringAttr name,
                 const Slot &slot);
  /// Notes that the value that was declared with `type` got `info`.
  void noteType(Scope &scope, const TypeProto &type, const ValueInfo &declared,
                const ValueInfo &info);
  void noteType(Scope &scope, const TypeProto &type, const ValueInfo &info);
  void importInitializers(Scope &scope, const GraphProto &graph,
                          const llvm::StringSet<> &skip);
  void importNodes(Scope &scope, const Nodes &nodes);
  /// Imports the main graph's nodes.
  /// False, after an error, where one can't be parsed.
  bool importNodes(Scope &scope, NodeReader &nodes);
  /// Imports nodes as long as each uses only what comes before it. Returns the
  /// number of the first that does not, or null, or after too many errors.
  /// `keepsNames`: the names in the nodes stay as long as the scope.
  int64_t importSortedNodes(Scope &scope, int64_t count,
                            llvm::function_ref<const NodeProto *(int64_t)> read,
                            bool keepsNames);
  /// Imports the rest of the nodes, those from `first` on, which may come in
  /// any order.
  void importUnsortedNodes(Scope &scope, ArrayRef<const NodeProto *> nodes,
                           int64_t first);
  /// Imports a node, and notes the names of its outputs in `scope`.
  void importInScope(Scope &scope, const NodeProto &node, int64_t index,
                     ArrayRef<Slot *> inputs, ArrayRef<Slot *> outputs);
  /// Whether so much is wrong that the rest is left out.
  bool hasGivenUp() const {
    return failedBudget || numErrors > options.maxErrors;
  }
  /// Puts the nodes, the first of which is number `first` of the graph, into an
  /// order in which every value is computed before it is used, keeping theirs
  /// where it is one. Of a dependency, the second node must come first. Returns
  /// false, after an error, if there is a cycle.
  bool sortNodes(const Scope &scope, ArrayRef<const NodeProto *> nodes,
                 int64_t first,
                 ArrayRef<std::pair<int64_t, int64_t>> dependencies,
                 std::vector<int64_t> &order);
  void collectCaptures(const NodeProto &node,
                       llvm::function_ref<void(StringRef)> use);
  void collectGraphCaptures(const GraphProto &graph,
                            llvm::function_ref<void(StringRef)> use);
  /// Imports `graph` as a region of `node`. `given` is what the node feeds to
  /// the graph's inputs.
  std::unique_ptr<Region> importBody(NodeState &node, const GraphProto &graph,
                                     StringRef attributeName,
                                     ArrayRef<ValueInfo> given, bool checkCount,
                                     SmallVectorImpl<ValueInfo> &results);

  DictionaryAttr bodyAttributes(Scope &scope, const GraphProto &graph);

  //===--------------------------------------------------------------------===//
  // Nodes
  //===--------------------------------------------------------------------===//

  void importNode(Scope &scope, const NodeProto &proto, int64_t index,
                  ArrayRef<Slot *> inputs, ArrayRef<Slot *> outputs);
  bool resolveAttributes(NodeState &node);
  bool convertAttribute(NodeState &node, const AttributeProto &proto,
                        Attributes &attributes);
  void addKind(NodeState &node, StringRef name,
               AttributeProto::AttributeType type);
  /// Whether the attributes of `node` are in the order of its kind, to which
  /// those are added that are new.
  bool fitsAttributeOrder(const NodeState &node);
  ArrayAttr attributeNames(const NodeState &node);
  /// The orders of those kinds of nodes for which it is not that of the names.
  DictionaryAttr attributeOrders();
  bool importConstant(NodeState &node, Attributes &attributes);
  bool importRegions(NodeState &node,
                     SmallVectorImpl<std::unique_ptr<Region>> &regions,
                     Attributes &attributes);
  bool inferOutputs(NodeState &node);
  /// Merges what the model declares of an output into what is inferred.
  bool finishOutput(NodeState &node, size_t index);
  /// `isInOrder` is what fitsAttributeOrder said.
  void inlineFunction(NodeState &node, bool isInOrder);
  /// What the exporter needs of a call, but for its ops, to write it again; no
  /// value if it has attributes that aren't kept.
  std::optional<NamedAttrList> describeCall(NodeState &node, bool isInOrder);
  /// Completes the description with `ops`, to which the call was inlined.
  void recordCall(NodeState &node, int64_t call, NamedAttrList &entries,
                  ArrayRef<Operation *> ops);
  /// Gives a value of a function body that has another name already, or comes
  /// from outside, the name that the caller has for it.
  Value nameAgain(Scope &scope, NodeState &node, StringRef name,
                  const Slot &slot);
  /// An onnx.NoValue of the call's own; `name` is the output that it is, or "".
  Operation *createAbsent(Scope &scope, NodeState &node, StringRef name);
  /// The graph of a call's attribute as bytes; null if it reads values from
  /// outside.
  Attribute keepGraph(const GraphProto &graph);
  /// The module's functions as the exporter needs them.
  ArrayAttr keepFunctions();
  /// Notes, for a call of a function of ours, in which nodes its all-reduce is
  /// spelled.
  bool noteAllReduce(NodeState &node);
  /// Gives the outputs placeholders after an error, so that the import can go
  /// on and find more.
  void abandon(NodeState &node);
  Value noValue(Scope &scope);
  Value valueOf(Scope &scope, const Slot *slot);
  Operation *createOp(Scope &scope, Location location, OperationName name,
                      TypeRange results, ValueRange operands,
                      Attributes &attributes,
                      MutableArrayRef<std::unique_ptr<Region>> regions = {});
  std::string resourceName(StringRef name);
  StringAttr outputName(const Scope &scope, StringRef name);
  StringAttr attributeName(const OpKind &kind, StringRef name);
  bool readElements(const TensorProto &tensor, SymInts &elements,
                    std::string &error);
  /// A sparse tensor as the bytes of its message, with its data in them. `info`
  /// gets the type of the dense tensor that it stands for. Null on error.
  StringAttr readSparse(const SparseTensorProto &tensor, TensorInfo &info,
                        std::string &error);
  void rememberElements(ValueInfo &info, const TensorProto &tensor,
                        const TensorInfo &tensorInfo);

  const ModelFile &file;
  const ::tandem_onnx::ModelProto &model;
  MLIRContext *context;
  const OnnxImportOptions &options;
  OpBuilder builder;
  StringAttr fileName;
  ElementTypes types;
  ExternalFiles external;
  TensorReader reader;

  unsigned numErrors = 0;
  bool failedBudget = false;
  uint64_t spent = 0, budget;

  llvm::StringMap<int64_t> opsets;
  /// By op type for the domain ai.onnx, and by domain, op type and overload for
  /// all others.
  llvm::StringMap<std::unique_ptr<OpKind>> plainKinds, kinds;
  llvm::StringMap<const FunctionProto *> functions;
  llvm::StringSet<> resourceNames;
  uint64_t nextUnique = 0;
  SmallVector<const FunctionProto *> activeCalls;
  /// What is kept of each call.
  std::vector<Attribute> calls;
  /// How the all-reduces of fused nodes are spelled, and for which groups that
  /// is known.
  SmallVector<Attribute> allReduceNodes;
  llvm::DenseSet<Attribute> knownGroups;
  /// Attributes of function bodies with the caller's values.
  std::deque<AttributeProto> substituted;

  /// What is kept of the values of the main graph.
  NamedAttrList mainValues;
  /// Names of dims that had to be spelled otherwise.
  SmallVector<NamedAttribute> dimNames;
  llvm::StringMap<int64_t> symbolIds;
  std::vector<StringRef> symbolNames;

  /// Names of attributes, looked up once.
  StringAttr outputsName, dimParamsName, nodeNameName, valueName,
      initializerName, functionNameName, domainNameName, regionsName,
      bodiesName, elementsName, formName, kindsName, overloadName, callName,
      extraName, orderName, sparseName;
  OperationName constantOp, noValueOp, yieldOp;
  UnitAttr unit;
  Type noneType, signedInt64;
  StringAttr emptyString;
  /// What nodes that don't say otherwise have for tandem.extra.
  std::string usualExtra;
  /// Whether an empty domain of nodes is part of that.
  bool spellsDomain = false;
  /// The dim_params of ops with one result, by their text.
  llvm::StringMap<ArrayAttr> dimParams;
  std::string scratch;
};

} // namespace mlir::tandem::onnx

#endif // TANDEM_LIB_IMPORT_GRAPHIMPORTER_H
