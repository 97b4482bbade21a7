//===- Json.h - Just enough JSON ------------------------------ -*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TOOLS_FUSIONRUN_JSON_H
#define TANDEM_TOOLS_FUSIONRUN_JSON_H

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tandem::run {

/// A JSON value, as compiled modules describe themselves with. Look-ups that
/// find nothing give a null value, so that descriptions of other versions read.
class Json {
public:
  enum Kind { Null, Bool, Number, String, List, Object };

  /// Reads `text`; false if it is no JSON, or nested more than 64 deep.
  static bool parse(const std::string &text, Json &value);

  Kind kind = Null;
  bool boolean = false;
  int64_t number = 0; ///< fractions are cut off
  std::string string;
  std::vector<Json> list;
  std::map<std::string, Json> object;

  const Json &operator[](const std::string &key) const;
  bool isNull() const { return kind == Null; }
};

} // namespace tandem::run

#endif // TANDEM_TOOLS_FUSIONRUN_JSON_H
