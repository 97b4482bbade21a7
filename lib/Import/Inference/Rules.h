//===- Rules.h - How ops are taught to the shape inference ------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_IMPORT_INFERENCE_RULES_H
#define TANDEM_LIB_IMPORT_INFERENCE_RULES_H

#include "ShapeInference.h"
#include "TensorData.h"

#include "tandem_onnx/onnx.pb.h"

#include <initializer_list>

namespace mlir::tandem::onnx {

/// What is to be done for some ops of a domain. To teach a new op, name it in
/// the table of its family, with a function that fills the node's outputs.
struct InferenceRule {
  InferFn function;
  std::initializer_list<const char *> ops;
  const char *domain = "";
};

/// The tables, one a family of ops and a file each.
llvm::ArrayRef<InferenceRule> elementwiseRules();
llvm::ArrayRef<InferenceRule> normRules();
llvm::ArrayRef<InferenceRule> layoutRules();
llvm::ArrayRef<InferenceRule> indexingRules();
llvm::ArrayRef<InferenceRule> creationRules();
llvm::ArrayRef<InferenceRule> productRules();
llvm::ArrayRef<InferenceRule> sequenceRules();
llvm::ArrayRef<InferenceRule> collectiveRules();

//===----------------------------------------------------------------------===//
// What families share
//===----------------------------------------------------------------------===//

constexpr int32_t kInt64 = ::tandem_onnx::TensorProto::INT64;
constexpr int32_t kBool = ::tandem_onnx::TensorProto::BOOL;
constexpr int32_t kFloat = ::tandem_onnx::TensorProto::FLOAT;

/// Gives `out` the dims of `in`, if they are known.
void copyShape(ValueInfo &out, const ValueInfo &in);

/// Makes output `index` a tensor of `dataType`, shaped like `in`.
void setLike(NodeInference &n, size_t index, int32_t dataType,
             const ValueInfo &in);

/// Makes output `index`, if there is one, a tensor of `dataType`, with nothing
/// known of its shape, with these dims, or of this rank.
void setTensor(NodeInference &n, size_t index, int32_t dataType);
void setTensor(NodeInference &n, size_t index, int32_t dataType,
               llvm::ArrayRef<SymInt> dims);
void setRank(NodeInference &n, size_t index, int32_t dataType, size_t rank);

/// Says what output `index` holds, if it is small enough to be followed.
void setElements(NodeInference &n, size_t index, SymInts elements);

/// Brings `axis` into [0, rank). Reports one that is out of range.
bool normalizeAxis(NodeInference &n, int64_t &axis, int64_t rank);

/// The elements of input `index` if all are constants.
bool constantElements(NodeInference &n, size_t index,
                      llvm::SmallVectorImpl<int64_t> &values);

/// The number of elements of a rank-1 input; -1 if it is not known.
int64_t lengthOf(const ValueInfo &info);

/// A size computed from constants: unknown if the computation overflowed or
/// went below zero.
SymInt toSize(int64_t value);
SymInt toSize(SymInt value);

/// The product of dims where it is a constant or one symbol.
SymInt productOf(llvm::ArrayRef<SymInt> dims);

/// Two dims that must be equal. Reports constants that differ.
SymInt unifyDims(NodeInference &n, SymInt a, SymInt b, const llvm::Twine &what);

/// NumPy's broadcasting. Reports constants that do not broadcast.
SymInt broadcastDim(NodeInference &n, SymInt a, SymInt b);
SymInts broadcastDims(NodeInference &n, llvm::ArrayRef<SymInt> a,
                      llvm::ArrayRef<SymInt> b);

/// Output 0 gets the broadcast shape of all inputs, if all are ranked.
void broadcastInputs(NodeInference &n, int32_t dataType);

/// The element type that all inputs share. Reports two that differ.
int32_t commonType(NodeInference &n);

/// Applies `f` to the elements of inputs 0 and 1, a single one being repeated.
void combineElements(NodeInference &n,
                     llvm::function_ref<SymInt(SymInt, SymInt)> f);

/// The axes of an op that takes them as attribute or, in newer opsets, as
/// input 1. No value if they are an input that is not known; `given` says
/// whether there are any.
std::optional<llvm::SmallVector<int64_t>> readAxes(NodeInference &n,
                                                   bool &given);

/// Marks the axes in a mask of `rank` bits. Reports axes that are out of range
/// or named twice.
bool axesMask(NodeInference &n, llvm::ArrayRef<int64_t> axes, int64_t rank,
              llvm::SmallVectorImpl<bool> &mask);

/// Output 0 is like input 0.
void inferSame(NodeInference &n);

/// Whether tensors of this type are followed as shapes.
bool isShapeType(int32_t dataType);

/// Arithmetic on sizes; unknown where the result is neither a constant in range
/// nor one symbol.
SymInt addSym(SymInt a, SymInt b);
SymInt subSym(SymInt a, SymInt b);
SymInt mulSym(SymInt a, SymInt b);
SymInt divSym(SymInt a, SymInt b);

/// Ops whose element type is an attribute and whose shape is input 0's.
void inferTypedLike(NodeInference &n);

/// Resize, Upsample: the rank stays.
void inferRankOnly(NodeInference &n);

} // namespace mlir::tandem::onnx

#endif // TANDEM_LIB_IMPORT_INFERENCE_RULES_H
