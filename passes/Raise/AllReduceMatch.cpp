//===- AllReduceMatch.cpp - All-reduces of all spellings ------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Matchers.h"

#include "mlir/Dialect/Shard/IR/ShardOps.h"
#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/SmallSet.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace mlir::tandem;

namespace {
class AllReduceMatcher {
public:
  AllReduceMatcher(Operation *op, std::optional<MatchFailure> &why)
      : op(op), why(why) {}

  FailureOr<AllReduceMatch> match();

private:
  LogicalResult fail(Mismatch reason, Operation *blocker) {
    why = MatchFailure{reason, blocker};
    return failure();
  }
  /// Sets the group, if its parts make one.
  LogicalResult setGroup(StringRef name, int64_t size = 0,
                         ArrayRef<int64_t> ranks = {});
  LogicalResult setReduction(StringRef name);
  /// Checks operand and result of the op that reduces, and takes it.
  LogicalResult setOperation(Value input, Value result);

  LogicalResult matchNode(OnnxNode node, bool &isAllReduce);
  LogicalResult matchNccl(OnnxNode node);
  LogicalResult matchDistCollective(OnnxNode node);
  LogicalResult matchFunctional();
  LogicalResult matchShard(shard::AllReduceOp reduce);

  Operation *op;
  std::optional<MatchFailure> &why;
  AllReduceMatch found;
};
} // namespace

LogicalResult AllReduceMatcher::setGroup(StringRef name, int64_t size,
                                         ArrayRef<int64_t> ranks) {
  llvm::SmallSet<int64_t, 8> seen;
  bool isValid = !name.empty() && size >= 0 &&
                 (ranks.empty() || (size > 0 && ranks.size() % size == 0)) &&
                 llvm::all_of(ranks, [&](int64_t rank) {
                   return rank >= 0 && seen.insert(rank).second;
                 });
  if (!isValid)
    return fail(Mismatch::UnknownGroup, op);
  found.group = GroupAttr::get(op->getContext(), name, size, ranks);
  return success();
}

LogicalResult AllReduceMatcher::setReduction(StringRef name) {
  auto kind =
      llvm::StringSwitch<std::optional<ReductionKind>>(name)
          .CaseLower("sum", ReductionKind::Sum)
          .CasesLower({"prod", "product"}, ReductionKind::Product)
          .CaseLower("min", ReductionKind::Min)
          .CaseLower("max", ReductionKind::Max)
          .CasesLower({"avg", "average", "mean"}, ReductionKind::Average)
          .Default(std::nullopt);
  if (!kind)
    return fail(Mismatch::UnknownReduction, op);
  found.reduction = *kind;
  return success();
}

LogicalResult AllReduceMatcher::setOperation(Value input, Value result) {
  auto tensorType = [](Value value) -> TensorType {
    if (auto type = dyn_cast<TensorType>(value.getType()))
      return type;
    return getRankedTensorType(value);
  };
  TensorType type = tensorType(input);
  if (!type || !type.getElementType().isIntOrFloat())
    return fail(Mismatch::UnknownType, op);
  if (tensorType(result) != type)
    return fail(Mismatch::TypeChanges, op);
  found.input = input;
  found.result = result;
  found.anchor = op;
  found.sources.push_back(op);
  return success();
}

/// NcclAllReduce names one of the groups that ONNX Runtime's trainer makes.
LogicalResult AllReduceMatcher::matchNccl(OnnxNode node) {
  static constexpr StringLiteral groups[] = {
      "world",           "data",       "node_local_data",
      "cross_node_data", "horizontal", "model"};
  int64_t index = node.getInt("group_type").value_or(0);
  if (index < 0 || index >= static_cast<int64_t>(std::size(groups)))
    return fail(Mismatch::UnknownGroup, op);
  return setGroup(groups[index]);
}

LogicalResult AllReduceMatcher::matchDistCollective(OnnxNode node) {
  if (failed(setReduction(node.getString("reduce_op").value_or(""))))
    return failure();
  int64_t size = node.getInt("nb_rank").value_or(0);
  std::optional<SmallVector<int64_t>> ranks = node.getInts("groups");
  int64_t groupSize = node.getInt("group_size").value_or(0);
  if (!ranks || ranks->empty())
    return setGroup("world",
                    groupSize > 0 ? groupSize : std::max<int64_t>(size, 0));
  if (groupSize <= 0)
    groupSize = static_cast<int64_t>(ranks->size());
  return setGroup("dist", groupSize, *ranks);
}

/// The text of a `torch.constant.str`, or of an attribute where an importer
/// has made one of the argument.
static std::optional<StringRef> getText(Operation *op, unsigned operand,
                                        StringRef attrName) {
  if (operand < op->getNumOperands())
    if (Operation *def = op->getOperand(operand).getDefiningOp())
      if (def->getName().getStringRef() == "torch.constant.str")
        if (auto text = def->getAttrOfType<StringAttr>("value"))
          return text.getValue();
  for (StringRef prefix : {"", "torch.onnx."})
    if (auto text = op->getAttrOfType<StringAttr>((prefix + attrName).str()))
      return text.getValue();
  return std::nullopt;
}

static constexpr StringLiteral kFunctional("_c10d_functional");

/// Whether `op` is this op of PyTorch's functional collectives.
static bool isFunctional(Operation *op, StringRef name) {
  if (OnnxNode node(op); node && !node.isTorchOperator())
    return node.getDomain() == kFunctional && node.getOpType() == name;
  StringRef torchName = getTorchOperatorName(op);
  if (!torchName.consume_front(kFunctional))
    return false;
  if (!torchName.consume_front(".") && !torchName.consume_front("::"))
    return false;
  torchName.consume_back(".default");
  return torchName == name;
}

/// `wait_tensor(all_reduce(x, reduce_op, group_name))`: the raised op stands
/// at the all_reduce, where the ranks begin to communicate.
LogicalResult AllReduceMatcher::matchFunctional() {
  if (op->getNumOperands() == 0 || op->getNumResults() != 1)
    return fail(Mismatch::SeveralInputs, op);
  Value started = op->getResult(0);
  if (!started.hasOneUse())
    return fail(Mismatch::NoWait, op);
  Operation *wait = *started.user_begin();
  if (!isFunctional(wait, "wait_tensor") || wait->getNumResults() != 1 ||
      wait->getNumOperands() != 1 || wait->getBlock() != op->getBlock())
    return fail(Mismatch::NoWait, wait);
  auto reduction = getText(op, 1, "reduce_op");
  if (!reduction)
    return fail(Mismatch::UnknownReduction, op);
  auto group = getText(op, 2, "group_name");
  if (!group)
    return fail(Mismatch::UnknownGroup, op);
  if (failed(setReduction(*reduction)) || failed(setGroup(*group)) ||
      failed(setOperation(op->getOperand(0), wait->getResult(0))))
    return failure();
  found.sources.push_back(wait);
  return success();
}

static std::optional<ReductionKind> convert(shard::ReductionKind kind) {
  switch (kind) {
  case shard::ReductionKind::Sum:
    return ReductionKind::Sum;
  case shard::ReductionKind::Product:
    return ReductionKind::Product;
  case shard::ReductionKind::Min:
    return ReductionKind::Min;
  case shard::ReductionKind::Max:
    return ReductionKind::Max;
  case shard::ReductionKind::Average:
    return ReductionKind::Average;
  default:
    return std::nullopt;
  }
}

/// The group is the grid's name, with the axes where they are not all of its
/// axes; its size the product of their extents.
LogicalResult AllReduceMatcher::matchShard(shard::AllReduceOp reduce) {
  SmallVector<int64_t> axes;
  for (int16_t axis : reduce.getGridAxes())
    axes.push_back(axis);
  if (axes.empty()) // the identity
    return failure();
  llvm::sort(axes);
  auto kind = convert(reduce.getReduction());
  if (!kind)
    return fail(Mismatch::UnknownReduction, op);
  found.reduction = *kind;

  auto grid = SymbolTable::lookupNearestSymbolFrom<shard::GridOp>(
      op, reduce.getGridAttr());
  if (!grid)
    return fail(Mismatch::UnknownGroup, op);
  ArrayRef<int64_t> shape = grid.getShape();
  int64_t size = 1;
  for (int64_t axis : axes) {
    if (axis < 0 || axis >= static_cast<int64_t>(shape.size()))
      return fail(Mismatch::UnknownGroup, op);
    if (ShapedType::isDynamic(shape[axis]) || size == 0 ||
        llvm::MulOverflow(size, shape[axis], size))
      size = 0;
  }
  std::string name = reduce.getGrid().str();
  if (axes.size() != shape.size()) {
    llvm::raw_string_ostream os(name);
    os << '[';
    llvm::interleaveComma(axes, os);
    os << ']';
  }
  if (failed(setGroup(name, size)))
    return failure();
  if (!isa<RankedTensorType>(reduce.getInput().getType()))
    return fail(Mismatch::UnknownType, op);
  return setOperation(reduce.getInput(), reduce.getResult());
}

LogicalResult AllReduceMatcher::matchNode(OnnxNode node, bool &isAllReduce) {
  static constexpr StringLiteral microsoft("com.microsoft");
  isAllReduce = true;
  auto matchGroup = [&]() -> LogicalResult {
    if (node.is("AllReduce", microsoft))
      return setGroup("world");
    if (node.is("NcclAllReduce", microsoft) || node.is("NcclAllReduce"))
      return matchNccl(node);
    if (node.is("AllReducePlugin", "trt_edgellm"))
      return setGroup("tp",
                      std::max<int64_t>(node.getInt("tp_size").value_or(0), 0));
    if (node.is("DistCollective") && node.getString("collective_operation")
                                         .value_or("")
                                         .equals_insensitive("all_reduce"))
      return matchDistCollective(node);
    isAllReduce = false;
    return failure();
  };
  if (failed(matchGroup()))
    return failure();
  if (op->getNumOperands() != 1 || op->getNumResults() != 1)
    return fail(Mismatch::SeveralInputs, op);
  return setOperation(op->getOperand(0), op->getResult(0));
}

FailureOr<AllReduceMatch> AllReduceMatcher::match() {
  if (auto reduce = dyn_cast<shard::AllReduceOp>(op)) {
    if (failed(matchShard(reduce)))
      return failure();
    return std::move(found);
  }
  if (isFunctional(op, "all_reduce")) {
    if (failed(matchFunctional()))
      return failure();
    return std::move(found);
  }
  OnnxNode node(op);
  bool isAllReduce = false;
  if (!node || failed(matchNode(node, isAllReduce)))
    return failure();
  return std::move(found);
}

FailureOr<AllReduceMatch>
mlir::tandem::matchAllReduce(Operation *op, std::optional<MatchFailure> *why) {
  std::optional<MatchFailure> ignored;
  std::optional<MatchFailure> &reason = why ? *why : ignored;
  reason.reset();
  return AllReduceMatcher(op, reason).match();
}
