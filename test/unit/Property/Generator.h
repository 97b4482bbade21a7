//===- Generator.h - Random modules --------------------------- -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TEST_UNIT_PROPERTY_GENERATOR_H
#define TANDEM_TEST_UNIT_PROPERTY_GENERATOR_H

#include "Interpreter.h"

#include "mlir/IR/OwningOpRef.h"

#include <random>

namespace mlir::tandem::test {

/// Random numbers that are the same on all platforms.
class Random {
public:
  explicit Random(uint64_t seed) : engine(seed) {}

  /// One of 0 .. count - 1.
  unsigned below(unsigned count) { return engine() % count; }
  bool chance(unsigned percent) { return below(100) < percent; }
  template <typename T>
  T oneOf(std::initializer_list<T> values) {
    return values.begin()[below(values.size())];
  }

private:
  std::mt19937 engine;
};

/// What the dims of a generated module are in one run.
struct Sizes {
  int64_t batch, sequence;
  int64_t getTokens() const { return batch * sequence; }
};

/// A module with a function @main, made of the chains that the passes look
/// for, of things that resemble them, and of ops that stand in their way.
class Sample {
public:
  /// Makes the module that belongs to `seed`. `size` is about how many chains
  /// it has.
  Sample(MLIRContext &context, uint64_t seed, unsigned size);

  ModuleOp getModule() { return *module; }
  /// The number of all-reduces in the text.
  unsigned getNumAllReduces() const { return numAllReduces; }
  /// Sizes that agree with the types of the arguments.
  Sizes pickSizes(Random &random) const;
  /// Arguments of @main: other values on each rank, of the same shapes.
  std::vector<RankValues> pickArguments(Random &random, Sizes sizes,
                                        size_t numRanks) const;

private:
  class Builder;

  OwningOpRef<ModuleOp> module;
  unsigned numAllReduces = 0;
  bool isBatchStatic, isSequenceStatic;
  Sizes staticSizes;
  /// Arguments that may be of size 1 where others have batch or sequence.
  std::vector<bool> isWeak;
};

} // namespace mlir::tandem::test

#endif // TANDEM_TEST_UNIT_PROPERTY_GENERATOR_H
