//===- Compare.h - Results against what is expected ----------- -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TOOLS_FUSIONRUN_COMPARE_H
#define TANDEM_TOOLS_FUSIONRUN_COMPARE_H

#include "Array.h"

namespace tandem::run {

/// How two arrays of one shape differ.
struct Difference {
  double maxAbs = 0, maxRel = 0; ///< infinite where one is not finite
  uint64_t worst = 0;            ///< where |x - e| exceeds what is allowed most
  uint64_t numBad = 0;           ///< elements that are too far away
};

/// The tolerance for results of this type where none is given.
double getDefaultTolerance(const std::string &type);

/// Compares element by element: |x - e| <= tolerance * (1 + |e|). A NaN equals
/// a NaN only, an infinity only itself.
Difference compare(const Array &result, const Array &expected,
                   double tolerance);

/// "[0, 3, 17]" of the element at `index`.
std::string formatIndex(const std::vector<int64_t> &shape, uint64_t index);

} // namespace tandem::run

#endif // TANDEM_TOOLS_FUSIONRUN_COMPARE_H
