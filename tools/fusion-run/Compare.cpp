//===- Compare.cpp - Results against what is expected ---------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Compare.h"

#include <algorithm>
#include <cmath>

using namespace tandem::run;

double tandem::run::getDefaultTolerance(const std::string &type) {
  if (type == "f32")
    return 1e-5;
  if (type == "f16")
    return 1e-3;
  if (type == "bf16")
    return 1e-2;
  if (type == "f64")
    return 1e-12;
  return 0;
}

Difference tandem::run::compare(const Array &result, const Array &expected,
                                double tolerance) {
  Difference difference;
  double worstExcess = -INFINITY;
  bool isExact = result.type == expected.type &&
                 (result.type == "i64" || result.type == "ui64");
  for (uint64_t i = 0, e = result.getNumElements(); i < e; ++i) {
    double x = getElement(result, i), wanted = getElement(expected, i);
    double distance = x == wanted || (std::isnan(x) && std::isnan(wanted))
                          ? 0
                          : std::fabs(x - wanted);
    if (std::isnan(distance))
      distance = INFINITY;
    // Large integers may be one as doubles.
    if (isExact && distance == 0 &&
        static_cast<const uint64_t *>(result.data.get())[i] !=
            static_cast<const uint64_t *>(expected.data.get())[i])
      distance = 1;
    double relative = distance == 0 ? 0
                      : wanted == 0 ? INFINITY
                                    : distance / std::fabs(wanted);
    double allowed = tolerance * (1 + std::fabs(wanted));
    if (std::isnan(allowed) || std::isinf(allowed))
      allowed = 0;
    bool isBad = distance > allowed;
    difference.numBad += isBad;
    difference.maxAbs = std::max(difference.maxAbs, distance);
    if (wanted != 0 || distance == 0)
      difference.maxRel = std::max(difference.maxRel, relative);
    if (distance - allowed > worstExcess) {
      worstExcess = distance - allowed;
      difference.worst = i;
    }
  }
  return difference;
}

std::string tandem::run::formatIndex(const std::vector<int64_t> &shape,
                                     uint64_t index) {
  std::string text;
  for (size_t i = shape.size(); i > 0; --i) {
    auto size = static_cast<uint64_t>(shape[i - 1]);
    text = std::to_string(index % size) + (text.empty() ? "" : ", ") + text;
    index /= size;
  }
  return "[" + text + "]";
}
