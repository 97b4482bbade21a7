//===- PrintableText.cpp - Text that holds names of a file ----------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PrintableText.h"

std::string tandem::run::makePrintable(const std::string &text) {
  std::string result;
  result.reserve(text.size());
  auto escape = [&](unsigned char c) {
    static const char digits[] = "0123456789ABCDEF";
    result += "\\x";
    result += digits[c >> 4];
    result += digits[c & 0xf];
  };
  for (size_t i = 0; i < text.size(); ++i) {
    auto c = static_cast<unsigned char>(text[i]);
    auto next =
        static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : 0);
    if (c < 0x20 || c == 0x7f) {
      escape(c);
    } else if (c == 0xc2 && next >= 0x80 && next < 0xa0) { // U+0080 to U+009F
      escape(c);
      escape(next);
      ++i;
    } else {
      result += text[i];
    }
  }
  return result;
}
