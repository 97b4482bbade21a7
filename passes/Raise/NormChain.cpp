//===- NormChain.cpp - Norms made of several ops --------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// The exporters write
//
//   u = [Cast] x                            lead
//   v = ReduceMean(Pow(u, 2) | Mul(u, u))   root
//   s = Sqrt(Add(v, epsilon))
//   n = Div(u, s) | Mul(u, Reciprocal(s)) | Mul(u, Div(1, s))
//   y = Mul([Cast] n, gamma) | [Cast] Mul(n, gamma)
//
// with the operands of Add and Mul in either order and, between any two,
// casts that change nothing. Each step below takes the value that the one
// before it left in `current`, and either moves on or says why not.
//
//===----------------------------------------------------------------------===//

#include "Matchers.h"

using namespace mlir;
using namespace mlir::tandem;

namespace {
class NormChain {
public:
  NormChain(OnnxNode mean, MatchFailure &why)
      : mean(mean), block(mean.getOperation()->getBlock()), why(why) {}

  FailureOr<RMSNormMatch> match();

private:
  // The steps, in the order of the chain.
  LogicalResult matchSquare();
  LogicalResult matchInput();
  LogicalResult matchMean();
  LogicalResult matchEpsilon();
  LogicalResult matchInverseRoot();
  LogicalResult matchScale();
  LogicalResult matchGamma();

  LogicalResult fail(Mismatch reason, Operation *blocker) {
    why = {reason, blocker};
    return failure();
  }
  /// The same for a `value` that is not the constant it must be.
  LogicalResult failConstant(Mismatch reason, Value value, Operation *blocker) {
    return fail(isUnreadConstant(value) ? Mismatch::ConstantNotRead : reason,
                blocker);
  }
  /// Takes an op whose results must stay inside the norm.
  void take(Operation *op) { norm.sources.push_back(op); }
  /// The one user of `current`, past casts that change nothing, which are
  /// taken. Fails with InteriorUse if there is another, with `ifUnused` if
  /// there is none.
  FailureOr<OnnxNode> getOnlyUser(Mismatch ifUnused);
  /// The op that `value` comes from, past casts that change nothing; they
  /// and the op are taken. Only `user` may use any of it.
  FailureOr<OnnxNode> takeProducer(Value value, Operation *user);
  /// Whether no op but `user` uses `value`; else fails with InteriorUse.
  LogicalResult checkOnlyUser(Value value, Operation *user);
  /// Given that `op` uses `current`, its other operand; null if both are.
  Value getOtherOperand(Operation *op);
  /// Whether `value` is the value that was squared, maybe by way of a Cast of
  /// its own. Notes ops that lead to it.
  bool isInput(Value value);
  /// A single number that broadcasts to `current` without adding dimensions.
  std::optional<double> getScalar(Value value);
  /// If the Cast is exact, from f16 or bf16 to f32, its operand.
  Value getUpcastOperand(Value value);

  RankedTensorType typeOf(Value value) { return getRankedTensorType(value); }
  Type elementOf(Value value) {
    RankedTensorType type = typeOf(value);
    return type ? type.getElementType() : Type();
  }

  OnnxNode mean;
  Block *block;
  MatchFailure &why;
  RMSNormMatch norm;
  /// Ops in front of the norm that it may take if it alone uses them.
  SmallVector<Operation *, 4> lead;
  Value current;
  Value base;          ///< the value that is squared, past casts without effect
  Value upcast;        ///< what `base` is an exact upcast of; may be null
  Type compute;        ///< the element type of the statistics
  bool scaled = false; ///< whether `current` is the normalised value
};
} // namespace

LogicalResult NormChain::checkOnlyUser(Value value, Operation *user) {
  for (Operation *other : value.getUsers())
    if (other != user)
      return fail(Mismatch::InteriorUse, other);
  return success();
}

FailureOr<OnnxNode> NormChain::getOnlyUser(Mismatch ifUnused) {
  for (unsigned i = 0; i != maxNoopCasts; ++i) {
    if (current.use_empty())
      return fail(ifUnused, current.getDefiningOp());
    Operation *user = *current.getUsers().begin();
    // Where there are several users, one that is no ONNX op or that lies in
    // another block is the one to blame.
    Operation *blocker = nullptr;
    for (Operation *other : current.getUsers()) {
      if (other->getBlock() != block || !OnnxNode(other)) {
        blocker = other;
        break;
      }
      if (other != user)
        blocker = other;
    }
    if (blocker)
      return fail(Mismatch::InteriorUse, blocker);
    if (user->getNumResults() != 1)
      return fail(ifUnused, user);
    if (!getNoopCastOperand(user) || user->getOperand(0) != current)
      return OnnxNode(user);
    take(user);
    current = user->getResult(0);
  }
  return fail(ifUnused, current.getDefiningOp());
}

FailureOr<OnnxNode> NormChain::takeProducer(Value value, Operation *user) {
  for (unsigned i = 0; i != maxNoopCasts; ++i) {
    Operation *def = value.getDefiningOp();
    if (!def || def->getBlock() != block || def->getNumResults() != 1)
      return fail(Mismatch::NotANorm, def);
    if (failed(checkOnlyUser(value, user)))
      return failure();
    take(def);
    Value operand = getNoopCastOperand(def);
    if (!operand)
      return OnnxNode(def);
    value = operand;
    user = def;
  }
  return fail(Mismatch::NotANorm, user);
}

Value NormChain::getOtherOperand(Operation *op) {
  if (op->getNumOperands() != 2)
    return {};
  if (op->getOperand(0) == current)
    return op->getOperand(1) == current ? Value() : op->getOperand(1);
  return op->getOperand(0);
}

bool NormChain::isInput(Value value) {
  SmallVector<Operation *, 4> passed;
  Value source = lookThrough(value, passed);
  if (source != base) {
    // A Cast of its own from the same input gives the same value.
    Value operand = upcast ? getUpcastOperand(source) : Value();
    if (!operand || elementOf(source) != compute)
      return false;
    passed.push_back(source.getDefiningOp());
    if (lookThrough(operand, passed) != upcast)
      return false;
  }
  lead.append(passed);
  return true;
}

std::optional<double> NormChain::getScalar(Value value) {
  RankedTensorType type = typeOf(value), target = typeOf(current);
  if (!type || !target || type.getRank() > target.getRank())
    return std::nullopt;
  return getConstantScalar(value);
}

Value NormChain::getUpcastOperand(Value value) {
  OnnxNode cast(value.getDefiningOp());
  if ((!cast.is("Cast") && !cast.is("CastLike")) || cast.getNumInputs() == 0)
    return {};
  Value operand = cast.getOperation()->getOperand(0);
  RankedTensorType from = typeOf(operand), to = typeOf(value);
  if (!from || !to || !isHalf(from.getElementType()) ||
      !to.getElementType().isF32())
    return {};
  return operand;
}

LogicalResult NormChain::matchSquare() {
  Operation *root = mean.getOperation();
  if (root->getNumOperands() == 0 || root->getNumResults() != 1)
    return fail(Mismatch::NotANorm, root);
  // The root of any other mean is not worth a reason.
  Operation *def = lookThroughNoopCasts(root->getOperand(0)).getDefiningOp();
  OnnxNode node(def);
  if (!node.is("Pow") && !node.is("Mul"))
    return fail(Mismatch::NotANorm, root);
  if (def->getNumOperands() != 2)
    return fail(Mismatch::NotANorm, def);
  Value lhs = def->getOperand(0), rhs = def->getOperand(1);
  if (node.is("Mul") && lookThroughNoopCasts(lhs) != lookThroughNoopCasts(rhs))
    return fail(Mismatch::NotANorm, def);

  auto square = takeProducer(root->getOperand(0), root);
  if (failed(square))
    return failure();
  base = lookThrough(lhs, lead);
  current = lhs;
  if (!typeOf(base))
    return fail(Mismatch::UnknownType, def);
  if (node.is("Pow")) {
    std::optional<double> exponent = getScalar(rhs);
    if (exponent != 2.0)
      return failConstant(Mismatch::SquareExponent, rhs, def);
  } else {
    lookThrough(rhs, lead);
  }
  return success();
}

LogicalResult NormChain::matchInput() {
  RankedTensorType type = typeOf(base);
  if (type.getRank() == 0)
    return fail(Mismatch::UnknownType, mean.getOperation());
  compute = type.getElementType();
  if (!compute.isF32() && !compute.isF64())
    return fail(Mismatch::MixedPrecision, mean.getOperation());
  if (isMeanSubtracted(base))
    return fail(Mismatch::MeanSubtracted, base.getDefiningOp());
  if (Value operand = getUpcastOperand(base)) {
    lead.push_back(base.getDefiningOp());
    upcast = lookThrough(operand, lead);
    if (isMeanSubtracted(upcast))
      return fail(Mismatch::MeanSubtracted, upcast.getDefiningOp());
  }
  return success();
}

LogicalResult NormChain::matchMean() {
  Operation *op = mean.getOperation();
  RankedTensorType type = typeOf(base);
  take(op);
  std::optional<SmallVector<int64_t>> axes;
  if (Value input = mean.getInput(1)) {
    axes = getConstantInts(input);
    if (!axes)
      return failConstant(Mismatch::AxesNotConstant, input, op);
  } else {
    axes = mean.getInts("axes");
  }
  if (mean.getInt("keepdims").value_or(1) != 1)
    return fail(Mismatch::KeepDims, op);
  if (axes && !axes->empty()) {
    if (axes->size() != 1 || !isLastAxis(axes->front(), type))
      return fail(Mismatch::WrongAxes, op);
  } else if (type.getRank() != 1 ||
             mean.getInt("noop_with_empty_axes").value_or(0) != 0) {
    // Without axes the mean is over all dimensions.
    return fail(Mismatch::WrongAxes, op);
  }
  current = op->getResult(0);
  if (elementOf(current) != compute)
    return fail(Mismatch::UnknownType, op);
  return success();
}

LogicalResult NormChain::matchEpsilon() {
  auto add = getOnlyUser(Mismatch::NoEpsilon);
  if (failed(add))
    return failure();
  Operation *op = add->getOperation();
  if (!add->is("Add"))
    return fail(Mismatch::NoEpsilon, op);
  Value other = getOtherOperand(op);
  if (!other)
    return fail(Mismatch::NoEpsilon, op);
  std::optional<double> epsilon = getScalar(other);
  if (!epsilon)
    return failConstant(Mismatch::EpsilonNotConstant, other, op);
  if (!isValidEpsilon(*epsilon))
    return fail(Mismatch::EpsilonInvalid, op);
  norm.epsilon = *epsilon;
  take(op);
  current = op->getResult(0);
  return success();
}

LogicalResult NormChain::matchInverseRoot() {
  auto root = getOnlyUser(Mismatch::NoInverseRoot);
  if (failed(root))
    return failure();
  if (!root->is("Sqrt"))
    return fail(Mismatch::NoInverseRoot, root->getOperation());
  take(root->getOperation());
  current = root->getOperation()->getResult(0);

  auto inverse = getOnlyUser(Mismatch::NoInverseRoot);
  if (failed(inverse))
    return failure();
  Operation *op = inverse->getOperation();
  if (inverse->is("Reciprocal")) {
    take(op);
    current = op->getResult(0);
    return success();
  }
  if (!inverse->is("Div") || op->getNumOperands() != 2 ||
      op->getOperand(1) != current || op->getOperand(0) == current)
    return fail(isOnnxOp(op, "Cast") ? Mismatch::MixedPrecision
                                     : Mismatch::NoInverseRoot,
                op);
  take(op);
  if (isInput(op->getOperand(0))) {
    current = op->getResult(0);
    scaled = true;
    return success();
  }
  if (getScalar(op->getOperand(0)) != 1.0)
    return failConstant(Mismatch::InputsDiffer, op->getOperand(0), op);
  current = op->getResult(0);
  return success();
}

LogicalResult NormChain::matchScale() {
  if (scaled) // by Div(u, s)
    return success();
  auto mul = getOnlyUser(Mismatch::InputsDiffer);
  if (failed(mul))
    return failure();
  Operation *op = mul->getOperation();
  if (mul->is("Cast"))
    return fail(Mismatch::MixedPrecision, op);
  Value other = mul->is("Mul") ? getOtherOperand(op) : Value();
  if (!other || !isInput(other))
    return fail(Mismatch::InputsDiffer, op);
  take(op);
  current = op->getResult(0);
  return success();
}

LogicalResult NormChain::matchGamma() {
  if (elementOf(current) != compute)
    return fail(Mismatch::UnknownType, current.getDefiningOp());
  auto next = getOnlyUser(Mismatch::NoGamma);
  if (failed(next))
    return failure();
  bool roundedFirst = false;
  if (next->is("Cast") || next->is("CastLike")) {
    Operation *cast = next->getOperation();
    if (!upcast || cast->getOperand(0) != current ||
        elementOf(cast->getResult(0)) != elementOf(upcast))
      return fail(Mismatch::MixedPrecision, cast);
    take(cast);
    current = cast->getResult(0);
    roundedFirst = true;
    next = getOnlyUser(Mismatch::NoGamma);
    if (failed(next))
      return failure();
  }
  Operation *mul = next->getOperation();
  Value gamma = next->is("Mul") ? getOtherOperand(mul) : Value();
  if (!gamma)
    return fail(isOnnxOp(mul, "Cast") ? Mismatch::MixedPrecision
                                      : Mismatch::NoGamma,
                mul);
  take(mul);
  current = mul->getResult(0);

  // Without a cast back before gamma there may be one after it. If the
  // product is used in the type of the statistics, that is the norm's own
  // type and its input is the upcast value.
  norm.rounding = NormRounding::BeforeGamma;
  if (upcast && !roundedFirst) {
    Operation *cast = current.hasOneUse() ? *current.user_begin() : nullptr;
    if (cast && cast->getBlock() == block && cast->getNumResults() == 1 &&
        (isOnnxOp(cast, "Cast") || isOnnxOp(cast, "CastLike")) &&
        cast->getOperand(0) == current &&
        elementOf(cast->getResult(0)) == elementOf(upcast)) {
      take(cast);
      current = cast->getResult(0);
      norm.rounding = NormRounding::AfterGamma;
    } else {
      upcast = nullptr;
    }
  }
  norm.input = upcast ? upcast : base;
  norm.result = current;
  norm.anchor = current.getDefiningOp();

  RankedTensorType type = typeOf(norm.input);
  if (typeOf(norm.result) != type)
    return fail(typeOf(norm.result) && typeOf(norm.result).getElementType() ==
                                           type.getElementType()
                    ? Mismatch::GammaShape
                    : Mismatch::UnknownType,
                norm.anchor);

  norm.gamma = lookThrough(gamma, lead);
  if (norm.rounding == NormRounding::AfterGamma) {
    Value operand = getUpcastOperand(norm.gamma);
    if (operand && elementOf(operand) == type.getElementType()) {
      lead.push_back(norm.gamma.getDefiningOp());
      norm.gamma = lookThrough(operand, lead);
    }
  }
  RankedTensorType gammaType = typeOf(norm.gamma);
  if (!isGammaFor(gammaType, type))
    return fail(Mismatch::GammaShape, mul);
  if (norm.rounding == NormRounding::BeforeGamma &&
      gammaType.getElementType() != type.getElementType())
    return fail(Mismatch::MixedPrecision, mul);
  return success();
}

FailureOr<RMSNormMatch> NormChain::match() {
  if (failed(matchSquare()) || failed(matchInput()) || failed(matchMean()) ||
      failed(matchEpsilon()) || failed(matchInverseRoot()) ||
      failed(matchScale()) || failed(matchGamma()))
    return failure();
  // An upcast that is the norm's input stays outside.
  llvm::erase_if(
      lead, [&](Operation *op) { return op == norm.input.getDefiningOp(); });
  takeExclusive(lead, norm);
  return std::move(norm);
}

FailureOr<RMSNormMatch> mlir::tandem::matchNormChain(OnnxNode mean,
                                                     MatchFailure &why) {
  return NormChain(mean, why).match();
}
