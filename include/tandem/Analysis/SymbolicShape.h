//===- SymbolicShape.h - Proofs about tensor shapes ----------- -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_ANALYSIS_SYMBOLICSHAPE_H
#define TANDEM_ANALYSIS_SYMBOLICSHAPE_H

#include "mlir/IR/Value.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"
#include <deque>
#include <optional>

namespace mlir::tandem {

/// The size of a dimension: a constant times unknown sizes ("atoms"). Without
/// atoms it is the constant.
struct SymbolicDim {
  int64_t coefficient = 1;
  SmallVector<unsigned, 2> atoms; ///< sorted

  static SymbolicDim constant(int64_t value) { return {value, {}}; }
  static SymbolicDim atom(unsigned id) { return {1, {id}}; }
  bool isConstant() const { return atoms.empty(); }
  bool isAtom() const { return coefficient == 1 && atoms.size() == 1; }
  bool operator==(const SymbolicDim &other) const {
    return coefficient == other.coefficient && atoms == other.atoms;
  }
};

/// What is known of the shapes of values, worked out from types, from the names
/// that the source gives to dims (`onnx.dim_params` of arguments,
/// `tandem.dim_params` of ops: within a function the same name is the same
/// size), and from what ops do to shapes, chains of Shape, Gather, Concat and
/// Reshape included.
///
/// Answers are computed on demand and kept, so the IR must not change while
/// one object is in use. Not thread-safe; use one object a thread.
class ShapeAnalysis {
public:
  /// True if `a` and `b` are ranked and have the same shape whenever the
  /// function runs. False also where that only can't be proven.
  bool provablyEqualShapes(Value a, Value b);

  /// True if dimension `i` of `a` and `j` of `b` are always of one size.
  bool provablyEqualDims(Value a, unsigned i, Value b, unsigned j);

  /// The size of each dimension; std::nullopt for unranked values and for
  /// types other than tensors.
  std::optional<SmallVector<SymbolicDim>> getShape(Value value);

  /// The product of all dimensions but the last of a ranked tensor of rank 1
  /// or more; std::nullopt otherwise, or where a constant overflows 64 bits.
  std::optional<SymbolicDim> getTokenCount(Value value);

  /// The same by what the source declares, its sizes and names of dims, and
  /// nothing that would have to be worked out: nearly free, and enough where
  /// dims are named well. std::nullopt where a leading dim has neither.
  std::optional<SymbolicDim> getDeclaredTokenCount(Value value);

  /// The form in which equal sizes compare equal.
  SymbolicDim canonicalize(const SymbolicDim &dim);

  /// What ops do to shapes; private to the implementation.
  class Transfer;

private:
  friend class Transfer;

  /// What is known of one value. `elements` are the contents of a small
  /// integer tensor of rank 0 or 1, as shapes are computed with.
  struct Info {
    bool ranked = false;
    SmallVector<SymbolicDim, 4> dims;
    std::optional<SmallVector<SymbolicDim, 4>> elements;
  };
  /// Works out `value` and all that it depends on.
  const Info &ensure(Value value);
  /// Dims by sizes and names alone; std::nullopt for those that have neither,
  /// and an empty vector for what is not a ranked tensor.
  SmallVector<std::optional<SymbolicDim>, 4> getDeclaredDims(Value value);
  void compute(Value value);
  SymbolicDim newAtom(bool isSize);
  SymbolicDim namedAtom(Operation *scope, StringRef name);
  void unify(const SymbolicDim &a, const SymbolicDim &b);
  std::optional<SymbolicDim> multiply(const SymbolicDim &a,
                                      const SymbolicDim &b);
  /// The product of all dims but the last.
  std::optional<SymbolicDim>
  multiplyLeading(ArrayRef<std::optional<SymbolicDim>> dims);
  bool equal(const SymbolicDim &a, const SymbolicDim &b);

  /// Infos are large; the map only points to them, so that it grows cheaply.
  llvm::DenseMap<Value, const Info *> infos;
  std::deque<Info> storage;
  /// What an atom stands for, where that is known.
  std::vector<std::optional<SymbolicDim>> definitions;
  /// Whether an atom is a size for certain, so neither negative nor, in a
  /// Reshape, a -1.
  std::vector<bool> atomIsSize;
  /// Atoms of dim names, which hold within one function.
  llvm::DenseMap<Operation *, llvm::StringMap<unsigned>> named;
};

} // namespace mlir::tandem

#endif // TANDEM_ANALYSIS_SYMBOLICSHAPE_H
