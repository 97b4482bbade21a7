//===- Generator.cpp - Random modules -------------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Generator.h"

#include "tandem/Dialect/Tandem.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace mlir::tandem;
using namespace mlir::tandem::test;

namespace {
/// What is known of the shape that a value has at run time.
enum class Kind {
  Full, ///< [batch, sequence, hidden], or [sequence, hidden]
  Flat, ///< [batch * sequence, hidden]
  Weak  ///< as Full, but leading dims may be 1
};

struct Item {
  Value value;
  Kind kind;
};

/// Values that ops can read at some place.
struct Pool {
  std::vector<Item> items;
  std::vector<Value> rows;   ///< [hidden], or [1, hidden]
  std::vector<Value> gammas; ///< [hidden]
  std::vector<Value> conditions;
};
} // namespace

class Sample::Builder {
public:
  Builder(Sample &sample, MLIRContext &context, uint64_t seed);

  void build(unsigned size);

private:
  // Types.
  RankedTensorType getType(Kind kind, bool forgetful = false);
  bool isFlatDifferent() const { return rank == 3; }

  // Functions.
  func::FuncOp beginFunction(StringRef name, Pool &pool);
  void endFunction(func::FuncOp function, Pool &pool, unsigned maxResults);
  void buildHelper();

  // Ops. Each appends to the block at the insertion point.
  Operation *onnx(StringRef name, ValueRange operands, TypeRange types,
                  ArrayRef<NamedAttribute> attrs = {});
  Value onnxOne(StringRef name, ValueRange operands, Type type,
                ArrayRef<NamedAttribute> attrs = {}) {
    return onnx(name, operands, type, attrs)->getResult(0);
  }
  Value custom(StringRef name, StringRef domain, ValueRange operands,
               Type type);
  Value constant(ArrayRef<int64_t> values);
  Value scalar(double value, Type type);
  Value allReduce(Value input);
  Value add(Value lhs, Value rhs, bool mayBroadcast);
  Value norm(Value input, Pool &pool);
  Value decomposedNorm(Value input, Value gamma);
  Value identity(Value input);
  Item reshape(Item item, Pool &pool);
  Value castTo(Value value, RankedTensorType type);
  void nameDims(Value value, Kind kind);

  // Pieces of graphs.
  void buildSteps(Pool &pool, unsigned count, unsigned depth);
  void buildChain(Pool &pool);
  void buildSumOfTwo(Pool &pool);
  void buildSkipNorm(Pool &pool);
  void buildPure(Pool &pool);
  void buildEffect(Pool &pool);
  void buildIf(Pool &pool, unsigned depth);
  void buildCall(Pool &pool);
  void disturb(Pool &pool, unsigned percent);

  Item pick(Pool &pool, Kind kind);
  Item pickAny(Pool &pool) {
    return pool.items[random.below(pool.items.size())];
  }
  bool prefersTandem() { return random.chance(tandemPercent); }

  Sample &sample;
  OpBuilder builder;
  Random random;
  Location loc;
  Type elementType;
  int64_t hidden;
  int64_t rank; ///< of Full
  unsigned tandemPercent;
  bool namesDims;
  func::FuncOp helper;
};

Sample::Builder::Builder(Sample &sample, MLIRContext &context, uint64_t seed)
    : sample(sample), builder(&context), random(seed),
      loc(UnknownLoc::get(&context)) {
  elementType = random.oneOf<Type>(
      {builder.getF32Type(), builder.getF16Type(), builder.getBF16Type()});
  hidden = 2 + random.below(3);
  rank = random.chance(70) ? 3 : 2;
  tandemPercent = random.oneOf({0u, 0u, 50u, 100u});
  namesDims = random.chance(50);
  sample.isBatchStatic = random.chance(30);
  sample.isSequenceStatic = random.chance(30);
  sample.staticSizes = {rank == 3 ? 1 + random.below(3) : 1,
                        1 + random.below(3)};
}

/// `forgetful` types say less than is known.
RankedTensorType Sample::Builder::getType(Kind kind, bool forgetful) {
  int64_t batch = sample.isBatchStatic && !forgetful ? sample.staticSizes.batch
                                                     : ShapedType::kDynamic;
  int64_t sequence = sample.isSequenceStatic && !forgetful
                         ? sample.staticSizes.sequence
                         : ShapedType::kDynamic;
  if (kind == Kind::Flat) {
    bool isStatic =
        !ShapedType::isDynamic(batch) && !ShapedType::isDynamic(sequence);
    return RankedTensorType::get(
        {isStatic ? batch * sequence : ShapedType::kDynamic, hidden},
        elementType);
  }
  if (rank == 2)
    return RankedTensorType::get({sequence, hidden}, elementType);
  return RankedTensorType::get({batch, sequence, hidden}, elementType);
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

Operation *Sample::Builder::onnx(StringRef name, ValueRange operands,
                                 TypeRange types,
                                 ArrayRef<NamedAttribute> attrs) {
  OperationState state(loc, ("onnx." + name).str(), operands, types, attrs);
  return builder.create(state);
}

Value Sample::Builder::custom(StringRef name, StringRef domain,
                              ValueRange operands, Type type) {
  return onnxOne(
      "Custom", operands, type,
      {builder.getNamedAttr("function_name", builder.getStringAttr(name)),
       builder.getNamedAttr("domain_name", builder.getStringAttr(domain))});
}

Value Sample::Builder::constant(ArrayRef<int64_t> values) {
  auto type = RankedTensorType::get({static_cast<int64_t>(values.size())},
                                    builder.getI64Type());
  return onnxOne(
      "Constant", {}, type,
      builder.getNamedAttr("value", DenseElementsAttr::get(type, values)));
}

Value Sample::Builder::scalar(double value, Type type) {
  auto tensorType = RankedTensorType::get({}, type);
  return onnxOne(
      "Constant", {}, tensorType,
      builder.getNamedAttr(
          "value",
          DenseElementsAttr::get(
              tensorType, builder.getFloatAttr(type, value).getValue())));
}

Value Sample::Builder::allReduce(Value input) {
  ++sample.numAllReduces;
  bool isMax = random.chance(4);
  if (prefersTandem()) {
    GroupAttr group = random.chance(10) ? GroupAttr::get(builder.getContext(),
                                                         "tp", /*size=*/2, {})
                                        : GroupAttr();
    return AllReduceOp::create(builder, loc, input,
                               isMax ? ReductionKind::Max : ReductionKind::Sum,
                               group);
  }
  if (!isMax)
    return custom("AllReduce", "com.microsoft", input, input.getType());
  return onnxOne(
      "DistCollective", input, input.getType(),
      {builder.getNamedAttr("collective_operation",
                            builder.getStringAttr("all_reduce")),
       builder.getNamedAttr("reduce_op", builder.getStringAttr("max"))});
}

Value Sample::Builder::castTo(Value value, RankedTensorType type) {
  if (value.getType() == type)
    return value;
  return tensor::CastOp::create(builder, loc, type, value);
}

/// If the operands' shapes may differ at run time, an op that broadcasts.
Value Sample::Builder::add(Value lhs, Value rhs, bool mayBroadcast) {
  if (random.chance(50))
    std::swap(lhs, rhs);
  auto a = cast<RankedTensorType>(lhs.getType()),
       b = cast<RankedTensorType>(rhs.getType());
  if (!mayBroadcast && prefersTandem()) {
    if (a != b)
      rhs = castTo(rhs, a);
    return AddOp::create(builder, loc, lhs, rhs);
  }
  if (a.getRank() < b.getRank())
    std::swap(a, b);
  SmallVector<int64_t> shape(a.getShape());
  for (int64_t i = 0; i != b.getRank(); ++i) {
    int64_t &dim = shape[a.getRank() - b.getRank() + i];
    int64_t other = b.getDimSize(i);
    if (dim == 1 || (ShapedType::isDynamic(dim) && other != 1))
      dim = other;
  }
  return onnxOne("Add", {lhs, rhs}, RankedTensorType::get(shape, elementType));
}

Value Sample::Builder::decomposedNorm(Value input, Value gamma) {
  Type f32 = builder.getF32Type();
  auto type = cast<RankedTensorType>(input.getType());
  auto wide = RankedTensorType::get(type.getShape(), f32);
  SmallVector<int64_t> meanShape(type.getShape());
  meanShape.back() = 1;
  auto meanType = RankedTensorType::get(meanShape, f32);
  auto cast = [&](Value value, RankedTensorType to) {
    return onnxOne(
        "Cast", value, to,
        builder.getNamedAttr("to", TypeAttr::get(to.getElementType())));
  };
  Value x = elementType.isF32() ? input : cast(input, wide);
  Value square = random.chance(50) ? onnxOne("Mul", {x, x}, wide)
                                   : onnxOne("Pow", {x, scalar(2, f32)}, wide);
  Value mean = onnxOne("ReduceMean", {square, constant(-1)}, meanType);
  Value epsilon = scalar(random.oneOf({1e-5, 1e-6, 0.125}), f32);
  Value root = onnxOne("Sqrt",
                       onnxOne("Add",
                               random.chance(50) ? ValueRange{mean, epsilon}
                                                 : ValueRange{epsilon, mean},
                               meanType),
                       meanType);
  Value scaled = onnxOne("Div", {x, root}, wide);
  // The cast back stands before the product with gamma, or after it.
  bool roundsAfter = !elementType.isF32() && random.chance(50);
  if (roundsAfter)
    gamma = cast(gamma, RankedTensorType::get({hidden}, f32));
  else if (!elementType.isF32())
    scaled = cast(scaled, type);
  Value product = onnxOne("Mul",
                          random.chance(50) ? ValueRange{scaled, gamma}
                                            : ValueRange{gamma, scaled},
                          roundsAfter ? wide : type);
  return roundsAfter ? cast(product, type) : product;
}

Value Sample::Builder::norm(Value input, Pool &pool) {
  Value gamma = pool.gammas[random.below(pool.gammas.size())];
  bool sameType = getElementTypeOrSelf(gamma.getType()) == elementType;
  if (prefersTandem() || !sameType) {
    double epsilon = random.oneOf({1e-5, 1e-6, 0.125});
    NormRounding rounding =
        random.oneOf({NormRounding::BeforeGamma, NormRounding::AfterGamma});
    return RMSNormOp::create(builder, loc, input, gamma, epsilon, rounding);
  }
  if (random.chance(30))
    return decomposedNorm(input, gamma);
  StringRef name =
      random.chance(50) ? "RMSNormalization" : "SimplifiedLayerNormalization";
  float epsilon = random.oneOf({1e-5f, 0.125f});
  return onnxOne(
      name, {input, gamma}, input.getType(),
      builder.getNamedAttr("epsilon", builder.getF32FloatAttr(epsilon)));
}

/// An op that changes nothing.
Value Sample::Builder::identity(Value input) {
  if (random.chance(50))
    return onnxOne("Identity", input, input.getType());
  return onnxOne("Cast", input, input.getType(),
                 builder.getNamedAttr("to", TypeAttr::get(elementType)));
}

/// Full to Flat, or back, in one of the ways that exporters have.
Item Sample::Builder::reshape(Item item, Pool &pool) {
  if (!isFlatDifferent() || item.kind == Kind::Weak)
    return {identity(item.value), item.kind};
  bool forgetful = random.chance(20);
  if (item.kind == Kind::Full) {
    RankedTensorType type = getType(Kind::Flat, forgetful);
    if (prefersTandem() && !sample.isBatchStatic && !sample.isSequenceStatic)
      return {tensor::CollapseShapeOp::create(
                  builder, loc, item.value,
                  SmallVector<ReassociationIndices>{{0, 1}, {2}}),
              Kind::Flat};
    return {onnxOne("Reshape", {item.value, constant({-1, hidden})}, type),
            Kind::Flat};
  }
  Value reference = pick(pool, Kind::Full).value;
  auto indexType = RankedTensorType::get({1}, builder.getI64Type());
  Value shape = onnxOne("Shape", reference,
                        RankedTensorType::get({rank}, builder.getI64Type()));
  auto gather = [&](int64_t i) {
    return onnxOne("Gather", {shape, constant(i)}, indexType);
  };
  Value target =
      random.chance(70)
          ? onnxOne("Concat", {gather(0), gather(1), constant(hidden)},
                    RankedTensorType::get({3}, builder.getI64Type()),
                    builder.getNamedAttr(
                        "axis", builder.getIntegerAttr(
                                    builder.getIntegerType(64, true), 0)))
          : shape;
  // A dim of size 0 is meant, not one to be copied.
  return {
      onnxOne("Reshape", {item.value, target}, getType(Kind::Full, forgetful),
              builder.getNamedAttr(
                  "allowzero",
                  builder.getIntegerAttr(builder.getIntegerType(64, true), 1))),
      Kind::Full};
}

/// Notes what the source calls the dims.
void Sample::Builder::nameDims(Value value, Kind kind) {
  if (!namesDims || kind != Kind::Full || !random.chance(60))
    return;
  auto type = cast<RankedTensorType>(value.getType());
  Operation *op = value.getDefiningOp();
  if (op->getName().getDialectNamespace() != "onnx" || type != getType(kind))
    return;
  std::string names;
  for (int64_t i = 0; i != rank - 1; ++i)
    if (type.isDynamicDim(i)) {
      if (!names.empty())
        names += ',';
      names += std::to_string(i) + (rank == 3 && i == 0 ? ":batch" : ":seq");
    }
  if (!names.empty())
    op->setAttr("tandem.dim_params", builder.getStrArrayAttr({names}));
}

//===----------------------------------------------------------------------===//
// Pieces of graphs
//===----------------------------------------------------------------------===//

/// A value of the kind; mostly one of the last.
Item Sample::Builder::pick(Pool &pool, Kind kind) {
  SmallVector<Item> fitting;
  for (const Item &item : pool.items)
    if (item.kind == kind)
      fitting.push_back(item);
  if (fitting.empty())
    return pick(pool, Kind::Full);
  size_t count = fitting.size();
  if (random.chance(50))
    return fitting[count - 1 - random.below(std::min<size_t>(count, 3))];
  return fitting[random.below(count)];
}

void Sample::Builder::buildPure(Pool &pool) {
  Item item = pickAny(pool);
  Value result;
  switch (random.below(5)) {
  case 0:
    result = onnxOne("Neg", item.value, item.value.getType());
    break;
  case 1:
    result = onnxOne("Mul", {item.value, item.value}, item.value.getType());
    break;
  case 2: {
    // The same type, so that the result's is known.
    Item other = pick(pool, item.kind);
    if (item.kind == Kind::Weak || other.kind != item.kind)
      other = item;
    item.value = add(item.value, other.value, /*mayBroadcast=*/false);
    result = item.value;
    break;
  }
  case 3:
    item = reshape(item, pool);
    result = item.value;
    break;
  default: {
    bool forgetful = random.chance(50);
    if (item.kind == Kind::Weak)
      result = identity(item.value);
    else
      result = castTo(item.value, getType(item.kind, forgetful));
  }
  }
  pool.items.push_back({result, item.kind});
}

void Sample::Builder::buildEffect(Pool &pool) {
  Item item = pickAny(pool);
  Value result = custom("Observe", "test", item.value, item.value.getType());
  if (random.chance(50))
    pool.items.push_back({result, item.kind});
}

/// Something between the ops of a chain, now and then.
void Sample::Builder::disturb(Pool &pool, unsigned percent) {
  while (random.chance(percent)) {
    unsigned kind = random.below(100);
    if (kind < 80)
      buildPure(pool);
    else if (kind < 87)
      buildEffect(pool);
    else if (kind < 93)
      pool.items.push_back(
          {norm(pick(pool, Kind::Full).value, pool), Kind::Full});
    else {
      Item item = pickAny(pool);
      pool.items.push_back({allReduce(item.value), item.kind});
    }
  }
}

void Sample::Builder::buildChain(Pool &pool) {
  unsigned noise = random.oneOf({0u, 0u, 10u, 30u});
  Item current = random.chance(15)
                     ? pickAny(pool)
                     : pick(pool, random.chance(20) ? Kind::Flat : Kind::Full);
  auto push = [&](Value value) {
    current.value = value;
    nameDims(value, current.kind);
    // Others see it now, or never.
    if (random.chance(50))
      pool.items.push_back(current);
    disturb(pool, noise);
  };
  auto maybeView = [&](unsigned percent) {
    if (random.chance(percent))
      push(identity(current.value));
    if (current.kind != Kind::Weak && random.chance(percent)) {
      current = reshape(current, pool);
      push(current.value);
    }
  };
  push(allReduce(current.value));
  maybeView(15);
  if (random.chance(25)) {
    push(add(current.value, pool.rows[random.below(pool.rows.size())],
             /*mayBroadcast=*/true));
    maybeView(5);
  }
  if (random.chance(20)) {
    push(norm(current.value, pool));
    maybeView(5);
  }
  if (random.chance(80)) {
    Item residual = pick(pool, current.kind);
    bool isWeak = current.kind == Kind::Weak;
    if (isWeak || (current.kind == Kind::Full && random.chance(12))) {
      residual = pick(pool, isWeak ? Kind::Full : Kind::Weak);
      isWeak = residual.kind == Kind::Weak || isWeak;
      current.kind = Kind::Full;
    }
    if (residual.kind == current.kind || isWeak) {
      Value sum = add(current.value, residual.value, isWeak);
      if (isWeak && residual.kind == Kind::Weak && current.kind == Kind::Weak)
        current.kind = Kind::Weak;
      push(sum);
    }
    maybeView(10);
  }
  if (random.chance(6)) // a bias too late
    push(add(current.value, pool.rows[random.below(pool.rows.size())],
             /*mayBroadcast=*/true));
  unsigned norms = random.oneOf({0u, 1u, 1u, 1u, 1u, 1u, 2u});
  for (unsigned i = 0; i != norms; ++i) {
    Value result = norm(current.value, pool);
    nameDims(result, current.kind);
    pool.items.push_back({result, current.kind});
    disturb(pool, noise);
  }
}

/// As in mixture-of-experts layers.
void Sample::Builder::buildSumOfTwo(Pool &pool) {
  Value a = allReduce(pick(pool, Kind::Full).value);
  disturb(pool, 10);
  Value b = allReduce(pick(pool, Kind::Full).value);
  if (random.chance(20))
    pool.items.push_back({b, Kind::Full});
  disturb(pool, 10);
  Value sum = add(a, b, /*mayBroadcast=*/false);
  if (random.chance(60))
    sum = add(sum, pick(pool, Kind::Full).value, /*mayBroadcast=*/false);
  pool.items.push_back({sum, Kind::Full});
  pool.items.push_back({norm(sum, pool), Kind::Full});
}

void Sample::Builder::buildSkipNorm(Pool &pool) {
  Value skip = pick(pool, Kind::Full).value;
  Value sum = castTo(allReduce(pick(pool, Kind::Full).value),
                     cast<RankedTensorType>(skip.getType()));
  disturb(pool, 15);
  auto type = cast<RankedTensorType>(skip.getType());
  SmallVector<Value> operands{sum, skip, pool.gammas.front()};
  if (random.chance(50))
    std::swap(operands[0], operands[1]);
  if (random.chance(30))
    operands.push_back(pool.rows.front());
  Type none = builder.getNoneType();
  SmallVector<Type> types{type};
  if (random.chance(60))
    types.append({none, none, type});
  Operation *op =
      onnx("Custom", operands, types,
           {builder.getNamedAttr(
                "function_name",
                builder.getStringAttr("SkipSimplifiedLayerNormalization")),
            builder.getNamedAttr("domain_name",
                                 builder.getStringAttr("com.microsoft"))});
  pool.items.push_back({op->getResult(0), Kind::Full});
  if (types.size() == 4)
    pool.items.push_back({op->getResult(3), Kind::Full});
}

void Sample::Builder::buildIf(Pool &pool, unsigned depth) {
  Value condition;
  if (random.chance(50)) {
    condition = pool.conditions.front();
  } else {
    Value size = tensor::DimOp::create(builder, loc,
                                       pick(pool, Kind::Full).value, rank - 2);
    Value bound =
        arith::ConstantIndexOp::create(builder, loc, 1 + random.below(3));
    condition = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt,
                                      size, bound);
  }
  RankedTensorType type = getType(Kind::Full);
  auto branch = scf::IfOp::create(builder, loc, TypeRange{type}, condition,
                                  /*withElseRegion=*/true);
  for (Block *block : {branch.thenBlock(), branch.elseBlock()}) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(block);
    Pool inner = pool;
    if (block == branch.thenBlock() || random.chance(50))
      buildSteps(inner, 1 + random.below(2), depth + 1);
    Value value = castTo(pick(inner, Kind::Full).value, type);
    scf::YieldOp::create(builder, loc, value);
  }
  pool.items.push_back({branch.getResult(0), Kind::Full});
}

void Sample::Builder::buildCall(Pool &pool) {
  if (!helper)
    return buildPure(pool);
  SmallVector<Value> operands;
  Pool used = pool;
  for (Type type : helper.getArgumentTypes()) {
    auto tensorType = dyn_cast<RankedTensorType>(type);
    if (!tensorType)
      operands.push_back(pool.conditions.front());
    else if (tensorType == pool.gammas.front().getType())
      operands.push_back(pool.gammas.front());
    else
      operands.push_back(castTo(pick(pool, Kind::Full).value, tensorType));
  }
  auto call = func::CallOp::create(builder, loc, helper, operands);
  for (Value result : call.getResults())
    pool.items.push_back({result, Kind::Full});
}

void Sample::Builder::buildSteps(Pool &pool, unsigned count, unsigned depth) {
  for (unsigned i = 0; i != count; ++i) {
    unsigned step = random.below(100);
    if (step < 62)
      buildChain(pool);
    else if (step < 69)
      buildSumOfTwo(pool);
    else if (step < 75)
      buildPure(pool);
    else if (step < 81)
      tandemPercent == 100 ? buildChain(pool) : buildSkipNorm(pool);
    else if (step < 84)
      buildEffect(pool);
    else if (step < 94 && depth < 2)
      buildIf(pool, depth);
    else
      buildCall(pool);
  }
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

/// Ends the function that is being built with a return of some of the Full
/// values, always the last.
void Sample::Builder::endFunction(func::FuncOp function, Pool &pool,
                                  unsigned maxResults) {
  SmallVector<Value> results;
  for (const Item &item : llvm::reverse(pool.items)) {
    if (item.kind == Kind::Weak || results.size() == maxResults)
      continue;
    if (results.empty() || random.chance(40))
      results.push_back(item.value);
  }
  func::ReturnOp::create(builder, loc, results);
  function.setFunctionType(builder.getFunctionType(
      function.getArgumentTypes(), ValueRange(results).getTypes()));
}

/// A private function that main may call; its results are Full.
void Sample::Builder::buildHelper() {
  RankedTensorType type = getType(Kind::Full);
  auto rowType = RankedTensorType::get({hidden}, elementType);
  helper = func::FuncOp::create(
      builder, loc, "helper",
      builder.getFunctionType({type, type, rowType, builder.getI1Type()},
                              {type}));
  helper.setPrivate();
  OpBuilder::InsertionGuard guard(builder);
  Block *entry = helper.addEntryBlock();
  builder.setInsertionPointToStart(entry);
  Pool pool;
  pool.items = {{entry->getArgument(0), Kind::Full},
                {entry->getArgument(1), Kind::Full}};
  pool.rows = pool.gammas = {entry->getArgument(2)};
  pool.conditions = {entry->getArgument(3)};
  func::FuncOp self = helper;
  helper = {}; // it does not call itself
  buildSteps(pool, 1 + random.below(2), /*depth=*/1);
  Value result = castTo(pick(pool, Kind::Full).value, type);
  func::ReturnOp::create(builder, loc, result);
  helper = self;
}

func::FuncOp Sample::Builder::beginFunction(StringRef name, Pool &pool) {
  SmallVector<Type> types;
  SmallVector<std::optional<Kind>> kinds;
  auto addArgument = [&](Type type, std::optional<Kind> kind = {}) {
    types.push_back(type);
    kinds.push_back(kind);
  };
  for (unsigned i = 0, e = 2 + random.below(3); i != e; ++i)
    addArgument(getType(Kind::Full, /*forgetful=*/random.chance(15)),
                Kind::Full);
  if (isFlatDifferent() && random.chance(30))
    addArgument(getType(Kind::Flat), Kind::Flat);
  for (unsigned i = 0, e = random.below(3); i != e; ++i) {
    SmallVector<int64_t> shape(getType(Kind::Full).getShape());
    for (int64_t &dim : MutableArrayRef(shape).drop_back())
      if (random.chance(70))
        dim = random.chance(60) ? ShapedType::kDynamic : 1;
    addArgument(RankedTensorType::get(shape, elementType), Kind::Weak);
  }
  auto rowType = RankedTensorType::get({hidden}, elementType);
  addArgument(rowType);
  addArgument(random.chance(70)
                  ? rowType
                  : RankedTensorType::get({1, hidden}, elementType));
  addArgument(random.chance(20) && tandemPercent != 0
                  ? RankedTensorType::get({hidden}, builder.getF32Type())
                  : rowType);
  addArgument(builder.getI1Type());

  auto function = func::FuncOp::create(builder, loc, name,
                                       builder.getFunctionType(types, {}));
  Block *entry = function.addEntryBlock();
  size_t count = types.size();
  for (size_t i = 0; i != count; ++i) {
    sample.isWeak.push_back(kinds[i] == Kind::Weak);
    if (kinds[i])
      pool.items.push_back({entry->getArgument(i), *kinds[i]});
    if (kinds[i] == Kind::Full && namesDims)
      function.setArgAttr(
          i, "onnx.dim_params",
          builder.getStringAttr(rank == 3 ? "0:batch,1:seq" : "0:seq"));
  }
  pool.gammas = {entry->getArgument(count - 4), entry->getArgument(count - 2)};
  pool.rows = {entry->getArgument(count - 4), entry->getArgument(count - 3)};
  pool.conditions = {entry->getArgument(count - 1)};
  builder.setInsertionPointToStart(entry);
  return function;
}

void Sample::Builder::build(unsigned size) {
  sample.module = ModuleOp::create(loc);
  builder.setInsertionPointToStart(sample.module->getBody());
  if (random.chance(25))
    buildHelper();
  Pool pool;
  func::FuncOp main = beginFunction("main", pool);
  buildSteps(pool, size, /*depth=*/0);
  endFunction(main, pool, /*maxResults=*/1 + random.below(4));
}

//===----------------------------------------------------------------------===//
// Sample
//===----------------------------------------------------------------------===//

Sample::Sample(MLIRContext &context, uint64_t seed, unsigned size) {
  Builder(*this, context, seed).build(size);
}

Sizes Sample::pickSizes(Random &random) const {
  auto main = ModuleOp(module.get()).lookupSymbol<func::FuncOp>("main");
  bool hasBatch =
      cast<RankedTensorType>(main.getArgumentTypes().front()).getRank() == 3;
  Sizes sizes = staticSizes;
  if (!isBatchStatic && hasBatch)
    sizes.batch = random.oneOf<int64_t>({0, 1, 1, 2, 2, 3});
  if (!isSequenceStatic)
    sizes.sequence = random.oneOf<int64_t>({0, 1, 1, 2, 2, 3});
  return sizes;
}

std::vector<RankValues> Sample::pickArguments(Random &random, Sizes sizes,
                                              size_t numRanks) const {
  auto main = ModuleOp(module.get()).lookupSymbol<func::FuncOp>("main");
  int64_t rank =
      cast<RankedTensorType>(main.getArgumentTypes().front()).getRank();
  std::vector<RankValues> arguments;
  for (auto [i, type] : llvm::enumerate(main.getArgumentTypes())) {
    auto values = std::make_shared<std::vector<Data>>(numRanks);
    auto tensorType = dyn_cast<RankedTensorType>(type);
    if (!tensorType) {
      int64_t condition = random.below(2);
      for (Data &data : *values)
        data.ints = {condition};
      arguments.push_back(std::move(values));
      continue;
    }
    SmallVector<int64_t, 4> shape(tensorType.getShape());
    bool isFlat = rank == 3 && tensorType.getRank() == 2;
    for (auto [dim, size] : llvm::enumerate(shape)) {
      if (!ShapedType::isDynamic(size))
        continue;
      size = isFlat                  ? sizes.getTokens()
             : rank == 3 && dim == 0 ? sizes.batch
                                     : sizes.sequence;
      if (isWeak[i] && random.chance(40))
        size = 1;
    }
    for (Data &data : *values) {
      data.shape = shape;
      for (int64_t n = data.getNumElements(); n > 0; --n) {
        float value = (static_cast<int>(random.below(33)) - 16) / 8.0f;
        data.floats.push_back(value == 0 && random.chance(50) ? -0.0f : value);
      }
    }
    arguments.push_back(std::move(values));
  }
  return arguments;
}
