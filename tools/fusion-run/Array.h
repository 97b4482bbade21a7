//===- Array.h - A named array in memory ---------------------- -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TOOLS_FUSIONRUN_ARRAY_H
#define TANDEM_TOOLS_FUSIONRUN_ARRAY_H

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

namespace tandem::run {

/// Element types, by MLIR's names ("f32", "bf16", "i64", "ui8", ...).
struct ElementType {
  std::string name;
  uint64_t bytes = 0; ///< 0: not a type
  explicit operator bool() const { return bytes != 0; }
};

/// The type of this name; of 0 bytes if there is none. `index` is 64 bits.
ElementType getElementType(const std::string &name);

/// Bytes of `shape` elements of `elementBytes`; false on overflow of 63 bits or
/// a negative size.
bool computeBytes(const std::vector<int64_t> &shape, uint64_t elementBytes,
                  uint64_t &bytes);

/// "2x?x64", "scalar" without dims.
std::string formatShape(const std::vector<int64_t> &shape);

struct FreeDeleter {
  void operator()(void *memory) const { free(memory); }
};

/// Elements in row-major order, aligned to 64 bytes.
struct Array {
  std::string type; ///< MLIR's name
  std::vector<int64_t> shape;
  std::unique_ptr<void, FreeDeleter> data;
  uint64_t bytes = 0;

  /// Allocates `bytes` for type and shape; false and `error` if that can't be.
  bool allocate(std::string &error);
  uint64_t getNumElements() const;
};

/// Element `index` as a double; exact for all types but 64-bit integers.
double getElement(const Array &array, uint64_t index);

} // namespace tandem::run

#endif // TANDEM_TOOLS_FUSIONRUN_ARRAY_H
