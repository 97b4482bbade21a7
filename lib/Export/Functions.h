//===- Functions.h - The source's functions and their calls --- -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The importer inlines calls of model-local functions; see
// tandem/OnnxOps/CallBody.h for what it notes of them.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_EXPORT_FUNCTIONS_H
#define TANDEM_LIB_EXPORT_FUNCTIONS_H

#include "tandem_onnx/onnx.pb.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Operation.h"
#include "mlir/Support/LLVM.h"
#include "llvm/ADT/StringMap.h"

#include <deque>
#include <vector>

namespace mlir::tandem::onnx {

/// The functions of the source.
class SourceFunctions {
public:
  /// A call that was inlined.
  struct Call {
    StringRef opType, domain, overload, name, extra;
    /// Of each input a number of the body's externals, or a name.
    ArrayAttr inputs;
    /// Of each output a number of the body's results; -1 if it is left out.
    ArrayAttr outputs;
    DictionaryAttr attributes, kinds;
    /// The call in whose body this one was; -1 if it was in a graph.
    int64_t parent = -1;
    uint64_t hash = 0;
  };

  /// Reads what the module's `fields` (`tandem.onnx`) say. Reports an error if
  /// a function can't be read.
  LogicalResult load(DictionaryAttr fields, Location location);

  /// Null if there is no such call, or if it is not described well.
  const Call *getCall(int64_t number) const;

  const std::deque<::tandem_onnx::FunctionProto> &getFunctions() const {
    return functions;
  }

  /// If the function that `op` was inlined from was written for another version
  /// of the op's domain than the model's: a clause that says so.
  std::string getOpsetConflict(Operation &op) const;

  /// If the function of call `number` has a node of op `type` of `domain`, and
  /// was written for another version of it than the model: a clause that says
  /// so.
  std::string getOpsetConflict(int64_t number, StringRef domain,
                               StringRef type) const;

  const std::vector<Call> &getCalls() const { return calls; }

  /// Puts before the functions of `model` those of the source that are called
  /// there, and those that nobody called in the source, with what they call; of
  /// the domain ai.tandem only those called if `dropsOwn` is set. Adds the
  /// opsets that nodes need and that were only the functions' until now.
  void addTo(::tandem_onnx::ModelProto &model, bool dropsOwn);

private:
  void readCall(DictionaryAttr entries);
  std::string describeConflict(const Call &call, StringRef domain,
                               StringRef type) const;

  DictionaryAttr fields;
  std::deque<::tandem_onnx::FunctionProto> functions;
  /// Of each function the opsets in which it differs from the model.
  std::vector<DictionaryAttr> otherOpsets;
  /// Indices of functions by their keys.
  llvm::StringMap<size_t> indices;
  std::vector<Call> calls;
};

/// Of the ops of one block which belong to a call, and to the calls around it.
class BlockCalls {
public:
  BlockCalls(Block &block, const SourceFunctions &functions);

  /// The calls that `op` is the first op of, the outermost first. Those after
  /// the first that was written again are of no interest.
  SmallVector<int64_t, 2> startingAt(Operation *op) const;
  ArrayRef<Operation *> opsOf(int64_t call) const {
    return ops.find(call)->second;
  }

private:
  llvm::DenseMap<int64_t, SmallVector<Operation *, 8>> ops;
  const SourceFunctions &functions;
};

} // namespace mlir::tandem::onnx

#endif // TANDEM_LIB_EXPORT_FUNCTIONS_H
