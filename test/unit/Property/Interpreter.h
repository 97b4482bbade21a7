//===- Interpreter.h - Runs small modules on several ranks ---- -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TEST_UNIT_PROPERTY_INTERPRETER_H
#define TANDEM_TEST_UNIT_PROPERTY_INTERPRETER_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/DenseMap.h"

#include <memory>
#include <string>
#include <vector>

namespace mlir::tandem::test {

/// A tensor or a scalar of one rank. Floats of any type are held as f32, which
/// holds them exactly; integers, booleans and indices as i64.
struct Data {
  SmallVector<int64_t, 4> shape; ///< empty for scalars
  std::vector<float> floats;
  std::vector<int64_t> ints;

  int64_t getNumElements() const;
};

/// One value on all ranks.
using RankValues = std::shared_ptr<const std::vector<Data>>;

/// What a run did.
struct Outcome {
  std::vector<RankValues> results;
  /// One line for each collective and each op with another effect, in order,
  /// with a hash of what it was given.
  std::vector<std::string> trace;
  /// The token count of each fused op that ran.
  std::vector<int64_t> fusedTokens;
  /// Why it could not go on; empty if it went well.
  std::string error;
};

/// Runs `function` of `module` on as many ranks as the arguments have, all in
/// step, as the dialect's definition says, rounding by rounding. `tokenLimit`
/// is what tandem.token_limit returns. Ranks that branch apart, shapes that an
/// op does not allow, and ops that aren't known are errors.
Outcome interpret(ModuleOp module, StringRef function,
                  ArrayRef<RankValues> arguments, int64_t tokenLimit);

/// `x` rounded once to a floating-point type of at most f32's precision.
float roundTo(double x, Type type);

/// Whether two values are the same bit by bit (all NaNs are one).
bool isIdentical(const Data &a, const Data &b);

} // namespace mlir::tandem::test

#endif // TANDEM_TEST_UNIT_PROPERTY_INTERPRETER_H
