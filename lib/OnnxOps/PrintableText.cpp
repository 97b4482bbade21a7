//===- PrintableText.cpp - Text that holds names of a file ----------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/OnnxOps/PrintableText.h"

#include "llvm/ADT/StringExtras.h"

using llvm::StringRef;

std::string mlir::tandem::makePrintable(StringRef text, bool keepsLines) {
  std::string result;
  result.reserve(text.size());
  auto escape = [&](unsigned char c) {
    result += "\\x";
    result += llvm::hexdigit(c >> 4);
    result += llvm::hexdigit(c & 0xf);
  };
  for (size_t i = 0; i != text.size(); ++i) {
    auto c = static_cast<unsigned char>(text[i]);
    bool isKept = c == '\n' && keepsLines;
    if (!isKept && (c < 0x20 || c == 0x7f)) {
      escape(c);
    } else if (c == 0xc2 && i + 1 != text.size() &&
               static_cast<unsigned char>(text[i + 1]) >= 0x80 &&
               static_cast<unsigned char>(text[i + 1]) < 0xa0) {
      // U+0080 to U+009F; U+009B begins what ESC and [ begin.
      escape(c);
      escape(static_cast<unsigned char>(text[++i]));
    } else {
      result += text[i];
    }
  }
  return result;
}
