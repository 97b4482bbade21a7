//===- Interpreter.cpp - Runs small modules on several ranks --------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Interpreter.h"

#include "tandem/Dialect/Tandem.h"
#include "tandem/OnnxOps/OnnxOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>
#include <cstring>

using namespace mlir;
using namespace mlir::tandem;
using namespace mlir::tandem::test;

int64_t Data::getNumElements() const {
  int64_t count = 1;
  for (int64_t dim : shape)
    count *= dim;
  return count;
}

float mlir::tandem::test::roundTo(double x, Type type) {
  if (type.isF32() || !std::isfinite(x) || x == 0)
    return static_cast<float>(x);
  int precision = type.isF16() ? 11 : 8;
  int minExponent = type.isF16() ? -14 : -126;
  int maxExponent = type.isF16() ? 15 : 127;
  int exponent; // x = m * 2^exponent, 0.5 <= |m| < 1
  std::frexp(x, &exponent);
  int unit = std::max(exponent - precision, minExponent - precision + 1);
  double rounded = std::ldexp(std::nearbyint(std::ldexp(x, -unit)), unit);
  if (std::fabs(rounded) >= std::ldexp(1.0, maxExponent + 1))
    rounded = std::copysign(HUGE_VAL, rounded);
  return static_cast<float>(rounded);
}

bool mlir::tandem::test::isIdentical(const Data &a, const Data &b) {
  if (a.shape != b.shape || a.ints != b.ints ||
      a.floats.size() != b.floats.size())
    return false;
  for (size_t i = 0, e = a.floats.size(); i != e; ++i) {
    if (std::isnan(a.floats[i]) && std::isnan(b.floats[i]))
      continue;
    // NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): zeros have signs.
    if (std::memcmp(&a.floats[i], &b.floats[i], sizeof(float)) != 0)
      return false;
  }
  return true;
}

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

namespace {
struct Norm {
  double epsilon;
  NormRounding rounding;
};
} // namespace

/// The shape of a broadcasting op's result; false if the shapes don't fit.
static bool broadcastShapes(ArrayRef<int64_t> a, ArrayRef<int64_t> b,
                            SmallVectorImpl<int64_t> &shape) {
  if (a.size() < b.size())
    std::swap(a, b);
  shape.assign(a.begin(), a.end());
  size_t offset = a.size() - b.size();
  for (size_t i = 0; i != b.size(); ++i) {
    int64_t &dim = shape[offset + i];
    if (dim != b[i] && dim != 1 && b[i] != 1)
      return false;
    if (dim == 1)
      dim = b[i];
  }
  return true;
}

/// The index into `shape` of element `index` of `result`.
static int64_t sourceIndex(int64_t index, ArrayRef<int64_t> result,
                           ArrayRef<int64_t> shape) {
  int64_t source = 0, stride = 1;
  for (size_t i = 0; i != result.size(); ++i) {
    size_t dim = result.size() - 1 - i;
    int64_t position = index % result[dim];
    index /= result[dim];
    if (i >= shape.size())
      continue;
    int64_t size = shape[shape.size() - 1 - i];
    if (size != 1)
      source += position * stride;
    stride *= size;
  }
  return source;
}

/// Element by element, with broadcasting; one rounding.
static bool combine(const Data &a, const Data &b, Type type,
                    function_ref<double(double, double)> combineTwo,
                    Data &result) {
  if (!broadcastShapes(a.shape, b.shape, result.shape))
    return false;
  int64_t count = result.getNumElements();
  result.floats.resize(count);
  for (int64_t i = 0; i != count; ++i)
    result.floats[i] =
        roundTo(combineTwo(a.floats[sourceIndex(i, result.shape, a.shape)],
                           b.floats[sourceIndex(i, result.shape, b.shape)]),
                type);
  return true;
}

static double plus(double a, double b) { return a + b; }

/// The sum of the ranks' values, in rank order, in f32.
static Data sumRanks(ArrayRef<Data> inputs, ReductionKind kind, Type type) {
  Data result = inputs.front();
  for (int64_t i = 0, e = result.floats.size(); i != e; ++i) {
    float value = inputs.front().floats[i];
    for (const Data &input : inputs.drop_front()) {
      float other = input.floats[i];
      switch (kind) {
      case ReductionKind::Sum:
      case ReductionKind::Average:
        value += other;
        break;
      case ReductionKind::Product:
        value *= other;
        break;
      case ReductionKind::Min:
        value = std::fmin(value, other);
        break;
      case ReductionKind::Max:
        value = std::fmax(value, other);
        break;
      }
    }
    if (kind == ReductionKind::Average)
      value /= static_cast<float>(inputs.size());
    result.floats[i] = roundTo(value, type);
  }
  return result;
}

static Data normalize(const Data &x, const Data &gamma, const Norm &norm,
                      Type type) {
  Data result = x;
  int64_t hidden = x.shape.back();
  for (int64_t row = 0, e = x.getNumElements(); row < e; row += hidden) {
    float sum = 0;
    for (int64_t i = 0; i != hidden; ++i) {
      float square = x.floats[row + i] * x.floats[row + i];
      sum += square;
    }
    float mean = sum / static_cast<float>(hidden);
    float root = std::sqrt(mean + static_cast<float>(norm.epsilon));
    for (int64_t i = 0; i != hidden; ++i) {
      float scaled = x.floats[row + i] / root;
      if (norm.rounding == NormRounding::BeforeGamma)
        scaled = roundTo(scaled, type);
      // An f32 product, as all that stands between roundings.
      float product = scaled * gamma.floats[i];
      result.floats[row + i] = roundTo(product, type);
    }
  }
  return result;
}

//===----------------------------------------------------------------------===//
// Interpreter
//===----------------------------------------------------------------------===//

namespace {
class Interpreter {
public:
  Interpreter(ModuleOp module, size_t numRanks, int64_t tokenLimit)
      : module(module), numRanks(numRanks), tokenLimit(tokenLimit) {}

  bool call(StringRef name, ArrayRef<RankValues> arguments,
            std::vector<RankValues> &results);

  Outcome outcome;

private:
  using Frame = llvm::DenseMap<Value, RankValues>;
  using RankFunction = function_ref<bool(size_t rank, Data &result)>;

  bool fail(Operation *op, const Twine &message) {
    if (outcome.error.empty()) {
      llvm::raw_string_ostream os(outcome.error);
      os << op->getName() << ": " << message << ": " << *op;
    }
    return false;
  }
  bool runBlock(Block &block, Frame &frame, std::vector<RankValues> &yielded);
  bool run(Operation *op, Frame &frame);
  bool runTandem(Operation *op, Frame &frame);
  bool runFused(FusedAllReduceNormOp op, Frame &frame);
  bool runOnnx(OnnxNode node, Frame &frame);
  bool runOnnxShape(OnnxNode node, Frame &frame);
  bool runSkipNorm(OnnxNode node, Frame &frame);
  bool runIf(scf::IfOp op, Frame &frame);
  bool runConstant(Operation *op, Attribute value, Frame &frame);

  const Data &get(Frame &frame, Value value, size_t rank) {
    return (*frame.find(value)->second)[rank];
  }
  /// Sets `value` to what `compute` says for each rank, if it fits its type.
  bool set(Frame &frame, Value value, RankFunction compute);
  bool setScalar(Frame &frame, Value value,
                 function_ref<int64_t(size_t rank)> compute) {
    return set(frame, value, [&](size_t rank, Data &result) {
      result.ints = {compute(rank)};
      return true;
    });
  }
  bool fits(Value value, const Data &data);
  std::vector<Data> reduce(Frame &frame, Value input, ReductionKind kind,
                           GroupAttr group);
  void note(StringRef what, Frame &frame, Value value);

  ModuleOp module;
  size_t numRanks;
  int64_t tokenLimit;
};
} // namespace

bool Interpreter::fits(Value value, const Data &data) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!type)
    return data.shape.empty();
  if (static_cast<int64_t>(data.shape.size()) != type.getRank())
    return false;
  for (auto [have, want] : llvm::zip_equal(data.shape, type.getShape()))
    if (!ShapedType::isDynamic(want) && have != want)
      return false;
  size_t count = data.getNumElements();
  return isa<FloatType>(type.getElementType()) ? data.floats.size() == count
                                               : data.ints.size() == count;
}

bool Interpreter::set(Frame &frame, Value value, RankFunction compute) {
  auto values = std::make_shared<std::vector<Data>>(numRanks);
  for (size_t rank = 0; rank != numRanks; ++rank) {
    Data &data = (*values)[rank];
    if (!compute(rank, data))
      return fail(value.getDefiningOp(), "operands don't fit each other");
    if (!fits(value, data))
      return fail(value.getDefiningOp(), "the result is not of its type");
  }
  frame[value] = std::move(values);
  return true;
}

void Interpreter::note(StringRef what, Frame &frame, Value value) {
  llvm::hash_code hash(0);
  int64_t count = 0;
  for (size_t rank = 0; rank != numRanks; ++rank) {
    const Data &data = get(frame, value, rank);
    count = data.getNumElements();
    for (float element : data.floats) {
      uint32_t bits;
      std::memcpy(&bits, &element, sizeof(bits));
      hash = llvm::hash_combine(hash, std::isnan(element) ? 0x7fc00000 : bits);
    }
  }
  std::string line;
  llvm::raw_string_ostream(line)
      << what << " of " << count << " elements, hash " << size_t(hash);
  outcome.trace.push_back(std::move(line));
}

/// Every rank's view of a collective: what all get.
std::vector<Data> Interpreter::reduce(Frame &frame, Value input,
                                      ReductionKind kind, GroupAttr group) {
  note((stringifyReductionKind(kind) + " over " + group.getName()).str(), frame,
       input);
  Type type = getElementTypeOrSelf(input.getType());
  Data sum = sumRanks(*frame.find(input)->second, kind, type);
  return std::vector<Data>(numRanks, sum);
}

bool Interpreter::runFused(FusedAllReduceNormOp op, Frame &frame) {
  const Data &input = get(frame, op.getInput(), 0);
  outcome.fusedTokens.push_back(input.getNumElements() / input.shape.back());
  Type type = getElementTypeOrSelf(op.getInput().getType());
  std::vector<Data> sums =
      reduce(frame, op.getInput(), ReductionKind::Sum, op.getGroup());
  std::vector<Data> norms(numRanks), residuals(numRanks);
  for (size_t rank = 0; rank != numRanks; ++rank) {
    Data value = sums[rank];
    if (op.getBias()) {
      Data biased;
      if (!combine(value, get(frame, op.getBias(), rank), type, plus, biased))
        return fail(op, "the bias does not fit");
      value = std::move(biased);
    }
    if (op.getPreGamma())
      value = normalize(
          value, get(frame, op.getPreGamma(), rank),
          {op.getPreEpsilon()->convertToDouble(), op.getPreRounding()}, type);
    if (op.getResidual()) {
      const Data &residual = get(frame, op.getResidual(), rank);
      if (residual.shape != value.shape)
        return fail(op, "the residual has another shape");
      Data total;
      combine(value, residual, type, plus, total);
      value = std::move(total);
    }
    norms[rank] =
        normalize(value, get(frame, op.getGamma(), rank),
                  {op.getEpsilon().convertToDouble(), op.getRounding()}, type);
    residuals[rank] = std::move(value);
    for (Value init : op.getInits())
      if (get(frame, init, rank).shape != sums[rank].shape)
        return fail(op, "a destination has another shape");
  }
  auto setAll = [&](Value result, std::vector<Data> &values) {
    return set(frame, result, [&](size_t rank, Data &data) {
      data = values[rank];
      return true;
    });
  };
  return setAll(op.getNorm(), norms) &&
         (!op.getNewResidual() || setAll(op.getNewResidual(), residuals)) &&
         (!op.getSum() || setAll(op.getSum(), sums));
}

bool Interpreter::runTandem(Operation *op, Frame &frame) {
  if (auto reduceOp = dyn_cast<AllReduceOp>(op)) {
    std::vector<Data> values =
        reduce(frame, reduceOp.getInput(), reduceOp.getReduction(),
               reduceOp.getGroup());
    return set(frame, reduceOp.getResult(), [&](size_t rank, Data &data) {
      data = values[rank];
      return true;
    });
  }
  if (auto add = dyn_cast<AddOp>(op))
    return set(frame, add.getResult(), [&](size_t rank, Data &data) {
      const Data &lhs = get(frame, add.getLhs(), rank);
      const Data &rhs = get(frame, add.getRhs(), rank);
      return lhs.shape == rhs.shape &&
             combine(lhs, rhs, getElementTypeOrSelf(add.getType()), plus, data);
    });
  if (auto norm = dyn_cast<RMSNormOp>(op))
    return set(frame, norm.getResult(), [&](size_t rank, Data &data) {
      data = normalize(
          get(frame, norm.getInput(), rank), get(frame, norm.getGamma(), rank),
          {norm.getEpsilon().convertToDouble(), norm.getRounding()},
          getElementTypeOrSelf(norm.getType()));
      return true;
    });
  if (auto fused = dyn_cast<FusedAllReduceNormOp>(op))
    return runFused(fused, frame);
  if (auto limit = dyn_cast<TokenLimitOp>(op))
    return setScalar(frame, limit.getLimit(),
                     [&](size_t) { return tokenLimit; });
  return fail(op, "not known");
}

bool Interpreter::runConstant(Operation *op, Attribute value, Frame &frame) {
  Data data;
  if (auto integer = dyn_cast<IntegerAttr>(value)) {
    data.ints = {integer.getType().isInteger(1) ? integer.getValue() != 0
                                                : integer.getInt()};
  } else if (auto elements = dyn_cast<DenseElementsAttr>(value)) {
    data.shape.assign(elements.getType().getShape().begin(),
                      elements.getType().getShape().end());
    if (isa<FloatType>(elements.getElementType())) {
      for (APFloat element : elements.getValues<APFloat>())
        data.floats.push_back(static_cast<float>(element.convertToDouble()));
    } else {
      for (APInt element : elements.getValues<APInt>())
        data.ints.push_back(element.getSExtValue());
    }
  } else {
    return fail(op, "a constant that can't be read");
  }
  return set(frame, op->getResult(0), [&](size_t, Data &result) {
    result = data;
    return true;
  });
}

/// Ops that compute shapes, and those that change only the shape.
bool Interpreter::runOnnxShape(OnnxNode node, Frame &frame) {
  Operation *op = node.getOperation();
  Value result = op->getResult(0);
  auto setInts = [&](function_ref<std::vector<int64_t>(size_t)> compute) {
    return set(frame, result, [&](size_t rank, Data &data) {
      data.ints = compute(rank);
      if (cast<RankedTensorType>(result.getType()).getRank() == 1)
        data.shape = {static_cast<int64_t>(data.ints.size())};
      return true;
    });
  };
  if (node.is("Shape"))
    return setInts([&](size_t rank) {
      ArrayRef<int64_t> shape = get(frame, op->getOperand(0), rank).shape;
      return std::vector<int64_t>(shape.begin(), shape.end());
    });
  if (node.is("Gather"))
    return setInts([&](size_t rank) {
      std::vector<int64_t> gathered;
      for (int64_t index : get(frame, op->getOperand(1), rank).ints)
        gathered.push_back(get(frame, op->getOperand(0), rank).ints[index]);
      return gathered;
    });
  if (node.is("Concat"))
    return setInts([&](size_t rank) {
      std::vector<int64_t> all;
      for (Value operand : op->getOperands())
        llvm::append_range(all, get(frame, operand, rank).ints);
      return all;
    });
  if (!node.is("Reshape"))
    return fail(op, "not known");
  return set(frame, result, [&](size_t rank, Data &data) {
    const Data &input = get(frame, op->getOperand(0), rank);
    data.floats = input.floats;
    int64_t known = 1, inferred = -1;
    for (auto [i, size] :
         llvm::enumerate(get(frame, op->getOperand(1), rank).ints)) {
      int64_t dim = size;
      if (dim == 0 && !node.getInt("allowzero").value_or(0))
        dim = i < input.shape.size() ? input.shape[i] : -2;
      if (dim == -1)
        inferred = i;
      else
        known *= dim;
      data.shape.push_back(dim);
    }
    if (inferred >= 0) {
      if (known == 0)
        return false;
      data.shape[inferred] = input.getNumElements() / known;
    }
    return data.getNumElements() == input.getNumElements();
  });
}

/// Adds, then normalises; a bias is added to the sum.
bool Interpreter::runSkipNorm(OnnxNode node, Frame &frame) {
  Operation *op = node.getOperation();
  Type type = getElementTypeOrSelf(op->getOperand(0).getType());
  std::vector<Data> sums(numRanks);
  for (size_t rank = 0; rank != numRanks; ++rank) {
    if (!combine(get(frame, node.getInput(0), rank),
                 get(frame, node.getInput(1), rank), type, plus, sums[rank]))
      return fail(op, "operands don't fit each other");
    if (Value bias = node.getInput(3)) {
      Data sum = std::move(sums[rank]);
      sums[rank] = {};
      combine(sum, get(frame, bias, rank), type, plus, sums[rank]);
    }
  }
  if (!set(frame, op->getResult(0), [&](size_t rank, Data &data) {
        data = normalize(sums[rank], get(frame, node.getInput(2), rank),
                         {node.getFloat("epsilon").value_or(1e-12f),
                          NormRounding::AfterGamma},
                         type);
        return true;
      }))
    return false;
  return op->getNumResults() < 4 || set(
                                        frame, op->getResult(3),
                                        [&](size_t rank, Data &data) {
                                          data = sums[rank];
                                          return true;
                                        });
}

bool Interpreter::runOnnx(OnnxNode node, Frame &frame) {
  Operation *op = node.getOperation();
  if (node.is("NoValue"))
    return true;
  if (op->getNumResults() == 0)
    return fail(op, "not known");
  Value result = op->getResult(0);
  Type type = getElementTypeOrSelf(result.getType());
  if (node.is("Constant"))
    return runConstant(op, node.getAttr("value"), frame);
  if (node.is("AllReduce", "com.microsoft") || node.is("DistCollective")) {
    ReductionKind kind =
        symbolizeReductionKind(node.getString("reduce_op").value_or("sum"))
            .value();
    std::vector<Data> values = reduce(frame, op->getOperand(0), kind,
                                      GroupAttr::getWorld(op->getContext()));
    return set(frame, result, [&](size_t rank, Data &data) {
      data = values[rank];
      return true;
    });
  }
  if (node.is("SkipSimplifiedLayerNormalization", "com.microsoft"))
    return runSkipNorm(node, frame);
  if (node.is("Observe", "test")) {
    note("observe", frame, op->getOperand(0));
    RankValues passedOn = frame.find(op->getOperand(0))->second;
    frame[result] = std::move(passedOn);
    return true;
  }
  bool rounds = node.is("RMSNormalization");
  if (rounds || node.is("SimplifiedLayerNormalization"))
    return set(frame, result, [&](size_t rank, Data &data) {
      data = normalize(
          get(frame, op->getOperand(0), rank),
          get(frame, op->getOperand(1), rank),
          {node.getFloat("epsilon").value_or(1e-5f),
           rounds ? NormRounding::BeforeGamma : NormRounding::AfterGamma},
          type);
      return true;
    });
  auto binary = [&](function_ref<double(double, double)> combineTwo) {
    return set(frame, result, [&](size_t rank, Data &data) {
      return combine(get(frame, op->getOperand(0), rank),
                     get(frame, op->getOperand(1), rank), type, combineTwo,
                     data);
    });
  };
  auto unary = [&](function_ref<double(double)> compute) {
    return set(frame, result, [&](size_t rank, Data &data) {
      data = get(frame, op->getOperand(0), rank);
      for (float &element : data.floats)
        element = roundTo(compute(element), type);
      return true;
    });
  };
  if (node.is("Add"))
    return binary(plus);
  if (node.is("Mul"))
    return binary([](double a, double b) { return a * b; });
  if (node.is("Div"))
    return binary([](double a, double b) { return a / b; });
  if (node.is("Pow"))
    return binary([](double a, double) { return a * a; }); // exponent 2
  if (node.is("Identity") || node.is("Cast"))
    return unary([](double a) { return a; });
  if (node.is("Neg"))
    return unary([](double a) { return -a; });
  if (node.is("Sqrt"))
    return unary([](double a) { return std::sqrt(a); });
  if (node.is("ReduceMean"))
    return set(frame, result, [&](size_t rank, Data &data) {
      const Data &input = get(frame, op->getOperand(0), rank);
      data.shape = input.shape;
      int64_t hidden = data.shape.back();
      data.shape.back() = 1;
      for (int64_t row = 0, e = input.getNumElements(); row < e;
           row += hidden) {
        float sum = 0;
        for (int64_t i = 0; i != hidden; ++i)
          sum += input.floats[row + i];
        data.floats.push_back(sum / static_cast<float>(hidden));
      }
      return true;
    });
  return runOnnxShape(node, frame);
}

bool Interpreter::runIf(scf::IfOp op, Frame &frame) {
  int64_t condition = get(frame, op.getCondition(), 0).ints.front();
  for (size_t rank = 1; rank != numRanks; ++rank)
    if (get(frame, op.getCondition(), rank).ints.front() != condition)
      return fail(op, "ranks branch apart");
  Region &region = condition ? op.getThenRegion() : op.getElseRegion();
  std::vector<RankValues> yielded;
  if (!region.empty() && !runBlock(region.front(), frame, yielded))
    return false;
  for (auto [result, value] : llvm::zip_equal(op.getResults(), yielded))
    frame[result] = value;
  return true;
}

bool Interpreter::run(Operation *op, Frame &frame) {
  if (op->getName().getDialectNamespace() == "tandem")
    return runTandem(op, frame);
  if (OnnxNode node(op); node)
    return runOnnx(node, frame);
  auto scalar = [&](Value value, size_t rank) {
    return get(frame, value, rank).ints.front();
  };
  auto integers = [&](function_ref<int64_t(int64_t, int64_t)> compute) {
    return setScalar(frame, op->getResult(0), [&](size_t rank) {
      return compute(scalar(op->getOperand(0), rank),
                     scalar(op->getOperand(1), rank));
    });
  };
  return llvm::TypeSwitch<Operation *, bool>(op)
      .Case([&](scf::IfOp branch) { return runIf(branch, frame); })
      .Case([&](func::CallOp callOp) {
        std::vector<RankValues> arguments, results;
        for (Value operand : callOp.getOperands())
          arguments.push_back(frame.find(operand)->second);
        if (!call(callOp.getCallee(), arguments, results))
          return false;
        for (auto [result, value] :
             llvm::zip_equal(callOp.getResults(), results))
          frame[result] = value;
        return true;
      })
      .Case([&](arith::ConstantOp constant) {
        return runConstant(op, constant.getValue(), frame);
      })
      .Case([&](arith::CmpIOp compare) {
        return integers([&](int64_t a, int64_t b) {
          return arith::applyCmpPredicate(
              compare.getPredicate(), APInt(64, a, true), APInt(64, b, true));
        });
      })
      .Case([&](arith::AndIOp) {
        return integers([](int64_t a, int64_t b) { return a & b; });
      })
      .Case([&](arith::MulIOp) {
        return integers([](int64_t a, int64_t b) { return a * b; });
      })
      .Case([&](arith::MinSIOp) {
        return integers([](int64_t a, int64_t b) { return std::min(a, b); });
      })
      .Case([&](arith::IndexCastOp) {
        return setScalar(frame, op->getResult(0), [&](size_t rank) {
          return scalar(op->getOperand(0), rank);
        });
      })
      .Case([&](tensor::DimOp dim) {
        return setScalar(frame, dim.getResult(), [&](size_t rank) {
          return get(frame, dim.getSource(), rank)
              .shape[scalar(dim.getIndex(), rank)];
        });
      })
      .Case([&](tensor::EmptyOp empty) {
        return set(frame, empty.getResult(), [&](size_t rank, Data &data) {
          auto next = empty.getDynamicSizes().begin();
          for (int64_t size : empty.getType().getShape())
            data.shape.push_back(
                ShapedType::isDynamic(size) ? scalar(*next++, rank) : size);
          // Whoever reads it is found out.
          data.floats.assign(data.getNumElements(), NAN);
          return true;
        });
      })
      .Case([&](tensor::CastOp castOp) {
        return set(frame, castOp.getResult(), [&](size_t rank, Data &data) {
          data = get(frame, castOp.getSource(), rank);
          return true;
        });
      })
      .Case([&](tensor::CollapseShapeOp collapse) {
        return set(frame, collapse.getResult(), [&](size_t rank, Data &data) {
          data = get(frame, collapse.getSrc(), rank);
          SmallVector<int64_t, 4> shape;
          for (const ReassociationIndices &group :
               collapse.getReassociationIndices()) {
            int64_t size = 1;
            for (int64_t dim : group)
              size *= data.shape[dim];
            shape.push_back(size);
          }
          data.shape = shape;
          return true;
        });
      })
      .Default([&](Operation *) { return fail(op, "not known"); });
}

bool Interpreter::runBlock(Block &block, Frame &frame,
                           std::vector<RankValues> &yielded) {
  for (Operation &op : block.without_terminator())
    if (!run(&op, frame))
      return false;
  for (Value operand : block.getTerminator()->getOperands())
    yielded.push_back(frame.find(operand)->second);
  return true;
}

bool Interpreter::call(StringRef name, ArrayRef<RankValues> arguments,
                       std::vector<RankValues> &results) {
  auto function = module.lookupSymbol<func::FuncOp>(name);
  if (!function || function.isExternal())
    return fail(module, "no function " + name);
  Frame frame;
  Block &entry = function.getBody().front();
  for (auto [argument, value] :
       llvm::zip_equal(entry.getArguments(), arguments)) {
    for (const Data &data : *value)
      if (!fits(argument, data))
        return fail(function, "an argument is not of its type");
    frame[argument] = value;
  }
  return runBlock(entry, frame, results);
}

Outcome mlir::tandem::test::interpret(ModuleOp module, StringRef function,
                                      ArrayRef<RankValues> arguments,
                                      int64_t tokenLimit) {
  Interpreter interpreter(module, arguments.front()->size(), tokenLimit);
  std::vector<RankValues> results;
  interpreter.call(function, arguments, results);
  interpreter.outcome.results = std::move(results);
  return std::move(interpreter.outcome);
}
