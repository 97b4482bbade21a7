//===- Guard.cpp - The check of the token count at run time ---------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Guard.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "llvm/Support/MathExtras.h"

#include <limits>

using namespace mlir;
using namespace mlir::tandem;

/// The innermost region around `block` whose values stay inside: that of a
/// function, as a rule.
static Region *getIsolatedRegion(Block *block) {
  Region *region = block->getParent();
  while (Operation *op = region->getParentOp()) {
    if (op->hasTrait<OpTrait::IsIsolatedFromAbove>() || !op->getParentRegion())
      break;
    region = op->getParentRegion();
  }
  return region;
}

/// Whether `value` is there at the builder's insertion point, by block order
/// alone.
static bool isVisible(Value value, OpBuilder &builder) {
  Operation *definition = value.getDefiningOp();
  Block *block = builder.getInsertionBlock();
  auto position = builder.getInsertionPoint();
  while (block) {
    if (block == definition->getBlock())
      return position == block->end() ||
             definition->isBeforeInBlock(&*position);
    Operation *parent = block->getParentOp();
    if (!parent || parent->hasTrait<OpTrait::IsIsolatedFromAbove>())
      return false;
    block = parent->getBlock();
    position = parent->getIterator();
  }
  return false;
}

Value GuardBuilder::multiplyDims(OpBuilder &builder, Location loc,
                                 ArrayRef<OpFoldResult> dims) {
  Type i64 = builder.getI64Type();
  Value product;
  int64_t constant = 1;
  for (OpFoldResult dim : dims) {
    if (std::optional<int64_t> size = getConstantIntValue(dim)) {
      // No memory holds that many rows; so no limit reaches them either.
      if (llvm::MulOverflow(constant, *size, constant))
        constant = std::numeric_limits<int64_t>::max();
      continue;
    }
    Value value =
        arith::IndexCastOp::create(builder, loc, i64, cast<Value>(dim));
    product =
        product ? arith::MulIOp::create(builder, loc, product, value) : value;
  }
  if (product && constant == 1)
    return product;
  Value factor = arith::ConstantIntOp::create(builder, loc, i64, constant);
  return product ? Value(arith::MulIOp::create(builder, loc, product, factor))
                 : factor;
}

Value GuardBuilder::getLimit(OpBuilder &builder, Location loc,
                             const LimitKey &key) {
  Region *region = getIsolatedRegion(builder.getInsertionBlock());
  EntryPoint &entry = entries[region];
  OpBuilder::InsertionGuard insertionGuard(builder);
  auto create = [&](const std::string &name,
                    function_ref<Value()> make) -> Value {
    Value &value = entry.values[name];
    if (value)
      return value;
    if (entry.last)
      builder.setInsertionPointAfter(entry.last);
    else
      builder.setInsertionPointToStart(&region->front());
    value = make();
    entry.last = value.getDefiningOp();
    return value;
  };
  std::string name;
  llvm::raw_string_ostream(name)
      << key.group << '/' << key.hidden << '/' << key.elementType;
  Value limit = create(name, [&]() -> Value {
    return TokenLimitOp::create(
        builder, loc, builder.getI64Type(), /*workspace=*/Value(), key.group,
        builder.getI64IntegerAttr(key.hidden), TypeAttr::get(key.elementType));
  });
  if (!key.given)
    return limit;
  Value given = create("given " + std::to_string(*key.given), [&]() -> Value {
    return arith::ConstantIntOp::create(builder, loc, builder.getI64Type(),
                                        *key.given);
  });
  return create("min " + name + '/' + std::to_string(*key.given),
                [&]() -> Value {
                  return arith::MinSIOp::create(builder, loc, given, limit);
                });
}

Value GuardBuilder::getTokensInRange(
    OpBuilder &builder, Location loc, const LimitKey &key, StringRef tokensKey,
    function_ref<Value(OpBuilder &)> getTokens) {
  std::string name;
  llvm::raw_string_ostream(name)
      << key.group << '/' << key.hidden << '/' << key.elementType << '/'
      << key.given.value_or(-1) << '/' << tokensKey;
  SmallVector<Value, 1> &made = checks[name];
  for (Value check : made)
    if (isVisible(check, builder))
      return check;
  Value limit = getLimit(builder, loc, key);
  Value tokens = getTokens(builder);
  Value zero =
      arith::ConstantIntOp::create(builder, loc, builder.getI64Type(), 0);
  Value notEmpty = arith::CmpIOp::create(
      builder, loc, arith::CmpIPredicate::sgt, tokens, zero);
  Value notAbove = arith::CmpIOp::create(
      builder, loc, arith::CmpIPredicate::sle, tokens, limit);
  Value check = arith::AndIOp::create(builder, loc, notEmpty, notAbove);
  made.push_back(check);
  return check;
}
