//===- Elementwise.cpp - Element-wise nodes to linalg ---------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Floats below f32 are computed in f32 and rounded once, as ONNX Runtime and
// PyTorch do; every op here is correctly rounded that way but for exp, log,
// pow, tanh and erf, which are libm's.
//
//===----------------------------------------------------------------------===//

#include "NodeLowering.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace mlir::tandem;

static Type elementTypeOf(Value tensor) {
  return cast<RankedTensorType>(tensor.getType()).getElementType();
}

static Value floatConstant(OpBuilder &b, Location loc, Type type,
                           double value) {
  return arith::ConstantOp::create(b, loc, b.getFloatAttr(type, value));
}

/// Runs `compute` on values converted to the type they are computed in, and
/// converts back.
static Value inComputeType(OpBuilder &b, Location loc, ValueRange values,
                           function_ref<Value(ValueRange)> compute) {
  Type type = values.front().getType(), computeType = getComputeType(type);
  SmallVector<Value> converted;
  for (Value value : values)
    converted.push_back(convertScalar(b, loc, value, computeType));
  return convertScalar(b, loc, compute(converted), type);
}

//===----------------------------------------------------------------------===//
// Unary
//===----------------------------------------------------------------------===//

using Unary = Value (*)(OpBuilder &, Location, Value);

template <typename OpTy>
static Value unaryOp(OpBuilder &b, Location loc, Value x) {
  return OpTy::create(b, loc, x);
}

static Value sigmoid(OpBuilder &b, Location loc, Value x) {
  Value one = floatConstant(b, loc, x.getType(), 1.0);
  Value power = math::ExpOp::create(b, loc, arith::NegFOp::create(b, loc, x));
  return arith::DivFOp::create(b, loc, one,
                               arith::AddFOp::create(b, loc, one, power));
}

static Value reciprocal(OpBuilder &b, Location loc, Value x) {
  return arith::DivFOp::create(b, loc, floatConstant(b, loc, x.getType(), 1.0),
                               x);
}

static LogicalResult lowerUnary(NodeLowering &lowering, Results &results,
                                Unary function) {
  Value input = lowering.getTensor(0);
  if (!input)
    return failure();
  Type type = elementTypeOf(input);
  if (!isa<FloatType>(type))
    return lowering.error("is computed in floating point only, and its input "
                          "has integers");
  results.push_back(lowering.elementwise(
      input, lowering.getSizes(input), type,
      [&](OpBuilder &b, Location loc, ValueRange values) {
        return inComputeType(b, loc, values, [&](ValueRange converted) {
          return function(b, loc, converted.front());
        });
      }));
  return success();
}

template <Unary function>
static LogicalResult unary(NodeLowering &lowering, Results &results) {
  return lowerUnary(lowering, results, function);
}

/// Neg, Abs and Relu, which integers have too. `isFloat` says of what kind.
template <typename Compute>
static LogicalResult signedUnary(NodeLowering &lowering, Results &results,
                                 Compute compute) {
  Value input = lowering.getTensor(0);
  if (!input)
    return failure();
  Type type = elementTypeOf(input);
  results.push_back(
      lowering.elementwise(input, lowering.getSizes(input), type,
                           [&](OpBuilder &b, Location loc, ValueRange values) {
                             return compute(b, loc, values.front());
                           }));
  return success();
}

static LogicalResult lowerNeg(NodeLowering &lowering, Results &results) {
  return signedUnary(
      lowering, results, [](OpBuilder &b, Location loc, Value x) -> Value {
        if (isa<FloatType>(x.getType()))
          return arith::NegFOp::create(b, loc, x);
        Value zero =
            arith::ConstantOp::create(b, loc, b.getZeroAttr(x.getType()));
        return arith::SubIOp::create(b, loc, zero, x);
      });
}

static LogicalResult lowerAbs(NodeLowering &lowering, Results &results) {
  return signedUnary(
      lowering, results, [](OpBuilder &b, Location loc, Value x) -> Value {
        if (!isa<FloatType>(x.getType())) {
          Value zero =
              arith::ConstantOp::create(b, loc, b.getZeroAttr(x.getType()));
          Value negative =
              arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, x, zero);
          return arith::SelectOp::create(
              b, loc, negative, arith::SubIOp::create(b, loc, zero, x), x);
        }
        return inComputeType(b, loc, x, [&](ValueRange values) -> Value {
          return math::AbsFOp::create(b, loc, values.front());
        });
      });
}

static LogicalResult lowerRelu(NodeLowering &lowering, Results &results) {
  return signedUnary(
      lowering, results, [](OpBuilder &b, Location loc, Value x) -> Value {
        Value zero =
            arith::ConstantOp::create(b, loc, b.getZeroAttr(x.getType()));
        if (!isa<FloatType>(x.getType()))
          return arith::MaxSIOp::create(b, loc, x, zero);
        return inComputeType(b, loc, {x, zero}, [&](ValueRange values) {
          return arith::MaximumFOp::create(b, loc, values[0], values[1])
              .getResult();
        });
      });
}

/// Swish (opset 24): x * sigmoid(alpha * x).
static LogicalResult lowerSwish(NodeLowering &lowering, Results &results) {
  double alpha = lowering.node.getFloat("alpha").value_or(1.0);
  Value input = lowering.getTensor(0);
  if (!input)
    return failure();
  Type type = elementTypeOf(input);
  if (!isa<FloatType>(type))
    return lowering.error("is computed in floating point only, and its input "
                          "has integers");
  results.push_back(lowering.elementwise(
      input, lowering.getSizes(input), type,
      [&](OpBuilder &b, Location loc, ValueRange values) {
        return inComputeType(b, loc, values, [&](ValueRange x) -> Value {
          Value scaled = x.front();
          if (alpha != 1.0)
            scaled = arith::MulFOp::create(
                b, loc, scaled, floatConstant(b, loc, scaled.getType(), alpha));
          return arith::MulFOp::create(b, loc, x.front(),
                                       sigmoid(b, loc, scaled));
        });
      }));
  return success();
}

//===----------------------------------------------------------------------===//
// Several inputs
//===----------------------------------------------------------------------===//

/// Integer division that rounds to zero. By zero it gives the dividend, and
/// the one quotient that overflows wraps: both would be undefined in LLVM.
static Value divideIntegers(OpBuilder &b, Location loc, Value x, Value y) {
  Type type = y.getType();
  Value zero = arith::ConstantOp::create(b, loc, b.getZeroAttr(type));
  Value one = arith::ConstantOp::create(b, loc, b.getIntegerAttr(type, 1));
  Value minusOne =
      arith::ConstantOp::create(b, loc, b.getIntegerAttr(type, -1));
  auto isEqual = [&](Value value) -> Value {
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, y, value);
  };
  Value isMinusOne = isEqual(minusOne);
  Value isBad = arith::OrIOp::create(b, loc, isEqual(zero), isMinusOne);
  Value safe = arith::SelectOp::create(b, loc, isBad, one, y);
  Value quotient = arith::DivSIOp::create(b, loc, x, safe);
  return arith::SelectOp::create(
      b, loc, isMinusOne, arith::SubIOp::create(b, loc, zero, x), quotient);
}

using Binary = Value (*)(OpBuilder &, Location, Value, Value);

template <typename FloatOp, typename IntOp>
static Value arithmetic(OpBuilder &b, Location loc, Value x, Value y) {
  if (isa<FloatType>(x.getType()))
    return FloatOp::create(b, loc, x, y);
  return IntOp::create(b, loc, x, y);
}

static Value divide(OpBuilder &b, Location loc, Value x, Value y) {
  if (isa<FloatType>(x.getType()))
    return arith::DivFOp::create(b, loc, x, y);
  return divideIntegers(b, loc, x, y);
}

/// The inputs, which must be of one element type.
static FailureOr<SmallVector<Value>> getSameTyped(NodeLowering &lowering) {
  FailureOr<SmallVector<Value>> inputs = lowering.getTensors();
  if (failed(inputs))
    return failure();
  for (Value input : *inputs)
    if (elementTypeOf(input) != elementTypeOf(inputs->front()))
      return lowering.error("has inputs of several element types");
  if (elementTypeOf(inputs->front()).isInteger(1))
    return lowering.error("has boolean inputs");
  return inputs;
}

/// A binary op, or one of any number of inputs that are taken two by two from
/// the left, each time rounded (Min and Max, where rounding changes nothing).
template <Binary function, unsigned minInputs, unsigned maxInputs>
static LogicalResult binary(NodeLowering &lowering, Results &results) {
  FailureOr<SmallVector<Value>> inputs = getSameTyped(lowering);
  if (failed(inputs))
    return failure();
  if (inputs->size() < minInputs || inputs->size() > maxInputs)
    return lowering.error("has " + Twine(inputs->size()) + " inputs");
  FailureOr<Value> result = lowering.broadcastElementwise(
      *inputs, elementTypeOf(inputs->front()),
      [](OpBuilder &b, Location loc, ValueRange values) {
        return inComputeType(b, loc, values, [&](ValueRange converted) {
          Value value = converted.front();
          for (Value next : converted.drop_front())
            value = function(b, loc, value, next);
          return value;
        });
      });
  if (failed(result))
    return failure();
  results.push_back(*result);
  return success();
}

/// Pow: the exponent may have another type than the base, which the result
/// has. The constant exponents of norms are multiplied out.
static LogicalResult lowerPow(NodeLowering &lowering, Results &results) {
  Value base = lowering.getTensor(0), exponent = lowering.getTensor(1);
  if (!base || !exponent)
    return failure();
  Type type = elementTypeOf(base);
  if (!isa<FloatType>(type))
    return lowering.error("is computed in floating point only, and its base "
                          "has integers");
  std::optional<double> constant = getConstantScalar(lowering.node.getInput(1));
  auto body = [&](OpBuilder &b, Location loc, ValueRange values) -> Value {
    Type computeType = getComputeType(type);
    Value x = convertScalar(b, loc, values[0], computeType), result;
    if (constant == 2.0) {
      result = arith::MulFOp::create(b, loc, x, x);
    } else if (constant == 0.5) {
      result = math::SqrtOp::create(b, loc, x);
    } else if (constant == 1.0) {
      result = x;
    } else {
      Value y = convertScalar(b, loc, values[1], computeType);
      result = math::PowFOp::create(b, loc, x, y);
    }
    return convertScalar(b, loc, result, type);
  };
  FailureOr<Value> result =
      lowering.broadcastElementwise({base, exponent}, type, body);
  if (failed(result))
    return failure();
  results.push_back(*result);
  return success();
}

//===----------------------------------------------------------------------===//
// Casts
//===----------------------------------------------------------------------===//

static LogicalResult lowerCastTo(NodeLowering &lowering, Results &results,
                                 Type type) {
  Value input = lowering.getTensor(0);
  if (!input)
    return failure();
  if (!isSupportedElementType(type)) {
    std::string text;
    llvm::raw_string_ostream(text) << type;
    return lowering.error("casts to " + text +
                          ", which can't be computed with");
  }
  results.push_back(lowering.convertTensor(input, type));
  return success();
}

static LogicalResult lowerCast(NodeLowering &lowering, Results &results) {
  auto to = dyn_cast_or_null<TypeAttr>(lowering.node.getAttr("to"));
  if (!to)
    return lowering.error("has no type to cast to");
  return lowerCastTo(lowering, results, to.getValue());
}

static LogicalResult lowerCastLike(NodeLowering &lowering, Results &results) {
  Value like = lowering.getTensor(1);
  if (!like)
    return failure();
  return lowerCastTo(lowering, results, elementTypeOf(like));
}

static LogicalResult lowerIdentity(NodeLowering &lowering, Results &results) {
  Value input = lowering.getTensor(0);
  if (!input)
    return failure();
  results.push_back(input);
  return success();
}

LowerFn mlir::tandem::lookupElementwise(StringRef opType) {
  constexpr unsigned any = 1u << 16;
  return llvm::StringSwitch<LowerFn>(opType)
      .Case("Abs", lowerAbs)
      .Case("Add", binary<arithmetic<arith::AddFOp, arith::AddIOp>, 2, 2>)
      .Case("Cast", lowerCast)
      .Case("CastLike", lowerCastLike)
      .Case("Div", binary<divide, 2, 2>)
      .Case("Erf", unary<unaryOp<math::ErfOp>>)
      .Case("Exp", unary<unaryOp<math::ExpOp>>)
      .Case("Identity", lowerIdentity)
      .Case("Log", unary<unaryOp<math::LogOp>>)
      .Case("Max",
            binary<arithmetic<arith::MaximumFOp, arith::MaxSIOp>, 1, any>)
      .Case("Min",
            binary<arithmetic<arith::MinimumFOp, arith::MinSIOp>, 1, any>)
      .Case("Mul", binary<arithmetic<arith::MulFOp, arith::MulIOp>, 2, 2>)
      .Case("Neg", lowerNeg)
      .Case("Pow", lowerPow)
      .Case("Reciprocal", unary<reciprocal>)
      .Case("Relu", lowerRelu)
      .Case("Sigmoid", unary<sigmoid>)
      .Case("Sqrt", unary<unaryOp<math::SqrtOp>>)
      .Case("Sub", binary<arithmetic<arith::SubFOp, arith::SubIOp>, 2, 2>)
      .Case("Swish", lowerSwish)
      .Case("Tanh", unary<unaryOp<math::TanhOp>>)
      .Default(nullptr);
}

bool mlir::tandem::doesBroadcast(StringRef opType) {
  return llvm::StringSwitch<bool>(opType)
      .Cases({"Add", "Div", "MatMul", "Max", "Min", "Mul", "Pow", "Sub"}, true)
      .Default(false);
}
