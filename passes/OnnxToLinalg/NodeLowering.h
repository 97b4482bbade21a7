//===- NodeLowering.h - One ONNX node to linalg --------------- -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PASSES_ONNXTOLINALG_NODELOWERING_H
#define TANDEM_PASSES_ONNXTOLINALG_NODELOWERING_H

#include "ExternalData.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Builders.h"
#include "tandem/OnnxOps/OnnxOps.h"
#include "llvm/ADT/StringMap.h"

#include <functional>

namespace mlir::tandem {

/// For a node whose operands broadcast: entry i is true if all operands that
/// have the i-th dimension from the right, and don't have 1 there, have one
/// size there whenever the function runs. Worked out before anything changes.
using BroadcastFacts = DenseMap<Operation *, SmallVector<bool>>;

/// The folders that external data was found in, by name.
class ExternalDataReader {
public:
  /// `folder` holds for all models; empty: that of the model's file.
  explicit ExternalDataReader(std::string folder) : folder(std::move(folder)) {}

  /// Reads exactly `size` bytes for the node at `loc`; sets `error` on failure.
  bool read(Location loc, const onnx::ExternalRef &ref, uint64_t size,
            SmallVectorImpl<char> &bytes, std::string &error);

private:
  std::string folder;
  llvm::StringMap<onnx::ExternalFiles> files;
};

/// A tensor's size: a constant or a value of type index.
using Sizes = SmallVector<OpFoldResult>;

/// Lowers one node: what the functions for the single ops share. Every function
/// that can fail has then reported one error at the node.
class NodeLowering {
public:
  NodeLowering(OnnxNode node, const BroadcastFacts &facts,
               ExternalDataReader &externalData);

  OnnxNode node;
  OpBuilder builder;
  Location loc;

  /// Reports an error at the node; returns failure.
  LogicalResult error(const Twine &message) const;

  /// The node's input as a ranked tensor of a type that can be computed with;
  /// null after an error.
  Value getTensor(unsigned index);
  /// The same for all inputs.
  FailureOr<SmallVector<Value>> getTensors();
  /// An input of up to 64 integers that must be constant, e.g. axes.
  FailureOr<SmallVector<int64_t>> getConstantInput(unsigned index,
                                                   StringRef name);
  /// The integers of the attribute `name`, or of input `index` (opset 13 made
  /// attributes inputs); std::nullopt where neither is given.
  FailureOr<std::optional<SmallVector<int64_t>>>
  getIntsFromAttrOrInput(StringRef name, unsigned index);
  /// Makes axes non-negative, each once, below `rank`.
  FailureOr<SmallVector<int64_t>> normalizeAxes(ArrayRef<int64_t> axes,
                                                int64_t rank) const;
  FailureOr<int64_t> normalizeAxis(int64_t axis, int64_t rank) const;

  /// The element type that the node's result is declared with; null if the
  /// result isn't a ranked tensor.
  RankedTensorType getResultType(unsigned index = 0) const;

  //===--- Sizes ----------------------------------------------------------===//
  Value constantIndex(int64_t value);
  Value asValue(OpFoldResult size);
  OpFoldResult getSize(Value tensor, int64_t dim);
  Sizes getSizes(Value tensor);
  Value makeEmpty(const Sizes &sizes, Type elementType);
  OpFoldResult multiply(OpFoldResult a, OpFoldResult b);

  /// Makes the program end with an error where `condition` (i1) is false.
  void check(Value condition, const Twine &message);
  /// The same for two sizes to be equal; an error now if they never are.
  LogicalResult checkEqual(OpFoldResult a, OpFoldResult b,
                           const Twine &message);
  /// The same for a size of `tensor`, which the node made; as soon as the size
  /// is known, so before the tensor is written.
  LogicalResult checkSize(Value tensor, int64_t dim, int64_t size,
                          const Twine &message);

  /// Element `index` of a rank-0 or rank-1 integer tensor, as i64.
  Value extractInt(Value tensor, int64_t index);

  //===--- Element-wise ---------------------------------------------------===//
  using Body = function_ref<Value(OpBuilder &, Location, ValueRange)>;

  /// The sizes that `inputs` broadcast to; with checks for sizes that are only
  /// known when the program runs. The last `ignored` dims are left out.
  FailureOr<Sizes> broadcastSizes(ArrayRef<Value> inputs, int64_t ignored = 0);
  /// A tensor of `sizes` with `body` of the inputs' elements in each place.
  Value elementwise(ArrayRef<Value> inputs, const Sizes &sizes,
                    Type elementType, Body body);
  /// Both together.
  FailureOr<Value> broadcastElementwise(ArrayRef<Value> inputs,
                                        Type elementType, Body body);
  /// Copies `input` to `sizes`, to which it broadcasts.
  Value broadcastTo(Value input, const Sizes &sizes);
  /// Whether inputs with a size that is not known, at `fromRight` from the
  /// right, may be indexed as they are.
  bool isProvenEqual(int64_t fromRight) const;
  /// Whether `size` is the size of dimension `dim` of `tensor` itself.
  bool isSame(Value tensor, int64_t dim, OpFoldResult size) const;

  /// Converts tensors element by element; rounds once.
  Value convertTensor(Value tensor, Type elementType);
  /// `tensor` with its dims permuted.
  Value transpose(Value tensor, ArrayRef<int64_t> permutation);

  /// Reads external data for this node.
  bool readExternal(const onnx::ExternalRef &ref, uint64_t size,
                    SmallVectorImpl<char> &bytes, std::string &error) {
    return externalData.read(loc, ref, size, bytes, error);
  }

private:
  /// The op before the node, or null; what follows it is the node's.
  Operation *const previous;
  const BroadcastFacts &facts;
  ExternalDataReader &externalData;
};

/// The type that values of `elementType` are computed in: f32 for the types
/// below it, else itself.
Type getComputeType(Type elementType);
/// Whether tensors of `elementType` can be computed with.
bool isSupportedElementType(Type elementType);
/// Converts a scalar as ONNX's Cast does; floats are rounded to nearest even.
Value convertScalar(OpBuilder &builder, Location loc, Value value, Type type);

/// Makes the program end with an error where a cast adds a static size to a
/// type and the tensor has another size.
void checkCast(tensor::CastOp cast);

using Results = SmallVector<Value, 2>;
/// Lowers one node and appends its results; on failure one error was reported.
using LowerFn = LogicalResult (*)(NodeLowering &lowering, Results &results);

/// Tables of ops by ai.onnx op type; null where the op is not there.
LowerFn lookupElementwise(StringRef opType);
LowerFn lookupMatMul(StringRef opType);
LowerFn lookupReduce(StringRef opType);
LowerFn lookupShapes(StringRef opType);
LowerFn lookupConstant(StringRef opType);
/// Of an element-wise op whether its inputs broadcast, also of MatMul.
bool doesBroadcast(StringRef opType);

} // namespace mlir::tandem

#endif // TANDEM_PASSES_ONNXTOLINALG_NODELOWERING_H
