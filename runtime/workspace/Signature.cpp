//===-- Signature.cpp - Comparison of module signatures -------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Signature.h"

#include <algorithm>

using namespace tandem;

/// The line that begins at `at`, or a word for there being none.
static std::string lineAt(const std::string &text, size_t at) {
  if (at >= text.size())
    return "(no more lines)";
  size_t end = text.find('\n', at);
  return text.substr(at, end == std::string::npos ? end : end - at);
}

Error tandem::compareSignatures(const std::string &first,
                                const std::string &other, int rank) {
  if (first == other)
    return Error();
  size_t common = std::min(first.size(), other.size());
  size_t at = 0;
  while (at < common && first[at] == other[at])
    ++at;
  const std::string &longer = first.size() > other.size() ? first : other;
  size_t start;
  if (at == common && at > 0 && longer[at] == '\n') {
    // One ends with a line that both have.
    start = at + 1;
  } else {
    start = at == 0 ? std::string::npos : longer.rfind('\n', at - 1);
    start = start == std::string::npos ? 0 : start + 1;
  }
  auto number =
      std::count(longer.begin(), longer.begin() + static_cast<ptrdiff_t>(start),
                 '\n') +
      1;
  return makeError(TANDEM_STATUS_MISMATCH, rank,
                   "signature line %lld differs: rank %d has '%.160s', rank 0 "
                   "has '%.160s'",
                   static_cast<long long>(number), rank,
                   lineAt(other, start).c_str(), lineAt(first, start).c_str());
}
